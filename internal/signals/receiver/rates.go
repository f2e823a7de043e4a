// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

const (
	// perSecond and burst bound what is taken for one policy.
	perSecond = 10
	burst     = 50
	// maxPolicies is how many policies' rates are known at once. A policy that was forgotten begins anew.
	maxPolicies = 10_000
)

// rates bounds how much is taken for each policy.
type rates struct {
	mu       sync.Mutex
	policies *lru.Cache
}

func newRates() *rates { return &rates{policies: lru.New(maxPolicies)} }

// wait counts a request, or returns how long it has to wait; then it is not counted.
func (r *rates) wait(policy types.NamespacedName, now time.Time) time.Duration {
	reservation := r.of(policy).ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

func (r *rates) of(policy types.NamespacedName) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known, found := r.policies.Get(policy); found {
		return known.(*rate.Limiter)
	}
	limiter := rate.NewLimiter(perSecond, burst)
	r.policies.Add(policy, limiter)
	return limiter
}
