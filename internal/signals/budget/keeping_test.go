// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// windowsOf returns what Prune asks for: one window for all namespaces.
func windowsOf(window time.Duration) func(string) time.Duration {
	return func(string) time.Duration { return window }
}

func TestABucketIsForgottenWhenNothingCanCountItAnyMore(t *testing.T) {
	minute := Ceiling{Calls: 1000, Tokens: 1_000_000, CostMicros: NoCeiling, Window: time.Minute}
	week := Ceiling{Calls: 1000, Tokens: 1_000_000, CostMicros: NoCeiling, Window: 7 * 24 * time.Hour}
	year := Ceiling{Calls: 1000, Tokens: 1_000_000, CostMicros: NoCeiling, Window: 365 * 24 * time.Hour}
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		reserved    Ceiling
		pruned      time.Duration
		kept, after time.Duration
	}{
		"that of a day is kept for a day":                              {wide, day, 25*time.Hour - 1, 25 * time.Hour},
		"that of a minute is kept for a day":                           {minute, time.Minute, day, day + time.Minute},
		"that of a policy that is deleted is kept for a day":           {wide, 0, 25*time.Hour - 1, 25 * time.Hour},
		"that of a week is kept for a week":                            {week, week.Window, 7 * day, 7*day + 7*time.Hour},
		"that of a week is kept while the policy is gone for a moment": {week, 0, 7 * day, 7*day + 7*time.Hour},
		"that of a week is kept while the window is short":             {week, time.Minute, 7 * day, 7*day + 7*time.Hour},
		"that of a window made longer is kept as long":                 {wide, week.Window, 7*day + time.Hour - 1, 7*day + time.Hour},
		"that of a year is kept for a year":                            {year, year.Window, 365 * day, 381 * day},
		"that of a year whose policy is gone is kept for a month":      {year, 0, 31 * day, 47 * day},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			l := status()
			_, denial := Reserve(l, "team-a", test.reserved, test.reserved, one, noon)
			g.Expect(denial).To(BeNil())
			pruned := Ceiling{Window: test.pruned}
			Prune(l, pruned, windowsOf(test.pruned), noon.Add(test.kept))
			g.Expect(l.Scopes).To(HaveLen(2))
			Prune(l, pruned, windowsOf(test.pruned), noon.Add(test.after))
			g.Expect(l.Scopes).To(BeEmpty())
		})
	}
}

func TestTheClusterAndEachNamespaceAreKeptForTheirOwnWindow(t *testing.T) {
	g := NewWithT(t)
	l := status(scope("cluster", at(0, hour, one)), scope("ns/long", at(0, hour, one)), scope("ns/short", at(0, hour, one)), scope("odd", at(0, hour, one)))
	Prune(l, Ceiling{Window: 48 * time.Hour}, func(namespace string) time.Duration {
		return map[string]time.Duration{"long": 72 * time.Hour}[namespace]
	}, noon.Add(30*time.Hour))
	g.Expect(l).To(Equal(status(scope("cluster", at(0, hour, one)), scope("ns/long", at(0, hour, one)), scope("odd", at(0, hour, one)))))
}

func TestPolicyDeletedRefundsNothing(t *testing.T) {
	for name, gap := range map[string]time.Duration{"made again at once": 0, "made again after a day": 24 * time.Hour, "made again after six days": 6 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			payer := paying(&candorv1alpha1.Budget{MaxCalls: 1, WindowSeconds: 7 * 86400})
			l := status()
			_, denial := Reserve(l, "team-a", Cluster(nil), Namespace(nil, payer), one, noon)
			g.Expect(denial).To(BeNil())
			now := noon.Add(gap)
			Prune(l, Cluster(nil), windowsOf(0), now)
			_, denial = Reserve(l, "team-a", Cluster(nil), Namespace(nil, nil), one, now)
			g.Expect(denial).To(HaveField("Scope", "ns/team-a"), "without a policy nothing is spent")
			_, denial = Reserve(l, "team-a", Cluster(nil), Namespace(nil, payer), one, now)
			g.Expect(denial).To(HaveField("Unit", UnitCalls), "what was spent still counts")
		})
	}
}

func TestTheOldestBucketsAreMergedAboveTheShare(t *testing.T) {
	g := NewWithT(t)
	l := status()
	for h := range int64(40) {
		_, denial := Reserve(l, "team-a", wide, wide, one, noon.Add(time.Duration(h)*time.Hour))
		g.Expect(denial).To(BeNil())
	}
	for _, s := range l.Scopes {
		g.Expect(s.Buckets).To(HaveLen(maxBuckets))
		g.Expect(s.Buckets[0]).To(Equal(at(0, 9*hour, Cost{9, 900, 90})))
		g.Expect(s.Buckets[1]).To(Equal(at(9*hour, 10*hour, one)))
	}
	g.Expect(Used(l, "cluster", wide.Window, noon.Add(39*time.Hour)).Calls).To(Equal(int64(25)), "what counts is not merged")
}

func TestG12TwentyConcurrentWorkersNeverExceedMaxCallsByEvenOne(t *testing.T) {
	g := NewWithT(t)
	const workers, tries, maxCalls = 20, 50, 137
	l := status()
	var mutex sync.Mutex
	var running sync.WaitGroup
	var made [3]int64
	for worker := range workers {
		running.Go(func() {
			for range tries {
				mutex.Lock()
				receipt, denial := Reserve(l, fmt.Sprint("team-", worker%3), calls(maxCalls), calls(50), one, noon)
				mutex.Unlock()
				if denial != nil {
					continue
				}
				mutex.Lock()
				if worker%5 == 0 {
					Settle(l, receipt, Cost{})
				} else {
					Settle(l, receipt, Cost{1, 50, 5})
					made[worker%3]++
				}
				mutex.Unlock()
			}
		})
	}
	running.Wait()
	g.Expect(made[0] + made[1] + made[2]).To(Equal(int64(maxCalls)))
	for team, n := range made {
		g.Expect(n).To(And(BeNumerically("<=", 50), Equal(Used(l, fmt.Sprint("ns/team-", team), wide.Window, noon).Calls)))
	}
	g.Expect(Used(l, "cluster", wide.Window, noon)).To(Equal(Cost{maxCalls, maxCalls * 50, maxCalls * 5}))
}

// ordinary are amounts as long as they get in a Ledger of thousands of namespaces.
var ordinary = Cost{Calls: 99_999, Tokens: 999_999_999, CostMicros: 999_999_999}

func longName(i int) string { return fmt.Sprintf("namespace-%053d", i) }

func bucketsOf(l *candorv1alpha1.LedgerStatus) (n int) {
	for _, s := range l.Scopes {
		n += len(s.Buckets)
	}
	return n
}

func size(t testing.TB, l *candorv1alpha1.LedgerStatus) int {
	t.Helper()
	object := candorv1alpha1.Ledger{Status: *l}
	object.Name, object.UID, object.ResourceVersion = candorv1alpha1.Singleton, "4d1c5a3e-9f0b-4b5e-8a51-0d8f5e0a3c11", "18446744073709551615"
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}

// huge denies nothing, and has each scope remember its window.
var huge = Ceiling{Calls: math.MaxInt64, Tokens: math.MaxInt64, CostMicros: math.MaxInt64, Window: 48 * time.Hour}

func TestALedgerOfManyNamespacesThatSpendAllTheTimeStaysUnderOneMiB(t *testing.T) {
	for _, scopes := range []int{100, 304, 1000, 2001, 3333, maxScopes} {
		t.Run(fmt.Sprint(scopes, " scopes"), func(t *testing.T) {
			g := NewWithT(t)
			l := status()
			for i := range scopes {
				s := scope("ns/" + longName(i))
				if i == 0 {
					s.Name = candorv1alpha1.LedgerScopeCluster
				}
				s.WindowSeconds = 48 * hour
				for b := range int64(maxBuckets) {
					s.Buckets = append(s.Buckets, at(b*2*hour, (b+1)*2*hour, ordinary))
				}
				l.Scopes = append(l.Scopes, s)
			}
			_, denial := Reserve(l, longName(1), huge, huge, ordinary, noon.Add(70*time.Hour))
			g.Expect(denial).To(BeNil())
			t.Logf("%d scopes, %d buckets, %d bytes", len(l.Scopes), bucketsOf(l), size(t, l))
			g.Expect(l.Scopes[0].Buckets).To(HaveLen(maxBuckets), "the cluster's are not merged for the sake of namespaces")
			g.Expect(bucketsOf(l)).To(BeNumerically("<=", 10_000))
			g.Expect(size(t, l)).To(BeNumerically("<", 1<<20))
		})
	}
}

func TestALedgerOfTwelveThousandNamespacesDeniesThoseThatFindNoRoom(t *testing.T) {
	g := NewWithT(t)
	l, denied := status(), 0
	for i := range 12_000 {
		_, denial := Reserve(l, longName(i), huge, huge, ordinary, noon)
		if denial != nil {
			denied++
			if *denial != (Denial{"ns/" + longName(i), UnitNamespaces, noon.Add(50 * time.Hour)}) {
				t.Fatalf("%+v", denial)
			}
		}
	}
	t.Logf("%d scopes, %d buckets, %d bytes, %d denied", len(l.Scopes), bucketsOf(l), size(t, l), denied)
	g.Expect(l.Scopes).To(HaveLen(maxScopes))
	g.Expect(denied).To(Equal(12_000 - (maxScopes - 1)))
	g.Expect(bucketsOf(l)).To(BeNumerically("<=", 10_000))
	g.Expect(size(t, l)).To(BeNumerically("<", 1<<20))
}

func TestANamespaceFindsRoomWhenAnotherIsForgotten(t *testing.T) {
	g := NewWithT(t)
	l := status(scope("cluster", at(0, hour, one)))
	for i := range maxScopes - 1 {
		l.Scopes = append(l.Scopes, scope("ns/"+longName(i), at(int64(i), hour+int64(i), one)))
	}
	denial := Check(l, "late", huge, huge, one, noon)
	g.Expect(denial).To(Equal(&Denial{"ns/late", UnitNamespaces, noon.Add(25 * time.Hour)}))
	g.Expect(Check(l, longName(7), huge, huge, one, noon)).To(BeNil(), "whoever is in the Ledger has room")
	g.Expect(Check(l, "late", huge, huge, one, noon.Add(26*time.Hour))).To(HaveField("Free", noon.Add(26*time.Hour+time.Minute)))
	Prune(l, huge, windowsOf(0), denial.Free)
	_, denial = Reserve(l, "late", huge, huge, one, denial.Free)
	g.Expect(denial).To(BeNil())
}

// BenchmarkReserve reserves and settles in a Ledger of 1,000 scopes that are full.
func BenchmarkReserve(b *testing.B) {
	l := status(scope("cluster", at(0, hour, one)))
	for i := range 999 {
		s := scope(fmt.Sprintf("ns/team-%03d", i))
		for j := range int64(9) {
			s.Buckets = append(s.Buckets, at(j*hour, (j+1)*hour, one))
		}
		l.Scopes = append(l.Scopes, s)
	}
	now := noon.Add(9 * time.Hour)
	b.Run("Reserve and Settle", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			receipt, denial := Reserve(l, "team-500", huge, huge, one, now)
			if denial != nil {
				b.Fatal(denial)
			}
			Settle(l, receipt, Cost{1, 50, 5})
		}
		b.ReportMetric(float64(len(l.Scopes)), "scopes")
		b.ReportMetric(float64(bucketsOf(l)), "buckets")
	})
	b.Run("Check that allows", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if Check(l, "team-500", huge, huge, one, now) != nil {
				b.Fatal("denied")
			}
		}
	})
	b.Run("Check that denies", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if Check(l, "team-500", huge, calls(1), one, now) == nil {
				b.Fatal("allowed")
			}
		}
	})
}
