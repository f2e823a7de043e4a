// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/candor-dev/candor/internal/fault"
)

// knockInterval is how long after a refusal of the credentials, or an answer of somebody else, one call tries again whether the API
// takes them now.
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

// door is closed after the credentials were refused, or somebody else than the API answered. Now and then one call knocks.
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
	f.After, f.Err = after, &heldError{why}
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
		if e == nil || e.class != forbidden && e.class != wrongURL {
			opened = p.open(procedure) || opened
		}
	}
	p.stopKnocking(procedure, let, now.Add(knockInterval))
	switch {
	case e == nil || procedure == getLimits && e.class != busy && e.class != unauthenticated:
		// Few may ask for limits, not every server knows them, and nobody needs to.
		return false, opened
	case e.class == unauthenticated, e.class == wrongURL && e.Code == "":
		p.close(everything, e, now)
	case e.class == forbidden, e.class == wrongURL: // an API that does not know a procedure knows others
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
	case refused, forbidden, notFound, conflict, wrongURL:
		return e.Code != ""
	}
	return false
}

// close keeps why a door was closed first: each probe may be another call that is answered in other words, and what is held back
// would tell them all in turn.
func (p *pauses) close(key string, e *Error, now time.Time) {
	if p.doors == nil {
		p.doors = map[string]*door{}
	}
	why := e
	if d := p.doors[key]; d != nil && d.why.class == e.class {
		why = d.why
	}
	p.doors[key] = &door{why: why, next: now.Add(knockInterval)}
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

// reasons tells which pauses there are, by the reason of their faults.
func (p *pauses) reasons() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]bool{table[busy].reason: p.clock.Now().Before(p.rest)}
	for _, d := range p.doors {
		all[table[d.why.class].reason] = true
	}
	return all
}

// heldError is that of a call that is not tried. It names no procedure: of all that is held back, each says the same.
type heldError struct{ why *Error }

// Error tells what the call that failed was told.
func (e *heldError) Error() string {
	return "nothing is sent for now, since a call failed: " + e.why.told()
}

// Unwrap gives errors.As the error of the call that failed.
func (e *heldError) Unwrap() error { return e.why }
