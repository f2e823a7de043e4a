// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/operator-framework/api/pkg/apis/scorecard/v1alpha3"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

const committed = "../../bundle"

func TestTheBundlePassesEveryCheck(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		t.Run(name, func(t *testing.T) {
			result := run(name, committed)
			NewWithT(t).Expect(result.State).To(Equal(v1alpha3.PassState), "%v", result.Errors)
		})
	}
}

func TestACheckThatCannotRunIsAnErrorAndNoPass(t *testing.T) {
	g := NewWithT(t)
	g.Expect(run("optional-dependency", t.TempDir()).State).To(Equal(v1alpha3.ErrorState))
	unknown := run("nonsense", committed)
	g.Expect(unknown.State).To(Equal(v1alpha3.ErrorState))
	g.Expect(unknown.Errors).To(ContainElement(ContainSubstring("least-privilege")))
}

func TestABadBundleFails(t *testing.T) {
	rule := func(group, resource, verb string) func(*bundle) {
		return func(b *bundle) {
			p := &b.csv.Spec.InstallStrategy.StrategySpec.ClusterPermissions[0]
			p.Rules = append(p.Rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}})
		}
	}
	for name, test := range map[string]struct {
		check string
		spoil func(*bundle)
		want  string
	}{
		"a mandatory package": {"optional-dependency", func(b *bundle) { b.properties = append(b.properties, property{Type: "olm.package.required"}) }, "olm.package.required"},
		"a constraint":        {"optional-dependency", func(b *bundle) { b.properties = append(b.properties, property{Type: "olm.constraint"}) }, "olm.constraint"},
		"a required kind": {"optional-dependency", func(b *bundle) {
			b.csv.Spec.CustomResourceDefinitions.Required = []v1alpha1.CRDDescription{{Name: "vulnerabilityreports.aquasecurity.github.io"}}
		}, "1 required kinds"},
		"nothing optional": {"optional-dependency", func(b *bundle) { b.properties = nil }, "does not list trivy-operator"},
		"any verb":         {"least-privilege", rule("", "pods", "*"), "may [*] [pods]"},
		"any group":        {"least-privilege", rule("*", "pods", "get"), "may [get] [pods] of [*]"},
		"a Secret":         {"least-privilege", rule("", "secrets", "get"), "may [get] [secrets]"},
		"a greedy role":    {"least-privilege", func(b *bundle) { b.roles[0].Rules[0].Verbs = []string{"*"} }, "may [*]"},
		"no example":       {"examples", func(b *bundle) { b.examples = nil }, "has no example"},
		"a wrong example": {"examples", func(b *bundle) {
			for i := range b.examples {
				if b.examples[i].GetKind() == "SignalPolicy" {
					b.examples[i].Object["spec"].(map[string]any)["minSeverity"] = "SEVERE"
				}
			}
		}, "minSeverity"},
		"a webhook that blocks": {"webhooks", func(b *bundle) {
			b.csv.Spec.WebhookDefinitions[0].FailurePolicy = nil
		}, "failurePolicy is not Ignore"},
		"a webhook about pods": {"webhooks", func(b *bundle) {
			b.csv.Spec.WebhookDefinitions[0].Rules[0].Resources = []string{"pods"}
		}, "does not own"},
		"a webhook without a port": {"webhooks", func(b *bundle) {
			b.csv.Spec.WebhookDefinitions[0].DeploymentName = "other"
		}, "no such port"},
		"an image that no mirror has": {"images", func(b *bundle) { b.csv.Spec.RelatedImages = nil }, "not in relatedImages"},
		"an image too many": {"images", func(b *bundle) {
			b.csv.Spec.RelatedImages = append(b.csv.Spec.RelatedImages, v1alpha1.RelatedImage{Name: "trivy", Image: "trivy:1"})
		}, "never runs"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b, err := read(committed)
			g.Expect(err).NotTo(HaveOccurred())
			test.spoil(b)
			g.Expect(checks[test.check](b)).To(ContainElement(ContainSubstring(test.want)))
		})
	}
}

// The generator takes the rights from config/rbac, and nobody edits them afterwards.
func TestTheManagerHasTheRightsOfConfigRBACAndNoOthers(t *testing.T) {
	g := NewWithT(t)
	b, err := read(committed)
	g.Expect(err).NotTo(HaveOccurred())
	rules := func(files ...string) (all []rbacv1.PolicyRule) {
		for _, file := range files {
			content, err := os.ReadFile(filepath.Join("../../config/rbac", file))
			g.Expect(err).NotTo(HaveOccurred())
			var role rbacv1.ClusterRole
			g.Expect(yaml.Unmarshal(content, &role)).To(Succeed())
			all = append(all, role.Rules...)
		}
		return all
	}
	strategy := b.csv.Spec.InstallStrategy.StrategySpec
	g.Expect(strategy.ClusterPermissions).To(HaveLen(1))
	g.Expect(strategy.ClusterPermissions[0].Rules).To(ConsistOf(rules("role.yaml", "metrics_auth_role.yaml")))
	g.Expect(strategy.Permissions).To(HaveLen(1))
	g.Expect(strategy.Permissions[0].Rules).To(ConsistOf(rules("leader_election_role.yaml")))
	g.Expect(b.csv.Spec.InstallModes).To(ContainElement(v1alpha1.InstallMode{Type: v1alpha1.InstallModeTypeAllNamespaces, Supported: true}))
	g.Expect(ptr.Deref(strategy.DeploymentSpecs[0].Spec.Replicas, 0)).To(BeEquivalentTo(1))
}
