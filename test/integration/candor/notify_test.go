// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/sinkserver"
	"github.com/candor-dev/candor/test/kube"
)

var _ = Describe("A Finding", func() {
	It("is told of once by each sink, in its own form, over rescans and restarts", func(ctx SpecContext) {
		w := newWorld(ctx)
		server := withSinks(w)
		var sinks []candorv1alpha1.Sink
		for kind, form := range forms {
			w.secret(ctx, string(form), server.URL(form))
			sinks = append(sinks, fromSecret(string(form), kind))
		}
		w.grant(ctx, "webhook", "slack", "alertmanager", "cloudevents")
		// An address in spec.webhook has no key, and is no secret.
		plain := sinkserver.Start(sinkserver.Options{})
		DeferCleanup(plain.Close)
		appendTo(w.options.Notify.CABundle, plain.CA())
		w.apply(ctx, builder.StatefulSet(w.namespace, "web"), builder.Policy(w.namespace, "default", []string{"trivy"}, func(p *candorv1alpha1.SignalPolicy) {
			telling(sinksNotNamedWebhook(sinks)...)(p)
			p.Spec.Webhook = &candorv1alpha1.Webhook{URL: plain.URL(sinkserver.Legacy)}
		}))
		w.start(ctx)
		w.serving()
		w.synced(ctx)
		w.scan(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
		web := w.of(ctx, "web")
		Eventually(outbox(web)).Should(ConsistOf(
			"default/hook Created Sent", "default/slack Created Sent", "default/alertmanager Created Sent", "default/cloudevents Created Sent", "default/webhook Created Sent",
		))
		for kind, form := range forms {
			Expect(server.Requests(form)).To(HaveLen(1), kind)
		}
		Expect(kindsAt(plain)()).To(Equal([]string{"FindingCreated"}))

		cost := w.cost(ctx, func() { w.rescan(ctx, "web", builder.Vulnerabilities(3, "HIGH")) })
		Expect(cost).To(BeEmpty())
		w.restart(ctx)
		w.clock.Step(time.Minute)
		w.settle(ctx)
		Expect(server.Requests()).To(HaveLen(4))
		Expect(plain.Requests()).To(HaveLen(1))

		w.scan(ctx, "web", []any{})
		Eventually(outbox(web)).Should(ContainElements("default/slack Resolved Sent", "default/webhook Resolved Sent"))
		Eventually(func() int { return len(server.Requests()) }).Should(Equal(8))
		w.scan(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
		Eventually(kindsAt(plain)).Should(Equal([]string{"FindingCreated", "FindingResolved", "FindingRecurred"}))
		Eventually(func() int { return len(server.Requests()) }).Should(Equal(12))
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionNotifying)).Should(HavePrefix("True/Delivering"))
		expectGood(server)
		expectGood(plain)
		Expect(sizeOf(web())).To(BeNumerically("<", 16<<10))
		Expect(w.policy(ctx, "default", candorv1alpha1.ConditionFieldsWithoutEffect)()).To(BeEmpty())
	})

	It("becomes more severe, is muted, and is told of again when the mute ends", func(ctx SpecContext) {
		w, server := tellingWorld(ctx)
		w.start(ctx)
		w.serving()
		w.synced(ctx)
		w.scan(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
		web := w.of(ctx, "web")
		told := kindsAt(server, sinkserver.Webhook)
		Eventually(told).Should(Equal([]string{"FindingCreated"}))
		w.scan(ctx, "web", builder.Vulnerabilities(3, "CRITICAL"))
		Eventually(told).Should(Equal([]string{"FindingCreated", "FindingEscalated"}))
		w.scan(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
		w.settle(ctx)

		w.apply(ctx, builder.Suppression(w.namespace, "accepted", web().Status.Fingerprint, until(w.clock.Now().Add(time.Hour))))
		Eventually(explained(web)).Should(Equal(candorv1alpha1.ExplainedMuted))
		w.scan(ctx, "web", []any{})
		w.settle(ctx)
		w.scan(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
		w.settle(ctx)
		Expect(outcome(web)()).To(Equal(candorv1alpha1.OutcomeRecurred))
		Expect(told()).To(HaveLen(2), "what is muted says nothing")

		w.clock.Step(2 * time.Hour)
		Eventually(outbox(w.looking(web))).Should(ContainElement("default/hook SuppressionEnded Sent"))
		Expect(told()).To(Equal([]string{"FindingCreated", "FindingEscalated", "FindingSuppressionEnded"}))
		expectGood(server)
	})

	It("whose worst entry is muted speaks of the others, and of that one when the mute ends", func(ctx SpecContext) {
		w, server := tellingWorld(ctx)
		w.start(ctx)
		w.serving()
		w.synced(ctx)
		high, critical := builder.Vulnerability("CVE-2026-1", "curl", "HIGH"), builder.Vulnerability("CVE-2026-2", "openssl", "CRITICAL")
		w.scan(ctx, "web", []any{high})
		web := w.of(ctx, "web")
		told := kindsAt(server, sinkserver.Webhook)
		Eventually(told).Should(Equal([]string{"FindingCreated"}))
		w.apply(ctx, builder.Suppression(w.namespace, "openssl", "", ids("CVE-2026-2"), until(w.clock.Now().Add(time.Hour))))
		w.scan(ctx, "web", []any{high, critical})
		Eventually(func() candorv1alpha1.Severity { return web().Spec.Severity }).Should(Equal(candorv1alpha1.SeverityCritical))
		w.settle(ctx)
		Expect(told()).To(HaveLen(1), "the listing says HIGH as before")

		w.clock.Step(2 * time.Hour)
		w.lookAtLines(web(), "openssl")
		Eventually(told).Should(Equal([]string{"FindingCreated", "FindingSuppressionEnded"}))
		Expect(web().Status.ShownSeverity).To(Equal(candorv1alpha1.SeverityCritical))
		expectGood(server)
	})

	It("waits with others for the window, and goes with them", func(ctx SpecContext) {
		w, server := tellingWorld(ctx)
		w.options.Notify.Window = 30 * time.Second
		w.start(ctx)
		w.serving()
		w.synced(ctx)
		for i := range 5 {
			w.apply(ctx, builder.StatefulSet(w.namespace, fmt.Sprint("app-", i)))
			w.scan(ctx, fmt.Sprint("app-", i), builder.Vulnerabilities(i+1, "HIGH"))
		}
		w.settle(ctx)
		Expect(server.Requests()).To(BeEmpty())
		w.clock.Step(30 * time.Second)
		Eventually(func() []*sinkserver.Request { return server.Requests() }).Should(HaveLen(1))
		Expect(server.Requests()[0].Events).To(HaveLen(5))
		expectGood(server)
	})

	It("costs a write for its event, one for its delivery, and none after", func(ctx SpecContext) {
		w, server := tellingWorld(ctx)
		w.start(ctx)
		w.serving()
		w.synced(ctx)
		cost := w.cost(ctx, func() {
			w.scan(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
			Eventually(outbox(w.of(ctx, "web"))).Should(Equal([]string{"default/hook Created Sent"}))
		})
		Expect(cost).To(Equal(kube.Counts{"create findings": 1, "update findings/status": 2}))
		again := w.cost(ctx, func() {
			w.wakeFinding(ctx, w.of(ctx, "web")().Name)
			w.lookPolicy("default")
		})
		Expect(again).To(BeEmpty())
		Expect(server.Requests()).To(HaveLen(1))
	})
})
