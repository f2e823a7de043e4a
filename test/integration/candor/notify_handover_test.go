// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"runtime"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/sinkserver"
)

// notifiersLeft returns the stacks of goroutines that tell people.
func notifiersLeft() (left []string) {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(stack, "candor.(*Notifier)") {
			left = append(left, stack)
		}
	}
	return left
}

var _ = Describe("A manager that ends while it tells people", func() {
	It("waits, stores what it told, keeps the lease meanwhile, and the next one tells nothing twice", func(ctx SpecContext) {
		w, server := tellingWorld(ctx)
		w.replicated()
		w.start(ctx)
		w.serving()
		w.synced(ctx)
		gate := sinkserver.NewGate()
		server.Script(func(*sinkserver.Request) sinkserver.Behaviour { return gate.Then(sinkserver.Good()) })
		w.scan(ctx, "web", builder.Vulnerabilities(1, "HIGH"))
		web := w.of(ctx, "web")
		Eventually(gate.Arrived()).Should(Receive())
		second := *w
		second.start(ctx)
		DeferCleanup(second.stop)
		before := holder(ctx)()
		first := w.manager
		w.manager = nil
		first.Cancel()
		Consistently(holder(ctx), "3s").Should(Equal(before), "the request runs")
		server.Script(nil)
		gate.Open()
		Eventually(first.Ended).Should(Receive(Succeed()))
		Expect(outbox(web)()).To(Equal([]string{"default/hook Created Sent"}))
		second.serving()
		second.wakeFinding(ctx, web().Name)
		second.lookPolicy("default")
		second.settle(ctx)
		Expect(server.Requests()).To(HaveLen(1))
		second.scan(ctx, "web", []any{})
		Eventually(kindsAt(server)).Should(Equal([]string{"FindingCreated", "FindingResolved"}))
		second.stop()
		Eventually(notifiersLeft).Should(BeEmpty())
	})

	It("and loses its lease: the next leader tells what is not stored, with the same key", func(ctx SpecContext) {
		w, server := tellingWorld(ctx)
		w.replicated()
		process, loseLease := w.losesLease()
		w.start(ctx)
		w.serving()
		w.synced(ctx)
		gate := sinkserver.NewGate()
		server.Queue(gate.Then(sinkserver.Good()))
		w.scan(ctx, "web", builder.Vulnerabilities(1, "HIGH"))
		Eventually(gate.Arrived()).Should(Receive())
		second := *w
		second.meddle = nil
		second.start(ctx)
		DeferCleanup(second.stop)
		loseLease()
		Eventually(w.manager.Ended).WithTimeout(patience).Should(Receive(MatchError(ContainSubstring("leader election lost"))))
		process.die()
		w.manager = nil
		second.serving()
		Eventually(outbox(second.of(ctx, "web"))).Should(Equal([]string{"default/hook Created Sent"}))
		gate.Open()
		Expect(server.Requests()).To(HaveLen(2))
		Expect(server.Requests()[0].Key()).To(Equal(server.Requests()[1].Key()))
		Eventually(second.state(ctx, "hook")).Should(Equal(candorv1alpha1.SinkActive))
	})

	It("leaves what waits for the window to the next one", func(ctx SpecContext) {
		w, server := tellingWorld(ctx)
		w.options.Notify.Window = time.Minute
		w.start(ctx)
		w.serving()
		w.synced(ctx)
		w.scan(ctx, "web", builder.Vulnerabilities(1, "HIGH"))
		Eventually(outbox(w.of(ctx, "web"))).Should(Equal([]string{"default/hook Created Pending"}))
		w.restart(ctx)
		w.settle(ctx)
		Expect(server.Requests()).To(BeEmpty())
		w.clock.Step(time.Minute)
		Eventually(outbox(w.of(ctx, "web"))).Should(Equal([]string{"default/hook Created Sent"}))
		Expect(server.Requests()).To(HaveLen(1))
	})
})
