// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/notify"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/sinkserver"
	"github.com/candor-dev/candor/test/kube"
)

var _ = Describe("Telling people", func() {
	It("goes on after a clock that was a year ahead", func(ctx SpecContext) {
		w, server := tellingWorld(ctx)
		right := w.clock.Now()
		w.clock.SetTime(right.AddDate(1, 0, 0))
		w.start(ctx)
		w.serving()
		w.synced(ctx)
		w.scan(ctx, "web", builder.Vulnerabilities(1, "HIGH"))
		Eventually(outbox(w.of(ctx, "web"))).Should(Equal([]string{"default/hook Created Sent"}))
		server.Script(func(*sinkserver.Request) sinkserver.Behaviour { return sinkserver.Status(500) })
		w.scan(ctx, "web", []any{})
		Eventually(func() bool {
			f := w.of(ctx, "web")()
			return slices.ContainsFunc(f.Status.Notified, func(n candorv1alpha1.Notification) bool {
				return n.Event == candorv1alpha1.EventResolved && n.Attempts == 1
			})
		}).Should(BeTrue())
		w.stop()
		server.Script(nil)

		w.clock.SetTime(right)
		w.secret(ctx, "second", server.URL(sinkserver.CloudEvents))
		w.grant(ctx, "hook", "second")
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}, telling(
			fromSecret("hook", candorv1alpha1.SinkWebhook), fromSecret("second", candorv1alpha1.SinkCloudEvents),
		)))
		w.scan(ctx, "old", builder.Vulnerabilities(1, "CRITICAL"))
		w.start(ctx)
		w.serving()
		Eventually(outbox(w.of(ctx, "web"))).Should(ContainElement("default/hook Resolved Sent"))
		Eventually(outcome(w.of(ctx, "old"))).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		w.synced(ctx)
		Eventually(kindsAt(server, sinkserver.CloudEvents)).Should(Equal([]string{"dev.candor.policy.summary.v1"}))
		w.clock.Step(time.Minute)
		Eventually(outbox(w.looking(w.of(ctx, "old")))).Should(Equal([]string{"default/hook Created Sent"}), "it came while the clock was thought to be right")
		w.scan(ctx, "new", builder.Vulnerabilities(2, "HIGH"))
		Eventually(outbox(w.of(ctx, "new"))).Should(ConsistOf("default/hook Created Sent", "default/second Created Sent"))
		w.clock.Step(aDay)
		w.lookPolicy("default")
		Eventually(kindsAt(server)).Should(ContainElements("Digest", "dev.candor.policy.digest.v1"))
	})

	It("of a policy that is made again while events wait and while it is posted to, ends with all told", func(ctx SpecContext) {
		w, server := syncedWorld(ctx)
		gate := sinkserver.NewGate()
		server.Script(func(*sinkserver.Request) sinkserver.Behaviour { return gate.Then(sinkserver.Status(500)) })
		w.scan(ctx, "web", builder.Vulnerabilities(1, "HIGH"))
		Eventually(gate.Arrived()).Should(Receive())
		w.scan(ctx, "api", builder.Vulnerabilities(1, "HIGH"))
		Eventually(outbox(w.of(ctx, "api"))).Should(Equal([]string{"default/hook Created Pending"}))
		again := func() {
			w.remove(ctx, builder.Policy(w.namespace, "default", nil))
			w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}, telling(fromSecret("hook", candorv1alpha1.SinkWebhook))))
		}
		again()
		Eventually(w.state(ctx, "hook")).ShouldNot(BeEmpty())
		again()
		server.Script(nil)
		gate.Open()
		Eventually(w.state(ctx, "hook")).ShouldNot(BeEmpty())
		w.settle(ctx) // while there was no policy, the Findings were out of it, and a summary counts what is open
		w.synced(ctx)
		Eventually(passing(w, time.Minute, kindsAt(server))).WithPolling(200*time.Millisecond).Should(ContainElement("Summary"), "behind a post that failed")
		waiting := func() (lines []string) {
			for _, name := range []string{"web", "api"} {
				lines = append(lines, outbox(w.looking(w.of(ctx, name)))()...)
			}
			return slices.DeleteFunc(lines, func(line string) bool { return !strings.HasSuffix(line, "Pending") })
		}
		Eventually(passing(w, time.Minute, waiting)).Should(BeEmpty())
		Expect(server.Most()).To(Equal(1), "one post at a time")
		Eventually(w.state(ctx, "hook")).Should(Equal(candorv1alpha1.SinkActive))
		expectGood(server)
	})

	It("of a Finding that comes and goes a hundred times stays bounded, and ends with what is", func(ctx SpecContext) {
		w, server := syncedWorld(ctx)
		server.Script(func(*sinkserver.Request) sinkserver.Behaviour { return sinkserver.Status(503) })
		web := w.of(ctx, "web")
		for n := range 50 {
			w.scan(ctx, "web", builder.Vulnerabilities(1, "HIGH"))
			Eventually(outcome(web)).Should(Or(Equal(candorv1alpha1.OutcomeStillPresent), Equal(candorv1alpha1.OutcomeRecurred)), "%d", n)
			w.scan(ctx, "web", []any{})
			Eventually(outcome(web)).Should(Equal(candorv1alpha1.OutcomeResolved))
			w.clock.Step(36 * time.Second)
		}
		w.settle(ctx)
		Expect(len(web().Status.Notified)).To(BeNumerically("<=", notify.MaxEntries))
		Expect(sizeOf(web())).To(BeNumerically("<", 16<<10))
		tried := len(server.Requests())
		Expect(tried).To(BeNumerically("<", 20), "a lane that fails is posted to by its own backoff")
		server.Script(nil)
		Eventually(passing(w, time.Minute, func() []string {
			return slices.DeleteFunc(outbox(w.looking(web))(), func(line string) bool { return !strings.HasSuffix(line, "Pending") })
		})).Should(BeEmpty())
		told := kindsAt(server)()
		Expect(told[len(told)-1]).To(Equal("FindingResolved"), "the last word is what is")
	})

	It("costs a settled namespace nothing in a day but its digest", func(ctx SpecContext) {
		w, server := syncedWorld(ctx)
		w.scan(ctx, "web", builder.Vulnerabilities(1, "HIGH"))
		Eventually(outbox(w.of(ctx, "web"))).Should(Equal([]string{"default/hook Created Sent"}))
		w.lookPolicy("default")
		w.settle(ctx)
		before, posts := w.writesHere(), len(server.Requests())
		for range 24 {
			w.clock.Step(time.Hour)
			w.lookPolicy("default")
			w.wakeFinding(ctx, w.of(ctx, "web")().Name)
		}
		Eventually(kindsAt(server)).Should(ContainElement("Digest"))
		Eventually(w.pending(ctx)).Should(BeEmpty())
		w.settle(ctx)
		Expect(server.Requests()).To(HaveLen(posts + 1))
		Expect(w.writesHere().Since(before)).To(Equal(kube.Counts{"update signalpolicies/status": 2}))
	})
})

// writesHere counts all writes to the namespace, events aside.
func (w *world) writesHere() kube.Counts {
	counts := kube.Counts{}
	for _, r := range w.counter.Requests() {
		if !r.Reads() && r.Namespace == w.namespace && r.Resource != "events" {
			counts[r.Key()]++
		}
	}
	return counts
}
