// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/builder"
)

const absent = "%s CRD not found: install Trivy Operator (https://github.com/aquasecurity/trivy-operator) to enable %s; " +
	"Candor starts watching by itself."

var _ = Describe("A provider", func() {
	It("crd-late-install: is waited for without Trivy's CRDs, and served without a restart when they come", func(ctx SpecContext) {
		w := newWorld(ctx)
		withoutTrivy(ctx)
		w.apply(ctx, builder.StatefulSet(w.namespace, "db"), builder.Policy(w.namespace, "default", []string{"trivy"}))
		w.start(ctx)
		sentence := fmt.Sprintf("False/ProviderUnavailable: "+absent, "VulnerabilityReport", "trivy")
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(Equal(sentence))
		Expect(w.policy(ctx, "default", candorv1alpha1.ConditionProviderAvailable)()).To(Equal(sentence))
		Expect(w.providersUp()).To(Equal(map[string]float64{"trivy": 0, "trivy/config": 0, "trivy/rbac": 0}))

		Expect(cluster.InstallTrivyCRDs(ctx)).To(Succeed())
		w.apply(ctx, dbReport(w.namespace, 2))
		Eventually(outcome(w.db(ctx))).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		w.serving()
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(Equal("True/Active: Watching VulnerabilityReport."))
		Expect(w.policy(ctx, "default", candorv1alpha1.ConditionProviderAvailable)()).To(Equal("True/Available: Watching VulnerabilityReport."))
	})

	It("crd-removed: stops cleanly, keeps the Findings, which are Stale after the grace, and comes back with the CRDs", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.startWithDB(ctx, "trivy")
		withoutTrivy(ctx)
		Eventually(w.providersUp).Should(Equal(map[string]float64{"trivy": 0, "trivy/config": 0, "trivy/rbac": 0}))
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(
			Equal(fmt.Sprintf("False/ProviderUnavailable: "+absent, "VulnerabilityReport", "trivy")))
		errors := errorLines()
		w.clock.Step(w.options.EvidenceGrace - time.Second)
		w.lookAtDB()
		Consistently(outcome(w.db(ctx))).WithTimeout(2 * time.Second).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		Expect(errors()).To(BeEmpty(), "nothing is wrong any more once the watch has stopped")
		w.clock.Step(2 * time.Second)
		w.lookAtDB()
		Eventually(outcome(w.db(ctx))).Should(Equal(candorv1alpha1.OutcomeStale))

		Expect(cluster.InstallTrivyCRDs(ctx)).To(Succeed())
		w.apply(ctx, dbReport(w.namespace, 2))
		Eventually(outcome(w.db(ctx))).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		Expect(w.db(ctx)().Status.TimesRecurred).To(BeZero(), "it never ended")
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(Equal("True/Active: Watching VulnerabilityReport."))
	})

	It("crd-partial: of one class is absent and those of the others are served", func(ctx SpecContext) {
		w := newWorld(ctx)
		withoutTrivy(ctx, "rbacassessmentreports")
		w.apply(ctx, builder.StatefulSet(w.namespace, "db"), dbReport(w.namespace, 2), dbChecks(w.namespace),
			builder.Policy(w.namespace, "default", []string{"trivy", "trivy/config", "trivy/rbac"}))
		w.start(ctx)
		for _, provider := range []string{"trivy", "trivy/config"} {
			container := map[string]string{"trivy": "app"}[provider]
			Eventually(outcome(w.finding(ctx, provider, "StatefulSet", "db", container))).Should(Equal(candorv1alpha1.OutcomeStillPresent), provider)
		}
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(Equal(fmt.Sprintf(
			"False/ProviderUnavailable: Watching VulnerabilityReport. Watching ConfigAuditReport. "+absent, "RbacAssessmentReport", "trivy/rbac")))
		Expect(w.providersUp()).To(Equal(map[string]float64{"trivy": 1, "trivy/config": 1, "trivy/rbac": 0}))
	})

	It("no-right: that may not be read says so in words, holds nothing up, and recovers when the right is granted", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.lacksRights = true
		granted := withoutRight(ctx, "vulnerabilityreports")
		w.apply(ctx, builder.StatefulSet(w.namespace, "db"), dbReport(w.namespace, 2), dbChecks(w.namespace),
			builder.Policy(w.namespace, "default", []string{"trivy", "trivy/config"}))
		w.start(ctx)
		Eventually(outcome(w.finding(ctx, "trivy/config", "StatefulSet", "db", ""))).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(And(
			HavePrefix("False/ProviderUnavailable: VulnerabilityReport cannot be read: "),
			ContainSubstring("is forbidden"), ContainSubstring("vulnerabilityreports"), ContainSubstring("Watching ConfigAuditReport.")))
		Expect(w.providersUp()).To(HaveKeyWithValue("trivy", 0.0))
		Expect(w.db(ctx)()).To(BeNil())
		granted()
		Eventually(outcome(w.db(ctx))).WithTimeout(time.Minute).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(HavePrefix("True/Active"))
	})

	It("unknown-provider: is named in the policy with those that exist, and the others of the policy work", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.startWithDB(ctx, "falco", "trivy")
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(Equal(
			`False/UnknownProvider: No provider named "falco" exists; known: trivy, trivy/config, trivy/rbac. Watching VulnerabilityReport.`))
		Expect(w.policy(ctx, "default", candorv1alpha1.ConditionProviderAvailable)()).To(Equal("True/Available: Watching VulnerabilityReport."))
		w.apply(ctx, builder.Policy(w.namespace, "other", []string{"falco"}))
		unknown := `False/UnknownProvider: No provider named "falco" exists; known: trivy, trivy/config, trivy/rbac.`
		Eventually(w.policy(ctx, "other", candorv1alpha1.ConditionReady)).Should(Equal(unknown))
		Expect(w.policy(ctx, "other", candorv1alpha1.ConditionProviderAvailable)()).To(Equal(unknown))
	})
})

// startWithDB runs the manager over a StatefulSet "db" whose report has two entries, and waits for its Finding.
func (w *world) startWithDB(ctx context.Context, providers ...string) {
	GinkgoHelper()
	w.apply(ctx, builder.StatefulSet(w.namespace, "db"), dbReport(w.namespace, 2), builder.Policy(w.namespace, "default", providers))
	w.start(ctx)
	w.serving()
	Eventually(outcome(w.db(ctx))).Should(Equal(candorv1alpha1.OutcomeStillPresent))
}

// db returns a function that reads the Finding of the StatefulSet "db".
func (w *world) db(ctx context.Context) func() *candorv1alpha1.Finding {
	return w.finding(ctx, "trivy", "StatefulSet", "db", "app")
}

// lookAtDB makes the report controller look at the StatefulSet "db", as its timer would.
func (w *world) lookAtDB() {
	id := signals.Identity{Provider: "trivy", Namespace: w.namespace, Kind: "StatefulSet", Name: "db", Container: "app"}
	w.wakeReports <- event.TypedGenericEvent[signals.Identity]{Object: id}
}

// policy returns a function that puts a condition of a policy into one line.
func (w *world) policy(ctx context.Context, name, condition string) func() string {
	return func() string {
		var p candorv1alpha1.SignalPolicy
		if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, &p); err != nil {
			return err.Error()
		}
		return spoken(p.Status.Conditions, condition)
	}
}

// providersUp returns what candor_provider_up says of each provider.
func (w *world) providersUp() map[string]float64 {
	up := map[string]float64{}
	families, err := w.registry.Gather()
	if err != nil {
		return nil
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "candor_provider_up" {
				up[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return up
}

// withoutTrivy removes CRDs of Trivy Operator, all without a name, until the spec ends.
func withoutTrivy(ctx context.Context, names ...string) {
	GinkgoHelper()
	DeferCleanup(func(ctx SpecContext) { Expect(cluster.InstallTrivyCRDs(ctx)).To(Succeed()) })
	Expect(cluster.RemoveTrivyCRDs(ctx, names...)).To(Succeed())
}

// withoutRight takes a kind of reports out of the manager's ClusterRole, and returns what puts it back, at the latest when the
// spec ends. Both wait until the API server knows.
func withoutRight(ctx context.Context, resource string) (restore func()) {
	GinkgoHelper()
	var role rbacv1.ClusterRole
	Expect(cluster.Client.Get(ctx, client.ObjectKey{Name: "candor-manager-role"}, &role)).To(Succeed())
	before := role.DeepCopy()
	for i := range role.Rules {
		role.Rules[i].Resources = slices.DeleteFunc(role.Rules[i].Resources, func(r string) bool { return r == resource })
	}
	Expect(cluster.Client.Patch(ctx, &role, client.MergeFrom(before))).To(Succeed())
	Eventually(managerMayList(ctx, resource)).Should(BeFalse())
	restore = func() {
		GinkgoHelper()
		Expect(cluster.InstallManagerRBAC(ctx)).To(Succeed())
		Eventually(managerMayList(ctx, resource)).Should(BeTrue())
	}
	DeferCleanup(func(ctx SpecContext) { Expect(cluster.InstallManagerRBAC(ctx)).To(Succeed()) })
	return restore
}

func managerMayList(ctx context.Context, resource string) func(Gomega) bool {
	return func(g Gomega) bool {
		config, err := cluster.ManagerConfig(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		clients, err := kubernetes.NewForConfig(config)
		g.Expect(err).NotTo(HaveOccurred())
		answer, err := clients.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "list", Group: "aquasecurity.github.io", Resource: resource,
			}},
		}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		return answer.Status.Allowed
	}
}

// errorLines returns what reads the error lines of the log from here on.
func errorLines() func() []string {
	log := gbytes.NewBuffer()
	GinkgoWriter.TeeTo(log)
	DeferCleanup(GinkgoWriter.ClearTeeWriters)
	return func() []string {
		return slices.DeleteFunc(strings.Split(string(log.Contents()), "\n"), func(line string) bool {
			return !strings.Contains(line, `"error"=`)
		})
	}
}

func dbReport(namespace string, n int) client.Object {
	return builder.VulnerabilityReport(namespace, "StatefulSet", "db", "app", builder.Vulnerabilities(n, "HIGH"))
}

func dbChecks(namespace string) client.Object {
	return builder.CheckReport("ConfigAuditReport", namespace, "StatefulSet", "db", []any{
		builder.Check("KSV014", "HIGH", false, "Container 'app' of StatefulSet 'db' should set 'readOnlyRootFilesystem' to true"),
	})
}
