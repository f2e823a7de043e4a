// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/sinkserver"
)

// courier is a world whose processes die one after the other, each while it tells two sinks of the Findings of a run.
type courier struct {
	*world
	server  *sinkserver.Server
	process *mortal
	dice    *rand.Rand
	deaths  map[string]int

	mu sync.Mutex
	// killAt counts the requests up to the one that the process does not survive, and answers says whether that is still taken.
	killAt  int
	answers bool
}

func newCourier(ctx context.Context, seed int64) *courier {
	GinkgoHelper()
	w := newWorld(ctx)
	c := &courier{world: w, server: withSinks(w), dice: rand.New(rand.NewPCG(uint64(seed), 1)), deaths: map[string]int{}}
	c.secret(ctx, "hook", c.server.URL(sinkserver.Webhook))
	c.secret(ctx, "events", c.server.URL(sinkserver.CloudEvents))
	c.grant(ctx, "hook", "events")
	c.apply(ctx, builder.Policy(c.namespace, "default", []string{"trivy"}, telling(
		fromSecret("hook", candorv1alpha1.SinkWebhook), fromSecret("events", candorv1alpha1.SinkCloudEvents),
	)))
	for _, name := range crashed {
		c.apply(ctx, builder.StatefulSet(c.namespace, name))
	}
	c.server.Script(func(*sinkserver.Request) sinkserver.Behaviour {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.killAt == 0 {
			return nil
		}
		if c.killAt--; c.killAt > 0 {
			return nil
		}
		c.process.die()
		if c.answers {
			return sinkserver.Good()
		}
		return sinkserver.Drop()
	})
	c.process = c.startMortal(ctx)
	c.serving()
	c.synced(ctx)
	return c
}

// doom says where the process of this run dies: at a write of a status, before or after it is stored, or at a request to a sink,
// before or after it is answered.
func (c *courier) doom() (where string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	after := c.dice.IntN(2) == 0
	if c.dice.IntN(2) == 0 {
		// Each Finding stores its event, and what became of it for either sink.
		c.process.dieAt(1+c.dice.IntN(2*len(crashed)+1), after)
		return fmt.Sprintf("a write, stored %t", after)
	}
	c.killAt, c.answers = 1+c.dice.IntN(len(crashed)+1), after
	return fmt.Sprintf("a request, answered %t", after)
}

// run ends or brings back every Finding, lets the process die meanwhile, and lets the next one bring everything to its end.
func (c *courier) run(ctx context.Context, n int) {
	GinkgoHelper()
	c.clock.Step(time.Minute)
	where := c.doom()
	entries := []any{}
	if n%2 == 0 {
		entries = builder.Vulnerabilities(1, "HIGH")
	}
	for _, name := range crashed {
		c.scan(ctx, name, entries)
	}
	untold := func() (untold []string) {
		for _, name := range crashed {
			f := c.of(ctx, name)()
			if f == nil || f.Status.VerificationOutcome != expected(n) || len(f.Status.Notified) == 0 || slices.ContainsFunc(f.Status.Notified, untoldYet) {
				untold = append(untold, name)
			}
		}
		return untold
	}
	Eventually(func() bool { return c.process.isDead() || len(untold()) == 0 }).WithPolling(10 * time.Millisecond).Should(BeTrue())
	if c.process.isDead() {
		c.deaths[where]++
		c.abandon()
		c.mu.Lock()
		c.killAt = 0
		c.mu.Unlock()
		c.clock.Step(time.Minute)
		c.process = c.startMortal(ctx)
	}
	c.process.dieAt(0, false)
	c.mu.Lock()
	c.killAt = 0
	c.mu.Unlock()
	looked := func() []string {
		left := untold()
		for _, name := range left {
			if f := c.of(ctx, name)(); f != nil {
				c.clock.Step(31 * time.Second)
				c.look(f)
			}
		}
		return left
	}
	Eventually(looked).WithPolling(50*time.Millisecond).Should(BeEmpty(), "not told, after it died at %s", where)
}

// expected is the outcome of a run.
func expected(n int) candorv1alpha1.Outcome {
	switch {
	case n == 0:
		return candorv1alpha1.OutcomeStillPresent
	case n%2 == 0:
		return candorv1alpha1.OutcomeRecurred
	default:
		return candorv1alpha1.OutcomeResolved
	}
}

// untoldYet matches an entry of an outbox that was not delivered.
func untoldYet(n candorv1alpha1.Notification) bool { return n.State != candorv1alpha1.NotificationSent }

var _ = Describe("A process that dies while it tells people", func() {
	It("loses nothing, and what it tells twice has the same key", func(ctx SpecContext) {
		seed := GinkgoRandomSeed()
		c := newCourier(ctx, seed)
		for n := range crashRuns {
			By(fmt.Sprintf("run %d of seed %d", n, seed))
			c.run(ctx, n)
		}
		expectGood(c.server)
		total := 0
		for _, form := range []sinkserver.Form{sinkserver.Webhook, sinkserver.CloudEvents} {
			told := map[string]int{}
			events := map[string]sinkserver.Event{}
			for _, r := range c.server.Requests(form) {
				for _, e := range r.Events {
					told[e.Key]++
					if known, again := events[e.Key]; again {
						Expect(e).To(Equal(known))
					}
					events[e.Key] = e
				}
				total++
			}
			Expect(told).To(HaveLen(crashRuns*len(crashed)), "one key for each event of each Finding")
		}
		deaths := 0
		for _, n := range c.deaths {
			deaths += n
		}
		GinkgoWriter.Printf("seed %d: %d deaths in %d runs, %v, %d requests\n", seed, deaths, crashRuns, c.deaths, total)
		Expect(deaths).To(BeNumerically(">", crashRuns/2))
		Expect(c.deaths).To(HaveLen(4))
	})
})
