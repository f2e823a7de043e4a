// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/notify"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/sinkserver"
)

// first returns the first entry of a Finding's outbox.
func first(f func() *candorv1alpha1.Finding) func() candorv1alpha1.Notification {
	return func() candorv1alpha1.Notification {
		if found := f(); found != nil && len(found.Status.Notified) > 0 {
			return found.Status.Notified[0]
		}
		return candorv1alpha1.Notification{}
	}
}

var _ = Describe("A sink", func() {
	var (
		w      *world
		server *sinkserver.Server
		web    func() *candorv1alpha1.Finding
	)

	BeforeEach(func(ctx SpecContext) {
		w, server = tellingWorld(ctx)
		w.sinkTimeout = 500 * time.Millisecond
	})

	start := func(ctx context.Context) {
		GinkgoHelper()
		web = w.of(ctx, "web")
		w.start(ctx)
		w.serving()
	}
	begin := func(ctx context.Context) {
		GinkgoHelper()
		start(ctx)
		w.synced(ctx)
	}
	failing := func(ctx context.Context, message string) {
		GinkgoHelper()
		Eventually(w.state(ctx, "hook")).Should(Equal(candorv1alpha1.SinkFailing))
		Expect(w.sink(ctx, "hook")().Message).To(Equal(message))
		Expect(w.policy(ctx, "default", candorv1alpha1.ConditionNotifying)()).To(Equal(
			"False/SinkFailing: Sink hook does not take what it is sent, which is tried again. " + message))
		Eventually(w.eventNotes(ctx, candorv1alpha1.ReasonSinkFailing)).Should(ContainElement(ContainSubstring(message)))
	}

	DescribeTable("that fails is tried again, with the same key, and says so meanwhile",
		func(ctx SpecContext, behaviour sinkserver.Behaviour, message string, wait time.Duration) {
			begin(ctx)
			server.Script(func(*sinkserver.Request) sinkserver.Behaviour { return behaviour })
			w.scan(ctx, "web", builder.Vulnerabilities(1, "HIGH"))
			failing(ctx, message)
			Eventually(first(web)).Should(HaveField("Attempts", int32(1)))
			Expect(first(web)().NextAttempt.Sub(w.clock.Now())).To(BeNumerically("~", wait, time.Second))
			Expect(outcome(web)()).To(Equal(candorv1alpha1.OutcomeStillPresent))
			tries := len(server.Requests())
			w.clock.Step(wait - 2*time.Second)
			w.wakeFinding(ctx, web().Name)
			Expect(server.Requests()).To(HaveLen(tries), "too early")
			server.Script(nil)
			w.clock.Step(3 * time.Second)
			Eventually(outbox(w.looking(web))).Should(Equal([]string{"default/hook Created Sent"}))
			Eventually(w.state(ctx, "hook")).Should(Equal(candorv1alpha1.SinkActive))
			for _, r := range server.Requests() {
				Expect(r.Key()).To(Equal(server.Requests()[0].Key()))
				Expect(sinkserver.Keys([]*sinkserver.Request{r})).To(Equal(sinkserver.Keys(server.Requests()[:1])))
			}
			expectGood(server)
		},
		Entry("429 with Retry-After", sinkserver.RateLimited("120"), "It answers 429 Too Many Requests.", 2*time.Minute),
		Entry("500", sinkserver.Status(500), "It answers 500 Internal Server Error.", 30*time.Second),
		Entry("no answer", sinkserver.Hang(), "It did not answer within 500ms.", 30*time.Second),
		Entry("a lost connection", sinkserver.Drop(), "The connection to it failed.", 30*time.Second),
		Entry("a redirect to the metadata of a cloud", sinkserver.Redirect("http://169.254.169.254/latest/meta-data/"),
			"It redirects, which is not followed: use the address that answers itself.", 30*time.Second),
	)

	It("that hangs holds no reconciliation and no other sink", func(ctx SpecContext) {
		w.sinkTimeout = 10 * time.Second
		w.secret(ctx, "second", server.URL(sinkserver.CloudEvents))
		w.grant(ctx, "hook", "second")
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}, telling(
			fromSecret("hook", candorv1alpha1.SinkWebhook), fromSecret("second", candorv1alpha1.SinkCloudEvents),
		)))
		begin(ctx)
		gate := sinkserver.NewGate()
		server.Script(func(r *sinkserver.Request) sinkserver.Behaviour {
			if r.Form == sinkserver.Webhook {
				return gate.Then(sinkserver.Good())
			}
			return nil
		})
		w.scan(ctx, "web", builder.Vulnerabilities(1, "HIGH"))
		Eventually(gate.Arrived()).Should(Receive())
		w.scan(ctx, "web", []any{})
		Eventually(outcome(web)).Should(Equal(candorv1alpha1.OutcomeResolved))
		Eventually(outbox(web)).Should(ConsistOf(
			"default/hook Created Pending", "default/second Created Sent", "default/hook Resolved Pending", "default/second Resolved Sent"))
		Expect(server.Requests(sinkserver.Webhook)).To(HaveLen(1), "one at a time")
		gate.Open()
		Eventually(kindsAt(server, sinkserver.Webhook)).Should(Equal([]string{"FindingCreated", "FindingResolved"}))
		Expect(server.Most()).To(Equal(1))
	})

	It("whose Secret is renewed is posted to at its new address", func(ctx SpecContext) {
		begin(ctx)
		server.Script(func(r *sinkserver.Request) sinkserver.Behaviour {
			if r.Path != "/webhook/new" {
				return sinkserver.Status(410)
			}
			return nil
		})
		w.scan(ctx, "web", builder.Vulnerabilities(1, "HIGH"))
		failing(ctx, "It answers 410 Gone.")
		Eventually(first(web)).Should(HaveField("Attempts", int32(1)))
		w.secret(ctx, "hook", server.URL(sinkserver.Webhook, "new"))
		w.clock.Step(31 * time.Second)
		Eventually(outbox(w.looking(web))).Should(Equal([]string{"default/hook Created Sent"}))
	})

	It("that nothing can be sent to says why at once, and is told when that is mended", func(ctx SpecContext) {
		w.lacksRights = true
		w.grant(ctx, "another")
		start(ctx)
		Eventually(w.state(ctx, "hook")).Should(Equal(candorv1alpha1.SinkMisconfigured))
		Expect(w.sink(ctx, "hook")().Message).To(And(
			HavePrefix("urlFrom: Candor may not read Secret hook. Unless its name is wrong: kubectl -n "+w.namespace+" create role candor-hook --verb=get --resource=secrets --resource-name=hook"),
			HaveSuffix("--serviceaccount="+system+":"+sinkAccount)))
		w.synced(ctx)
		w.scan(ctx, "web", builder.Vulnerabilities(1, "HIGH"))
		Eventually(outbox(web)).Should(Equal([]string{"default/hook Created Pending"}))
		Expect(first(web)().Attempts).To(BeZero())
		w.grant(ctx, "hook")
		recheck := func() []string {
			w.clock.Step(time.Minute)
			return outbox(web)()
		}
		Eventually(recheck).WithPolling(200 * time.Millisecond).Should(Equal([]string{"default/hook Created Sent"}))
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionNotifying)).Should(Equal("True/Delivering: Sink hook is told."))
		Eventually(w.eventNotes(ctx, candorv1alpha1.ReasonSinkMisconfigured)).ShouldNot(BeEmpty())
	})

	DescribeTable("whose address leads nowhere good is posted nothing",
		func(ctx SpecContext, address, message string) {
			w.secret(ctx, "hook", address)
			start(ctx)
			Eventually(w.state(ctx, "hook")).Should(Equal(candorv1alpha1.SinkMisconfigured))
			Expect(w.sink(ctx, "hook")().Message).To(HavePrefix(message))
			Expect(server.Requests()).To(BeEmpty())
		},
		Entry("a private address", "https://10.0.0.1/hook", "Its address is in a network that is closed"),
		Entry("the metadata of a cloud", "http://169.254.169.254/latest", "Its address is in a network that is closed"),
		Entry("no address", "hooks.slack.com", "urlFrom: what it holds is no address"),
		Entry("another scheme", "file:///etc/passwd", "urlFrom: what it holds is no address"),
	)

	It("that could not be told for a day is not told any more, and somebody hears of that", func(ctx SpecContext) {
		begin(ctx)
		server.Script(func(*sinkserver.Request) sinkserver.Behaviour { return sinkserver.Status(503) })
		w.scan(ctx, "web", builder.Vulnerabilities(1, "HIGH"))
		Eventually(first(web)).Should(HaveField("Attempts", int32(1)))
		w.clock.Step(notify.Patience)
		Eventually(outbox(w.looking(web))).Should(Equal([]string{"default/hook Created Failed"}))
		Eventually(w.eventNotes(ctx, candorv1alpha1.EventNotificationLost)).Should(ContainElement(
			"Sink hook could not be told of an event Created for 24h0m0s, and is not told any more."))
		Expect(w.metric("candor_notifications_total", "sink_type", "Webhook", "event", "Created", "outcome", "lost")()).To(Equal(1.0))
		Expect(w.metric("candor_notifications_pending")()).To(BeZero())
		Expect(w.metric("candor_notification_sinks", "sink_type", "Webhook", "state", "Failing")()).To(Equal(1.0))
	})
})
