// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"
	"strings"

	"github.com/blang/semver/v4"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
)

const (
	openshiftAnnotation = "com.redhat.openshift.versions"
	featurePrefix       = "features.operators.openshift.io/"
	supported           = "supported"
	// behindOpenshift is how far the minor version of Kubernetes is ahead of that of the OpenShift 4 that holds it.
	behindOpenshift = 13
)

// metadata checks what a catalog and a console read, and no validator does.
func metadata(b *Bundle, n *notes) {
	csv := b.CSV
	for _, key := range []string{
		"description", "support", "repository", "certified", "createdAt", "operatorframework.io/suggested-namespace",
		"operators.openshift.io/valid-subscription",
	} {
		if csv.Annotations[key] == "" {
			n.errorf("the annotation %s is missing", key)
		}
	}
	for _, feature := range []string{"disconnected", "fips-compliant", "proxy-aware", "tls-profiles", "token-auth-aws", "token-auth-azure", "token-auth-gcp"} {
		if value := csv.Annotations[featurePrefix+feature]; value != "true" && value != "false" {
			n.errorf("the annotation %s%s is %q: the certification of OpenShift asks for true or false", featurePrefix, feature, value)
		}
	}
	for _, label := range []string{"arch.amd64", "arch.arm64", "os.linux"} {
		if csv.Labels["operatorframework.io/"+label] != supported {
			n.errorf("the label operatorframework.io/%s is not %q", label, supported)
		}
	}
	for _, mode := range csv.Spec.InstallModes {
		if mode.Supported != (mode.Type == operatorsv1alpha1.InstallModeTypeAllNamespaces) {
			n.errorf("the install mode %s is %t: Candor watches all namespaces", mode.Type, mode.Supported)
		}
	}
	oldest, err := semver.Parse(csv.Spec.MinKubeVersion)
	if err != nil {
		n.errorf("spec.minKubeVersion: %v", err)
		return
	}
	want := fmt.Sprintf("v4.%d", oldest.Minor-behindOpenshift)
	if got := b.Annotations[openshiftAnnotation]; got != want {
		n.errorf("metadata/annotations.yaml: %s is %q, and minKubeVersion %s makes it %s", openshiftAnnotation, got, oldest, want)
	}
	if !strings.HasPrefix(b.DefaultChannel, "stable") {
		n.errorf("the default channel is %q, and the documentation says stable", b.DefaultChannel)
	}
}
