// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package extsync

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Targets spaces fetches from the same server or database. It is safe for concurrent use.
type Targets struct {
	// Rate is how many fetches a second each target gets; 0 or less bounds nothing. Burst is how many may come at once, at least 1.
	Rate  float64
	Burst int

	mu       sync.Mutex
	limiters map[string]*rate.Limiter
}

// Reserve takes the next fetch from a target, and returns when it may begin: now, or later.
func (t *Targets) Reserve(target string, now time.Time) time.Time {
	if t.Rate <= 0 {
		return now
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	burst := max(t.Burst, 1)
	for name, l := range t.limiters {
		if l.TokensAt(now) >= float64(burst) {
			delete(t.limiters, name)
		}
	}
	if t.limiters == nil {
		t.limiters = map[string]*rate.Limiter{}
	}
	if t.limiters[target] == nil {
		t.limiters[target] = rate.NewLimiter(rate.Limit(t.Rate), burst)
	}
	return now.Add(t.limiters[target].ReserveN(now, 1).DelayFrom(now))
}

// Len is how many targets are remembered: one that was left alone long enough for all of its burst is not.
func (t *Targets) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.limiters)
}
