// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetserver

import (
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
)

// Rule says what becomes of calls. Of several that fit a call, the one that was set first answers it.
type Rule struct {
	// Procedure is the name without its service, such as "UpsertPipeline"; empty is every procedure.
	Procedure string
	// Times is how many calls the rule is for; zero is all until ClearFaults.
	Times int
	// Respond is what happens to a call.
	Respond Response
	// AfterApplying is true to let the server do what it is asked before Respond, as when an answer is lost.
	AfterApplying bool
	// Match narrows the rule to requests; nil is all of them. It must neither change the request nor ask the
	// server. That of GetLimits is a structpb.Struct.
	Match func(proto.Message) bool
}

// Response is what becomes of a call. Those that only take time (Delay, Hold) let the call go on: to the next rule that fits it,
// or to the server.
type Response struct {
	do func(context.Context, *exchange) error
	// passes is true where the call goes on.
	passes bool
}

// ConnectError answers with an error of the API, in the form and with the HTTP status that Connect gives its code.
func ConnectError(code connect.Code, message string) Response {
	return Response{do: func(context.Context, *exchange) error { return connect.NewError(code, errors.New(message)) }}
}

// PlainText answers as something before the API does: with this HTTP status, body and headers. The content type is text/plain
// unless the headers say another.
func PlainText(status int, body string, headers map[string]string) Response {
	return Response{do: func(_ context.Context, e *exchange) error {
		e.instead = page(status, body, headers)
		return errInstead
	}}
}

// Drop ends the call without an answer: it closes the connection, or under HTTP/2 the stream.
func Drop() Response {
	return Response{do: func(context.Context, *exchange) error { panic(http.ErrAbortHandler) }}
}

// Hang answers nothing until the client gives up or the server is closed.
func Hang() Response {
	return Response{do: func(_ context.Context, e *exchange) error {
		wait[struct{}](e, nil)
		panic(http.ErrAbortHandler)
	}}
}

// Hold keeps the call until release is closed.
func Hold(release <-chan struct{}) Response {
	return Response{passes: true, do: func(_ context.Context, e *exchange) error {
		if !wait(e, release) {
			panic(http.ErrAbortHandler)
		}
		return nil
	}}
}

// Delay keeps the call for this long, by the clock of the machine.
func Delay(latency time.Duration) Response {
	return Response{passes: true, do: func(_ context.Context, e *exchange) error {
		timer := time.NewTimer(latency)
		defer timer.Stop()
		if !wait(e, timer.C) {
			panic(http.ErrAbortHandler)
		}
		return nil
	}}
}

// Fail adds a rule. It panics where the rule names no procedure of the API, or has no Respond.
func (s *Server) Fail(rule Rule) {
	if rule.Procedure != "" {
		mustKnow(rule.Procedure)
	}
	if rule.Respond.do == nil {
		panic("fleetserver: a Rule needs Respond")
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.rules = append(s.rules, &rule)
}

// ClearFaults forgets all rules. Calls that hang or are held back stay so.
func (s *Server) ClearFaults() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.rules = nil
}

// intercept carries the rules out around a service.
func (s *Server) intercept(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		e := ctx.Value(exchangeKey{}).(*exchange)
		message := request.Any().(proto.Message)
		s.understood(e.call, message)
		before, after := s.take(e.call.Procedure, message)
		if err := respond(ctx, e, before); err != nil {
			return nil, err
		}
		response, err := next(ctx, request)
		if failure := respond(ctx, e, after); failure != nil {
			return nil, failure
		}
		return response, err
	}
}

// take finds the rules for one call and uses them up.
func (s *Server) take(procedure string, message proto.Message) (before, after []Response) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	kept := s.rules[:0:0]
	done := false
	for _, rule := range s.rules {
		if done || !rule.fits(procedure, message) {
			kept = append(kept, rule)
			continue
		}
		if rule.AfterApplying {
			after = append(after, rule.Respond)
		} else {
			before = append(before, rule.Respond)
		}
		done = !rule.Respond.passes
		if rule.Times--; rule.Times != 0 {
			kept = append(kept, rule)
		}
	}
	s.rules = kept
	return before, after
}

func (r *Rule) fits(procedure string, message proto.Message) bool {
	return (r.Procedure == "" || r.Procedure == procedure) && (r.Match == nil || r.Match(message))
}

func respond(ctx context.Context, e *exchange, responses []Response) error {
	for _, response := range responses {
		if err := response.do(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// wait returns true when release fires, and false when nobody waits for an answer any more.
func wait[T any](e *exchange, release <-chan T) bool {
	select {
	case <-release:
		return true
	case <-e.gone:
	case <-e.server.closed:
	}
	return false
}

// errInstead is never seen: exchange.instead answers.
var errInstead = errors.New("answered instead of the API")

func page(status int, body string, headers map[string]string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}
