// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/attributes"
	"github.com/candor-dev/candor/internal/fleet/client"
)

// forOne is how many requests may be needed where one collector of n is refused.
func forOne(n int) int { return int(2*math.Log2(float64(n))) + 1 }

func TestManyCollectorsThatWantTheSameNeedFewRequests(t *testing.T) {
	g, ids := NewWithT(t), numbered(30000)
	api := newFakeAPI(ids...)
	results := flushed(t, api, ids, add("env", "prod"))
	g.Expect(api.calls).To(HaveLen(60))
	var written []string
	for _, c := range api.calls {
		g.Expect(len(c.ids)).To(BeNumerically("<=", 500))
		written = append(written, c.ids...)
	}
	g.Expect(written).To(Equal(ids), "in the order in which they came")
	g.Expect(results["c29999"]).To(Equal(Result{Applied: []client.Op{add("env", "prod")}}))
}

func TestOneBadCollectorIsFoundInFewRequests(t *testing.T) {
	ids, ops := numbered(500), []client.Op{replace("a", "1", "2"), add("b", "1")}
	for name, test := range map[string]struct {
		spoil func(api *fakeAPI, id string)
		want  Result
	}{
		"that Fleet Management does not know": {
			func(api *fakeAPI, id string) { delete(api.collectors, id) },
			Result{LookAgain: true, Gone: true},
		},
		"of which somebody changed an attribute": {
			func(api *fakeAPI, id string) { api.collectors[id] = map[string]string{"a": "9"} },
			Result{LookAgain: true, Live: &client.Collector{RemoteAttributes: map[string]string{"a": "9"}}},
		},
		"of which somebody removed an attribute": {
			func(api *fakeAPI, id string) { api.collectors[id] = map[string]string{} },
			Result{LookAgain: true, Live: &client.Collector{RemoteAttributes: map[string]string{}}},
		},
	} {
		for _, at := range []int{0, 1, 249, 250, 251, 498, 499} {
			t.Run(fmt.Sprintf("%s, at %d", name, at), func(t *testing.T) {
				g, api := NewWithT(t), newFakeAPI(ids...)
				for _, id := range ids {
					api.collectors[id] = map[string]string{"a": "1"}
				}
				test.spoil(api, ids[at])
				want := test.want
				if want.Live != nil {
					live := *want.Live
					live.ID, want.Live = ids[at], &live
				}
				results := flushed(t, api, ids, ops...)
				g.Expect(results[ids[at]]).To(Equal(want))
				delete(results, ids[at])
				for _, result := range results {
					g.Expect(result).To(Equal(Result{Applied: ops}))
				}
				g.Expect(len(api.calls)).To(BeNumerically("<=", forOne(500)))
				g.Expect(api.reads).To(Equal([]string{ids[at]}))
			})
		}
	}
}

func TestThreeBadCollectorsCostThreeTimesAsMuch(t *testing.T) {
	ids, random := numbered(500), rand.New(rand.NewPCG(3, 0))
	most := 0
	for range 40 {
		g, api := NewWithT(t), newFakeAPI(ids...)
		bad := random.Perm(500)[:3]
		for _, at := range bad {
			delete(api.collectors, ids[at])
		}
		results := flushed(t, api, ids, add("a", "1"))
		for _, at := range bad {
			g.Expect(results[ids[at]]).To(Equal(Result{LookAgain: true, Gone: true}))
			delete(results, ids[at])
		}
		for _, result := range results {
			g.Expect(result).To(Equal(Result{Applied: []client.Op{add("a", "1")}}))
		}
		g.Expect(len(api.calls)).To(BeNumerically("<=", 3*forOne(500)))
		most = max(most, len(api.calls))
	}
	t.Logf("at most %d requests", most)
}

func TestWhatConcernsAllIsNotTriedOnEach(t *testing.T) {
	ids := numbered(500)
	fine := []client.Op{add("a", "1"), add("b", "1"), add("d", "1")}
	ops := []client.Op{fine[0], fine[1], add("c", "too long for the server"), fine[2]}
	refusesC := func(_ string, op client.Op) bool { return op.Key == "c" }
	for name, test := range map[string]struct {
		prepare func(api *fakeAPI)
		applied []client.Op
		refused []string
		again   bool
		calls   int
	}{
		"all operations are refused": {
			func(api *fakeAPI) { api.refuses = func(string, client.Op) bool { return true } },
			nil,
			[]string{"a", "b", "c", "d"},
			false,
			42,
		},
		"one operation is refused, and the others are applied": {
			func(api *fakeAPI) { api.refuses = refusesC },
			fine,
			[]string{"c"},
			false,
			24,
		},
		"Fleet Management knows none of them": {
			func(api *fakeAPI) { clear(api.collectors) },
			nil,
			nil,
			true,
			16,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, api := NewWithT(t), newFakeAPI(ids...)
			test.prepare(api)
			for id, result := range flushed(t, api, ids, ops...) {
				var refused []string
				for _, r := range result.Refused {
					refused = append(refused, r.Key)
					g.Expect(r.Message).To(HaveSuffix("it is refused"))
				}
				g.Expect(refused).To(ConsistOf(test.refused), id)
				g.Expect(result.Applied).To(ConsistOf(test.applied), id)
				g.Expect(result.LookAgain).To(Equal(test.again), id)
				g.Expect(result.Err).NotTo(HaveOccurred())
			}
			t.Logf("%d requests, %d reads", len(api.calls), len(api.reads))
			g.Expect(len(api.calls)).To(BeNumerically("<=", test.calls))
			g.Expect(len(api.reads)).To(BeNumerically("<=", samples+1))
		})
	}
}

func TestAnOperationRefusedForOneCollectorCostsTheOthersNothing(t *testing.T) {
	g, ids := NewWithT(t), numbered(500)
	api := newFakeAPI(ids...)
	ops := []client.Op{add("a", "1"), add("b", "1"), add("c", "1"), add("d", "1")}
	api.refuses = func(id string, op client.Op) bool { return id == ids[123] && op.Key == "c" }
	results := flushed(t, api, ids, ops...)
	g.Expect(results[ids[123]]).To(Equal(Result{
		Applied: []client.Op{ops[0], ops[1], ops[3]}, Refused: []Refused{{"c", "it is refused"}},
	}))
	delete(results, ids[123])
	for _, result := range results {
		g.Expect(result.Applied).To(ConsistOf(ops))
		g.Expect(result.Refused).To(BeEmpty())
	}
	g.Expect(len(api.calls)).To(BeNumerically("<=", forOne(500)+2+4))
}

func TestASingleCollectorIsAskedForNoMoreThanItTakes(t *testing.T) {
	g, api := NewWithT(t), newFakeAPI("x")
	api.refuses = func(string, client.Op) bool { return true }
	results := flushed(t, api, []string{"x"}, add("a", "1"))
	g.Expect(results["x"]).To(Equal(Result{Refused: []Refused{{"a", "it is refused"}}}))
	g.Expect(api.calls).To(HaveLen(1))
}

func TestManyRefusedOperationsOnOneCollectorAreNotTriedOneByOne(t *testing.T) {
	g, api := NewWithT(t), newFakeAPI("x")
	api.refuses = func(string, client.Op) bool { return true }
	var ops []client.Op
	for _, key := range numbered(100) {
		ops = append(ops, add(key, "1"))
	}
	results := flushed(t, api, []string{"x"}, ops...)
	g.Expect(results["x"].Refused).To(HaveLen(100))
	g.Expect(len(api.calls)).To(BeNumerically("<=", maxIsolated*8+1))
}

func TestATroubleOfTheServerIsToldToAllAndDividesNothing(t *testing.T) {
	for name, err := range map[string]*fault.Fault{"it asks to wait": errBusy, "it does not answer": errDown} {
		t.Run(name, func(t *testing.T) {
			g, ids := NewWithT(t), numbered(500)
			api := newFakeAPI(ids...)
			api.before = func(int, call) error { return err }
			for _, result := range flushed(t, api, ids, add("a", "1")) {
				g.Expect(result).To(Equal(Result{Err: err}))
			}
			g.Expect(api.calls).To(HaveLen(1))
			g.Expect(api.reads).To(BeEmpty())
		})
	}
}

func TestATroubleOfTheServerEndsASearchWithWhatIsKnown(t *testing.T) {
	ids := numbered(64)
	for at := 2; at <= 12; at++ {
		t.Run(fmt.Sprintf("at request %d", at), func(t *testing.T) {
			g, api := NewWithT(t), newFakeAPI(ids...)
			delete(api.collectors, ids[40])
			delete(api.collectors, ids[50])
			api.before = func(n int, _ call) error {
				if n >= at {
					return errBusy
				}
				return nil
			}
			results := flushed(t, api, ids, add("a", "1"))
			g.Expect(api.calls).To(HaveLen(at))
			for _, id := range ids {
				result := results[id]
				_, written := api.collectors[id]["a"]
				switch {
				case written:
					g.Expect(result).To(Equal(Result{Applied: []client.Op{add("a", "1")}}), id)
				case result.LookAgain:
					g.Expect(result).To(Equal(Result{LookAgain: true, Gone: true}), id)
				default:
					g.Expect(result).To(Equal(Result{Err: errBusy}), id)
				}
			}
		})
	}
}

func TestARequestThatIsTooLargeIsWrittenInParts(t *testing.T) {
	g, ids := NewWithT(t), numbered(240)
	api := newFakeAPI(ids...)
	api.before = func(_ int, c call) error {
		if len(c.ids) > 100 {
			return errRefused
		}
		return nil
	}
	for _, result := range flushed(t, api, ids, add("a", "1")) {
		g.Expect(result).To(Equal(Result{Applied: []client.Op{add("a", "1")}}))
	}
}

func TestManyBadCollectorsAmongGoodOnesAreFoundAFewAtATime(t *testing.T) {
	g, ids := NewWithT(t), numbered(100)
	api := newFakeAPI(ids...)
	for i := 0; i < len(ids); i += 2 {
		delete(api.collectors, ids[i])
	}
	ops := []client.Op{add("a", "1")}
	left := ids
	for flush := 1; len(left) > 0; flush++ {
		g.Expect(flush).To(BeNumerically("<=", 10))
		api.calls = nil
		again := []string{}
		for id, result := range flushed(t, api, left, ops...) {
			_, known := api.collectors[id]
			switch {
			case result.Gone:
				g.Expect(known).To(BeFalse(), id)
			case result.LookAgain:
				g.Expect(result).To(Equal(Result{LookAgain: true}), id)
				again = append(again, id)
			default:
				g.Expect(result).To(Equal(Result{Applied: ops}), id)
				g.Expect(known).To(BeTrue(), id)
			}
		}
		g.Expect(len(api.calls)).To(BeNumerically("<=", (maxIsolated+samples)*forOne(100)/2+samples))
		slices.Sort(again)
		left = again
	}
}

func TestACollectorThatIsNotAsExpectedGetsNothingUntilItIsLookedAtAgain(t *testing.T) {
	g, ids := NewWithT(t), numbered(10)
	api := newFakeAPI(ids...)
	for _, id := range ids {
		api.collectors[id] = map[string]string{"b": "1"}
	}
	api.refuses = func(id string, op client.Op) bool { return id == ids[0] && op.Key == "a" }
	delete(api.collectors[ids[5]], "b")
	results := flushed(t, api, ids, remove("b", "1"), add("a", "1"))
	g.Expect(results[ids[0]]).To(Equal(Result{Applied: []client.Op{remove("b", "1")}, Refused: []Refused{{"a", "it is refused"}}}))
	g.Expect(results[ids[5]]).To(Equal(Result{LookAgain: true, Live: &client.Collector{ID: ids[5], RemoteAttributes: map[string]string{}}}))
	g.Expect(api.collectors[ids[5]]).To(BeEmpty())
	g.Expect(api.collectors[ids[6]]).To(Equal(map[string]string{"a": "1"}))
}

func TestAnOperationRefusedForAllIsFoundBehindACollectorThatIsNotAsExpected(t *testing.T) {
	g, ids := NewWithT(t), numbered(100)
	api := newFakeAPI(ids...)
	delete(api.collectors, ids[0])
	api.refuses = func(_ string, op client.Op) bool { return op.Key == "c" }
	results := flushed(t, api, ids, add("a", "1"), add("b", "1"), add("c", "1"))
	g.Expect(results[ids[0]]).To(Equal(Result{LookAgain: true, Gone: true}))
	delete(results, ids[0])
	for id, result := range results {
		g.Expect(result.Applied).To(ConsistOf(add("a", "1"), add("b", "1")), id)
		g.Expect(result.Refused).To(HaveLen(1), id)
		g.Expect(result.Refused[0].Key).To(Equal("c"))
	}
}

func TestNothingIsWrittenAfterTheContextEnds(t *testing.T) {
	g, ids := NewWithT(t), numbered(1500)
	api := newFakeAPI(ids...)
	delete(api.collectors, ids[700])
	ctx, cancel := context.WithCancel(t.Context())
	api.before = func(n int, _ call) error {
		if n == 4 { // in the midst of the search in the second batch
			cancel()
		}
		return nil
	}
	b, r := newBatcher(api)
	for _, id := range ids {
		b.Submit(id, []client.Op{add("a", "1")})
	}
	b.Flush(ctx)
	g.Expect(api.calls).To(HaveLen(4))
	g.Expect(r.results).To(HaveLen(1000))
	g.Expect(r.results[ids[999]].Err).To(MatchError(context.Canceled))
	g.Expect(b.Pending(ids[1000])).To(BeTrue())
}

// TestResultsTellTheTruth has random operations meet random trouble, and compares what is told with what is there.
func TestResultsTellTheTruth(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 0))
	for range 500 {
		g, ids := NewWithT(t), numbered(1+random.IntN(40))
		api := newFakeAPI(ids...)
		refused := map[string]bool{}
		ops := []client.Op{add("a", "1"), remove("b", "1"), replace("c", "1", "2"), add("d", "1")}[:1+random.IntN(4)]
		before := map[string]map[string]string{}
		for _, id := range ids {
			live := map[string]string{"b": "1", "c": "1"}
			if random.IntN(10) == 0 {
				delete(live, "b")
			}
			if random.IntN(10) == 0 {
				live["c"] = "9"
			}
			api.collectors[id], before[id] = live, live
			if random.IntN(20) == 0 {
				delete(api.collectors, id)
			}
			for _, op := range ops {
				refused[id+op.Key] = random.IntN(30) == 0
			}
		}
		everyone := random.IntN(4) == 0
		api.refuses = func(id string, op client.Op) bool { return refused[id+op.Key] || everyone && op.Key == ops[0].Key }
		for id, result := range flushed(t, api, ids, ops...) {
			told := len(result.Applied) + len(result.Refused)
			g.Expect(told == len(ops) || result.LookAgain).To(BeTrue(), "%s: %+v", id, result)
			g.Expect(result.Err).NotTo(HaveOccurred())
			if result.Gone {
				g.Expect(api.collectors).NotTo(HaveKey(id))
				continue
			}
			if live, known := api.collectors[id]; known {
				g.Expect(live).To(Equal(attributes.Apply(maps.Clone(before[id]), result.Applied)), id)
			}
			for _, r := range result.Refused {
				at := slices.IndexFunc(ops, func(op client.Op) bool { return op.Key == r.Key })
				if r.Message == "it is refused" {
					g.Expect(api.refuses(id, ops[at])).To(BeTrue(), "%s %s", id, r.Key)
				}
			}
		}
	}
}
