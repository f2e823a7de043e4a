// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/builder"
)

var openReports = []string{"openreports", "policyreport"}

// ruleReport makes a report with results, of either kind.
type ruleReport func(namespace, name string, results []any, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured

func fails(rule string, objects ...any) map[string]any {
	return builder.Result("kyverno", "require", rule, "fail", "high", objects...)
}

func passed(rule string, objects ...any) map[string]any {
	return builder.Result("kyverno", "require", rule, "pass", "high", objects...)
}

var _ = Describe("Reports that several tools share", Ordered, ContinueOnFailure, func() {
	BeforeAll(func(ctx SpecContext) { Expect(cluster.InstallOpenReportsCRDs(ctx)).To(Succeed()) })
	AfterAll(func(ctx SpecContext) { Expect(cluster.RemoveOpenReportsCRDs(ctx)).To(Succeed()) })

	It("crd-late-install: are read from when their kinds come, and each kind by itself", func(ctx SpecContext) {
		w := newWorld(ctx)
		DeferCleanup(func(ctx SpecContext) { Expect(cluster.InstallOpenReportsCRDs(ctx)).To(Succeed()) })
		Expect(cluster.RemoveOpenReportsCRDs(ctx)).To(Succeed())
		w.apply(ctx, builder.Deployment(w.namespace, "web"), builder.Policy(w.namespace, "default", openReports))
		w.start(ctx)
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(And(HavePrefix("False/ProviderUnavailable: "),
			ContainSubstring("Report CRD not found: install a tool that writes Reports"), ContainSubstring("PolicyReport CRD not found: ")))
		for _, kind := range []struct {
			plural, provider string
			report           ruleReport
		}{{"policyreports", "policyreport", builder.PolicyReport}, {"reports", "openreports", builder.OpenReport}} {
			Expect(cluster.InstallOpenReportsCRDs(ctx, kind.plural)).To(Succeed())
			report := kind.report(w.namespace, "r-1", []any{fails("limits")}, builder.Scope("Deployment", "web"))
			Eventually(cluster.Client.Create).WithArguments(ctx, report).Should(Succeed())
			Eventually(outcome(w.finding(ctx, kind.provider, "Deployment", "web", ""))).Should(Equal(candorv1alpha1.OutcomeStillPresent), kind.provider)
		}
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(Equal("True/Active: Watching Report. Watching PolicyReport."))
	})

	It("rescan: that finds the same writes nothing, and one that finds nothing resolves", func(ctx SpecContext) {
		w := newWorld(ctx)
		f := w.startWithRules(ctx, fails("limits"), fails("probes"), passed("labels"))
		Expect(f().Spec.Summary).To(HavePrefix("2 HIGH failed rules: require/limits, require/probes [evidence "))
		Expect(f().Spec.Source.RefKind).To(Equal("Report"))
		before := f()
		w.expectNoWrites(ctx, func() {
			probes := fails("probes")
			probes["timestamp"], probes["message"] = map[string]any{"seconds": int64(1796050000), "nanos": int64(0)}, "in other words"
			w.report(ctx, "r-1", probes, fails("limits"), passed("labels"), passed("more"))
		})
		Expect(f()).To(Equal(before))
		w.report(ctx, "r-1", passed("probes"), passed("limits"))
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeResolved))
		w.report(ctx, "r-1", fails("limits"))
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeRecurred))
	})

	It("not-evaluated: a rule that cannot be evaluated any more proves nothing", func(ctx SpecContext) {
		w := newWorld(ctx)
		f := w.startWithRules(ctx, fails("limits"))
		w.report(ctx, "r-1", builder.Result("kyverno", "require", "limits", "error", "high"))
		Expect(outcome(f)()).To(Equal(candorv1alpha1.OutcomeStillPresent))
		w.clock.Step(w.options.EvidenceGrace)
		w.wake(ctx, w.rulesOf("Deployment", "web"))
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeStale))
	})

	It("two-sources: of one workload are one Finding, which keeps what is left when one of them goes", func(ctx SpecContext) {
		w := newWorld(ctx)
		f := w.startWithRules(ctx, fails("limits"))
		w.apply(ctx, builder.OpenReport(w.namespace, "falco", []any{
			builder.Result("Falco", "Terminal shell in container", "", "fail", "critical", builder.Object(w.namespace, "Deployment", "web")),
		}))
		Eventually(brief(f)).Should(Equal("1 critical, 1 high"))
		Expect(f().Spec.Evidence.Top[0].ID).To(Equal("Terminal shell in container"))
		Expect(w.findings(ctx)).To(HaveLen(1))
		Expect(cluster.Client.Delete(ctx, builder.OpenReport(w.namespace, "falco", nil))).To(Succeed())
		Eventually(brief(f)).Should(Equal("1 high"))
	})

	It("many-resources: one report speaks for each object that its results name", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.apply(ctx, builder.Policy(w.namespace, "default", openReports))
		w.start(ctx)
		w.serving(openReports...)
		names := []string{"a", "b", "c"}
		results := func(result func(string, ...any) map[string]any, names ...string) (all []any) {
			for _, name := range names {
				w.apply(ctx, builder.Deployment(w.namespace, name))
				all = append(all, result("limits", builder.Object(w.namespace, "Deployment", name)))
			}
			return all
		}
		w.apply(ctx, builder.PolicyReport(w.namespace, "all", append(results(fails, names...), fails("other", builder.Object("team-b", "Deployment", "stranger")))))
		of := func(name string) func() *candorv1alpha1.Finding {
			return w.finding(ctx, "policyreport", "Deployment", name, "")
		}
		for _, name := range names {
			Eventually(outcome(of(name))).Should(Equal(candorv1alpha1.OutcomeStillPresent), name)
		}
		Expect(w.metric("candor_reports_dropped_total", "provider", "policyreport", "reason", signals.DropOtherNamespace)()).To(Equal(1.0))

		// One is fixed, one is no longer spoken of, which proves nothing, and one is as it was.
		w.apply(ctx, builder.PolicyReport(w.namespace, "all", append(results(fails, "a"), results(passed, "b")...)))
		Eventually(outcome(of("b"))).Should(Equal(candorv1alpha1.OutcomeResolved))
		w.settle(ctx)
		Expect(outcome(of("c"))()).To(Equal(candorv1alpha1.OutcomeStillPresent))
		w.clock.Step(w.options.EvidenceGrace)
		w.wake(ctx, signals.Identity{Provider: "policyreport", Namespace: w.namespace, Kind: "Deployment", Name: "c"})
		Eventually(outcome(of("c"))).Should(Equal(candorv1alpha1.OutcomeStale))
		Expect(outcome(of("a"))()).To(Equal(candorv1alpha1.OutcomeStillPresent))
		Expect(w.findings(ctx)).To(HaveLen(3))
	})

	It("pods: a workload, its ReplicaSet and its pods are one Finding, through a restart and a rollout", func(ctx SpecContext) {
		w := newWorld(ctx)
		f := w.startWithPods(ctx)
		Expect(f().Spec.Evidence.Total).To(BeEquivalentTo(3), "Kyverno's rules for pods and for workloads are the same ones")
		Expect(w.findings(ctx)).To(HaveLen(1))
		before := f()
		Expect(w.cost(ctx, func() {
			w.restart(ctx)
			w.serving(openReports...)
		})).To(BeEmpty())
		Expect(f()).To(Equal(before))

		web := builder.Deployment(w.namespace, "web")
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(web), web)).To(Succeed())
		next := builder.ReplicaSet(web, w.namespace, "web-2", 2)
		w.apply(ctx, next, builder.OpenReport(w.namespace, "rs-2", []any{passed("autogen-debug")}, builder.Scope("ReplicaSet", "web-2")))
		Eventually(brief(f)).Should(Equal("2 high"), "what only a pod of the old revision broke is past")
		Expect(f().Spec.Source.RefName).To(Equal("dep"))
	})

	It("pods: one that is its own workload has a Finding, and one that is gone has none", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.apply(ctx, builder.Policy(w.namespace, "default", openReports), builder.Pod(w.namespace, "alone", nil, ""),
			builder.OpenReport(w.namespace, "alone", []any{fails("limits")}, builder.Scope("Pod", "alone")),
			builder.OpenReport(w.namespace, "gone", []any{fails("limits")}, builder.Scope("Pod", "gone")))
		w.start(ctx)
		f := w.finding(ctx, "openreports", "Pod", "alone", "")
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		Eventually(w.metric("candor_reports_dropped_total", "provider", "openreports", "reason", signals.DropOwnerGone)).WithTimeout(time.Minute).Should(Equal(1.0))
		Expect(w.findings(ctx)).To(HaveLen(1))
		w.remove(ctx, builder.Pod(w.namespace, "alone", nil, ""), builder.OpenReport(w.namespace, "alone", nil))
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeWorkloadGone))
	})

	It("pods: whose ReplicaSet is not there yet are read when it comes", func(ctx SpecContext) {
		w := newWorld(ctx)
		web := builder.Deployment(w.namespace, "web")
		w.apply(ctx, web, builder.Policy(w.namespace, "default", openReports))
		revision := builder.ReplicaSet(web, w.namespace, "web-1", 1)
		w.apply(ctx, revision)
		w.apply(ctx, builder.Pod(w.namespace, "web-1-0", revision, "ReplicaSet"))
		w.remove(ctx, revision)
		w.apply(ctx, builder.OpenReport(w.namespace, "pod", []any{fails("limits")}, builder.Scope("Pod", "web-1-0")))
		w.start(ctx)
		dropped := w.metric("candor_reports_dropped_total", "provider", "openreports", "reason", signals.DropOwnerGone)
		Eventually(func() float64 { // each look is one of the tries, which otherwise wait up to 6.4 seconds
			w.wakeReports <- event.TypedGenericEvent[signals.Identity]{Object: w.rulesOf("Pod", "web-1-0")}
			return dropped()
		}).Should(Equal(1.0))
		Expect(w.findings(ctx)).To(BeEmpty())
		w.apply(ctx, builder.ReplicaSet(web, w.namespace, "web-1", 1))
		Eventually(outcome(w.finding(ctx, "openreports", "Deployment", "web", ""))).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		Expect(w.findings(ctx)).To(HaveLen(1))
	})

	DescribeTable("loop-guard: of Candor itself are no news to it", func(ctx SpecContext, source string) {
		w := newWorld(ctx)
		f := w.startWithRules(ctx, fails("limits"))
		own := builder.Result(source, "finding", "trivy", "fail", "critical", builder.Object(w.namespace, "Deployment", "web"), builder.Object(w.namespace, "Deployment", "api"))
		w.expectNoWrites(ctx, func() {
			w.apply(ctx, builder.OpenReport(w.namespace, "own", []any{own}))
			Eventually(w.metric("candor_reports_dropped_total", "provider", "openreports", "reason", signals.DropOwnReport)).Should(Equal(1.0))
		})
		Expect(brief(f)()).To(Equal("1 high"))
		Expect(w.findings(ctx)).To(HaveLen(1))
	}, Entry("in small letters", "candor"), Entry("in capitals", "CANDOR"))

	It("double-counting: of Trivy are left out while the namespace asks for Trivy's own", func(ctx SpecContext) {
		w := newWorld(ctx)
		trivy := func(id string, object any) any {
			return builder.Result("Trivy Vulnerability", id, "openssl", "fail", "critical", object)
		}
		f := w.startWithRules(ctx, fails("limits"))
		api := w.finding(ctx, "openreports", "Deployment", "api", "")
		w.apply(ctx, builder.OpenReport(w.namespace, "adapter", []any{
			trivy("CVE-2026-1", builder.Object(w.namespace, "Deployment", "web")), trivy("CVE-2026-2", builder.Object(w.namespace, "Deployment", "api")),
		}))
		Eventually(brief(f)).Should(Equal("1 critical, 1 high"))
		Eventually(outcome(api)).Should(Equal(candorv1alpha1.OutcomeStillPresent))

		w.apply(ctx, builder.Policy(w.namespace, "trivy", []string{"trivy"}))
		Eventually(brief(f)).Should(Equal("1 high"))
		Eventually(outcome(api)).Should(Equal(candorv1alpha1.OutcomeOutOfPolicy))
		w.remove(ctx, builder.Policy(w.namespace, "trivy", nil))
		Eventually(brief(f)).Should(Equal("1 critical, 1 high"))
		Eventually(outcome(api)).Should(Equal(candorv1alpha1.OutcomeStillPresent))
	})

	It("bad-shape: that cannot be read are dropped with a reason, and stop no other", func(ctx SpecContext) {
		w := newWorld(ctx)
		f := w.startWithRules(ctx, fails("limits"))
		w.apply(ctx, builder.OpenReport(w.namespace, "nowhere", []any{fails("limits")}),
			builder.OpenReport(w.namespace, "odd", []any{fails("limits", builder.Object(w.namespace, "Deployment", "../x"))}))
		for _, reason := range []string{signals.DropNoResourceName, signals.DropMalformed} {
			Eventually(w.metric("candor_reports_dropped_total", "provider", "openreports", "reason", reason)).Should(Equal(1.0), reason)
		}
		Expect(brief(f)()).To(Equal("1 high"))
		Expect(w.findings(ctx)).To(HaveLen(1))
	})
})

// startWithRules runs the manager over a Deployment "web" of whose rules a Report tells, and waits for its Finding.
func (w *world) startWithRules(ctx context.Context, results ...any) func() *candorv1alpha1.Finding {
	GinkgoHelper()
	w.apply(ctx, builder.Deployment(w.namespace, "web"), builder.Policy(w.namespace, "default", openReports),
		builder.OpenReport(w.namespace, "r-1", results, builder.Scope("Deployment", "web")))
	w.start(ctx)
	w.serving(openReports...)
	f := w.finding(ctx, "openreports", "Deployment", "web", "")
	Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeStillPresent))
	return f
}

// startWithPods runs the manager over a Deployment of one revision with three pods, of each of which there is a report: it
// breaks the rule limits everywhere, one by itself, and one in one of its pods only.
func (w *world) startWithPods(ctx context.Context) func() *candorv1alpha1.Finding {
	GinkgoHelper()
	web := builder.Deployment(w.namespace, "web")
	w.apply(ctx, web)
	revision := builder.ReplicaSet(web, w.namespace, "web-1", 1)
	w.apply(ctx, revision, builder.Policy(w.namespace, "default", openReports),
		builder.OpenReport(w.namespace, "dep", []any{fails("autogen-limits"), fails("replicas")}, builder.Scope("Deployment", "web")),
		builder.OpenReport(w.namespace, "rs-1", []any{fails("autogen-limits")}, builder.Scope("ReplicaSet", "web-1")))
	for i := range 3 {
		pod := builder.Pod(w.namespace, fmt.Sprintf("web-1-%d", i), revision, "ReplicaSet")
		results := []any{fails("limits")}
		if i == 2 {
			results = append(results, fails("debug"))
		}
		w.apply(ctx, pod, builder.OpenReport(w.namespace, strings.ReplaceAll(pod.Name, "web", "pod"), results, builder.Scope("Pod", pod.Name)))
	}
	w.start(ctx)
	w.serving(openReports...)
	f := w.finding(ctx, "openreports", "Deployment", "web", "")
	Eventually(brief(f)).Should(Equal("3 high"))
	return f
}

// report writes what the Report of the Deployment "web" says now, and waits until the manager has looked at it.
func (w *world) report(ctx context.Context, name string, results ...any) {
	GinkgoHelper()
	looks := w.metric("candor_reports_ingested_total", "provider", "openreports")
	dropped := w.metric("candor_reports_dropped_total", "provider", "openreports")
	before := looks() + dropped()
	w.apply(ctx, builder.OpenReport(w.namespace, name, results, builder.Scope("Deployment", "web")))
	Eventually(func() float64 { return looks() + dropped() }).Should(BeNumerically(">", before))
	w.settle(ctx)
}

func (w *world) rulesOf(kind, name string) signals.Identity {
	return signals.Identity{Provider: "openreports", Namespace: w.namespace, Kind: kind, Name: name}
}

// brief reads the counts of a Finding.
func brief(f func() *candorv1alpha1.Finding) func() string {
	return func() string {
		if found := f(); found != nil {
			return found.Status.Brief
		}
		return ""
	}
}
