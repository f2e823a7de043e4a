// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fault says what went wrong and what a controller should do about it. Clients translate the codes of their API
// into faults at their own edge; a controller never sees a code.
package fault

import (
	"errors"
	"time"
)

// Kind is what a controller should do about a fault.
type Kind int

const (
	// Retry backs off and tries again.
	Retry Kind = iota
	// Wait tries again after a known delay.
	Wait
	// Terminal means that trying again cannot help until the spec changes.
	Terminal
	// NotFound means that the thing is not there.
	NotFound
)

// Fault is an error with a reason for the user and a Kind for the controller.
type Fault struct {
	Kind Kind
	// Reason becomes a condition reason: CamelCase, never empty.
	Reason string
	// After is the delay of a Wait.
	After time.Duration
	// Unclear says that nothing is known to be wrong with the object, such as when a server is too busy to tell.
	Unclear bool
	// Err says what was tried and what happened. Nothing secret may be in it.
	Err error
}

// Error implements error.
func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap gives errors.Is and errors.As the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Of returns the Fault in err's chain; any other error is a Retry with the given reason.
func Of(err error, reason string) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	return &Fault{Kind: Retry, Reason: reason, Err: err}
}

// IgnoreNotFound drops a fault that says the thing is already gone.
func IgnoreNotFound(err error) error {
	var f *Fault
	if errors.As(err, &f) && f.Kind == NotFound {
		return nil
	}
	return err
}
