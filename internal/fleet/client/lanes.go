// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"container/list"
	"context"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

// lane is a queue of calls that wait for their turn.
type lane int

const (
	// urgent calls are few: everything about pipelines, and lists.
	urgent lane = iota
	// bulk calls may come by the thousands: those about single collectors.
	bulk
)

// urgentTurns is how many urgent calls go before a bulk call that waits.
const urgentTurns = 2

func laneOf(procedure string) lane {
	if strings.HasPrefix(procedure, "/collector.") && !strings.HasPrefix(path.Base(procedure), "List") {
		return bulk
	}
	return urgent
}

// lanes hand out the turns of one token bucket.
type lanes struct {
	clock clock.Clock
	// most is the rate of the bucket that pace never exceeds.
	most rate.Limit

	mu      sync.Mutex
	bucket  *rate.Limiter
	waiting [2]list.List // of channels, by lane; a closed one says that it is its owner's turn
	row     int          // urgent turns in a row while bulk calls waited
	serving bool         // someone hands out turns
	// left is filled when the last who waited has gone without a turn.
	left chan struct{}
}

func newLanes(rps float64, burst int, clock clock.Clock) *lanes {
	return &lanes{clock: clock, most: rate.Limit(rps), bucket: rate.NewLimiter(rate.Limit(rps), burst), left: make(chan struct{}, 1)}
}

// pace sets how many turns there are a second in the long run; zero or less, and more than most, are most.
func (l *lanes) pace(rps float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := rate.Limit(rps)
	if limit <= 0 || limit > l.most {
		limit = l.most
	}
	if limit != l.bucket.Limit() {
		l.bucket.SetLimitAt(l.clock.Now(), limit)
	}
}

// wait returns when it is the caller's turn, or after interrupt, or with the error of the context.
func (l *lanes) wait(ctx context.Context, lane lane) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	if l.empty() && l.bucket.AllowN(l.clock.Now(), 1) {
		l.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	place := l.waiting[lane].PushBack(turn)
	if !l.serving {
		l.serving = true
		go l.serve()
	}
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		l.waiting[lane].Remove(place)
		l.leave()
		return ctx.Err()
	}
}

// serve hands out turns until nobody waits. A token is taken first, and given when it comes: who gets it is decided then.
func (l *lanes) serve() {
	for token := l.reserve(); token != nil; token = l.reserve() {
		if delay := token.DelayFrom(l.clock.Now()); delay > 0 {
			timer := l.clock.NewTimer(delay)
			select {
			case <-timer.C():
			case <-l.left:
				timer.Stop()
				token.CancelAt(l.clock.Now())
				continue
			}
		}
		l.give()
	}
}

// reserve takes the next token, or returns nil when nobody waits.
func (l *lanes) reserve() *rate.Reservation {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.empty() {
		l.serving = false
		return nil
	}
	return l.bucket.ReserveN(l.clock.Now(), 1)
}

// leave lets serve end early when nobody is left.
func (l *lanes) leave() {
	if !l.serving || !l.empty() {
		return
	}
	select {
	case l.left <- struct{}{}:
	default:
	}
}

// give lets the next call go.
func (l *lanes) give() {
	l.mu.Lock()
	defer l.mu.Unlock()
	next, both := urgent, l.waiting[urgent].Len() > 0 && l.waiting[bulk].Len() > 0
	switch {
	case both && l.row < urgentTurns:
		l.row++
	case both || l.waiting[urgent].Len() == 0:
		next, l.row = bulk, 0
	}
	if first := l.waiting[next].Front(); first != nil {
		close(l.waiting[next].Remove(first).(chan struct{}))
	}
}

// interrupt lets all who wait look again whether they may.
func (l *lanes) interrupt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for lane := range l.waiting {
		for first := l.waiting[lane].Front(); first != nil; first = l.waiting[lane].Front() {
			close(l.waiting[lane].Remove(first).(chan struct{}))
		}
	}
	l.leave()
}

// rest empties the bucket for a time to come, but for one token: who asked us to wait does not want to see a burst then.
func (l *lanes) rest(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if spare := int(l.bucket.TokensAt(until)) - 1; spare > 0 {
		l.bucket.AllowN(until, spare)
	}
}

func (l *lanes) empty() bool { return l.waiting[urgent].Len()+l.waiting[bulk].Len() == 0 }
