// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

var seed = flag.Uint64("budget.seed", 0, "seed of the random sequences; 0 takes another each time")

// random returns numbers whose seed is printed when the test fails.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-budget.seed=%d repeats this", s)
	return rand.New(rand.NewPCG(s, 0))
}

// spending is a call that the oracle remembers.
type spending struct {
	namespace string
	at        time.Time
	cost      Cost
	receipt   Receipt
	open      bool
}

// world is a Ledger, and an oracle beside it that forgets nothing.
type world struct {
	t         *testing.T
	r         *rand.Rand
	now       time.Time
	ledger    *candorv1alpha1.LedgerStatus
	calls     []*spending
	cluster   *candorv1alpha1.OperatingPolicy
	payers    map[string]*candorv1alpha1.SignalPolicy
	windows   []int32
	allowed   int
	denied    int
	mostScope int
}

// spent returns what was truly spent in the window that ends now, to the nanosecond.
func (w *world) spent(scope string, window time.Duration) Cost {
	var sum Cost
	for _, c := range w.calls {
		if c.at.Add(window).After(w.now) && (scope == "cluster" || scope == "ns/"+c.namespace) {
			sum = sum.plus(c.cost)
		}
	}
	return sum
}

func (w *world) anyWindow() int32 { return w.windows[w.r.IntN(len(w.windows))] }

func (w *world) changePolicy(namespace string) {
	switch w.r.IntN(6) {
	case 0:
		w.cluster = nil
	case 1, 2:
		budget := &candorv1alpha1.CostBudget{MaxCalls: new(w.r.Int32N(60)), MaxTokens: new(w.r.Int64N(60_000)), MaxCostMicros: new(w.r.Int64N(6000)), WindowSeconds: w.anyWindow()}
		w.cluster = &candorv1alpha1.OperatingPolicy{Spec: candorv1alpha1.OperatingPolicySpec{Budget: budget, NamespaceBudget: budget}}
	case 3:
		delete(w.payers, namespace)
	default:
		w.payers[namespace] = paying(&candorv1alpha1.Budget{MaxCalls: w.r.Int32N(12), WindowSeconds: w.anyWindow()})
	}
}

func (w *world) reserve(namespace string) {
	cluster, own := Cluster(w.cluster), Namespace(w.cluster, w.payers[namespace])
	if w.windows[0] > daySeconds && w.cluster == nil {
		// A scope remembers the windows in which it was spent. What is spent in a shorter one only is not kept for longer.
		return
	}
	cost := Cost{1, w.r.Int64N(4000), w.r.Int64N(400)}
	receipt, denial := Reserve(w.ledger, namespace, cluster, own, cost, w.now)
	if denial != nil {
		w.denied++
		if !denial.Free.IsZero() && !denial.Free.After(w.now) {
			w.t.Fatalf("denied at %v, and free since %v", w.now, denial.Free)
		}
		return
	}
	w.allowed++
	w.calls = append(w.calls, &spending{namespace, w.now, cost, receipt, true})
	for scope, c := range map[string]Ceiling{"cluster": cluster, "ns/" + namespace: own} {
		if spent := w.spent(scope, c.Window); c.lacking(Cost{}, spent) != "" {
			w.t.Fatalf("%s spent %+v of %v at %v", scope, spent, c, w.now)
		}
	}
}

// settle corrects one of the calls that run: to less, to more, to nothing, once or several times.
func (w *world) settle() {
	for _, i := range w.r.Perm(len(w.calls)) {
		c := w.calls[i]
		if !c.open {
			continue
		}
		actual := [...]Cost{{}, c.cost, {1, w.r.Int64N(8000), w.r.Int64N(800)}}[w.r.IntN(3)]
		for range 1 + w.r.IntN(3) {
			c.receipt = Settle(w.ledger, c.receipt, actual)
		}
		c.cost, c.open = actual, w.r.IntN(4) == 0
		return
	}
}

func (w *world) prune() {
	Prune(w.ledger, Cluster(w.cluster), func(namespace string) time.Duration {
		return Namespace(w.cluster, w.payers[namespace]).Window
	}, w.now)
}

// compare asserts that no scope counts less than the oracle knows.
func (w *world) compare(namespaces []string) {
	windows := map[string]time.Duration{"cluster": Cluster(w.cluster).Window}
	for _, namespace := range namespaces {
		windows["ns/"+namespace] = Namespace(w.cluster, w.payers[namespace]).Window
	}
	for scope, window := range windows {
		used, spent := Used(w.ledger, scope, window, w.now), w.spent(scope, window)
		if used.Calls < spent.Calls || used.Tokens < spent.Tokens || used.CostMicros < spent.CostMicros {
			w.t.Fatalf("%s counts %+v in %v at %v, and spent %+v", scope, used, window, w.now, spent)
		}
	}
	if n := bucketsOf(w.ledger); n > maxEntries {
		w.t.Fatalf("%d buckets", n)
	}
	w.mostScope = max(w.mostScope, len(w.ledger.Scopes))
}

func TestNoSlidingWindowEverHoldsMoreThanTheCeiling(t *testing.T) {
	for name, windows := range map[string][]int32{
		"windows up to a day": {60, 61, 600, 3600, 5000, 86_399, 86_400},
		"windows of a week":   {604_800},
	} {
		t.Run(name, func(t *testing.T) {
			r := random(t)
			allowed, denied := 0, 0
			for range 60 {
				w := &world{t: t, r: r, now: noon, ledger: status(), payers: map[string]*candorv1alpha1.SignalPolicy{}, windows: windows}
				if windows[0] > daySeconds {
					w.cluster = operating(candorv1alpha1.CostBudget{WindowSeconds: windows[0]})
				}
				w.run()
				allowed, denied = allowed+w.allowed, denied+w.denied
			}
			t.Logf("%d reserved, %d denied", allowed, denied)
			if allowed < 100 || denied < 100 {
				t.Errorf("%d reserved and %d denied prove nothing", allowed, denied)
			}
		})
	}
}

func (w *world) run() {
	var namespaces []string
	for i := range 1 + w.r.IntN(40) {
		namespaces = append(namespaces, fmt.Sprint("team-", i))
		w.payers[namespaces[i]] = paying(&candorv1alpha1.Budget{MaxCalls: 1 + w.r.Int32N(12), WindowSeconds: w.anyWindow()})
	}
	for range 600 {
		namespace := namespaces[w.r.IntN(len(namespaces))]
		switch n := w.r.IntN(100); {
		case n < 45:
			w.reserve(namespace)
		case n < 70:
			w.settle()
		case n < 90:
			w.advance()
		case n < 95:
			w.prune()
		default:
			w.changePolicy(namespace)
		}
		w.compare(namespaces)
	}
}

// advance moves the clock on by anything from nothing to two days, mostly by little. A receipt is good for a day.
func (w *world) advance() {
	steps := []time.Duration{time.Millisecond, time.Second, 3 * time.Second, time.Minute, time.Hour, 6 * time.Hour, 48 * time.Hour}
	w.now = w.now.Add(time.Duration(w.r.Int64N(int64(steps[w.r.IntN(len(steps))]))))
	for _, c := range w.calls {
		c.open = c.open && w.now.Sub(c.at) < 24*time.Hour
	}
}

func TestMergingAndPuttingInOrderNeverCountLess(t *testing.T) {
	r := random(t)
	for range 3000 {
		l := anyLedger(r)
		windows := []time.Duration{time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}
		var times []time.Time
		for range 8 {
			times = append(times, noon.Add(time.Duration(r.Int64N(20*86400)-10*86400)*time.Second))
		}
		before := l.DeepCopy()
		inOrder(l).shrink()
		for _, window := range windows {
			for _, now := range times {
				was, is := Used(before, "cluster", window, now), Used(l, "cluster", window, now)
				if is.minus(was).plus(was) != is {
					t.Fatalf("%v of %v at %v: %+v became %+v", l, window, now, was, is)
				}
			}
		}
		if !slices.IsSortedFunc(l.Scopes, byName) || len(l.Scopes) > 0 && len(l.Scopes[0].Buckets) > maxBuckets {
			t.Fatalf("%v is not in order", l)
		}
	}
}

// anyLedger returns one that somebody edited.
func anyLedger(r *rand.Rand) *candorv1alpha1.LedgerStatus {
	l := status()
	for range 1 + r.IntN(3) {
		s := scope([]string{"cluster", "cluster", "ns/team-a"}[r.IntN(3)])
		for range r.IntN(60) {
			start := r.Int64N(20*86400) - 10*86400
			s.Buckets = append(s.Buckets, at(start, start+r.Int64N(20_000)-2000, Cost{r.Int64N(20) - 2, r.Int64N(2000) - 200, r.Int64()}))
		}
		l.Scopes = append(l.Scopes, s)
	}
	return l
}

func TestSettlingNeverTakesFromWhatOthersSpent(t *testing.T) {
	r := random(t)
	for range 300 {
		l, now := status(), noon
		ceiling := Ceiling{Calls: 1 << 40, Tokens: 1 << 40, CostMicros: 1 << 40, Window: []time.Duration{time.Minute, time.Hour, 24 * time.Hour}[r.IntN(3)]}
		var others []*spending
		var mine []Receipt
		for range 150 {
			now = now.Add(time.Duration(r.Int64N(int64(ceiling.Window / 8))))
			cost := Cost{1, 1 + r.Int64N(1000), r.Int64N(100)}
			receipt, denial := Reserve(l, "team-a", ceiling, ceiling, cost, now)
			if denial != nil {
				t.Fatal(denial)
			}
			if r.IntN(2) == 0 {
				mine = append(mine, receipt)
			} else {
				others = append(others, &spending{"team-a", now, cost, receipt, false})
			}
			if r.IntN(10) == 0 {
				Prune(l, ceiling, windowsOf(ceiling.Window), now)
			}
			if len(mine) > 0 && r.IntN(3) == 0 {
				i := r.IntN(len(mine))
				mine[i] = Settle(l, mine[i], Cost{})
			}
		}
		for _, receipt := range mine {
			Settle(l, receipt, Cost{})
		}
		w := &world{now: now, calls: others}
		used, spent := Used(l, "ns/team-a", ceiling.Window, now), w.spent("ns/team-a", ceiling.Window)
		if used.minus(spent).plus(spent) != used {
			t.Fatalf("others spent %+v, and %+v counts", spent, used)
		}
	}
}
