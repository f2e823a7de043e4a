// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/llmserver"
)

// sharing says how far the answers of a policy go.
func sharing(scope candorv1alpha1.Sharing) func(*candorv1alpha1.SignalPolicy) {
	return func(p *candorv1alpha1.SignalPolicy) {
		p.Spec.Enrichment = &candorv1alpha1.EnrichmentPolicy{Sharing: scope}
	}
}

// drained waits until nobody is in line for a model any more, and the manager rests.
func (w *world) drained(ctx context.Context) {
	GinkgoHelper()
	w.settle(ctx)
	Eventually(w.metric("candor_enrichment_queue_depth")).WithTimeout(patience).Should(BeZero())
	w.settle(ctx)
}

// textOf is all that the API server holds of an object.
func textOf(o client.Object) string {
	GinkgoHelper()
	content, err := json.Marshal(o)
	Expect(err).NotTo(HaveOccurred())
	return string(content)
}

var _ = Describe("Equal questions", func() {
	var (
		w     *world
		model *llmserver.Server
	)

	BeforeEach(func(ctx SpecContext) {
		w = newWorld(ctx)
		model = withModel(w)
	})

	DescribeTable("image-in-50-namespaces (G6): 50 Findings of one image are asked about",
		func(ctx SpecContext, namespaces, workloads int, scope candorv1alpha1.Sharing, want int) {
			w.start(ctx)
			var found []func() *candorv1alpha1.Finding
			for n := range namespaces {
				other := w.neighbour(ctx, n)
				other.apply(ctx, builder.Policy(other.namespace, "default", []string{"trivy"}, sharing(scope)))
				for i := range workloads {
					name := fmt.Sprint("web-", i)
					other.scan(ctx, name, builder.Vulnerabilities(5, "CRITICAL"))
					found = append(found, other.of(ctx, name))
				}
			}
			Expect(found).To(HaveLen(50))
			shared := 0
			for _, f := range found {
				Eventually(explained(f)).WithTimeout(patience).Should(Equal(candorv1alpha1.ExplainedTrue))
				if f().Status.Enrichment.Shared {
					shared++
				}
			}
			w.drained(ctx)
			Expect(model.Stats().Calls).To(Equal(want))
			Expect(shared).To(Equal(50 - want))
			Expect(ledger(ctx, "cluster").Calls).To(BeEquivalentTo(want))
			Expect(w.metric("candor_enrichment_shared_total")()).To(BeEquivalentTo(50 - want))
		},
		Entry("once under Cluster", 50, 1, candorv1alpha1.SharingCluster, 1),
		Entry("once in each namespace under Namespace", 10, 5, candorv1alpha1.SharingNamespace, 10),
		Entry("50 times under None", 25, 2, candorv1alpha1.SharingNone, 50),
	)

	It("carry no name of one tenant into another's Finding, even from a model that repeats all it is told", func(ctx SpecContext) {
		model.Script(func(call *llmserver.Call) llmserver.Behaviour {
			said, err := json.Marshal(map[string]any{"hypotheses": []any{map[string]any{
				"cause": call.User[:200], "rationale": call.User[200:], "confidence": 50, "recommendedAction": "Notify",
			}}})
			Expect(err).NotTo(HaveOccurred())
			return llmserver.Answer(string(said))
		})
		w.start(ctx)
		donor, taker := w.neighbour(ctx, 1), w.neighbour(ctx, 2)
		about := func(in *world, name, container string) *candorv1alpha1.Finding {
			check := fmt.Sprintf("Container '%s' of StatefulSet '%s' in namespace '%s' should set runAsNonRoot; %s is named once more", container, name, in.namespace, name)
			in.apply(ctx, builder.Policy(in.namespace, "default", []string{"trivy", "trivy/config"}),
				builder.CheckReport("ConfigAuditReport", in.namespace, "StatefulSet", name, []any{builder.Check("KSV-0012", "HIGH", false, check)}),
				builder.VulnerabilityReport(in.namespace, "StatefulSet", name, container, builder.Vulnerabilities(3, "HIGH"), builder.Tag(name+"-build")))
			image := in.finding(ctx, "trivy", "StatefulSet", name, container)
			Eventually(explained(image)).Should(Equal(candorv1alpha1.ExplainedTrue))
			config := in.finding(ctx, "trivy/config", "StatefulSet", name, "")
			Eventually(explained(config)).Should(Equal(candorv1alpha1.ExplainedTrue))
			Expect(config().Status.Enrichment.Key).NotTo(Equal(image().Status.Enrichment.Key))
			return config()
		}
		about(donor, "payroll-engine", "salaries")
		taken := about(taker, "web", "app")
		Expect(taken.Status.Enrichment.Shared).To(BeTrue())
		Expect(taken.Status.Enrichment.SharedFrom).To(BeEmpty())
		Expect(model.Stats().Calls).To(Equal(2), "one about the image, one about the checks")
		for _, name := range []string{donor.namespace, "payroll", "salaries"} {
			for _, f := range taker.findings(ctx) {
				Expect(f.Status.Enrichment.Shared).To(BeTrue())
				Expect(textOf(&f)).NotTo(ContainSubstring(name))
			}
			for _, call := range model.Journal() {
				Expect(string(call.Body)).NotTo(ContainSubstring(name))
			}
		}
	})

	DescribeTable("are not answered to a stranger by who does not share",
		func(ctx SpecContext, scope candorv1alpha1.Sharing, requests int) {
			w.start(ctx)
			w.deploy(ctx, "web", builder.Vulnerabilities(5, "CRITICAL"), sharing(scope))
			Eventually(why(w.of(ctx, "web"))).Should(Equal(candorv1alpha1.ReasonEnriched))
			stranger := w.neighbour(ctx, 1)
			stranger.deploy(ctx, "web", builder.Vulnerabilities(5, "CRITICAL"))
			Eventually(explained(stranger.of(ctx, "web"))).Should(Equal(candorv1alpha1.ExplainedTrue))
			Expect(why(stranger.of(ctx, "web"))()).To(Equal(candorv1alpha1.ReasonEnriched), "it paid itself")
			Expect(model.Stats().Calls).To(Equal(2))
			Expect(model.Stats().ByKey).To(HaveLen(requests))
			Expect(ledger(ctx, "ns/"+stranger.namespace).Calls).To(BeEquivalentTo(1))
		},
		Entry("in the whole cluster", candorv1alpha1.SharingNamespace, 1),
		Entry("at all", candorv1alpha1.SharingNone, 2),
	)

	It("are paid for one by one under None, also where they have the same bytes", func(ctx SpecContext) {
		w.start(ctx)
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}, sharing(candorv1alpha1.SharingNone)))
		for _, name := range []string{"web", "api"} {
			w.scan(ctx, name, builder.Vulnerabilities(5, "CRITICAL"))
			Eventually(why(w.of(ctx, name))).Should(Equal(candorv1alpha1.ReasonEnriched))
		}
		key := w.of(ctx, "web")().Status.Request.Key
		Expect(model.Stats().ByKey).To(Equal(map[string]int{key: 2}))
	})

	It("are not answered any more by who has stopped sharing", func(ctx SpecContext) {
		w.start(ctx)
		w.deploy(ctx, "web", builder.Vulnerabilities(5, "CRITICAL"))
		Eventually(why(w.of(ctx, "web"))).Should(Equal(candorv1alpha1.ReasonEnriched))
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}, sharing(candorv1alpha1.SharingNone)))
		w.drained(ctx)
		stranger := w.neighbour(ctx, 1)
		stranger.deploy(ctx, "web", builder.Vulnerabilities(5, "CRITICAL"))
		Eventually(explained(stranger.of(ctx, "web"))).Should(Equal(candorv1alpha1.ExplainedTrue))
		Expect(why(stranger.of(ctx, "web"))()).To(Equal(candorv1alpha1.ReasonEnriched), "it paid itself")
		Expect(model.Stats().Calls).To(Equal(2))
		Expect(why(w.of(ctx, "web"))()).To(Equal(candorv1alpha1.ReasonEnriched), "what was paid for stays")
	})

	It("that nobody answers usably are asked about twice, and then by each who waits", func(ctx SpecContext) {
		w.apply(ctx, operating(model, func(s *candorv1alpha1.OperatingPolicySpec) { s.Mode = candorv1alpha1.ModeAudit }))
		w.start(ctx)
		model.Script(func(*llmserver.Call) llmserver.Behaviour { return llmserver.Refusal() })
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}))
		for i := range 5 {
			w.scan(ctx, fmt.Sprint("web-", i), builder.Vulnerabilities(5, "CRITICAL"))
		}
		w.settle(ctx)
		w.apply(ctx, operating(model))
		for i := range 5 {
			Eventually(why(w.of(ctx, fmt.Sprint("web-", i)))).Should(Equal(candorv1alpha1.ReasonEnrichmentFailed))
		}
		w.drained(ctx)
		Expect(model.Stats().Calls).To(Equal(10), "two for each Finding")
		Expect(model.Stats().MaxConcurrent).To(Equal(1), "one at a time of those that may share an answer")
	})
})

var _ = Describe("The record to beat", func() {
	const (
		results, rescans = 164, 72
		// part is how many of the results, chosen by chance, each rescan repeats: all of them would take minutes.
		part = results / 4
	)

	It("164-findings-72-rescans (G7): a model is called once for each result, whatever the scanner repeats", func(ctx SpecContext) {
		w := newWorld(ctx)
		model := withModel(w)
		w.apply(ctx, operating(model, func(s *candorv1alpha1.OperatingPolicySpec) {
			s.Model.MaxConcurrent, s.NamespaceBudget = 8, calls(1000, time.Hour)
			s.Budget = calls(1000, time.Hour)
		}), builder.Policy(w.namespace, "default", []string{"trivy"}))
		w.start(ctx)
		w.serving()
		scanned := func(i int) []any {
			return shuffled(rescored(append(builder.Vulnerabilities(4, "HIGH"), builder.Vulnerability(fmt.Sprintf("CVE-2024-%05d", i), "own", "CRITICAL"))))
		}
		name := func(i int) string { return fmt.Sprintf("app-%03d", i) }
		for i := range results {
			w.scan(ctx, name(i), scanned(i))
		}
		Eventually(func() int { return model.Stats().Calls }).WithTimeout(patience).Should(Equal(results))
		w.drained(ctx)
		before := w.stored()
		start := time.Now()
		for rescan := range rescans {
			w.clock.Step(time.Hour)
			some := rand.Perm(results)
			together(part, func(i int) error {
				i = some[i]
				report := builder.VulnerabilityReport(w.namespace, "StatefulSet", name(i), "app", scanned(i), builder.UpdatedAt(w.clock.Now()))
				content, err := json.Marshal(map[string]any{"report": report.Object["report"]})
				Expect(err).NotTo(HaveOccurred())
				return cluster.Client.Patch(ctx, report, merge(string(content)))
			})
			if rescan%24 == 12 {
				w.restart(ctx)
			}
		}
		w.drained(ctx)
		made := model.Stats().Calls
		AddReportEntry("cost", fmt.Sprintf("calls made: %d, against 9,300; %d rescans of %d of %d results, chosen by chance, in %.1f s", made, rescans, part, results, time.Since(start).Seconds()))
		Expect(made).To(BeNumerically("<=", results), "k8sgpt-operator#769 tells of %d results that made 9,300 calls in three days", results)
		Expect(w.stored().Since(before)).To(BeEmpty())
		for _, f := range w.findings(ctx) {
			Expect(f.Status.Explained).To(Equal(candorv1alpha1.ExplainedTrue))
		}
	})
})
