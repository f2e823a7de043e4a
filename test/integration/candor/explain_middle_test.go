// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"

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
})
