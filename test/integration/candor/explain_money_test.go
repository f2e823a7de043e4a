// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/llmserver"
)

var _ = Describe("Money", func() {
	var (
		w     *world
		model *llmserver.Server
	)

	BeforeEach(func(ctx SpecContext) {
		w = newWorld(ctx)
		model = withModel(w)
		w.start(ctx)
	})

	It("is never spent on what is muted, resolved, out of policy or without evidence", func(ctx SpecContext) {
		w.afterwards(ctx, operating(model), func() {
			w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}))
			for _, name := range []string{"muted", "resolved", "lowered", "open"} {
				severity := map[bool]string{true: "HIGH", false: "CRITICAL"}[name == "lowered"]
				w.scan(ctx, name, own(name, severity))
			}
			w.settle(ctx)
			w.scan(ctx, "resolved", []any{})
			empty := w.of(ctx, "muted")().DeepCopy()
			empty.ObjectMeta = w.of(ctx, "open")().ObjectMeta
			empty.Name, empty.ResourceVersion, empty.UID = w.workload("empty").FindingName(), "", ""
			empty.Spec.Source.Name, empty.Spec.Evidence = "empty", nil
			w.apply(ctx, builder.Suppression(w.namespace, "mute", w.of(ctx, "muted")().Status.Fingerprint), empty,
				builder.Policy(w.namespace, "default", []string{"trivy"}, atLeast(candorv1alpha1.SeverityCritical)))
			Eventually(outcome(w.of(ctx, "lowered"))).Should(Equal(candorv1alpha1.OutcomeOutOfPolicy))
			Eventually(outcome(w.of(ctx, "resolved"))).Should(Equal(candorv1alpha1.OutcomeResolved))
			Eventually(explained(w.of(ctx, "muted"))).Should(Equal(candorv1alpha1.ExplainedMuted))
		})
		Eventually(why(w.of(ctx, "open"))).Should(Equal(candorv1alpha1.ReasonEnriched))
		w.lookAtAll(ctx)
		Expect(model.Stats().Calls).To(Equal(1))
		for name, want := range map[string]candorv1alpha1.Explained{
			"muted": candorv1alpha1.ExplainedMuted, "resolved": candorv1alpha1.ExplainedOff,
			"lowered": candorv1alpha1.ExplainedOff, "empty": candorv1alpha1.ExplainedOff,
		} {
			Expect(explained(w.of(ctx, name))()).To(Equal(want), name)
			Expect(w.of(ctx, name)().Status.Hypotheses).To(BeEmpty(), name)
		}
		w.remove(ctx, builder.Suppression(w.namespace, "mute", ""))
		Eventually(why(w.of(ctx, "muted"))).Should(Equal(candorv1alpha1.ReasonEnriched))
		Expect(model.Stats().Calls).To(Equal(2))
	})

	It("is spent once more when the content changes, and not again when the former content returns", func(ctx SpecContext) {
		w.deploy(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
		Eventually(why(w.of(ctx, "web"))).Should(Equal(candorv1alpha1.ReasonEnriched))
		first := w.of(ctx, "web")()
		w.scan(ctx, "web", builder.Vulnerabilities(4, "HIGH"))
		Eventually(func() int { return model.Stats().Calls }).Should(Equal(2))
		w.drained(ctx)
		second := w.of(ctx, "web")()
		Expect(second.Status.EnrichedFingerprint).To(Equal(second.Status.Fingerprint))
		Expect(second.Status.EnrichedFingerprint).NotTo(Equal(first.Status.EnrichedFingerprint))
		Expect(model.Stats().ByKey).To(Equal(map[string]int{first.Status.Request.Key: 1, second.Status.Request.Key: 1}))
	})

	It("buys an answer about what was asked: content that changes meanwhile gets a call of its own", func(ctx SpecContext) {
		held := llmserver.NewGate()
		model.Queue(held.Then(llmserver.Answer(`{"hypotheses":[{"cause":"of the former content","confidence":50}]}`)),
			llmserver.Broken()) // so that the former answer can be seen
		w.deploy(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
		Eventually(held.Arrived()).Should(Receive())
		former := w.of(ctx, "web")().Status.Fingerprint
		w.scan(ctx, "web", builder.Vulnerabilities(4, "HIGH"))
		Eventually(func() string { return w.of(ctx, "web")().Status.Fingerprint }).ShouldNot(Equal(former))
		held.Open()
		Eventually(why(w.of(ctx, "web"))).Should(Equal(candorv1alpha1.ReasonUnavailable))
		f := w.of(ctx, "web")()
		Expect(f.Status.EnrichedFingerprint).To(Equal(former))
		Expect(f.Status.Hypotheses).To(HaveLen(1))
		Expect(f.Status.Hypotheses[0].Cause).To(Equal("of the former content"))
		w.clock.Step(time.Minute)
		w.lookAtAll(ctx)
		Eventually(why(w.of(ctx, "web"))).Should(Equal(candorv1alpha1.ReasonEnriched))
		f = w.of(ctx, "web")()
		Expect(f.Status.EnrichedFingerprint).To(Equal(f.Status.Fingerprint))
		Expect(f.Status.Hypotheses[0].Cause).NotTo(Equal("of the former content"))
		Expect(model.Stats().Calls).To(Equal(3))
	})

	DescribeTable("is given back for what was not billed, and only then: after",
		func(ctx SpecContext, failure llmserver.Behaviour, billed bool) {
			model.Queue(failure)
			w.apply(ctx, operating(model, func(s *candorv1alpha1.OperatingPolicySpec) { s.Model.TimeoutSeconds = 5 }))
			w.deploy(ctx, "web", own("web", "HIGH"), spends(1))
			Eventually(func() int { return model.Stats().Calls }).Should(Equal(1))
			web := w.of(ctx, "web")
			Eventually(func() bool {
				e := web().Status.Enrichment
				return e != nil && e.Attempt != nil && e.Attempt.Failure != ""
			}).Should(BeTrue())
			w.drained(ctx)
			w.clock.Step(2 * time.Hour)
			w.lookAtAll(ctx)
			if !billed {
				Eventually(why(web)).Should(Equal(candorv1alpha1.ReasonEnriched), "the only call of the budget was given back")
				Expect(ledger(ctx, "ns/"+w.namespace).Calls).To(BeEquivalentTo(1))
				return
			}
			Expect(why(web)()).To(Equal(candorv1alpha1.ReasonBudgetExhausted))
			Expect(model.Stats().Calls).To(Equal(1))
			spent := ledger(ctx, "ns/"+w.namespace)
			Expect(spent.Calls).To(BeEquivalentTo(1))
			Expect(spent.Tokens).To(BeEquivalentTo(web().Status.Request.Bytes+1024), "what was reserved stays spent")
		},
		Entry("429", llmserver.RateLimited("20"), false),
		Entry("an exhausted quota", llmserver.QuotaExhausted(), false),
		Entry("404", llmserver.Failure(http.StatusNotFound, "not_found_error", "", "no"), false),
		Entry("500", llmserver.Broken(), true),
		Entry("529", llmserver.Overloaded(), true),
		Entry("a connection that ends", llmserver.Drop(), true),
		Entry("a timeout", llmserver.Hang(), true),
	)
})
