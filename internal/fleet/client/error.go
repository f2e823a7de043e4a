// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"

	"connectrpc.com/connect"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
)

var (
	// ErrExists matches the error of creating what exists.
	ErrExists = errors.New("it exists already")
	// ErrOtherStack matches the error of a call that was bound to a stack which the credentials are no longer of.
	ErrOtherStack = errors.New("the credentials are those of another stack")
	// ErrMismatch matches the error of an operation that finds another value than it expects.
	ErrMismatch = errors.New("it is not as expected")
)

// Error is what came of a request that failed.
type Error struct {
	// Procedure is the name of the method, such as UpdatePipeline.
	Procedure string
	// Status is that of HTTP, as it came; zero when no answer did.
	Status int
	// Code is Connect's, such as not_found; empty unless the API itself answered.
	Code string
	// Message is what the server, or whoever answered in its place, says: one line of up to 200 bytes.
	Message string
	// RetryAfter is how long to wait before the next request of any kind; zero unless the server asks for it.
	RetryAfter time.Duration

	procedure string // with the service
	class     class
	cause     error
}

// Error tells what was tried, what that means, and the server's own words.
func (e *Error) Error() string { return e.Procedure + ": " + e.told() }

func (e *Error) told() string {
	text := table[e.class].says
	var facts []string
	if e.Status != 0 {
		facts = append(facts, fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status)))
	}
	if e.Code != "" {
		facts = append(facts, e.Code)
	}
	if len(facts) > 0 {
		text += " (" + strings.Join(facts, ", ") + ")"
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// Unwrap gives errors.Is the cause, such as the end of a context.
func (e *Error) Unwrap() error { return e.cause }

// Is matches ErrExists and ErrMismatch.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrExists:
		return e.Code == connect.CodeAlreadyExists.String()
	case ErrMismatch:
		return e.Code == connect.CodeAborted.String() || e.Code == connect.CodeFailedPrecondition.String()
	}
	return false
}

// class is a row of the table.
type class int

const (
	failed class = iota
	refused
	unauthenticated
	forbidden
	notFound
	wrongURL
	conflict
	busy
)

// table says what each class of errors means.
var table = map[class]struct {
	kind   fault.Kind
	reason string
	says   string
}{
	failed:          {fault.Retry, fleetmanagementv1alpha1.ReasonSyncFailed, "no usable answer of Fleet Management"},
	refused:         {fault.Terminal, fleetmanagementv1alpha1.ReasonValidationError, "Fleet Management refuses it"},
	unauthenticated: {fault.Wait, fleetmanagementv1alpha1.ReasonAuthFailed, "Fleet Management refuses the credentials: check username and password"},
	forbidden: {
		fault.Wait, fleetmanagementv1alpha1.ReasonAuthFailed,
		"the credentials may not do this: the access policy needs the scopes fleet-management:read and fleet-management:write",
	},
	notFound: {fault.NotFound, fleetmanagementv1alpha1.ReasonSyncFailed, "Fleet Management has no such thing"},
	wrongURL: {fault.Wait, fleetmanagementv1alpha1.ReasonBaseURLWrong, "what answers is not the API of Fleet Management: check base-url"},
	conflict: {fault.Retry, fleetmanagementv1alpha1.ReasonSyncFailed, "Fleet Management sees a conflict"},
	busy:     {fault.Wait, fleetmanagementv1alpha1.ReasonRateLimited, "Fleet Management asks to wait"},
}

// fault says what to do about e.
func (e *Error) fault() *fault.Fault {
	row := table[e.class]
	f := &fault.Fault{Kind: row.kind, Reason: row.reason, Err: e, Unclear: e.class == busy}
	switch e.class {
	case unauthenticated, forbidden, wrongURL:
		f.After = knockInterval
	case busy:
		f.After = e.RetryAfter
	}
	return f
}

// newError fits what was seen of an exchange into the table.
func newError(procedure string, saw sight, cause error) *Error {
	e := &Error{Procedure: path.Base(procedure), procedure: procedure, Status: saw.status, Code: saw.code, Message: saw.message, cause: cause}
	e.class = saw.class()
	return e
}

// class judges the status first: whoever stands before the API and answers in its place, answers with a status alone.
func (s sight) class() class {
	code, toldByAPI := codesByName[s.code], s.code != ""
	switch {
	case s.redirected:
		return wrongURL
	case s.status == 0 || s.status >= http.StatusInternalServerError || s.status == http.StatusRequestTimeout:
		return failed
	case s.status == http.StatusOK:
		if s.foreign {
			return wrongURL
		}
		return failed
	case s.status == http.StatusUnauthorized || code == connect.CodeUnauthenticated:
		return unauthenticated
	case s.status == http.StatusForbidden || code == connect.CodePermissionDenied:
		return forbidden
	case code == connect.CodeResourceExhausted && strings.Contains(s.message, tooLargeToRead):
		return refused
	case s.status == http.StatusTooManyRequests || code == connect.CodeResourceExhausted:
		return busy
	}
	if toldByAPI {
		return toldBy(code)
	}
	return toldByEdge(s)
}

// tooLargeToRead is how a server of Connect says that a request is too large for it. Its code is that of too many requests.
const tooLargeToRead = "larger than configured max"

func toldBy(code connect.Code) class {
	switch code {
	case connect.CodeInvalidArgument, connect.CodeOutOfRange:
		return refused
	case connect.CodeNotFound:
		return notFound
	case connect.CodeAlreadyExists, connect.CodeAborted, connect.CodeFailedPrecondition:
		return conflict
	case connect.CodeUnimplemented:
		return wrongURL
	default:
		return failed
	}
}

func toldByEdge(s sight) class {
	switch {
	case s.foreign:
		return wrongURL
	case s.status == http.StatusBadRequest, s.status == http.StatusRequestEntityTooLarge:
		return refused
	case s.status == http.StatusConflict, s.status == http.StatusPreconditionFailed:
		return conflict
	default:
		return wrongURL
	}
}

// codesByName are Connect's codes by their names.
var codesByName = func() map[string]connect.Code {
	names := map[string]connect.Code{}
	for code := connect.CodeCanceled; code <= connect.CodeUnauthenticated; code++ {
		names[code.String()] = code
	}
	return names
}()
