// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/candor-dev/candor/internal/fault"
)

// knockInterval is how long after a refusal of the credentials one call tries again whether they are taken now.
const knockInterval = time.Minute

// everything is the door of all procedures.
const everything = ""

// pauses hold back calls that would be refused.
type pauses struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// begun counts the pauses that began.
	begun int
	// rest is when a server that is too busy may be asked again, and why that is so.
	rest    time.Time
	restWhy *Error
	// doors are closed ones, by procedure.
	doors map[string]*door
}

// door is closed after the credentials were refused. Now and then one call knocks.
type door struct {
	why      *Error
	next     time.Time
	knocking bool
}

// pass lets one call try.
type pass struct {
	begun int
	// knocks says that the call finds out whether its doors open again.
	knocks bool
}

// enter lets a call try, or returns why it may not.
func (p *pauses) enter(procedure string) (pass, *fault.Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.held(everything, procedure); f != nil {
		return pass{}, f
	}
	let := pass{begun: p.begun}
	for _, key := range []string{everything, procedure} {
		if d := p.doors[key]; d != nil {
			d.knocking, let.knocks = true, true
		}
	}
	return let, nil
}

// available returns why each call would be held back.
func (p *pauses) available() *fault.Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held(everything)
}

func (p *pauses) held(keys ...string) *fault.Fault {
	now := p.clock.Now()
	if now.Before(p.rest) {
		return held(p.restWhy, p.rest.Sub(now))
	}
	for _, key := range keys {
		switch d := p.doors[key]; {
		case d == nil:
		case d.knocking:
			return held(d.why, knockInterval)
		case now.Before(d.next):
			return held(d.why, d.next.Sub(now))
		}
	}
	return nil
}

// held is the fault of a call that is not tried.
func held(why *Error, after time.Duration) *fault.Fault {
	f := why.fault()
	f.After, f.Err = after, fmt.Errorf("nothing is sent for now, since a call failed: %w", why)
	return f
}

// stale tells that a pause began since the call was let in.
func (p *pauses) stale(let pass) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return let.begun != p.begun
}

// leave gives a pass back unused.
func (p *pauses) leave(procedure string, let pass) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopKnocking(procedure, let, p.clock.Now())
}

// learn takes in how a call ended, nil for well. It tells whether a pause began, and whether a door opened.
func (p *pauses) learn(procedure string, let pass, e *Error) (paused, opened bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	if let.knocks && known(e) {
		opened = p.open(everything)
		if e == nil || e.class != forbidden {
			opened = p.open(procedure) || opened
		}
	}
	p.stopKnocking(procedure, let, now.Add(knockInterval))
	switch {
	case e == nil || procedure == getLimits && e.class == forbidden: // few may ask for limits, and nobody needs to
		return false, opened
	case e.class == unauthenticated:
		p.close(everything, e, now)
	case e.class == forbidden:
		p.close(procedure, e, now)
	case e.class == busy:
		if until := now.Add(e.RetryAfter); until.After(p.rest) {
			p.rest, p.restWhy = until, e
		}
	default:
		return false, opened
	}
	p.begun++
	return true, opened
}

// known tells that the API took the credentials: it did as it was told, or refused that alone.
func known(e *Error) bool {
	if e == nil {
		return true
	}
	switch e.class {
	case refused, forbidden, notFound, conflict:
		return e.Code != ""
	}
	return false
}

func (p *pauses) close(key string, e *Error, now time.Time) {
	if p.doors == nil {
		p.doors = map[string]*door{}
	}
	p.doors[key] = &door{why: e, next: now.Add(knockInterval)}
}

func (p *pauses) open(key string) bool {
	_, closed := p.doors[key]
	delete(p.doors, key)
	return closed
}

func (p *pauses) stopKnocking(procedure string, let pass, next time.Time) {
	if !let.knocks {
		return
	}
	for _, key := range []string{everything, procedure} {
		if d := p.doors[key]; d != nil && d.knocking {
			d.knocking, d.next = false, next
		}
	}
}

// forget opens all doors, for other credentials. A server that is too busy stays so.
func (p *pauses) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doors = nil
}

// now tells which pauses there are.
func (p *pauses) now() (rests, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clock.Now().Before(p.rest), len(p.doors) > 0
}
