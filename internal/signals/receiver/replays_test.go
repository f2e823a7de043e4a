// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestHowARequestStandsToEarlierOnes(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakePassiveClock(start)
	r := newReplays(clock)
	stands := func(key string) Reason {
		defer r.end(key)
		return r.begin(key)
	}
	take := func(key, subject string) {
		g.Expect(stands(key)).To(BeEmpty())
		r.note(key, subject, time.Time{})
	}

	take("a", "web")
	g.Expect(stands("a")).To(BeEmpty(), "the last one again says the same")
	take("b", "db")
	g.Expect(stands("a")).To(BeEmpty(), "what is said of another subject is no news of this one")
	take("c", "web")
	g.Expect(stands("a")).To(Equal(ReasonReplay), "an earlier one is a replay")
	take("c", "web")

	clock.SetTime(start.Add(10 * time.Minute))
	g.Expect(stands("a")).To(Equal(ReasonReplay), "a signature may be good for ten minutes")
	clock.SetTime(start.Add(10*time.Minute + time.Second))
	g.Expect(stands("a")).To(BeEmpty())
}

func TestARequestIsTakenOnceAtATime(t *testing.T) {
	g := NewWithT(t)
	r := newReplays(clocktesting.NewFakePassiveClock(start))
	g.Expect(r.begin("a")).To(BeEmpty())
	g.Expect(r.begin("a")).To(Equal(ReasonBusy))
	g.Expect(r.begin("b")).To(BeEmpty())
	r.end("a")
	g.Expect(r.begin("a")).To(BeEmpty(), "one that was not taken may be tried again")
}

func TestTheMemoryOfRequestsIsBounded(t *testing.T) {
	g := NewWithT(t)
	r := newReplays(clocktesting.NewFakePassiveClock(start))
	for i := range maxKnown + 1 {
		r.note(fmt.Sprint(i), fmt.Sprint("subject ", i), start)
	}
	g.Expect(r.taken.Keys()).To(And(HaveLen(maxKnown), Not(ContainElement("0"))), "the one that was not seen for longest is forgotten")
	g.Expect(r.last.Keys()).To(HaveLen(maxKnown))
}

// Against a model that keeps a list of everything: what was taken is taken again within ten minutes only while nothing else was
// taken of its subject.
func TestReplaysAgreeWithAListOfEverything(t *testing.T) {
	type event struct {
		key, subject string
		at           time.Time
	}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		clock := clocktesting.NewFakePassiveClock(start)
		r, all := newReplays(clock), []event{}
		known := func(match func(event) bool) *event {
			for i := len(all) - 1; i >= 0; i-- {
				if match(all[i]) && !clock.Now().After(all[i].at.Add(10*time.Minute)) {
					return &all[i]
				}
			}
			return nil
		}
		for step := range 300 {
			clock.SetTime(clock.Now().Add(time.Duration(random.IntN(60)) * time.Second))
			subject := fmt.Sprint("subject ", random.IntN(3))
			key := fmt.Sprint(subject, " key ", random.IntN(6)) // what a request says decides what it says it of
			want := Reason("")
			if known(func(e event) bool { return e.key == key }) != nil && known(func(e event) bool { return e.subject == subject }).key != key {
				want = ReasonReplay
			}
			if got := r.begin(key); got != want {
				t.Fatalf("seed %d, step %d: %q is refused for %q, and for %q is right", seed, step, key, got, want)
			}
			if want != "" {
				continue
			}
			if random.IntN(4) > 0 { // the others are not taken, since the API server is away
				r.note(key, subject, time.Time{})
				all = append(all, event{key, subject, clock.Now()})
			}
			r.end(key)
		}
	}
}
