// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/llmserver"
)

// midway is a world in which a model is being asked about the Finding of "web".
type midway struct {
	*world
	model *llmserver.Server
	gate  *llmserver.Gate
	web   func() *candorv1alpha1.Finding
}

func newMidway(ctx context.Context) *midway {
	GinkgoHelper()
	m := &midway{world: newWorld(ctx), gate: llmserver.NewGate()}
	m.model = withModel(m.world)
	m.options.Models.Provider = "" // the OperatingPolicy alone names the model
	m.model.Queue(m.gate.Then(llmserver.Good()))
	m.apply(ctx, operating(m.model))
	m.start(ctx)
	m.deploy(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
	m.web = m.of(ctx, "web")
	arrived(m.gate, 1)
	return m
}

// open lets the model answer, and waits until the answer is stored.
func (m *midway) open() {
	GinkgoHelper()
	m.gate.Open()
	Eventually(func() []candorv1alpha1.Hypothesis { return m.web().Status.Hypotheses }).ShouldNot(BeEmpty(), "the answer that was paid for")
}

var _ = Describe("What happens while a model is being asked", func() {
	DescribeTable("loses no answer that is paid for, and pays for none twice",
		func(ctx SpecContext, happens, ends func(context.Context, *midway)) {
			m := newMidway(ctx)
			happens(ctx, m)
			m.settle(ctx)
			m.wakeFinding(ctx, m.web().Name)
			m.open()
			m.settle(ctx)
			Expect(m.web().Status.EnrichedFingerprint).To(Equal(m.web().Status.Fingerprint))
			ends(ctx, m)
			m.settle(ctx)
			m.clock.Step(orphaned)
			m.wakeFinding(ctx, m.web().Name)
			Eventually(why(m.web)).Should(Equal(candorv1alpha1.ReasonEnriched))
			expectOneCallEach(m.model, 1)
			expectLedgerCovers(ctx, m.model)
		},
		Entry("policy-deleted",
			func(ctx context.Context, m *midway) { m.remove(ctx, builder.Policy(m.namespace, "default", nil)) },
			func(ctx context.Context, m *midway) {
				m.apply(ctx, builder.Policy(m.namespace, "default", []string{"trivy"}))
			}),
		Entry("policy-explains-no-more",
			func(ctx context.Context, m *midway) {
				m.apply(ctx, builder.Policy(m.namespace, "default", []string{"trivy"}, unexplained))
			},
			func(ctx context.Context, m *midway) {
				m.apply(ctx, builder.Policy(m.namespace, "default", []string{"trivy"}))
			}),
		Entry("suppressed",
			func(ctx context.Context, m *midway) {
				m.apply(ctx, builder.Suppression(m.namespace, "accepted", m.web().Status.Fingerprint))
			},
			func(ctx context.Context, m *midway) {
				m.remove(ctx, builder.Suppression(m.namespace, "accepted", m.web().Status.Fingerprint))
			}),
		Entry("audit",
			func(ctx context.Context, m *midway) {
				m.apply(ctx, operating(m.model, func(s *candorv1alpha1.OperatingPolicySpec) { s.Mode = candorv1alpha1.ModeAudit }))
			},
			func(ctx context.Context, m *midway) { m.apply(ctx, operating(m.model)) }),
		Entry("operatingpolicy-deleted, which leaves no model",
			func(ctx context.Context, m *midway) { m.remove(ctx, operating(m.model)) },
			func(ctx context.Context, m *midway) { m.apply(ctx, operating(m.model)) }),
		Entry("operatingpolicy-malformed",
			func(ctx context.Context, m *midway) {
				m.apply(ctx, operating(m.model, func(s *candorv1alpha1.OperatingPolicySpec) { s.Model.BaseURL = "http://%zz" }))
			},
			func(ctx context.Context, m *midway) { m.apply(ctx, operating(m.model)) }),
		Entry("operatingpolicy-allows-nothing",
			func(ctx context.Context, m *midway) {
				m.apply(ctx, operating(m.model, func(s *candorv1alpha1.OperatingPolicySpec) {
					s.Budget = &candorv1alpha1.CostBudget{MaxCalls: ptr.To(int32(0))}
				}))
			},
			func(ctx context.Context, m *midway) { m.apply(ctx, operating(m.model)) }),
		Entry("key-removed",
			func(_ context.Context, m *midway) { m.writeKey("") },
			func(_ context.Context, m *midway) { m.writeKey(modelKey) }),
	)

	It("finding-deleted: drops the answer, and the Finding that is made anew costs one call more at most", func(ctx SpecContext) {
		m := newMidway(ctx)
		former := m.web()
		m.remove(ctx, former)
		Eventually(func() bool { f := m.web(); return f != nil && f.UID != former.UID }).Should(BeTrue())
		m.gate.Open()
		Eventually(m.web).Should(Satisfy(explains))
		m.settle(ctx)
		Expect(m.model.Stats().ByKey).To(HaveLen(1))
		Expect(m.model.Stats().Calls).To(BeNumerically("<=", 2))
		expectLedgerCovers(ctx, m.model)
	})

	It("finding-changed: records the answer for the content that it is about, and asks about the other", func(ctx SpecContext) {
		m := newMidway(ctx)
		former := m.web().Status.Fingerprint
		m.scan(ctx, "web", builder.Vulnerabilities(4, "HIGH"))
		m.settle(ctx)
		Expect(m.web().Status.Fingerprint).NotTo(Equal(former))
		second := llmserver.NewGate()
		m.model.Queue(second.Then(llmserver.Good()))
		m.open()
		arrived(second, 1)
		Expect(m.web().Status.EnrichedFingerprint).To(Equal(former))
		second.Open()
		Eventually(m.web).Should(Satisfy(explains))
		expectOneCallEach(m.model, 2)
		expectLedgerCovers(ctx, m.model)
	})
})

var _ = Describe("A Ledger that is not as Candor left it", func() {
	It("ledger-deleted: in the middle of a call is written anew with all that was spent", func(ctx SpecContext) {
		m := newMidway(ctx)
		reserved := ledger(ctx, candorv1alpha1.LedgerScopeCluster)
		m.scan(ctx, "web", builder.Vulnerabilities(4, "HIGH"))
		m.remove(ctx, storedLedger(ctx))
		m.open()
		Eventually(m.web).Should(Satisfy(explains))
		m.settle(ctx)
		Expect(reserved.Calls).To(BeEquivalentTo(1))
		expectOneCallEach(m.model, 2)
		stats, spent := m.model.Stats(), ledger(ctx, candorv1alpha1.LedgerScopeCluster)
		Expect(spent.Calls).To(BeEquivalentTo(2))
		Expect(spent.Tokens).To(Equal(stats.InputTokens + stats.OutputTokens))
		Expect(ledger(ctx, candorv1alpha1.LedgerScopeNamespace(m.namespace))).To(Equal(spent))
	})

	DescribeTable("counts whatever it holds, and is put in order by the next call",
		func(ctx SpecContext, scopes func(m *midway, now int64) []candorv1alpha1.LedgerScope, reason string) {
			m := newMidway(ctx)
			written := storedLedger(ctx)
			written.Status.Scopes = scopes(m, m.clock.Now().Unix())
			Expect(cluster.Client.Status().Update(ctx, written)).To(Succeed())
			m.open()
			m.scan(ctx, "web", builder.Vulnerabilities(4, "HIGH"))
			Eventually(why(m.web)).WithTimeout(patience).Should(Equal(reason))
			m.settle(ctx)
			buckets := 0
			for _, s := range storedLedger(ctx).Status.Scopes {
				buckets += len(s.Buckets)
			}
			Expect(buckets).To(BeNumerically("<=", 10_000))
			for key, n := range m.model.Stats().ByKey {
				Expect(n).To(Equal(1), key)
			}
		},
		Entry("ledger-garbage: unsorted, doubled, overlapping and foreign scopes", func(m *midway, now int64) []candorv1alpha1.LedgerScope {
			bucket := candorv1alpha1.LedgerBucket{Start: now + 5000, End: now - 5000, Calls: 3, Tokens: 3}
			return []candorv1alpha1.LedgerScope{
				{Name: "ns/" + m.namespace, Buckets: []candorv1alpha1.LedgerBucket{bucket, bucket}},
				{Name: "nonsense", Buckets: []candorv1alpha1.LedgerBucket{{Calls: 1 << 62, Tokens: 1 << 62, CostMicros: 1 << 62}}},
				{Name: candorv1alpha1.LedgerScopeCluster, Buckets: []candorv1alpha1.LedgerBucket{bucket}},
				{Name: candorv1alpha1.LedgerScopeCluster, Buckets: []candorv1alpha1.LedgerBucket{bucket, {}}},
			}
		}, candorv1alpha1.ReasonEnriched),
		Entry("ledger-overflow: sums that no number holds", func(_ *midway, now int64) []candorv1alpha1.LedgerScope {
			most := candorv1alpha1.LedgerBucket{Start: now, End: now + 1, Calls: 1 << 62, Tokens: 1 << 62, CostMicros: 1 << 62}
			return []candorv1alpha1.LedgerScope{{Name: candorv1alpha1.LedgerScopeCluster, Buckets: []candorv1alpha1.LedgerBucket{most, most, most}}}
		}, candorv1alpha1.ReasonBudgetExhausted),
		Entry("ledger-full: 10,000 buckets of other namespaces", func(_ *midway, now int64) []candorv1alpha1.LedgerScope {
			scopes := []candorv1alpha1.LedgerScope{{Name: candorv1alpha1.LedgerScopeCluster}}
			for n := range 400 {
				scope := candorv1alpha1.LedgerScope{Name: fmt.Sprintf("ns/other-%d", n)}
				for b := range int64(25) {
					scope.Buckets = append(scope.Buckets, candorv1alpha1.LedgerBucket{Start: now - 3600*(b+1), End: now - 3600*b, Calls: 1, Tokens: 1})
				}
				scopes = append(scopes, scope)
			}
			return scopes
		}, candorv1alpha1.ReasonEnriched),
	)
})
