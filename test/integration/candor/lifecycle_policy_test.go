// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/kube"
)

func threshold(severity candorv1alpha1.Severity) func(*candorv1alpha1.SignalPolicy) {
	return func(p *candorv1alpha1.SignalPolicy) { p.Spec.MinSeverity = severity }
}

var _ = Describe("A policy", func() {
	var w *world

	BeforeEach(func(ctx SpecContext) {
		w = newWorld(ctx)
		w.apply(ctx, builder.StatefulSet(w.namespace, "web"))
		w.start(ctx)
		w.serving()
	})

	// changes what the policy of the namespace asks for.
	asks := func(ctx SpecContext, change ...func(*candorv1alpha1.SignalPolicy)) {
		GinkgoHelper()
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}, change...))
		w.settle(ctx)
	}

	It("policy-after-reports: takes in the reports that were there before it", func(ctx SpecContext) {
		w.scan(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
		w.settle(ctx)
		Expect(w.findings(ctx)).To(BeEmpty())
		asks(ctx)
		Expect(outcome(w.of(ctx, "web"))()).To(Equal(candorv1alpha1.OutcomeStillPresent))
	})

	It("policy-deleted: puts its Findings out of policy without an event, and they return as they were", func(ctx SpecContext) {
		asks(ctx)
		w.apply(ctx, builder.StatefulSet(w.namespace, "fixed"))
		w.scan(ctx, "fixed", builder.Vulnerabilities(1, "HIGH"))
		w.scan(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
		w.settle(ctx)
		w.scan(ctx, "fixed", []any{})
		w.settle(ctx)
		before := w.of(ctx, "web")()

		cost := w.cost(ctx, func() { w.remove(ctx, builder.Policy(w.namespace, "default", nil)) })
		Expect(cost).To(Equal(kube.Counts{"patch findings": 2, "update findings/status": 2}))
		f := w.of(ctx, "web")()
		Expect(f.Status.VerificationOutcome).To(Equal(candorv1alpha1.OutcomeOutOfPolicy))
		Expect(f.Status.FormerOutcome).To(Equal(candorv1alpha1.OutcomeStillPresent))
		Expect(f.Status.Fingerprint).To(Equal(before.Status.Fingerprint))
		Expect(f.Labels).To(HaveKeyWithValue(candorv1alpha1.LabelOutcome, "excluded"))
		Expect(w.cost(ctx, func() { w.restart(ctx) })).To(BeEmpty())

		asks(ctx)
		after := w.of(ctx, "web")()
		Expect(after.Status.VerificationOutcome).To(Equal(candorv1alpha1.OutcomeStillPresent))
		Expect(after.Status.FormerOutcome).To(BeEmpty())
		Expect(after.Status.TimesRecurred).To(BeZero())
		Expect(after.Spec).To(Equal(before.Spec))
		Expect(outcome(w.of(ctx, "fixed"))()).To(Equal(candorv1alpha1.OutcomeResolved))

		w.scan(ctx, "web", []any{})
		Eventually(w.events(ctx, before.Name)).Should(Equal([]string{candorv1alpha1.ReasonResolved}), "and no event before that")
	})

	It("thresholds changed: a lower one adds to the evidence, a higher one takes away, and neither is a recurrence", func(ctx SpecContext) {
		asks(ctx)
		w.scan(ctx, "web", append(cves("CRITICAL", "CVE-2026-1"), append(cves("HIGH", "CVE-2026-2"), cves("LOW", "CVE-2026-3")...)...))
		w.settle(ctx)
		prints := map[string]string{}
		expect := func(brief string) {
			GinkgoHelper()
			f := w.of(ctx, "web")()
			Expect(f.Status.Brief).To(Equal(brief))
			Expect(f.Status.VerificationOutcome).To(Equal(candorv1alpha1.OutcomeStillPresent))
			Expect(f.Status.TimesRecurred).To(BeZero())
			if known, seen := prints[brief]; seen {
				Expect(f.Status.Fingerprint).To(Equal(known), "the same content has the same fingerprint")
			} else {
				Expect(prints).NotTo(ContainElement(f.Status.Fingerprint), "other content has another")
			}
			prints[brief] = f.Status.Fingerprint
		}
		expect("1 critical, 1 high")
		asks(ctx, threshold(candorv1alpha1.SeverityLow))
		expect("1 critical, 1 high, 1 low")
		w.restart(ctx)
		asks(ctx, threshold(candorv1alpha1.SeverityCritical))
		expect("1 critical")
		asks(ctx)
		expect("1 critical, 1 high")
	})

	It("thresholds changed: a lower one makes Findings of reports that were too mild", func(ctx SpecContext) {
		asks(ctx)
		w.scan(ctx, "web", cves("MEDIUM", "CVE-2026-1"))
		w.settle(ctx)
		Expect(w.of(ctx, "web")()).To(BeNil())
		asks(ctx, threshold(candorv1alpha1.SeverityMedium))
		Expect(w.of(ctx, "web")().Spec.Severity).To(Equal(candorv1alpha1.SeverityMedium))
	})

	DescribeTable("thresholds changed: what is not asked for any more but still reported is out of policy, not resolved",
		func(ctx SpecContext, entries []any, stricter func(*candorv1alpha1.SignalPolicy)) {
			asks(ctx)
			w.scan(ctx, "web", entries)
			w.settle(ctx)
			asks(ctx, stricter)
			Expect(outcome(w.of(ctx, "web"))()).To(Equal(candorv1alpha1.OutcomeOutOfPolicy))
			w.restart(ctx)
			asks(ctx)
			f := w.of(ctx, "web")()
			Expect(f.Status.VerificationOutcome).To(Equal(candorv1alpha1.OutcomeStillPresent))
			Expect(f.Status.TimesRecurred).To(BeZero())
			w.scan(ctx, "web", []any{})
			Eventually(w.events(ctx, f.Name)).Should(Equal([]string{candorv1alpha1.ReasonResolved}), "and no event before that")
		},
		Entry("minSeverity raised", cves("HIGH", "CVE-2026-1"), threshold(candorv1alpha1.SeverityCritical)),
		Entry("onlyFixable turned on", withoutFix(cves("HIGH", "CVE-2026-1")), func(p *candorv1alpha1.SignalPolicy) { p.Spec.OnlyFixable = true }),
	)

	It("unknown-only: unrated entries count as HIGH when it says so", func(ctx SpecContext) {
		w.scan(ctx, "web", cves("UNKNOWN", "CVE-2026-1"))
		asks(ctx)
		Expect(w.of(ctx, "web")()).To(BeNil())
		asks(ctx, func(p *candorv1alpha1.SignalPolicy) { p.Spec.UnknownSeverity = candorv1alpha1.UnknownHigh })
		Expect(w.of(ctx, "web")().Spec.Severity).To(Equal(candorv1alpha1.SeverityHigh))
	})
})
