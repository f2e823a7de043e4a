// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

const hour = int64(3600)

var (
	// noon is a multiple of each width that the tests use.
	noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	one  = Cost{Calls: 1, Tokens: 100, CostMicros: 10}
	wide = Ceiling{Calls: 1000, Tokens: 1_000_000, CostMicros: NoCeiling, Window: 24 * time.Hour}
)

func calls(n int64) Ceiling {
	return Ceiling{Calls: n, Tokens: 1_000_000, CostMicros: NoCeiling, Window: 24 * time.Hour}
}

// at returns a bucket that starts some seconds after noon.
func at(start, end int64, cost Cost) candorv1alpha1.LedgerBucket {
	return bucket(noon.Unix()+start, noon.Unix()+end, cost)
}

func status(scopes ...candorv1alpha1.LedgerScope) *candorv1alpha1.LedgerStatus {
	return &candorv1alpha1.LedgerStatus{Scopes: scopes}
}

func scope(name string, buckets ...candorv1alpha1.LedgerBucket) candorv1alpha1.LedgerScope {
	return candorv1alpha1.LedgerScope{Name: name, Buckets: buckets}
}

func TestAReservationIsWrittenInBothScopes(t *testing.T) {
	g := NewWithT(t)
	l := status()
	week := Ceiling{Calls: 10, Tokens: 1000, CostMicros: NoCeiling, Window: 7 * 24 * time.Hour}
	_, denial := Reserve(l, "team-a", wide, week, one, noon.Add(61*time.Minute))
	g.Expect(denial).To(BeNil())
	_, denial = Reserve(l, "team-a", wide, wide, one, noon.Add(119*time.Minute))
	g.Expect(denial).To(BeNil())
	start := noon.Unix() - noon.Unix()%(7*hour)
	remembering := scope("ns/team-a", at(hour, 2*hour, one), bucket(start, start+7*hour, one))
	remembering.WindowSeconds = 7 * 24 * hour
	g.Expect(l).To(Equal(status(scope("cluster", at(hour, 2*hour, Cost{2, 200, 20})), remembering)))
}

func TestADenialSaysWhoseCeilingWhatLacksAndWhenItFrees(t *testing.T) {
	spent := func() *candorv1alpha1.LedgerStatus {
		return status(
			scope("cluster", at(-10*hour, -9*hour, Cost{2, 200, 20}), at(-2*hour, -hour, Cost{3, 300, 30})),
			scope("ns/team-a", at(-10*hour, -9*hour, Cost{2, 200, 20}), at(-2*hour, -hour, Cost{1, 100, 10})),
		)
	}
	day := 24 * time.Hour
	for name, test := range map[string]struct {
		cluster, own Ceiling
		cost         Cost
		want         *Denial
	}{
		"what fits exactly is allowed":                         {calls(6), calls(4), one, nil},
		"the cluster is asked first":                           {calls(5), calls(3), one, &Denial{"cluster", UnitCalls, noon.Add(15 * time.Hour)}},
		"the namespace is asked second":                        {calls(6), calls(3), one, &Denial{"ns/team-a", UnitCalls, noon.Add(15 * time.Hour)}},
		"it frees when enough is free, not when something is":  {calls(4), wide, Cost{2, 1, 1}, &Denial{"cluster", UnitCalls, noon.Add(23 * time.Hour)}},
		"tokens are bounded":                                   {wide, Ceiling{10, 399, NoCeiling, day}, one, &Denial{"ns/team-a", UnitTokens, noon.Add(15 * time.Hour)}},
		"cost is bounded where a ceiling says so":              {Ceiling{10, 1000, 59, day}, wide, one, &Denial{"cluster", UnitCost, noon.Add(15 * time.Hour)}},
		"it frees when the scarcest unit does":                 {Ceiling{5, 300, NoCeiling, day}, wide, one, &Denial{"cluster", UnitCalls, noon.Add(23 * time.Hour)}},
		"more than the ceiling never frees":                    {wide, Ceiling{10, 99, NoCeiling, day}, one, &Denial{"ns/team-a", UnitTokens, time.Time{}}},
		"what never frees is told rather than what soon does":  {Ceiling{5, 99, NoCeiling, day}, wide, one, &Denial{"cluster", UnitTokens, time.Time{}}},
		"a ceiling of no calls never frees":                    {calls(0), wide, one, &Denial{"cluster", UnitCalls, time.Time{}}},
		"policy-deleted (W18): without a policy nothing fits":  {wide, Namespace(nil, nil), one, &Denial{"ns/team-a", UnitCalls, time.Time{}}},
		"a zero ceiling allows nothing":                        {Ceiling{}, wide, one, &Denial{"cluster", UnitCalls, time.Time{}}},
		"a ceiling below zero allows nothing":                  {Ceiling{-1, -1, NoCeiling, day}, wide, one, &Denial{"cluster", UnitCalls, time.Time{}}},
		"what no longer counts in a short window is free":      {Ceiling{4, 1000, NoCeiling, 2 * time.Hour}, wide, one, nil},
		"a cost below zero does not lower what is counted":     {calls(5), wide, Cost{-5, -5, -5}, nil},
		"a cost below zero is not allowed beyond the ceiling":  {calls(4), wide, Cost{-5, -5, -5}, &Denial{"cluster", UnitCalls, noon.Add(15 * time.Hour)}},
		"a window of zero is one of a day":                     {Ceiling{5, 1000, NoCeiling, 0}, wide, one, &Denial{"cluster", UnitCalls, noon.Add(15 * time.Hour)}},
		"another namespace does not count for this one":        {wide, Ceiling{4, 400, 40, day}, one, nil},
		"the largest call does not overflow":                   {Ceiling{10, 1<<63 - 1, NoCeiling, day}, wide, Cost{1, 1<<63 - 1, 0}, &Denial{"cluster", UnitTokens, noon.Add(23 * time.Hour)}},
		"the largest call is no more than the largest ceiling": {wide, wide, Cost{1, 1<<63 - 1, 0}, &Denial{"cluster", UnitTokens, time.Time{}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			l := spent()
			g.Expect(Check(l, "team-a", test.cluster, test.own, test.cost, noon)).To(Equal(test.want))
			g.Expect(l).To(Equal(spent()), "Check changes nothing")
			receipt, denial := Reserve(l, "team-a", test.cluster, test.own, test.cost, noon)
			g.Expect(denial).To(Equal(test.want))
			if denial == nil {
				return
			}
			g.Expect(l).To(Equal(spent()), "a denial changes nothing")
			g.Expect(receipt).To(Equal(Receipt{}))
			g.Expect(Settle(l, receipt, one)).To(Equal(Receipt{}))
			g.Expect(l).To(Equal(spent()), "settling no reservation changes nothing")
			if !denial.Free.IsZero() {
				g.Expect(Check(l, "team-a", test.cluster, test.own, test.cost, denial.Free.Add(-time.Second))).NotTo(BeNil())
				g.Expect(Check(l, "team-a", test.cluster, test.own, test.cost, denial.Free)).To(Or(BeNil(), HaveField("Scope", "ns/team-a")))
			}
		})
	}
}

func TestABucketCountsUntilAWholeWindowAfterItsEnd(t *testing.T) {
	g := NewWithT(t)
	l := status()
	_, denial := Reserve(l, "team-a", wide, wide, one, noon.Add(59*time.Minute))
	g.Expect(denial).To(BeNil())
	for _, name := range []string{"cluster", "ns/team-a"} {
		g.Expect(Used(l, name, wide.Window, noon.Add(25*time.Hour-time.Nanosecond))).To(Equal(one))
		g.Expect(Used(l, name, wide.Window, noon.Add(25*time.Hour))).To(Equal(Cost{}))
	}
}

func TestAClockThatJumpsBackFreesNothing(t *testing.T) {
	g := NewWithT(t)
	l := status()
	_, denial := Reserve(l, "team-a", wide, wide, one, noon)
	g.Expect(denial).To(BeNil())
	for _, back := range []time.Duration{time.Hour, 48 * time.Hour, 60 * 365 * 24 * time.Hour} {
		Prune(l, wide, func(string) time.Duration { return time.Minute }, noon.Add(-back))
		g.Expect(Used(l, "cluster", wide.Window, noon.Add(-back))).To(Equal(one))
		g.Expect(Check(l, "team-a", wide, calls(1), one, noon.Add(-back))).To(Equal(&Denial{"ns/team-a", UnitCalls, noon.Add(25 * time.Hour)}))
	}
}

func TestSettlingCorrectsBothScopesToWhatWasUsed(t *testing.T) {
	others := Cost{5, 500, 50}
	for name, test := range map[string]struct {
		actual, want Cost
	}{
		"less gives back the difference":        {Cost{1, 60, 4}, Cost{6, 560, 54}},
		"more is counted as well":               {Cost{1, 160, 14}, Cost{6, 660, 64}},
		"each unit is corrected by itself":      {Cost{1, 60, 14}, Cost{6, 560, 64}},
		"the same changes nothing":              {one, Cost{6, 600, 60}},
		"nothing refunds all":                   {Cost{}, others},
		"less than nothing refunds no more":     {Cost{-9, -900, -90}, others},
		"the largest number does not overflow":  {Cost{1, 1<<63 - 1, 1<<63 - 1}, Cost{6, 1<<63 - 1, 1<<63 - 1}},
		"a refund of one unit leaves the other": {Cost{0, 100, 10}, Cost{5, 600, 60}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			l := status(scope("cluster", at(0, hour, others)), scope("ns/team-a", at(0, hour, others)))
			receipt, denial := Reserve(l, "team-a", wide, wide, one, noon)
			g.Expect(denial).To(BeNil())
			want := status(scope("cluster", at(0, hour, test.want)), scope("ns/team-a", at(0, hour, test.want)))
			again := Settle(l, receipt, test.actual)
			g.Expect(l).To(Equal(want))
			Settle(l, again, test.actual)
			g.Expect(l).To(Equal(want), "settling again corrects nothing")
		})
	}
}

func TestSettlingFindsWhatBecameOfTheBucket(t *testing.T) {
	reserve := func() (*candorv1alpha1.LedgerStatus, Receipt) {
		l := status()
		receipt, _ := Reserve(l, "team-a", wide, wide, one, noon)
		return l, receipt
	}
	others := Cost{5, 500, 50}
	for name, test := range map[string]struct {
		now    *candorv1alpha1.LedgerStatus
		actual Cost
		want   *candorv1alpha1.LedgerStatus
	}{
		"merged into an older one, it gives back": {
			status(scope("cluster", at(-9*hour, hour, Cost{6, 600, 60})), scope("ns/team-a", at(-9*hour, hour, Cost{6, 600, 60}))),
			Cost{},
			status(scope("cluster", at(-9*hour, hour, others)), scope("ns/team-a", at(-9*hour, hour, others))),
		},
		"merged with a younger one, it gives back": {
			status(scope("cluster", at(0, 5*hour, Cost{6, 600, 60})), scope("ns/team-a", at(0, 5*hour, Cost{6, 600, 60}))),
			Cost{},
			status(scope("cluster", at(0, 5*hour, others)), scope("ns/team-a", at(0, 5*hour, others))),
		},
		"forgotten, it takes nothing from later ones": {
			status(scope("cluster", at(hour, 2*hour, others)), scope("ns/team-a", at(2*hour, 3*hour, others))),
			Cost{},
			status(scope("cluster", at(hour, 2*hour, others)), scope("ns/team-a", at(2*hour, 3*hour, others))),
		},
		"forgotten, it takes nothing from earlier ones": {
			status(scope("cluster", at(-hour, 0, others)), scope("ns/team-a", at(-hour, 0, others))),
			Cost{},
			status(scope("cluster", at(-hour, 0, others)), scope("ns/team-a", at(-hour, 0, others))),
		},
		"without a scope there is nothing to give back": {status(), Cost{}, status()},
		"without a scope, what is more is counted": {
			status(),
			Cost{1, 130, 10},
			status(scope("cluster", at(0, hour, Cost{0, 30, 0})), scope("ns/team-a", at(0, hour, Cost{0, 30, 0}))),
		},
		"edited to less than was reserved, it stops at zero": {
			status(scope("cluster", at(0, hour, Cost{1, 40, 90})), scope("ns/team-a", at(0, hour, Cost{0, 40, 0}))),
			Cost{},
			status(scope("cluster", at(0, hour, Cost{0, 0, 80}))),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, receipt := reserve()
			Settle(test.now, receipt, test.actual)
			g.Expect(test.now.Scopes).To(HaveLen(len(test.want.Scopes)))
			for i, want := range test.want.Scopes {
				g.Expect(test.now.Scopes[i]).To(Equal(want))
			}
		})
	}
	t.Run("a refund leaves no trace", func(t *testing.T) {
		g := NewWithT(t)
		l, receipt := reserve()
		Settle(l, receipt, Cost{})
		g.Expect(l.Scopes).To(BeEmpty())
	})
	t.Run("a cost of nothing leaves no trace", func(t *testing.T) {
		g := NewWithT(t)
		l := status()
		receipt, denial := Reserve(l, "team-a", wide, wide, Cost{}, noon)
		g.Expect(denial).To(BeNil())
		g.Expect(receipt).To(Equal(Receipt{}))
		g.Expect(l.Scopes).To(BeEmpty())
	})
}

func TestTheStatusOfAPolicyMirrorsTheLedger(t *testing.T) {
	free := metav1.NewTime(noon.Add(15 * time.Hour))
	spent := status(scope("ns/team-a",
		at(-30*hour, -29*hour, Cost{7, 7, 7}), at(-10*hour, -9*hour, Cost{2, 200, 20}), at(-2*hour, -hour, Cost{1, 100, 10})))
	for name, test := range map[string]struct {
		scope   string
		ceiling Ceiling
		want    candorv1alpha1.BudgetStatus
	}{
		"what counts, what is left and when the first frees": {"ns/team-a", calls(10), candorv1alpha1.BudgetStatus{Calls: 3, CallsLeft: 7, Tokens: 300, TokensLeft: 999_700, CostMicros: 30, NextFree: &free}},
		"nothing is left of a ceiling that was lowered":      {"ns/team-a", Ceiling{1, 1, 1, 24 * time.Hour}, candorv1alpha1.BudgetStatus{Calls: 3, Tokens: 300, CostMicros: 30, NextFree: &free}},
		"policy-deleted (W18): what was spent still shows":   {"ns/team-a", Namespace(nil, nil), candorv1alpha1.BudgetStatus{Calls: 3, Tokens: 300, CostMicros: 30, NextFree: &free}},
		"a ceiling below zero leaves nothing":                {"ns/team-a", Ceiling{-5, -5, NoCeiling, 24 * time.Hour}, candorv1alpha1.BudgetStatus{Calls: 3, Tokens: 300, CostMicros: 30, NextFree: &free}},
		"where nothing counts, nothing frees":                {"ns/team-b", calls(10), candorv1alpha1.BudgetStatus{CallsLeft: 10, TokensLeft: 1_000_000}},
		"a short window counts little":                       {"ns/team-a", Ceiling{10, 1000, NoCeiling, 30 * time.Minute}, candorv1alpha1.BudgetStatus{CallsLeft: 10, TokensLeft: 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(*Status(spent, test.scope, test.ceiling, noon)).To(Equal(test.want))
		})
	}
}
