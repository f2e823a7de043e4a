// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/llmserver"
)

const (
	// crashRuns is how often the process dies.
	crashRuns = 100
	// crashBudget is how many calls an hour allows: one more than there are Findings to explain.
	crashBudget = 4
)

var crashed = []string{"one", "two", "three"}

// ordeal is a world whose processes die one after the other, each while it explains the Findings of a run.
type ordeal struct {
	*world
	model   *llmserver.Server
	process *mortal
	dice    *rand.Rand
	deaths  int

	mu sync.Mutex
	// asked are the times of the calls.
	asked []time.Time
}

func newOrdeal(ctx context.Context, seed int64) *ordeal {
	GinkgoHelper()
	o := &ordeal{world: newWorld(ctx), dice: rand.New(rand.NewPCG(uint64(seed), 0))}
	o.model = withModel(o.world)
	o.model.Script(func(*llmserver.Call) llmserver.Behaviour {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.asked = append(o.asked, o.clock.Now())
		return nil
	})
	o.apply(ctx, operating(o.model, func(s *candorv1alpha1.OperatingPolicySpec) {
		s.Budget, s.NamespaceBudget = calls(crashBudget, time.Hour), calls(crashBudget, time.Hour)
	}))
	o.apply(ctx, builder.Policy(o.namespace, "default", []string{"trivy"}))
	for _, name := range crashed {
		o.apply(ctx, builder.StatefulSet(o.namespace, name))
	}
	o.process = o.startMortal(ctx)
	o.serving()
	return o
}

// content is what the report of the i-th workload says in a run: the same as that of the others, or something of its own.
func content(run, i int, equal bool) string {
	if equal {
		i = len(crashed)
	}
	return fmt.Sprintf("CVE-2024-%05d", run*(len(crashed)+1)+i)
}

// run gives every workload other content, lets the process die at some write, and brings the next one to the end. What it
// returns reads the Findings that have not come to an end.
func (o *ordeal) run(ctx context.Context, n int) {
	GinkgoHelper()
	o.clock.Step(3 * time.Hour) // the budget is whole again
	before, ids := o.model.Stats(), map[string]string{}
	began, equal := o.clock.Now(), o.dice.IntN(4) == 0
	writes := 5 * len(crashed) // each Finding: shown, marked, recorded; and its call reserved and settled
	if equal {
		writes = 2*len(crashed) + 3
	}
	o.process.dieAt(1+o.dice.IntN(writes), o.dice.IntN(2) == 0)
	for i, name := range crashed {
		ids[name] = content(n, i, equal)
		o.scan(ctx, name, []any{builder.Vulnerability(ids[name], "package", "HIGH")})
	}
	open := func(ends func(*candorv1alpha1.Finding) bool) func() []string {
		return func() (open []string) {
			for name, id := range ids {
				f := o.of(ctx, name)()
				if f == nil || !strings.Contains(f.Spec.Summary, id) || f.Status.Fingerprint != signals.Fingerprint(signals.Of(f)) || !ends(f) {
					open = append(open, name)
				}
			}
			return open
		}
	}
	Eventually(func() bool { return o.process.isDead() || len(open(explains)()) == 0 }).WithPolling(10 * time.Millisecond).Should(BeTrue())
	if o.process.isDead() {
		o.deaths++
		o.abandon()
		o.clock.Step(orphaned)
		o.process = o.startMortal(ctx)
	}
	rests := func(f *candorv1alpha1.Finding) bool {
		return explains(f) || why(func() *candorv1alpha1.Finding { return f })() == candorv1alpha1.ReasonBudgetExhausted
	}
	Eventually(open(rests)).WithPolling(10*time.Millisecond).Should(BeEmpty(), "neither explained nor out of budget")
	o.expectSpent(ctx, before, began)
	if len(open(explains)()) > 0 {
		o.clock.Step(3 * time.Hour)
		for name := range ids {
			o.look(o.of(ctx, name)())
		}
		Eventually(open(explains)).WithPolling(10*time.Millisecond).Should(BeEmpty(), "not explained")
	}
	for key, count := range o.model.Stats().ByKey {
		Expect(count).To(BeNumerically("<=", 2), key)
	}
}

// expectSpent says that the budget of the hour was kept, and that the Ledger holds no less than what the server was asked and
// billed in it.
func (o *ordeal) expectSpent(ctx context.Context, before llmserver.Stats, began time.Time) {
	GinkgoHelper()
	stats := o.model.Stats()
	calls, tokens := stats.Calls-before.Calls, stats.InputTokens+stats.OutputTokens-before.InputTokens-before.OutputTokens
	Expect(calls).To(BeNumerically("<=", crashBudget))
	for _, scope := range []string{candorv1alpha1.LedgerScopeCluster, candorv1alpha1.LedgerScopeNamespace(o.namespace)} {
		var spent candorv1alpha1.LedgerBucket
		for _, s := range storedLedger(ctx).Status.Scopes {
			for _, b := range s.Buckets {
				if s.Name == scope && b.End > began.Unix() {
					spent.Calls, spent.Tokens = spent.Calls+b.Calls, spent.Tokens+b.Tokens
				}
			}
		}
		Expect(spent.Calls).To(BeNumerically(">=", calls), scope)
		Expect(spent.Calls).To(BeNumerically("<=", crashBudget), scope)
		Expect(spent.Tokens).To(BeNumerically(">=", tokens), scope)
	}
}

var _ = Describe("A process that dies while it explains", func() {
	It("G8: pays at most once more for a request, keeps the budget and the Ledger, and the next one explains everything", func(ctx SpecContext) {
		seed := GinkgoRandomSeed()
		o := newOrdeal(ctx, seed)
		for n := range crashRuns {
			By(fmt.Sprintf("run %d of seed %d", n, seed))
			o.run(ctx, n)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		for i, at := range o.asked {
			last := i
			for last < len(o.asked) && o.asked[last].Before(at.Add(time.Hour)) {
				last++
			}
			Expect(last-i).To(BeNumerically("<=", crashBudget), "calls in the hour from %s", at)
		}
		stats := o.model.Stats()
		GinkgoWriter.Printf("seed %d: %d deaths in %d runs, %d requests, %d calls\n", seed, o.deaths, crashRuns, len(stats.ByKey), stats.Calls)
		Expect(o.deaths).To(BeNumerically(">", crashRuns/2))
	})
})
