// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"strings"

	"github.com/blang/semver/v4"
)

const (
	skipRangeAnnotation = "olm.skipRange"
	namePrefix          = "candor.v"
)

// upgrade checks that every older version can go to this one, and none that is not older.
func upgrade(b *Bundle, n *notes) {
	version := b.CSV.Spec.Version.Version
	if want := namePrefix + version.String(); b.CSV.Name != want {
		n.errorf("the ClusterServiceVersion is named %s, and its version makes it %s", b.CSV.Name, want)
	}
	skips, err := semver.ParseRange(b.CSV.Annotations[skipRangeAnnotation])
	if err != nil {
		n.errorf("the annotation %s: %v", skipRangeAnnotation, err)
		return
	}
	if skips(version) {
		n.errorf("%s %q holds %s itself", skipRangeAnnotation, b.CSV.Annotations[skipRangeAnnotation], version)
	}
	if !skips(semver.MustParse("0.0.1")) && version.GT(semver.MustParse("0.0.1")) {
		n.errorf("%s %q leaves out the first versions", skipRangeAnnotation, b.CSV.Annotations[skipRangeAnnotation])
	}
	if b.CSV.Spec.Replaces == "" {
		return
	}
	previous, err := semver.Parse(strings.TrimPrefix(b.CSV.Spec.Replaces, namePrefix))
	switch {
	case err != nil:
		n.errorf("spec.replaces %q is not %s and a version: %v", b.CSV.Spec.Replaces, namePrefix, err)
	case !previous.LT(version):
		n.errorf("%s replaces %s, which is not older", b.CSV.Name, b.CSV.Spec.Replaces)
	case !skips(previous):
		n.errorf("%s %q leaves out %s, which spec.replaces names", skipRangeAnnotation, b.CSV.Annotations[skipRangeAnnotation], previous)
	}
}
