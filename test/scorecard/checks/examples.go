// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json" // keeps integers apart from fractions
)

const (
	examplesAnnotation       = "alm-examples"
	initializationAnnotation = "operatorframework.io/initialization-resource"
)

// examples checks that each kind that the bundle owns has an example with a status, and that an API server would store each as it
// is. The object that the console asks for after an installation is one too.
func examples(b *Bundle, n *notes) {
	acceptors, err := acceptorsOf(b)
	if err != nil {
		n.errorf("%v", err)
		return
	}
	shown, err := b.Examples()
	if err != nil {
		n.errorf("%v", err)
	}
	complete := map[schema.GroupVersionKind]bool{}
	for _, object := range shown {
		kind := object.GroupVersionKind()
		if object.Object["spec"] != nil && object.Object["status"] != nil {
			complete[kind] = true
		}
		n.accept(acceptors, object, "the example "+object.GetKind()+" "+object.GetName())
	}
	for kind := range acceptors {
		if !complete[kind] {
			n.errorf("%s has no example with a spec and a status for %s: add one to config/manifests/examples", examplesAnnotation, kind.Kind)
		}
	}
	var first unstructured.Unstructured
	if err := first.UnmarshalJSON([]byte(b.CSV.Annotations[initializationAnnotation])); err != nil {
		n.errorf("the annotation %s: %v", initializationAnnotation, err)
		return
	}
	n.accept(acceptors, first, "the annotation "+initializationAnnotation)
}

func (n *notes) accept(acceptors map[schema.GroupVersionKind]acceptor, object unstructured.Unstructured, what string) {
	a, owned := acceptors[object.GroupVersionKind()]
	if !owned {
		n.errorf("%s is of %s, which the bundle does not own", what, object.GroupVersionKind())
		return
	}
	for _, problem := range a.refuses(object) {
		n.errorf("%s: %s", what, problem)
	}
}

// Examples returns the objects in alm-examples.
func (b *Bundle) Examples() ([]unstructured.Unstructured, error) {
	var objects []unstructured.Unstructured
	var raw []map[string]any
	if err := json.Unmarshal([]byte(b.CSV.Annotations[examplesAnnotation]), &raw); err != nil {
		return nil, fmt.Errorf("the annotation %s is no list of objects: %w", examplesAnnotation, err)
	}
	for _, object := range raw {
		objects = append(objects, unstructured.Unstructured{Object: object})
	}
	return objects, nil
}
