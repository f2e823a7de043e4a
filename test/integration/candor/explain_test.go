// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/llmserver"
	"github.com/candor-dev/candor/test/kube"
)

var _ = Describe("A model that is configured", func() {
	var (
		w     *world
		model *llmserver.Server
	)

	BeforeEach(func(ctx SpecContext) {
		w = newWorld(ctx)
		model = withModel(w)
	})

	It("explains a Finding once, and a restart costs nothing (G3)", func(ctx SpecContext) {
		w.start(ctx)
		w.deploy(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
		web := w.of(ctx, "web")
		Eventually(why(web)).Should(Equal(candorv1alpha1.ReasonEnriched))
		f := web()
		Expect(f.Status.Explained).To(Equal(candorv1alpha1.ExplainedTrue))
		Expect(f.Status.EnrichedFingerprint).To(Equal(f.Status.Fingerprint))
		Expect(f.Status.Hypotheses).NotTo(BeEmpty())
		Expect(f.Status.Enrichment.Model).To(Equal(modelName))
		Expect(f.Status.Enrichment.Key).To(Equal(f.Status.Request.Key))
		Expect(f.Status.Enrichment.Usage.InputTokens).To(BeNumerically(">", 0))
		Expect(f.Status.Enrichment.Attempt).To(BeNil())
		Expect(model.Stats().ByKey).To(Equal(map[string]int{f.Status.Request.Key: 1}))
		spent := ledger(ctx, "cluster")
		Expect(spent.Calls).To(BeEquivalentTo(1))
		Expect(spent.Tokens).To(Equal(f.Status.Enrichment.Usage.InputTokens + f.Status.Enrichment.Usage.OutputTokens))
		Expect(ledger(ctx, "ns/"+w.namespace)).To(Equal(spent))
		Eventually(w.events(ctx, f.Name)).Should(ContainElement(candorv1alpha1.ReasonEnriched))

		cost := w.cost(ctx, func() { w.restart(ctx) })
		Expect(cost).To(BeEmpty())
		Expect(model.Stats().Calls).To(Equal(1))
	})

	It("costs four writes for a paid call: two of the Finding, two of the Ledger", func(ctx SpecContext) {
		w.start(ctx)
		w.deploy(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
		Eventually(why(w.of(ctx, "web"))).Should(Equal(candorv1alpha1.ReasonEnriched))
		w.settle(ctx)
		Expect(w.stored()).To(Equal(kube.Counts{"create findings": 1, "update findings/status": 3}))
		Expect(w.writes()).To(HaveKeyWithValue("update ledgers/status", 2))
	})

	It("is asked once for one image in several namespaces: image-in-50-namespaces, G6", func(ctx SpecContext) {
		w.start(ctx)
		worlds := []*world{w}
		for n := range 9 {
			worlds = append(worlds, w.neighbour(ctx, n))
		}
		for _, other := range worlds {
			other.deploy(ctx, "web", builder.Vulnerabilities(5, "CRITICAL"))
		}
		for _, other := range worlds {
			Eventually(explained(other.of(ctx, "web"))).WithTimeout(patience).Should(Equal(candorv1alpha1.ExplainedTrue))
		}
		Expect(model.Stats().Calls).To(Equal(1))
		Expect(ledger(ctx, "cluster").Calls).To(BeEquivalentTo(1))
	})

	It("is not asked in mode Audit, in which the digest of what would be sent is shown", func(ctx SpecContext) {
		w.apply(ctx, operating(model, func(s *candorv1alpha1.OperatingPolicySpec) { s.Mode = candorv1alpha1.ModeAudit }))
		w.start(ctx)
		w.deploy(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
		web := w.of(ctx, "web")
		Eventually(why(web)).Should(Equal(candorv1alpha1.ReasonAudit))
		audited := web().Status.Request.Key
		Expect(model.Stats().Calls).To(BeZero())
		w.apply(ctx, operating(model))
		Eventually(why(web)).Should(Equal(candorv1alpha1.ReasonEnriched))
		Expect(model.Stats().ByKey).To(Equal(map[string]int{audited: 1}))
	})

	It("is asked no further than the budget goes, and again when the window frees", func(ctx SpecContext) {
		w.apply(ctx, operating(model, func(s *candorv1alpha1.OperatingPolicySpec) { s.Budget = calls(1, time.Hour) }))
		w.start(ctx)
		w.deploy(ctx, "low", builder.Vulnerabilities(1, "HIGH"))
		w.deploy(ctx, "web", builder.Vulnerabilities(2, "CRITICAL"))
		low, web := w.of(ctx, "low"), w.of(ctx, "web")
		Eventually(func() []string { return []string{why(web)(), why(low)()} }).Should(ConsistOf(candorv1alpha1.ReasonEnriched, candorv1alpha1.ReasonBudgetExhausted))
		w.settle(ctx)
		Expect(model.Stats().Calls).To(Equal(1))
		w.clock.Step(2*time.Hour + 3*time.Minute)
		w.wakeFinding(ctx, low().Name)
		w.wakeFinding(ctx, web().Name)
		Eventually(func() []string { return []string{why(web)(), why(low)()} }).Should(ConsistOf(candorv1alpha1.ReasonEnriched, candorv1alpha1.ReasonEnriched))
		Expect(model.Stats().Calls).To(Equal(2))
	})
})
