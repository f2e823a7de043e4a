// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/candor-dev/candor/internal/fleet/client"
)

// started runs a Batcher until the test ends. It runs in the time of synctest.
func started(t *testing.T, api API) (*Batcher, *recorder) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	b, r := newBatcher(api)
	ended := make(chan error, 1)
	go func() { ended <- b.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		NewWithT(t).Expect(<-ended).To(Succeed())
	})
	return b, r
}

func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestOnlyTheLastOperationsAreWritten(t *testing.T) {
	g, api := NewWithT(t), newFakeAPI("x", "y", "z")
	b, r := newBatcher(api)
	b.Submit("x", []client.Op{add("a", "1")})
	b.Submit("y", []client.Op{add("a", "1")})
	b.Submit("z", []client.Op{add("a", "1")})
	b.Submit("x", []client.Op{add("a", "2")})
	b.Submit("y", nil)
	b.Submit("z", []client.Op{add("a", "1")})
	g.Expect([]bool{b.Pending("x"), b.Pending("y"), b.Pending("z")}).To(Equal([]bool{true, false, true}))
	b.Flush(t.Context())
	g.Expect(api.calls).To(Equal([]call{{[]string{"z"}, []client.Op{add("a", "1")}}, {[]string{"x"}, []client.Op{add("a", "2")}}}))
	g.Expect(r.times).To(Equal(map[string]int{"x": 1, "z": 1}))
	g.Expect(b.Pending("x")).To(BeFalse())
	b.Flush(t.Context())
	g.Expect(api.calls).To(HaveLen(2), "nothing is written twice")
}

func TestDifferentOperationsAreNeverPutTogether(t *testing.T) {
	all := [][]client.Op{
		{add("a", "1")},
		{add("a", "2")},
		{add("b", "1")},
		{{Kind: client.OpReplace, Key: "a", Value: "1"}},
		{replace("a", "", "1")},
		{replace("a", "0", "1")},
		{remove("a", "1")},
		{add("a", "1"), add("b", "1")},
		{add("b", "1"), add("a", "1")},
		{add(`a" "1`, "")},
	}
	keys := map[string]bool{}
	for _, ops := range all {
		keys[keyOf(ops)] = true
	}
	NewWithT(t).Expect(keys).To(HaveLen(len(all)))
	old := "0"
	NewWithT(t).Expect(keyOf([]client.Op{{Kind: client.OpReplace, Key: "a", Value: "1", Old: &old}})).To(Equal(keyOf(all[5])), "whatever the pointer")
}

func TestWhatIsSubmittedMeanwhileIsWrittenNext(t *testing.T) {
	g, api := NewWithT(t), newFakeAPI("x")
	b, r := newBatcher(api)
	api.before = func(n int, _ call) error {
		if n == 1 {
			g.Expect(b.Pending("x")).To(BeTrue(), "under way")
			b.Submit("x", []client.Op{replace("a", "1", "2")})
		}
		return nil
	}
	b.Submit("x", []client.Op{add("a", "1")})
	b.Flush(t.Context())
	g.Expect(r.results["x"].Applied).To(Equal([]client.Op{add("a", "1")}))
	g.Expect(b.Pending("x")).To(BeTrue())
	b.Flush(t.Context())
	g.Expect(r.results["x"].Applied).To(Equal([]client.Op{replace("a", "1", "2")}))
	g.Expect(b.Pending("x")).To(BeFalse())
}

func TestTheResultIsKnownBeforeTheCollectorIsNoLongerPending(t *testing.T) {
	g, api := NewWithT(t), newFakeAPI("x")
	var b *Batcher
	var seen []string
	tell := func(what, id string) { seen = append(seen, fmt.Sprintf("%s %s, pending %v", what, id, b.Pending(id))) }
	b = New(Options{
		API: api, Clock: clock.RealClock{},
		Done: func(id string, _ Result) { tell("done", id) },
		Wake: func(id string) { tell("wake", id) },
	})
	b.Submit("x", []client.Op{add("a", "1")})
	b.Flush(t.Context())
	g.Expect(seen).To(Equal([]string{"done x, pending true", "wake x, pending false"}))
}

func TestAGroupIsWrittenOnceItHasStoppedGrowing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ids := NewWithT(t), numbered(100)
		api := newFakeAPI(ids...)
		b, _ := started(t, api)
		b.Submit(ids[0], []client.Op{add("other", "1")})
		for _, id := range ids[1:4] {
			b.Submit(id, []client.Op{add("a", "1")})
			later(900 * time.Millisecond)
		}
		g.Expect(api.callCount()).To(Equal(1), "the other group")
		later(2 * time.Second)
		g.Expect(api.callCount()).To(Equal(2))
		g.Expect(api.calls[1].ids).To(Equal(ids[1:4]))
		later(time.Minute)
		g.Expect(api.callCount()).To(Equal(2))
	})
}

func TestAGroupThatKeepsGrowingIsWrittenAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ids := NewWithT(t), numbered(60)
		api := newFakeAPI(ids...)
		b, _ := started(t, api)
		for _, id := range ids {
			b.Submit(id, []client.Op{add("a", "1")})
			later(250 * time.Millisecond)
		}
		g.Expect(api.callCount()).To(Equal(3), "every five seconds")
	})
}

func TestAFullRequestDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ids := NewWithT(t), numbered(1100)
		api := newFakeAPI(ids...)
		b, _ := started(t, api)
		later(100 * time.Millisecond)
		for _, id := range ids {
			b.Submit(id, []client.Op{add("a", "1")})
		}
		synctest.Wait()
		g.Expect(api.callCount()).To(Equal(2))
		g.Expect(b.Pending(ids[999])).To(BeFalse())
		g.Expect(b.Pending(ids[1000])).To(BeTrue())
		later(2 * time.Second)
		g.Expect(api.callCount()).To(Equal(3))
	})
}

func TestASlowStreamOfTheSameOperationsNeedsNoMoreRequestsThanAFastOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ids := NewWithT(t), numbered(30000)
		api := newFakeAPI(ids...)
		b, r := started(t, api)
		for _, id := range ids {
			b.Submit(id, []client.Op{add("a", "1")})
			time.Sleep(time.Millisecond) // half a minute for all
		}
		later(5 * time.Second)
		g.Expect(r.results).To(HaveLen(30000))
		g.Expect(api.callCount()).To(Equal(60))
	})
}

func TestNothingPendingIsWrittenAfterTheLeaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, api := NewWithT(t), newFakeAPI("x")
		ctx, lose := context.WithCancel(t.Context())
		b, r := newBatcher(api)
		ended := make(chan error)
		go func() { ended <- b.Start(ctx) }()
		b.Submit("x", []client.Op{add("a", "1")})
		synctest.Wait()
		lose()
		g.Expect(<-ended).To(Succeed())
		g.Expect(api.calls).To(BeEmpty())
		g.Expect(r.results).To(BeEmpty())
		g.Expect(b.Pending("x")).To(BeTrue())
	})
}

func TestManySubmitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, ids := NewWithT(t), numbered(2000)
		api := newFakeAPI(ids...)
		b, r := started(t, api)
		var all sync.WaitGroup
		for worker := range 8 {
			all.Go(func() {
				for i := worker; i < len(ids); i += 8 {
					b.Submit(ids[i], []client.Op{add("a", fmt.Sprint(i%3))})
					b.Pending(ids[i])
				}
			})
		}
		all.Wait()
		later(10 * time.Second)
		g.Expect(r.results).To(HaveLen(2000))
		for i, id := range ids {
			g.Expect(api.collectors[id]).To(HaveKeyWithValue("a", fmt.Sprint(i%3)))
		}
	})
}
