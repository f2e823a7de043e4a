// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llm

import "time"

// Class is what went wrong with a call. Its text is a reason of a condition and a label of metrics.
type Class string

const (
	// RateLimited means that the server asks to wait.
	RateLimited Class = "RateLimited"
	// QuotaExhausted means that the account has nothing left: waiting does not help, a person has to act.
	QuotaExhausted Class = "QuotaExhausted"
	// AuthFailed means that the key is missing, wrong, or not allowed to use the model.
	AuthFailed Class = "AuthFailed"
	// ConfigInvalid means that the server refuses the request as it is.
	ConfigInvalid Class = "ConfigInvalid"
	// ModelNotFound means that the server knows no such model or path.
	ModelNotFound Class = "ModelNotFound"
	// Refused means that the model declined to answer.
	Refused Class = "Refused"
	// Truncated means that the answer was longer than it may be.
	Truncated Class = "Truncated"
	// InvalidOutput means that the answer is not what was asked for.
	InvalidOutput Class = "InvalidOutput"
	// TooLarge means that the server sent more than any answer needs.
	TooLarge Class = "TooLarge"
	// Unavailable means that the server failed or is overloaded.
	Unavailable Class = "Unavailable"
	// Timeout means that no whole answer came in time.
	Timeout Class = "Timeout"
	// Unreachable means that nothing was sent: the address cannot be resolved or dialled, or may not be.
	Unreachable Class = "Unreachable"
)

// Error is why a call gave no usable answer.
type Error struct {
	Class Class
	// After is how long the server asked to wait, an hour at most; zero when it did not say.
	After time.Duration
	// Billed tells that the call is paid for, or that nobody can know.
	Billed bool
	// Usage is what the server reported although the answer cannot be used; nil when it reported nothing.
	Usage *Usage
	// Err says what happened in one line. Nothing secret is in it, and of the server's own words at most 200 bytes.
	Err error
}

// Error implements error.
func (e *Error) Error() string { return string(e.Class) + ": " + e.Err.Error() }

// Unwrap gives errors.Is and errors.As the cause.
func (e *Error) Unwrap() error { return e.Err }

// OfBackend tells that the error concerns every call to this server, and not this one alone.
func (e *Error) OfBackend() bool {
	switch e.Class {
	case RateLimited, QuotaExhausted, AuthFailed, ModelNotFound, Unavailable, Unreachable:
		return true
	default:
		return false
	}
}
