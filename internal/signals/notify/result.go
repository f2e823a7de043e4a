// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

const (
	firstBackoff = 30 * time.Second
	maxBackoff   = time.Hour
	// Patience is how long after an event it is tried to tell of it.
	Patience = 24 * time.Hour
)

// Result is what became of sending an event or a message.
type Result struct {
	// Key is that of the entry.
	Key       string
	Delivered bool
	// RetryAfter is what the receiver asked for; zero when it did not.
	RetryAfter time.Duration
	// At is when it became known.
	At time.Time
}

// Backoff returns the wait after a number of failures in a row: 30 s after the first, twice as long each time, at least what
// the receiver asked for, and at most an hour.
func Backoff(failures int32, retryAfter time.Duration) time.Duration {
	wait := maxBackoff
	if doublings := max(failures, 1) - 1; doublings < 7 {
		wait = firstBackoff << doublings
	}
	return min(max(wait, retryAfter), maxBackoff)
}

// Record returns the outbox of the Finding with this UID with results written into it, and the entries that were given up
// because of them: those that could not be delivered 24 h after the event. Results of entries that it does not hold are
// ignored. What is handed in is not changed.
func Record(notified []candorv1alpha1.Notification, uid types.UID, results []Result) (recorded, failed []candorv1alpha1.Notification) {
	recorded = slices.Clone(notified)
	for _, r := range results {
		i := slices.IndexFunc(recorded, func(n candorv1alpha1.Notification) bool { return Key(uid, n) == r.Key })
		if i < 0 || recorded[i].State == candorv1alpha1.NotificationSent {
			continue
		}
		if n := &recorded[i]; r.Delivered {
			n.State, n.NextAttempt = candorv1alpha1.NotificationSent, metav1.Time{}
		} else if pending(*n) && postpone(r, n.At, &n.Attempts, &n.NextAttempt) {
			n.State = candorv1alpha1.NotificationFailed
			failed = append(failed, *n)
		}
	}
	return recorded, failed
}

// postpone counts a failure and sets when it is tried again, or reports that it is not.
func postpone(r Result, since metav1.Time, attempts *int32, next *metav1.Time) (givenUp bool) {
	*attempts = min(*attempts+1, maxAttempts)
	if !r.At.Before(since.Add(Patience)) {
		*next = metav1.Time{}
		return true
	}
	*next = seconds(r.At.Add(Backoff(*attempts, r.RetryAfter)))
	return false
}

// Waits reports whether an attempt is yet to come. One that is further off than any wait was set by a clock that was ahead, and
// is made at once.
func Waits(next metav1.Time, now time.Time) bool {
	return next.After(now) && !next.After(now.Add(maxBackoff))
}

// Ready returns the entries to send at now, in order. What a sink is told stays in order: behind an entry that waits for its
// next attempt, the later ones of the same sink wait too.
func Ready(notified []candorv1alpha1.Notification, now time.Time) []candorv1alpha1.Notification {
	var ready []candorv1alpha1.Notification
	waits := map[string]bool{}
	for _, n := range notified {
		switch {
		case !pending(n) || waits[n.Sink]:
		case Waits(n.NextAttempt, now):
			waits[n.Sink] = true
		default:
			ready = append(ready, n)
		}
	}
	return ready
}

// NextAttempt returns when to look for entries to send again: the first attempt after now; zero when none waits.
func NextAttempt(notified []candorv1alpha1.Notification, now time.Time) time.Time {
	var next time.Time
	waits := map[string]bool{}
	for _, n := range notified {
		if !pending(n) || waits[n.Sink] || !Waits(n.NextAttempt, now) {
			continue
		}
		waits[n.Sink] = true
		if next.IsZero() || n.NextAttempt.Time.Before(next) {
			next = n.NextAttempt.Time
		}
	}
	return next
}
