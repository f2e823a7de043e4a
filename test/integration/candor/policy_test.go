// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
)

var _ = Describe("The status of a policy", Ordered, ContinueOnFailure, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx)
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}),
			builder.Policy(w.namespace, "critical", []string{"trivy"}, atLeast(candorv1alpha1.SeverityCritical)),
			builder.Policy(w.namespace, "checks", []string{"trivy/config"}))
		w.start(ctx)
		w.serving()
		for _, name := range []string{"default", "critical", "checks"} {
			Eventually(w.policy(ctx, name, candorv1alpha1.ConditionReady)).Should(HavePrefix("True/Active"), name)
		}
	})

	It("policy-counts: follows a burst of Findings with one write, and each policy counts by its own threshold", func(ctx SpecContext) {
		before := len(w.policyWrites())
		for i := range 10 {
			severity := "HIGH"
			if i < 3 {
				severity = "CRITICAL"
			}
			w.apply(ctx, builder.VulnerabilityReport(w.namespace, "StatefulSet", fmt.Sprintf("db-%d", i), "app", builder.Vulnerabilities(1, severity)))
		}
		Eventually(w.counts(ctx, "default")).Should(Equal("10 found, 10 open"))
		Eventually(w.counts(ctx, "critical")).Should(Equal("3 found, 3 open"))
		Expect(w.counts(ctx, "checks")()).To(Equal("0 found, 0 open"))
		Expect(w.policyWrites()[before:]).To(ConsistOf("default", "critical"), "one write each")
	})

	It("policy-open: leaves out of the open ones what is muted and what has ended", func(ctx SpecContext) {
		muted := w.finding(ctx, "trivy", "StatefulSet", "db-0", "app")()
		w.apply(ctx, builder.Suppression(w.namespace, "quiet", muted.Status.Fingerprint),
			builder.VulnerabilityReport(w.namespace, "StatefulSet", "db-1", "app", []any{}))
		Eventually(w.counts(ctx, "default")).Should(Equal("10 found, 8 open"))
		Eventually(w.counts(ctx, "critical")).Should(Equal("3 found, 1 open"))
	})

	It("policy-compatibility: says which fields of it have no effect, until they are gone", func(ctx SpecContext) {
		p := builder.Policy(w.namespace, "old", []string{"trivy"}, func(p *candorv1alpha1.SignalPolicy) {
			p.Spec.Budget = &candorv1alpha1.Budget{MaxCalls: 100} // which has one
			p.Spec.PullRequestBudget = &candorv1alpha1.PullRequestBudget{MaxPullRequests: 1}
		})
		w.apply(ctx, p)
		Eventually(w.policy(ctx, "old", candorv1alpha1.ConditionFieldsWithoutEffect)).Should(
			Equal("True/NoEffect: Accepted for compatibility, without effect in this version: spec.pullRequestBudget."))
		Expect(w.policy(ctx, "old", candorv1alpha1.ConditionReady)()).To(HavePrefix("True/Active"))
		Expect(cluster.Client.Patch(ctx, p, merge(`{"spec": {"pullRequestBudget": null}}`))).To(Succeed())
		Eventually(w.policy(ctx, "old", candorv1alpha1.ConditionFieldsWithoutEffect)).Should(BeEmpty())
	})

	It("policy-sum: lets the lowest threshold of several policies decide, and each counts its own", func(ctx SpecContext) {
		w.apply(ctx, builder.VulnerabilityReport(w.namespace, "StatefulSet", "mild", "app", builder.Vulnerabilities(2, "LOW")))
		w.settle(ctx)
		mild := w.finding(ctx, "trivy", "StatefulSet", "mild", "app")
		Expect(mild()).To(BeNil())
		w.apply(ctx, builder.Policy(w.namespace, "everything", []string{"trivy"}, atLeast(candorv1alpha1.SeverityLow)))
		Eventually(outcome(mild)).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		Eventually(w.counts(ctx, "everything")).Should(Equal("11 found, 9 open"))
		Expect(w.counts(ctx, "default")()).To(Equal("10 found, 8 open"))
	})
})

var _ = Describe("Checks of configuration and roles", func() {
	const message = "Container 'nginx' of ReplicaSet '%s' should set 'securityContext.readOnlyRootFilesystem' to true"
	checks := func(namespace, replicaSet, message string) client.Object {
		return builder.CheckReport("ConfigAuditReport", namespace, "ReplicaSet", replicaSet, []any{
			builder.Check("KSV014", "HIGH", false, message), builder.Check("KSV001", "CRITICAL", true, "This one passed"),
		})
	}

	It("config-rollout: of a ReplicaSet fold into its Deployment, in whose name they speak, and a rollout writes nothing", func(ctx SpecContext) {
		w := newWorld(ctx)
		web := builder.Deployment(w.namespace, "web")
		w.apply(ctx, web)
		w.apply(ctx, builder.ReplicaSet(web, w.namespace, "web-1", 1), checks(w.namespace, "web-1", fmt.Sprintf(message, "web-1")),
			builder.Policy(w.namespace, "default", []string{"trivy", "trivy/config"}))
		w.start(ctx)
		f := w.finding(ctx, "trivy/config", "Deployment", "web", "")
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		Expect(f().Spec.Source).To(Equal(candorv1alpha1.Source{
			Provider: "trivy/config", Kind: "Deployment", Name: "web", RefKind: "ConfigAuditReport", RefName: "web",
		}))
		Expect(f().Spec.Evidence.Top).To(ConsistOf(candorv1alpha1.Entry{
			ID: "KSV014", Severity: "HIGH", Message: fmt.Sprintf(message, "web"),
		}))
		Expect(f().Spec.Severity).To(Equal(candorv1alpha1.SeverityHigh), "a passed check is none")

		w.expectNoWrites(ctx, func() {
			w.apply(ctx, builder.ReplicaSet(web, w.namespace, "web-2", 2), checks(w.namespace, "web-2", "Root file system of 'web-2' is not read-only"))
			Expect(cluster.Client.Delete(ctx, checks(w.namespace, "web-1", ""))).To(Succeed())
		})
		w.apply(ctx, builder.CheckReport("ConfigAuditReport", w.namespace, "ReplicaSet", "web-2", []any{builder.Check("KSV014", "HIGH", true, "")}))
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeResolved))
	})

	It("rbac-role: of a Role become its Finding and resolve", func(ctx SpecContext) {
		w := newWorld(ctx)
		const said = "Role 'reader' shouldn't have access to manage secrets"
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "reader"}}
		w.apply(ctx, role, builder.Policy(w.namespace, "default", []string{"trivy/rbac"}),
			builder.CheckReport("RbacAssessmentReport", w.namespace, "Role", "reader", []any{builder.Check("KSV113", "HIGH", false, said)}))
		DeferCleanup(func(ctx SpecContext) { Expect(cluster.Client.Delete(ctx, role)).To(Succeed()) })
		w.start(ctx)
		f := w.finding(ctx, "trivy/rbac", "Role", "reader", "")
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		Expect(f().Name).To(HavePrefix("trivy-rbac-"))
		Expect(f().Spec.Source.RefName).To(Equal("role-reader"))
		Expect(f().Spec.Evidence.Top).To(ConsistOf(candorv1alpha1.Entry{ID: "KSV113", Severity: "HIGH", Message: said}))
		w.apply(ctx, builder.CheckReport("RbacAssessmentReport", w.namespace, "Role", "reader", []any{}))
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeResolved))
	})
})

// counts returns a function that puts what a policy counts into words.
func (w *world) counts(ctx context.Context, name string) func() string {
	return func() string {
		var p candorv1alpha1.SignalPolicy
		if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, &p); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%d found, %d open", p.Status.Findings, p.Status.Open)
	}
}

// policyWrites returns the names of the policies of this namespace whose status was written, once for each write.
func (w *world) policyWrites() []string {
	var names []string
	for _, r := range w.counter.Requests() {
		if r.Namespace == w.namespace && r.Key() == "update signalpolicies/status" {
			names = append(names, r.Name)
		}
	}
	return names
}

func atLeast(severity candorv1alpha1.Severity) func(*candorv1alpha1.SignalPolicy) {
	return func(p *candorv1alpha1.SignalPolicy) { p.Spec.MinSeverity = severity }
}
