// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package pipelines

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/lint"
)

// Values that annotations can have which keep something from being written.
var (
	ImportModes = []string{fleetmanagementv1alpha1.ImportModeReadOnly, fleetmanagementv1alpha1.ImportModeAdopt}
	Switches    = []string{"true", "false"}
)

// maxValue bounds what is repeated of an annotation, in characters.
const maxValue = 100

// CheckAnnotation says that an annotation has a value which means nothing; nil if it has one of the values, or is not set.
func CheckAnnotation(o metav1.Object, key string, values ...string) error {
	value, set := o.GetAnnotations()[key]
	if !set || slices.Contains(values, value) {
		return nil
	}
	return fmt.Errorf("metadata.annotations[%s] is %q: it can be %s; write one of these, or remove it",
		key, lint.Shorten(value, maxValue), strings.Join(values, " or "))
}

// CheckHolds says that an annotation which may be there to keep a Pipeline from being written has a value that means nothing.
func CheckHolds(p *fleetmanagementv1alpha1.Pipeline) error {
	if err := CheckAnnotation(p, fleetmanagementv1alpha1.AnnotationImportMode, ImportModes...); err != nil {
		return err
	}
	return CheckAnnotation(p, fleetmanagementv1alpha1.AnnotationDryRun, Switches...)
}

// SkipsRemoteDelete reports whether an object may go whatever becomes of what it stands for. A value that means nothing counts as one
// that asks for it: nothing is deleted by a typing error.
func SkipsRemoteDelete(o metav1.Object) bool {
	value, set := o.GetAnnotations()[fleetmanagementv1alpha1.AnnotationSkipRemoteDelete]
	return set && value != "false"
}
