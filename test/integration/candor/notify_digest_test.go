// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/notify"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/sinkserver"
)

const aDay = 24 * time.Hour

var _ = Describe("A digest", func() {
	// digests returns a function that reads the digests that were told.
	digests := func(server *sinkserver.Server) func() []notify.Digest {
		return func() (all []notify.Digest) {
			for _, r := range server.Requests(sinkserver.Webhook) {
				if r.Kind == "Digest" {
					var d struct{ notify.Digest }
					Expect(json.Unmarshal(r.Body, &d)).To(Succeed())
					all = append(all, d.Digest)
				}
			}
			return all
		}
	}
	// lookAfter lets time pass and has the policy looked at until its status is read by a later pass.
	lookAfter := func(ctx context.Context, w *world, wait time.Duration) {
		GinkgoHelper()
		w.clock.Step(wait)
		w.lookPolicy("default")
		w.settle(ctx)
	}

	It("falls due once a day over a restart, and says what changed", func(ctx SpecContext) {
		w, server := tellingWorld(ctx)
		w.secret(ctx, "alerts", server.URL(sinkserver.Alertmanager))
		w.grant(ctx, "hook", "alerts")
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}, telling(
			fromSecret("hook", candorv1alpha1.SinkWebhook), fromSecret("alerts", candorv1alpha1.SinkAlertmanager),
		)))
		w.start(ctx)
		w.serving()
		w.synced(ctx)
		began := w.sink(ctx, "hook")().LastDigest
		w.scan(ctx, "web", builder.Vulnerabilities(1, "HIGH"))
		w.scan(ctx, "api", builder.Vulnerabilities(1, "CRITICAL"))
		Eventually(outbox(w.of(ctx, "api"))).Should(ConsistOf("default/hook Created Sent", "default/alerts Created Sent"))
		w.scan(ctx, "web", []any{})
		Eventually(outbox(w.of(ctx, "web"))).Should(ContainElement("default/hook Resolved Sent"))
		lookAfter(ctx, w, 23*time.Hour)
		Expect(digests(server)()).To(BeEmpty())
		w.restart(ctx)
		alerts := len(server.Requests(sinkserver.Alertmanager))
		lookAfter(ctx, w, time.Hour)
		Eventually(digests(server)).Should(HaveLen(1))
		d := digests(server)()[0]
		Expect(d.Since).To(BeTemporally("==", began.Time))
		Expect(d.WindowSeconds).To(BeNumerically("~", aDay/time.Second, 120))
		Expect(d).To(And(HaveField("StillPresent", 1), HaveField("Resolved", 1), HaveField("BySeverity", map[string]int{"CRITICAL": 1}),
			HaveField("Changed", notify.Changes{Created: 2, Resolved: 1}), HaveField("ResolvedHeldPercent", ptr.To(100))))
		Eventually(func() int { return len(server.Requests(sinkserver.Alertmanager)) }).Should(Equal(alerts+1), "open Findings are kept alive")
		kept := server.Requests(sinkserver.Alertmanager)[alerts].Events
		Expect(kept).To(HaveExactElements(HaveField("Finding", w.of(ctx, "api")().Name)))

		w.restart(ctx)
		lookAfter(ctx, w, 12*time.Hour)
		Expect(digests(server)()).To(HaveLen(1))
		w.stop()
		w.clock.Step(3 * aDay)
		w.start(ctx)
		w.serving()
		Eventually(digests(server)).Should(HaveLen(2))
		Expect(digests(server)()[1].WindowSeconds).To(BeNumerically(">", 3*aDay/time.Second), "nothing is left out of what happened while the manager was down")
		w.settle(ctx)
		Expect(digests(server)()).To(HaveLen(2))
		expectGood(server)
	})

	It("that cannot be delivered becomes part of the next one", func(ctx SpecContext) {
		w, server := syncedWorld(ctx)
		w.scan(ctx, "web", builder.Vulnerabilities(1, "HIGH"))
		Eventually(outbox(w.of(ctx, "web"))).Should(Equal([]string{"default/hook Created Sent"}))
		server.Script(func(*sinkserver.Request) sinkserver.Behaviour { return sinkserver.Status(500) })
		lookAfter(ctx, w, aDay)
		Eventually(w.state(ctx, "hook")).Should(Equal(candorv1alpha1.SinkFailing))
		Expect(w.pending(ctx)()).To(Equal([]string{"hook Digest"}))
		server.Script(nil)
		w.clock.Step(aDay - time.Minute)
		w.lookPolicy("default")
		Eventually(w.pending(ctx)).Should(BeEmpty())
		Expect(digests(server)()).To(HaveLen(2))
		Eventually(w.state(ctx, "hook")).Should(Equal(candorv1alpha1.SinkActive))
	})

	It("says nothing where there is nothing to say, or where nobody wants one", func(ctx SpecContext) {
		w, server := tellingWorld(ctx)
		w.secret(ctx, "second", server.URL(sinkserver.CloudEvents))
		w.grant(ctx, "hook", "second")
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}, telling(
			fromSecret("hook", candorv1alpha1.SinkWebhook),
			fromSecret("second", candorv1alpha1.SinkCloudEvents, func(s *candorv1alpha1.Sink) { s.Events = []candorv1alpha1.EventType{candorv1alpha1.EventCreated} }),
		)))
		w.start(ctx)
		w.serving()
		w.synced(ctx)
		lookAfter(ctx, w, aDay+time.Hour)
		Eventually(w.pending(ctx)).Should(BeEmpty())
		Expect(server.Requests()).To(BeEmpty())
		w.scan(ctx, "web", builder.Vulnerabilities(1, "HIGH"))
		Eventually(outbox(w.of(ctx, "web"))).Should(ConsistOf("default/hook Created Sent", "default/second Created Sent"))
		lookAfter(ctx, w, aDay+time.Hour)
		Eventually(digests(server)).Should(HaveLen(1))
		Expect(kindsAt(server, sinkserver.CloudEvents)()).To(Equal([]string{"FindingCreated"}))
	})
})

var _ = Describe("A budget that is used up", func() {
	It("is told of once", func(ctx SpecContext) {
		w, server := tellingWorld(ctx, func(p *candorv1alpha1.SignalPolicy) {
			p.Spec.Budget = &candorv1alpha1.Budget{MaxCalls: 1, WindowSeconds: 86400}
		})
		withModel(w)
		w.start(ctx)
		w.serving()
		w.synced(ctx)
		w.scan(ctx, "web", builder.Vulnerabilities(1, "HIGH"))
		Eventually(explained(w.of(ctx, "web"))).Should(Equal(candorv1alpha1.ExplainedTrue))
		w.scan(ctx, "api", builder.Vulnerabilities(2, "HIGH"))
		Eventually(explained(w.of(ctx, "api"))).Should(Equal(candorv1alpha1.ExplainedBudget))
		Eventually(passing(w, time.Second, kindsAt(server))).Should(ContainElement("BudgetExhausted"))
		Eventually(w.pending(ctx)).Should(BeEmpty())
		w.lookPolicy("default")
		w.settle(ctx)
		Expect(kindsAt(server)()).To(ConsistOf("FindingCreated", "FindingCreated", "BudgetExhausted"))
		for _, r := range server.Requests() {
			Expect(string(r.Body)).NotTo(ContainSubstring("hypothes"), "nothing that a model wrote leaves")
		}
		expectGood(server)
	})
})
