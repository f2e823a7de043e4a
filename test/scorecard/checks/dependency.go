// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
)

const (
	optionalType       = "candor.dev/optional-dependency"
	optionalAnnotation = "candor.dev/optional-dependencies"
)

// optionalDependency checks that Trivy Operator is listed, and that nothing makes it, or anything else, mandatory.
func optionalDependency(b *Bundle, n *notes) {
	for _, d := range b.Dependencies {
		n.errorf("metadata/dependencies.yaml has a dependency of type %s: OLM installs it, or fails without it", d.Type)
	}
	var listed []any
	for _, p := range b.Properties {
		switch {
		case p.Type == optionalType:
			var value any
			if err := json.Unmarshal(p.Value, &value); err != nil {
				n.errorf("metadata/properties.yaml: the value of %s: %v", optionalType, err)
			}
			listed = append(listed, value)
		case strings.HasSuffix(p.Type, ".required"), p.Type == "olm.constraint", p.Type == "olm.package", p.Type == "olm.gvk":
			n.errorf("metadata/properties.yaml has a property of type %s, which makes it mandatory, or the bundle unusable: list it as %s", p.Type, optionalType)
		}
	}
	spec := b.CSV.Spec
	for _, crd := range spec.CustomResourceDefinitions.Required {
		n.errorf("spec.customresourcedefinitions.required has %s, which makes its operator mandatory", crd.Name)
	}
	for _, api := range spec.APIServiceDefinitions.Required {
		n.errorf("spec.apiservicedefinitions.required has %s, which makes its operator mandatory", api.Name)
	}
	for _, kind := range spec.NativeAPIs {
		n.errorf("spec.nativeAPIs has %s: the operator stays Pending in a cluster without it", kind)
	}
	var told []any
	if err := json.Unmarshal([]byte(b.CSV.Annotations[optionalAnnotation]), &told); err != nil {
		n.errorf("the annotation %s is no JSON: %v", optionalAnnotation, err)
	}
	if !equality.Semantic.DeepEqual(listed, told) {
		n.errorf("the annotation %s says %v, and the properties of type %s say %v", optionalAnnotation, told, optionalType, listed)
	}
	if !strings.Contains(b.CSV.Annotations[optionalAnnotation], `"trivy-operator"`) {
		n.errorf("Trivy Operator is not listed: %s has no package trivy-operator", optionalAnnotation)
	}
	for _, kind := range b.objects() {
		if strings.HasPrefix(kind, "ServiceMonitor.") || strings.HasPrefix(kind, "PodMonitor.") || strings.HasPrefix(kind, "PrometheusRule.") {
			n.errorf("the bundle holds a %s, which makes Prometheus Operator mandatory", kind)
		}
	}
}

// objects returns the kinds of the manifests, each with its group.
func (b *Bundle) objects() []string {
	var kinds []string
	for _, o := range b.Objects {
		gvk := o.GroupVersionKind()
		kinds = append(kinds, gvk.Kind+"."+gvk.Group)
	}
	return kinds
}
