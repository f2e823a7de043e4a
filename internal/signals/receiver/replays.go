// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
)

const (
	// maxKnown is how many requests are remembered, over all policies.
	maxKnown = 10_000
	// knownFor is how long. A signature with a time is good for ten minutes at most, from five before it to five after.
	knownFor = 2 * ClockWindow
)

// replays tells a request that says again what was said last from one that somebody recorded. The former goes to the Store, which
// knows what other replicas were told in between.
type replays struct {
	mu    sync.Mutex
	going map[string]bool
	// taken holds the subject of each request by its key, last the word that was the last of each subject.
	taken, last *cache.LRUExpireCache
}

// word is a request that was taken.
type word struct {
	key string
	// at is when it was signed; zero where nobody knows.
	at time.Time
}

func newReplays(c clock.PassiveClock) *replays {
	return &replays{
		going: map[string]bool{}, taken: cache.NewLRUExpireCacheWithClock(maxKnown, c), last: cache.NewLRUExpireCacheWithClock(maxKnown, c),
	}
}

// begin says why a request is not to be taken: the very same one is being taken, or was, and another of its subject after it.
// Where there is no reason, end must be called.
func (r *replays) begin(key string) Reason {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.going[key] {
		return ReasonBusy
	}
	if subject, known := r.taken.Get(key); known {
		if last, found := r.last.Get(subject); !found || last.(word).key != key {
			return ReasonReplay
		}
	}
	r.going[key] = true
	return ""
}

// overtaken reports whether a request that was signed at a time comes after one of its subject that was signed later. The Store
// knows that of what it keeps; of what changed nothing, it keeps nothing.
func (r *replays) overtaken(subject string, at time.Time) bool {
	last, found := r.last.Get(subject)
	return found && !at.IsZero() && at.Before(last.(word).at)
}

// note remembers a request that was taken, and was signed at a time.
func (r *replays) note(key, subject string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken.Add(key, subject, knownFor)
	r.last.Add(subject, word{key, at}, knownFor)
}

// end ends what begin let through.
func (r *replays) end(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.going, key)
}
