// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/verify"
)

const uid types.UID = "6f4c1a52-0000-4000-8000-000000000001"

// world is one Finding whose changes are told to sinks that may be down, by a process that may die at any moment.
type world struct {
	*testing.T
	r   *rand.Rand
	now time.Time

	// stored is what the API server holds, as JSON, and state the rest of the status that is stored in the same write.
	stored []byte
	state  Snapshot

	// results is what the process knows of deliveries and has not stored yet; it dies with it.
	results []Result

	sinks []string
	down  map[string]bool

	// due are the entries that were stored, by key, in the order in which they fell due.
	due []string
	// had is what the sinks had, in order, and said what each key stood for.
	had  []string
	said map[string]string
	// excused are the keys that were reported lost or given up.
	excused map[string]bool
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		T: t, r: rand.New(rand.NewPCG(seed, 0)), now: start, stored: []byte("null"),
		down: map[string]bool{}, said: map[string]string{}, excused: map[string]bool{},
	}
	for i := range 1 + w.r.IntN(3) {
		w.sinks = append(w.sinks, fmt.Sprintf("default/sink-%d", i))
	}
	return w
}

func (w *world) outbox() []candorv1alpha1.Notification {
	var entries []candorv1alpha1.Notification
	if err := json.Unmarshal(w.stored, &entries); err != nil {
		w.Fatal(err)
	}
	return entries
}

// store writes the outbox together with the rest of the status, or nothing at all: another writer may have been faster.
func (w *world) store(entries []candorv1alpha1.Notification, state Snapshot) bool {
	if w.r.IntN(4) == 0 {
		return false
	}
	text, err := json.Marshal(entries)
	if err != nil {
		w.Fatal(err)
	}
	if len(entries) > MaxEntries || len(text) > MaxBytes {
		w.Fatalf("%d entries, %d bytes", len(entries), len(text))
	}
	w.stored, w.state = text, state
	return true
}

// pass is what the finding controller does: it looks, writes what is due and what became of deliveries, once.
func (w *world) pass(look Snapshot) {
	entries, failed := Record(w.outbox(), uid, w.results)
	before := map[string]bool{}
	for _, n := range entries {
		before[Key(uid, n)] = true
	}
	var lost []candorv1alpha1.Notification
	if due, is := Due(w.state, look); is {
		entries, lost = Queue(entries, due, w.sinks, w.now)
	}
	if !w.store(entries, look) {
		return
	}
	w.results = nil
	for _, n := range append(lost, failed...) {
		w.excused[Key(uid, n)] = true
	}
	for _, n := range entries {
		if key := Key(uid, n); !before[key] {
			w.due = append(w.due, key)
		}
	}
}

// look is what the next look at the Finding finds.
func (w *world) look() Snapshot {
	observed := []candorv1alpha1.Observation{
		candorv1alpha1.ObservedPresent, candorv1alpha1.ObservedPresent, candorv1alpha1.ObservedCleared, candorv1alpha1.ObservedOwnerGone,
		candorv1alpha1.ObservedMissing, candorv1alpha1.ObservedExcluded,
	}[w.r.IntN(6)]
	next := verify.Next(verify.State{Outcome: w.state.Outcome, Former: w.state.Former, Recurred: w.state.Recurred}, observed)
	look := w.state
	look.Outcome, look.Former, look.Recurred = next.Outcome, next.Former, next.Recurred
	if look.Fingerprint == "" || observed == candorv1alpha1.ObservedPresent && w.r.IntN(2) == 0 {
		look.Severity = signals.Rank(1 + w.r.IntN(4))
		look.Fingerprint = fmt.Sprintf("%d%063d", look.Severity, w.r.IntN(3))
	}
	look.Muted = w.r.IntN(5) == 0
	return look
}

// send hands what is ready to the sinks, which take it or not; the process hears of it only later.
func (w *world) send() {
	held := map[string]bool{}
	for _, n := range Ready(w.outbox(), w.now) {
		if held[n.Sink] {
			continue
		}
		key, content := Key(uid, n), fmt.Sprint(n.Sink, n.Event, n.Fingerprint, n.Occurrence, n.Severity, n.Before, n.At.UTC())
		if old, again := w.said[key]; again && old != content && !w.excused[key] {
			w.Fatalf("key %s stands for %s and for %s", key, old, content)
		}
		result := Result{Key: key, At: w.now}
		if !w.down[n.Sink] {
			w.said[key] = content
			w.had = append(w.had, key)
			result.Delivered = true
		}
		if w.down[n.Sink] || w.r.IntN(5) == 0 { // A sink may take it and its answer be lost.
			result.Delivered, result.RetryAfter = false, time.Duration(w.r.IntN(90))*time.Minute
			held[n.Sink] = true
		}
		w.results = append(w.results, result)
	}
}

// step is one thing that may happen.
func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.r.IntN(20)) * time.Minute)
	switch w.r.IntN(8) {
	case 0, 1:
		w.pass(w.look())
	case 2:
		w.pass(w.state)
	case 3, 4, 5:
		w.send()
	case 6:
		w.results = nil // The process dies, and another one begins with what is stored.
	case 7:
		sink := w.sinks[w.r.IntN(len(w.sinks))]
		w.down[sink] = !w.down[sink]
	}
}

// settle lets everything work until nothing waits.
func (w *world) settle() {
	w.down = map[string]bool{}
	for range 10_000 {
		w.send()
		w.pass(w.state)
		next := NextAttempt(w.outbox(), w.now)
		switch {
		case !next.IsZero():
			w.now = next
		case len(Ready(w.outbox(), w.now)) == 0 && len(w.results) == 0:
			return
		}
	}
	w.Fatal("something waits for ever")
}

func TestWhatFallsDueIsToldWhateverHappens(t *testing.T) {
	told, again := 0, 0
	for seed := range uint64(300) {
		w := newWorld(t, seed)
		for range 60 {
			w.step()
		}
		w.settle()

		times := map[string]int{}
		for _, key := range w.had {
			times[key]++
		}
		for _, key := range w.due {
			if times[key] == 0 && !w.excused[key] {
				t.Fatalf("seed %d: an event fell due that nobody was told of", seed)
			}
		}
		told += len(times)
		again += len(w.had) - len(times)
		if len(w.excused) > 0 && len(w.due) <= MaxEntries && w.now.Sub(start) < Patience {
			t.Fatalf("seed %d: %d events were given up though there was room and time", seed, len(w.excused))
		}
	}
	if told < 500 || again < 100 {
		t.Fatalf("%d events were told, %d of them again: the model does not try what it is for", told, again)
	}
}

func TestASinkHearsInTheOrderOfWhatHappened(t *testing.T) {
	for seed := range uint64(300) {
		w := newWorld(t, seed)
		w.sinks = w.sinks[:1]
		for range 60 {
			w.step()
		}
		w.settle()
		place := map[string]int{}
		for i, key := range w.due {
			place[key] = i
		}
		last, seen := -1, map[string]bool{}
		for _, key := range w.had {
			if seen[key] || w.excused[key] {
				continue
			}
			seen[key] = true
			if place[key] < last {
				t.Fatalf("seed %d: event %d was told after event %d", seed, place[key], last)
			}
			last = place[key]
		}
	}
}

func TestTwoEventsNeverShareAKey(t *testing.T) {
	for seed := range uint64(200) {
		w := newWorld(t, seed)
		for range 60 {
			w.step()
		}
		w.settle()
		contents := map[string]string{}
		for key, content := range w.said {
			if other, taken := contents[content]; taken && other != key {
				t.Fatalf("seed %d: one event has the keys %s and %s", seed, key, other)
			}
			contents[content] = key
		}
	}
}
