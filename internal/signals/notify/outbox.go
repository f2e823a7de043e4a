// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"encoding/json"
	"slices"
	"time"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// Bounds of the outbox of a Finding.
const (
	// MaxEntries is how many entries it has.
	MaxEntries = 16
	// MaxBytes is how much JSON they take, after any number of attempts.
	MaxBytes = 3 << 10
	// maxAttempts is where counting the attempts ends, so that entries do not grow.
	maxAttempts = 999
)

// Queue returns the outbox with an entry for each sink that is to hear of what fell due at now, in their order, and what was
// given up for want of room. An event that the outbox holds already, sent or not, is not queued again, except one that nobody
// could be told of, and a mute that ended at another time. What is handed in is not changed.
//
// Where there is no room, entries that are done with go first, then whole stretches of one sink that a later one of the same
// kind makes up for (it ended and came back, or came and ended), then what a later entry of the same sink supersedes, then the
// oldest, of equally old ones the last, and at last what is being queued, for the last sinks.
func Queue(notified []candorv1alpha1.Notification, due Occasion, sinks []string, now time.Time) (queued, lost []candorv1alpha1.Notification) {
	entries := slices.Clone(notified)
	for _, sink := range sinks {
		entry := candorv1alpha1.Notification{
			Sink: sink, Event: due.Event, Fingerprint: due.Fingerprint, Occurrence: due.Occurrence, Severity: due.Severity, Before: due.Before,
			State: candorv1alpha1.NotificationPending, At: seconds(now),
		}
		i := slices.IndexFunc(entries, func(n candorv1alpha1.Notification) bool { return n.Sink == sink && due.is(n) })
		switch {
		case i < 0:
			entries = append(entries, entry)
		case again(entries[i], entry):
			entries = append(slices.Delete(entries, i, i+1), entry)
		}
	}
	return fit(entries, due)
}

// is reports whether an entry tells of this very event.
func (o Occasion) is(n candorv1alpha1.Notification) bool {
	return n.Event == o.Event && n.Fingerprint == o.Fingerprint && n.Occurrence == o.Occurrence
}

// again reports whether an event is queued that the outbox holds already.
func again(old, entry candorv1alpha1.Notification) bool {
	switch old.State {
	case candorv1alpha1.NotificationFailed:
		return true
	case candorv1alpha1.NotificationSent:
		return entry.Event == candorv1alpha1.EventSuppressionEnded && !old.At.Equal(&entry.At)
	default:
		return false
	}
}

// fit gives up entries until the rest is within the bounds.
func fit(entries []candorv1alpha1.Notification, due Occasion) (kept, lost []candorv1alpha1.Notification) {
	bytes := len("[]")
	for _, n := range entries {
		bytes += size(n)
	}
	for len(entries) > MaxEntries || bytes > MaxBytes {
		for _, i := range slices.Backward(leastWanted(entries, due)) {
			bytes -= size(entries[i])
			if pending(entries[i]) {
				lost = append(lost, entries[i])
			}
			entries = slices.Delete(entries, i, i+1)
		}
	}
	return entries, lost
}

// size returns the bytes of JSON that an entry may take in time.
func size(n candorv1alpha1.Notification) int {
	if pending(n) {
		n.Attempts, n.NextAttempt = maxAttempts, n.At
	}
	text, _ := json.Marshal(n)
	return len(text) + len(",")
}

// leastWanted returns the places, in order, of what can best be done without. Entries of the event that is being queued stay
// as long as others can go, and then the last goes first, so that queueing it twice is the same as once.
func leastWanted(entries []candorv1alpha1.Notification, due Occasion) []int {
	for _, state := range []candorv1alpha1.NotificationState{candorv1alpha1.NotificationSent, candorv1alpha1.NotificationFailed} {
		i := slices.IndexFunc(entries, func(n candorv1alpha1.Notification) bool { return n.State == state && !due.is(n) })
		if i >= 0 {
			return []int{i}
		}
	}
	bySink, sinks := waitingFor(entries)
	for _, sink := range sinks {
		if moot := madeUpFor(entries, bySink[sink]); moot != nil && !slices.ContainsFunc(moot, func(i int) bool { return due.is(entries[i]) }) {
			return moot
		}
	}
	for _, sink := range sinks {
		if places := bySink[sink]; len(places) > 1 && !due.is(entries[places[0]]) {
			return places[:1]
		}
	}
	return []int{oldest(entries, due)}
}

// waitingFor returns the places of the pending entries of each sink, and the sinks in the order of their first.
func waitingFor(entries []candorv1alpha1.Notification) (bySink map[string][]int, sinks []string) {
	bySink = map[string][]int{}
	for i, n := range entries {
		if !pending(n) {
			continue
		}
		if bySink[n.Sink] == nil {
			sinks = append(sinks, n.Sink)
		}
		bySink[n.Sink] = append(bySink[n.Sink], i)
	}
	return bySink, sinks
}

// madeUpFor returns the first two stretches of what one sink is to be told, where a third follows: after it, the sink knows as
// much as if it had heard all three.
func madeUpFor(entries []candorv1alpha1.Notification, places []int) []int {
	turns := 0
	for k := 1; k < len(places); k++ {
		if ends(entries[places[k]]) != ends(entries[places[k-1]]) {
			if turns++; turns == 2 {
				return places[:k]
			}
		}
	}
	return nil
}

// oldest returns the place of the oldest entry of other events, of equally old ones the last. Without any it is the last entry.
func oldest(entries []candorv1alpha1.Notification, due Occasion) int {
	place := -1
	for i, n := range entries {
		if !due.is(n) && (place < 0 || !entries[place].At.Before(&n.At)) {
			place = i
		}
	}
	if place < 0 {
		return len(entries) - 1
	}
	return place
}

func pending(n candorv1alpha1.Notification) bool {
	return n.State == candorv1alpha1.NotificationPending
}

func ends(n candorv1alpha1.Notification) bool { return n.Event == candorv1alpha1.EventResolved }
