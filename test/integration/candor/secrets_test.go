// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/builder"
)

// canary stands for what a report shows of a secret. Wherever it is seen again, a secret could be.
const canary = "sk_live_canary"

func stripe(target string) map[string]any {
	return builder.Secret("stripe-access-token", target, "HIGH", "secret_key: "+canary)
}

var _ = Describe("Secrets in images", func() {
	It("exposed-secret: become Findings that say where and of which kind, and are resolved when they are gone", func(ctx SpecContext) {
		w := newWorld(ctx)
		// No version fixes a secret, so that the filter is none for them.
		w.apply(ctx, builder.StatefulSet(w.namespace, "db"), builder.Policy(w.namespace, "default", []string{signals.ExposedSecrets},
			func(p *candorv1alpha1.SignalPolicy) { p.Spec.OnlyFixable = true }),
			builder.SecretReport(w.namespace, "StatefulSet", "db", "app", []any{stripe("/app/a.yaml"), stripe("/app/b.yaml")}))
		w.start(ctx)
		w.serving(signals.ExposedSecrets)
		f := w.finding(ctx, signals.ExposedSecrets, "StatefulSet", "db", "app")
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		Expect(f().Spec.Summary).To(HavePrefix("2 HIGH exposed secrets in shop/web (container app): stripe-access-token [evidence "))
		kind := "Stripe: Stripe Secret Key"
		Expect(f().Spec.Evidence.Top).To(Equal([]candorv1alpha1.Entry{
			{ID: "stripe-access-token", Severity: "HIGH", Package: "/app/a.yaml", Message: kind},
			{ID: "stripe-access-token", Severity: "HIGH", Package: "/app/b.yaml", Message: kind},
		}))
		w.apply(ctx, builder.SecretReport(w.namespace, "StatefulSet", "db", "app", []any{}))
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeResolved))
	})

	It("canary: are told to nobody: not by a Finding, an event, the log or a question to a model", func(ctx SpecContext) {
		w := newWorld(ctx)
		model := withModel(w)
		log := gbytes.NewBuffer()
		GinkgoWriter.TeeTo(log)
		DeferCleanup(GinkgoWriter.ClearTeeWriters)
		broken := stripe("/app/broken.yaml")
		broken["ruleID"] = ""
		w.apply(ctx, builder.StatefulSet(w.namespace, "db"), builder.Policy(w.namespace, "default", []string{signals.ExposedSecrets}),
			builder.SecretReport(w.namespace, "StatefulSet", "db", "app", []any{stripe("/app/a.yaml")}),
			builder.SecretReport(w.namespace, "StatefulSet", "broken", "app", []any{broken}))
		w.start(ctx)
		f := w.finding(ctx, signals.ExposedSecrets, "StatefulSet", "db", "app")
		Eventually(why(f)).Should(Equal(candorv1alpha1.ReasonEnriched))
		Eventually(w.metric("candor_reports_dropped_total", "provider", signals.ExposedSecrets, "reason", signals.DropMalformed)).Should(Equal(1.0))

		for _, found := range w.findings(ctx) {
			text, err := json.Marshal(found)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(text)).NotTo(ContainSubstring(canary))
		}
		Expect(w.eventNotes(ctx, candorv1alpha1.ReasonEnriched)()).NotTo(ContainElement(ContainSubstring(canary)))
		Expect(model.Journal()).NotTo(BeEmpty())
		for _, call := range model.Journal() {
			Expect(string(call.Body)).NotTo(Or(ContainSubstring(canary), ContainSubstring("/app/")))
			Expect(call.User).To(ContainSubstring("stripe-access-token"))
		}
		Expect(string(log.Contents())).To(ContainSubstring("A report cannot be used"))
		Expect(string(log.Contents())).NotTo(ContainSubstring(canary))
	})
})
