// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// acceptor decides, with the API server's own code, whether an object of a kind would be stored as it is.
type acceptor struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator
}

// acceptorsOf returns one for each version of each definition in the bundle.
func acceptorsOf(b *Bundle) (map[schema.GroupVersionKind]acceptor, error) {
	acceptors := map[schema.GroupVersionKind]acceptor{}
	for _, crd := range b.V1CRDs {
		for _, version := range crd.Spec.Versions {
			a, err := newAcceptor(version.Schema)
			if err != nil {
				return nil, fmt.Errorf("the definition %s: %w", crd.Name, err)
			}
			acceptors[schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind}] = a
		}
	}
	return acceptors, nil
}

func newAcceptor(of *apiextensionsv1.CustomResourceValidation) (acceptor, error) {
	var internal apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(of, &internal, nil); err != nil {
		return acceptor{}, err
	}
	structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return acceptor{}, err
	}
	validator, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		return acceptor{}, err
	}
	return acceptor{structural, validator, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// refuses returns what an API server would refuse or leave out, a sentence each.
func (a acceptor) refuses(object unstructured.Unstructured) []string {
	var found []string
	unknown := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, path := range pruning.PruneWithOptions(object.DeepCopy().Object, a.structural, true, unknown) {
		found = append(found, path+" is no field of this kind")
	}
	problems := append(validation.ValidateCustomResource(nil, object.Object, a.schema),
		listtype.ValidateListSetsAndMaps(nil, a.structural, object.Object)...)
	if len(problems) == 0 { // rules may rely on the schema
		var broken field.ErrorList
		broken, _ = a.rules.Validate(context.Background(), nil, a.structural, object.Object, nil, celconfig.RuntimeCELCostBudget)
		problems = broken
	}
	for _, problem := range problems {
		found = append(found, problem.Error())
	}
	return found
}
