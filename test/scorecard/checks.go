// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// optionalDependency: Trivy Operator is listed, and nothing makes it, or anything else, mandatory.
func optionalDependency(b *bundle) (problems []string) {
	listed := false
	for _, p := range b.properties {
		listed = listed || p.Type == "candor.dev/optional-dependency" && p.Value["packageName"] == "trivy-operator"
		if strings.HasPrefix(p.Type, "olm.") && p.Type != "olm.maxOpenShiftVersion" {
			problems = append(problems, p.Type+" makes a dependency mandatory, or the bundle unusable by OLM v1")
		}
	}
	if !listed {
		problems = append(problems, "metadata/properties.yaml does not list trivy-operator as candor.dev/optional-dependency")
	}
	if !strings.Contains(b.csv.Annotations["candor.dev/optional-dependencies"], `"trivy-operator"`) {
		problems = append(problems, "the annotation candor.dev/optional-dependencies does not list trivy-operator")
	}
	if n := len(b.csv.Spec.CustomResourceDefinitions.Required) + len(b.csv.Spec.APIServiceDefinitions.Required) + len(b.csv.Spec.NativeAPIs); n > 0 {
		problems = append(problems, fmt.Sprintf("%d required kinds: OLM would not install without them", n))
	}
	return problems
}

// leastPrivilege: no wildcard, no Secret, no escalation, in the manager's rights and in the roles for people.
func leastPrivilege(b *bundle) (problems []string) {
	strategy := b.csv.Spec.InstallStrategy.StrategySpec
	for _, p := range append(slices.Clone(strategy.ClusterPermissions), strategy.Permissions...) {
		problems = append(problems, tooMuch(p.ServiceAccountName, p.Rules)...)
	}
	for _, role := range b.roles {
		problems = append(problems, tooMuch(role.Name, role.Rules)...)
	}
	return problems
}

func tooMuch(who string, rules []rbacv1.PolicyRule) (problems []string) {
	for _, rule := range rules {
		for _, word := range slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs) {
			if strings.Contains(word, "*") || slices.Contains([]string{"secrets", "escalate", "bind", "impersonate"}, word) {
				problems = append(problems, fmt.Sprintf("%s may %v %v of %v", who, rule.Verbs, rule.Resources, rule.APIGroups))
				break
			}
		}
	}
	return problems
}

// examples: each owned kind has one that its schema allows, with a status.
func examples(b *bundle) (problems []string) {
	for _, owned := range b.csv.Spec.CustomResourceDefinitions.Owned {
		i := slices.IndexFunc(b.examples, func(e unstructured.Unstructured) bool { return e.GetKind() == owned.Kind })
		c := slices.IndexFunc(b.crds, func(crd apiextensionsv1.CustomResourceDefinition) bool { return crd.Name == owned.Name })
		switch {
		case i < 0:
			problems = append(problems, owned.Kind+" has no example in alm-examples")
		case c < 0:
			problems = append(problems, owned.Name+" is owned and not in the bundle")
		case b.examples[i].Object["status"] == nil:
			problems = append(problems, "the example of "+owned.Kind+" has no status")
		default:
			problems = append(problems, invalid(b.crds[c], b.examples[i])...)
		}
	}
	return problems
}

func invalid(crd apiextensionsv1.CustomResourceDefinition, example unstructured.Unstructured) (problems []string) {
	for _, version := range crd.Spec.Versions {
		if version.Name != example.GroupVersionKind().Version {
			continue
		}
		var schema apiextensions.CustomResourceValidation
		if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(version.Schema, &schema, nil); err != nil {
			return []string{err.Error()}
		}
		validator, _, err := validation.NewSchemaValidator(schema.OpenAPIV3Schema)
		if err != nil {
			return []string{err.Error()}
		}
		for _, e := range validation.ValidateCustomResource(nil, example.Object, validator) {
			problems = append(problems, "the example of "+example.GetKind()+": "+e.Error())
		}
		return problems
	}
	return []string{fmt.Sprintf("the example of %s has the version %s, which %s does not have", example.GetKind(), example.GroupVersionKind().Version, crd.Name)}
}

// webhooks: they warn and never refuse, concern kinds of the bundle alone, and lead to a Deployment and a port that it has.
func webhooks(b *bundle) (problems []string) {
	if len(b.csv.Spec.WebhookDefinitions) == 0 {
		return []string{"the bundle has no webhook"}
	}
	for _, w := range b.csv.Spec.WebhookDefinitions {
		if w.FailurePolicy == nil || *w.FailurePolicy != "Ignore" {
			problems = append(problems, w.GenerateName+" blocks writes while nobody serves it: its failurePolicy is not Ignore")
		}
		for _, rule := range w.Rules {
			for _, resource := range rule.Resources {
				if !owns(b, rule.APIGroups, resource) {
					problems = append(problems, fmt.Sprintf("%s is asked about %s of %v, which the bundle does not own", w.GenerateName, resource, rule.APIGroups))
				}
			}
		}
		if w.TargetPort == nil || !serves(b, w.DeploymentName, w.TargetPort.IntVal) {
			problems = append(problems, fmt.Sprintf("%s leads to port %v of %s, which has no such port", w.GenerateName, w.TargetPort, w.DeploymentName))
		}
	}
	return problems
}

func owns(b *bundle, groups []string, resource string) bool {
	return slices.ContainsFunc(b.crds, func(crd apiextensionsv1.CustomResourceDefinition) bool {
		return crd.Spec.Names.Plural == resource && len(groups) == 1 && groups[0] == crd.Spec.Group
	})
}

func serves(b *bundle, deployment string, port int32) bool {
	for _, d := range b.csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		for _, c := range d.Spec.Template.Spec.Containers {
			for _, p := range c.Ports {
				if d.Name == deployment && p.ContainerPort == port {
					return true
				}
			}
		}
	}
	return false
}

// images: everything that a mirror needs is in relatedImages, and nothing else.
func images(b *bundle) (problems []string) {
	var related, used []string
	for _, r := range b.csv.Spec.RelatedImages {
		related = append(related, r.Image)
	}
	for _, d := range b.csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		for _, c := range append(d.Spec.Template.Spec.InitContainers, d.Spec.Template.Spec.Containers...) {
			used = append(used, c.Image)
		}
	}
	for _, image := range used {
		if !slices.Contains(related, image) {
			problems = append(problems, image+" runs and is not in relatedImages")
		}
	}
	for _, image := range related {
		if !slices.Contains(used, image) {
			problems = append(problems, image+" is in relatedImages and never runs")
		}
	}
	if !slices.Contains(used, b.csv.Annotations["containerImage"]) {
		problems = append(problems, "the annotation containerImage names another image than the one that runs")
	}
	return problems
}
