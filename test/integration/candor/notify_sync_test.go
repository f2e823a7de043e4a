// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/notify"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/sinkserver"
)

const (
	// townsfolk is how many Findings a namespace has at first, and towns how many namespaces there are.
	townsfolk = 100
	towns     = 5
)

// scanCrowd makes the reports of workloads from the first to before the last.
func (w *world) scanCrowd(ctx context.Context, first, last int) {
	GinkgoHelper()
	var work sync.WaitGroup
	numbers := make(chan int)
	for range 4 {
		work.Go(func() {
			defer GinkgoRecover()
			for i := range numbers {
				w.scan(ctx, fmt.Sprintf("app-%03d", i), []any{builder.Vulnerability(fmt.Sprintf("CVE-2026-%05d", i), "package", "HIGH")})
			}
		})
	}
	for i := first; i < last; i++ {
		numbers <- i
	}
	close(numbers)
	work.Wait()
}

var _ = Describe("The first sync", func() {
	It("of 500 Findings in 5 namespaces is one message a namespace and sink, and a later Finding is told of alone", func(ctx SpecContext) {
		w := newWorld(ctx)
		server := withSinks(w)
		all := []*world{w}
		for n := range towns - 1 {
			all = append(all, w.neighbour(ctx, n))
		}
		for _, town := range all {
			town.secret(ctx, "hook", server.URL(sinkserver.Webhook, town.namespace))
			town.secret(ctx, "chat", server.URL(sinkserver.Slack, town.namespace))
			town.grant(ctx, "hook", "chat")
			town.apply(ctx, builder.Policy(town.namespace, "default", []string{"trivy"}, telling(
				fromSecret("hook", candorv1alpha1.SinkWebhook), fromSecret("chat", candorv1alpha1.SinkSlack),
			)))
			town.scanCrowd(ctx, 0, townsfolk/2)
		}
		w.start(ctx)
		for _, town := range all {
			town.wakePolicies = w.wakePolicies
			Eventually(town.state(ctx, "hook")).Should(Equal(candorv1alpha1.SinkWaiting))
			Expect(town.policy(ctx, "default", candorv1alpha1.ConditionNotifying)()).To(HavePrefix("Unknown/FirstSync: Sink hook is told in one message what there is"))
			town.scanCrowd(ctx, townsfolk/2, townsfolk)
		}
		for _, town := range all {
			Eventually(func() int { return len(town.findings(ctx)) }).WithTimeout(patience).Should(Equal(townsfolk))
		}
		w.settle(ctx)
		Expect(server.Requests()).To(BeEmpty())
		for _, town := range all {
			town.synced(ctx)
		}
		Eventually(func() int { return len(server.Requests()) }).Should(Equal(2 * towns))
		for _, town := range all {
			Eventually(town.pending(ctx)).Should(BeEmpty())
		}
		for _, r := range server.Requests(sinkserver.Webhook) {
			Expect(r.Kind).To(Equal("Summary"))
			var told struct{ notify.Summary }
			Expect(json.Unmarshal(r.Body, &told)).To(Succeed())
			Expect(told.Open).To(Equal(townsfolk))
			Expect(told.BySeverity).To(Equal(map[string]int{"HIGH": townsfolk}))
		}
		w.restart(ctx)
		w.scanCrowd(ctx, townsfolk, townsfolk+1)
		Eventually(kindsAt(server, sinkserver.Webhook)).Should(ContainElement("FindingCreated"))
		Eventually(func() int { return len(server.Requests()) }).Should(Equal(2*towns + 2))
		w.settle(ctx)
		Expect(server.Requests()).To(HaveLen(2*towns + 2))
		expectGood(server)
	})

	It("of a namespace without Findings says nothing, and the first one is told of", func(ctx SpecContext) {
		w, server := syncedWorld(ctx)
		Expect(w.sink(ctx, "hook")().Pending).To(BeEmpty())
		w.scan(ctx, "web", builder.Vulnerabilities(1, "HIGH"))
		Eventually(kindsAt(server)).Should(Equal([]string{"FindingCreated"}))
	})

	It("of a sink that comes later is one message too, and disturbs no other", func(ctx SpecContext) {
		w, server := syncedWorld(ctx)
		w.scan(ctx, "web", builder.Vulnerabilities(1, "HIGH"))
		Eventually(kindsAt(server)).Should(Equal([]string{"FindingCreated"}))
		w.secret(ctx, "second", server.URL(sinkserver.CloudEvents))
		w.grant(ctx, "hook", "second")
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}, telling(
			fromSecret("hook", candorv1alpha1.SinkWebhook), fromSecret("second", candorv1alpha1.SinkCloudEvents),
		)))
		Eventually(w.state(ctx, "second")).Should(Equal(candorv1alpha1.SinkWaiting))
		w.synced(ctx)
		Eventually(kindsAt(server)).Should(Equal([]string{"FindingCreated", "dev.candor.policy.summary.v1"}))
		w.scan(ctx, "web", []any{})
		Eventually(kindsAt(server)).Should(ConsistOf("FindingCreated", "dev.candor.policy.summary.v1", "FindingResolved", "FindingResolved"))
	})

	It("of several policies: each sink hears by its own threshold and events, and a sink that goes takes what waits with it", func(ctx SpecContext) {
		w, server := tellingWorld(ctx, atLeast(candorv1alpha1.SeverityLow))
		w.secret(ctx, "strict", server.URL(sinkserver.CloudEvents))
		w.grant(ctx, "hook", "strict")
		w.apply(ctx, builder.Policy(w.namespace, "other", []string{"trivy"}, telling(
			fromSecret("strict", candorv1alpha1.SinkCloudEvents, func(s *candorv1alpha1.Sink) {
				s.MinSeverity, s.Events = candorv1alpha1.SeverityCritical, []candorv1alpha1.EventType{candorv1alpha1.EventCreated}
			}),
		)))
		w.start(ctx)
		w.serving()
		w.synced(ctx)
		Eventually(func() bool {
			w.clock.Step(31 * time.Second)
			w.lookPolicy("other")
			s := w.storedPolicy(ctx, "other").Status.Sinks
			return len(s) == 1 && !s[0].SummarisedAt.IsZero()
		}).Should(BeTrue())
		w.clock.Step(time.Second)
		w.scan(ctx, "web", builder.Vulnerabilities(1, "LOW"))
		w.scan(ctx, "api", builder.Vulnerabilities(1, "CRITICAL"))
		Eventually(outbox(w.of(ctx, "web"))).Should(Equal([]string{"default/hook Created Sent"}))
		Eventually(outbox(w.of(ctx, "api"))).Should(ConsistOf("default/hook Created Sent", "other/strict Created Sent"))
		w.scan(ctx, "api", []any{})
		Eventually(outbox(w.of(ctx, "api"))).Should(ConsistOf("default/hook Created Sent", "other/strict Created Sent", "default/hook Resolved Sent"))

		server.Script(func(*sinkserver.Request) sinkserver.Behaviour { return sinkserver.Status(500) })
		w.scan(ctx, "api", builder.Vulnerabilities(1, "HIGH"))
		Eventually(outbox(w.of(ctx, "api"))).Should(ContainElement("default/hook Recurred Pending"))
		w.remove(ctx, builder.Policy(w.namespace, "default", nil))
		Eventually(func() bool {
			return slices.ContainsFunc(outbox(w.of(ctx, "api"))(), func(line string) bool { return line == "default/hook Recurred Pending" })
		}).Should(BeFalse())
	})
})

// pending returns a function that reads the messages about the policy "default" that are not delivered.
func (w *world) pending(ctx context.Context) func() []string {
	return func() (events []string) {
		for _, s := range w.storedPolicy(ctx, "default").Status.Sinks {
			for _, m := range s.Pending {
				events = append(events, s.Name+" "+string(m.Event))
			}
		}
		return events
	}
}
