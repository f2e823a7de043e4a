// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

func TestALedgerThatCandorDidNotWriteIsReadAsSpent(t *testing.T) {
	const most = math.MaxInt64
	end := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for name, test := range map[string]struct {
		written *candorv1alpha1.LedgerStatus
		used    Cost
		free    time.Time
		// inOrder is what the next change makes of it.
		inOrder *candorv1alpha1.LedgerStatus
	}{
		"buckets that are not in order": {
			status(scope("cluster", at(0, hour, one), at(-2*hour, -hour, one))),
			Cost{2, 200, 20},
			noon.Add(23 * time.Hour),
			status(scope("cluster", at(-2*hour, -hour, one), at(0, hour, one))),
		},
		"buckets that overlap": {
			status(scope("cluster", at(-hour, hour, one), at(0, hour, one), at(-hour, 2*hour, one))),
			Cost{3, 300, 30},
			noon.Add(25 * time.Hour),
			status(scope("cluster", at(-hour, hour, Cost{2, 200, 20}), at(-hour, 2*hour, one))),
		},
		"a bucket that ends before it starts": {
			status(scope("cluster", at(hour, -100*hour, one))), one, noon.Add(25 * time.Hour),
			status(scope("cluster", at(-100*hour, hour, one))),
		},
		"amounts below zero": {
			status(scope("cluster", at(0, hour, Cost{-5, -500, math.MinInt64}), at(hour, 2*hour, one))),
			Cost{6, 600, most},
			noon.Add(25 * time.Hour),
			status(scope("cluster", at(0, hour, Cost{5, 500, most}), at(hour, 2*hour, one))),
		},
		"sums that do not fit": {
			status(scope("cluster", at(0, hour, Cost{most, most, most}), at(0, hour, Cost{most, most, most}))),
			Cost{most, most, most},
			noon.Add(25 * time.Hour),
			status(scope("cluster", at(0, hour, Cost{most, most, most}))),
		},
		"two scopes of one name": {
			status(scope("ns/b", at(0, hour, one)), scope("cluster", at(0, hour, one)), scope("ns/a", at(0, hour, one)), scope("cluster", at(0, hour, one), at(hour, 2*hour, one))),
			Cost{3, 300, 30},
			noon.Add(25 * time.Hour),
			status(scope("cluster", at(0, hour, Cost{2, 200, 20}), at(hour, 2*hour, one)), scope("ns/a", at(0, hour, one)), scope("ns/b", at(0, hour, one))),
		},
		"a bucket of the far future": {
			status(scope("cluster", bucket(most-1, most, one))), one, end,
			status(scope("cluster", bucket(lastSecond, lastSecond, one))),
		},
		"a bucket from the first to the last second": {
			status(scope("cluster", bucket(math.MinInt64, most, one))), one, end,
			status(scope("cluster", bucket(0, lastSecond, one))),
		},
		"a bucket before 1970": {
			status(scope("cluster", bucket(math.MinInt64, -1, one), at(0, hour, one))), one, noon.Add(25 * time.Hour),
			status(scope("cluster", bucket(0, 0, one), at(0, hour, one))),
		},
		"empty buckets and scopes": {
			status(scope("cluster", at(0, hour, Cost{})), scope("ns/a")), Cost{}, time.Time{}, status(),
		},
		"names of nobody": {
			status(scope("", at(0, hour, one)), scope("Cluster", at(0, hour, one)), scope("ns/", at(0, hour, one))),
			Cost{},
			time.Time{},
			status(scope("", at(0, hour, one)), scope("Cluster", at(0, hour, one)), scope("ns/", at(0, hour, one))),
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before := test.written.DeepCopy()
			g.Expect(Used(test.written, "cluster", wide.Window, noon)).To(Equal(test.used))
			shown := Status(test.written, "cluster", wide, noon)
			if test.free.IsZero() {
				g.Expect(shown.NextFree).To(BeNil())
			} else {
				g.Expect(shown.NextFree.Time).To(Equal(test.free))
			}
			_, err := json.Marshal(shown)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(test.written).To(Equal(before), "reading changes nothing")
			inOrder(test.written).shrink()
			g.Expect(test.written.Scopes).To(HaveLen(len(test.inOrder.Scopes)))
			for i, want := range test.inOrder.Scopes {
				g.Expect(test.written.Scopes[i]).To(Equal(want))
			}
			g.Expect(Used(test.written, "cluster", wide.Window, noon)).To(Equal(test.used), "order changes nothing of what counts")
		})
	}
}

func TestALedgerThatIsNotInOrderFreesInOrder(t *testing.T) {
	l := status(scope("cluster", at(0, hour, one), at(-2*hour, -hour, one)), scope("cluster", at(-9*hour, -8*hour, one)))
	for maxCalls, free := range map[int64]time.Duration{1: 25 * time.Hour, 2: 23 * time.Hour, 3: 16 * time.Hour} {
		NewWithT(t).Expect(Check(l, "team-a", calls(maxCalls), wide, one, noon)).To(Equal(&Denial{"cluster", UnitCalls, noon.Add(free)}))
	}
}

func TestAWindowThatALedgerRemembersIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		written []int64
		want    int64
	}{
		"less than nothing is nothing":                {[]int64{math.MinInt64}, 0},
		"a week is a week":                            {[]int64{7 * daySeconds}, 7 * daySeconds},
		"the largest number is 31 days":               {[]int64{math.MaxInt64}, longestMemory},
		"of two scopes of one name the longer counts": {[]int64{3 * daySeconds, 5 * daySeconds}, 5 * daySeconds},
		"the order of two scopes means nothing":       {[]int64{5 * daySeconds, 3 * daySeconds}, 5 * daySeconds},
	} {
		t.Run(name, func(t *testing.T) {
			l := status()
			for _, window := range test.written {
				s := scope("cluster", at(0, hour, one))
				s.WindowSeconds = window
				l.Scopes = append(l.Scopes, s)
			}
			inOrder(l)
			NewWithT(t).Expect(l.Scopes).To(HaveExactElements(HaveField("WindowSeconds", test.want)))
		})
	}
}

// FuzzLedger takes any Ledger, any ceiling and any time through everything.
func FuzzLedger(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"scopes":[{"name":"cluster","buckets":[{"start":1796040000,"end":1796043600,"calls":3,"tokens":300}]},{"name":"ns/a"}]}`,
		`{"scopes":[{"name":"ns/a","windowSeconds":-1,"buckets":[{"start":9223372036854775807,"end":-9223372036854775808,"calls":-9223372036854775808,"tokens":9223372036854775807}]},{"name":"ns/a","windowSeconds":9223372036854775807,"buckets":[{"start":1,"end":1,"calls":1},{"start":0,"end":1,"calls":1}]},{"name":"cluster"},{"name":"cluster","buckets":[{"calls":-1}]}]}`,
	} {
		f.Add([]byte(seed), int64(1796040000), int64(86400), int64(5), int64(1000), int64(-1), int64(1), int64(100), int64(0))
		f.Add([]byte(seed), int64(math.MinInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
		f.Add([]byte(seed), int64(math.MaxInt64), int64(-1), int64(math.MinInt64), int64(0), int64(math.MinInt64), int64(math.MinInt64), int64(0), int64(5))
	}
	f.Fuzz(func(t *testing.T, text []byte, unix, window, maxCalls, maxTokens, maxCost, nCalls, nTokens, nCost int64) {
		var l candorv1alpha1.LedgerStatus
		if json.Unmarshal(text, &l) != nil {
			t.Skip()
		}
		now, ceiling := time.Unix(unix, 0), Ceiling{maxCalls, maxTokens, maxCost, time.Duration(window)}
		cost := Cost{nCalls, nTokens, nCost}
		var before [2]Cost
		scopes := [2]string{"cluster", "ns/a"}
		for i, scope := range scopes {
			before[i] = Used(&l, scope, ceiling.Window, now)
			if before[i] != before[i].atLeastZero() {
				t.Fatalf("%s used %v", scope, before[i])
			}
			if _, err := json.Marshal(Status(&l, scope, ceiling, now)); err != nil {
				t.Fatal(err)
			}
		}
		untouched := l.DeepCopy()
		receipt, denial := Reserve(&l, "a", ceiling, ceiling, cost, now)
		if denial != nil {
			NewWithT(t).Expect(&l).To(Equal(untouched))
		}
		for i, scope := range scopes {
			used := Used(&l, scope, ceiling.Window, now)
			if denial == nil && ceiling.lacking(before[i], cost.atLeastZero()) != "" {
				t.Fatalf("%v beside %v does not fit %v", cost, before[i], ceiling)
			}
			if denial == nil && used != before[i].plus(cost.atLeastZero()) {
				t.Fatalf("%s used %v, then %v, then %v", scope, before[i], cost, used)
			}
		}
		receipt = Settle(&l, receipt, Cost{})
		for i, scope := range scopes {
			used := Used(&l, scope, ceiling.Window, now)
			if before[i].plus(cost.atLeastZero()).Calls < math.MaxInt64 && used.Calls < before[i].Calls {
				t.Fatalf("%s used %v, of which %v is left", scope, before[i], used)
			}
		}
		Settle(&l, receipt, cost)
		Prune(&l, ceiling, windowsOf(ceiling.Window), now)
		if bucketsOf(&l) > 2*maxBuckets+len(l.Scopes)*maxBuckets {
			t.Fatalf("%d buckets", bucketsOf(&l))
		}
	})
}
