// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package sinkserver

import (
	"context"
	"net/http"
)

// Behaviour answers one request.
type Behaviour func(w http.ResponseWriter, r *http.Request, request *Request)

// Good takes what the original takes, and refuses the rest.
func Good() Behaviour {
	return func(w http.ResponseWriter, _ *http.Request, request *Request) {
		if len(request.Problems) > 0 {
			http.Error(w, request.Problems[0], http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte("ok"))
	}
}

// Status answers with a status.
func Status(status int) Behaviour {
	return func(w http.ResponseWriter, _ *http.Request, _ *Request) {
		http.Error(w, http.StatusText(status), status)
	}
}

// RateLimited asks to wait. retryAfter is the header of this name, seconds or a date.
func RateLimited(retryAfter string) Behaviour {
	return func(w http.ResponseWriter, r *http.Request, request *Request) {
		w.Header().Set("Retry-After", retryAfter)
		Status(http.StatusTooManyRequests)(w, r, request)
	}
}

// Redirect sends the client to another address.
func Redirect(address string) Behaviour {
	return func(w http.ResponseWriter, r *http.Request, _ *Request) {
		http.Redirect(w, r, address, http.StatusTemporaryRedirect)
	}
}

// Answer answers well with these bytes.
func Answer(body []byte) Behaviour {
	return func(w http.ResponseWriter, _ *http.Request, _ *Request) { _, _ = w.Write(body) }
}

// Hang answers nothing until the client gives up or the server is closed.
func Hang() Behaviour {
	return func(_ http.ResponseWriter, r *http.Request, request *Request) { request.wait(r.Context(), nil) }
}

// Drop ends the connection without an answer: the client cannot know that the request has arrived. On a connection that was used
// before, that of Go sends a request with an Idempotency-Key again at once.
func Drop() Behaviour {
	return func(http.ResponseWriter, *http.Request, *Request) { panic(http.ErrAbortHandler) }
}

// Gate holds answers back until it is opened.
type Gate struct {
	arrived chan struct{}
	opened  chan struct{}
}

// NewGate returns a closed gate.
func NewGate() *Gate { return &Gate{arrived: make(chan struct{}, 1024), opened: make(chan struct{})} }

// Arrived receives once for each request that has come to the gate.
func (g *Gate) Arrived() <-chan struct{} { return g.arrived }

// Open lets all requests go on. It may be called once.
func (g *Gate) Open() { close(g.opened) }

// Then holds a request at the gate, and answers it after.
func (g *Gate) Then(next Behaviour) Behaviour {
	return func(w http.ResponseWriter, r *http.Request, request *Request) {
		g.arrived <- struct{}{}
		if request.wait(r.Context(), g.opened) {
			next(w, r, request)
		}
	}
}

// wait waits for a channel; it returns false when the client or the server ended before.
func (r *Request) wait(ctx context.Context, until <-chan struct{}) bool {
	select {
	case <-until:
		return true
	case <-ctx.Done():
	case <-r.server.closed:
	}
	return false
}
