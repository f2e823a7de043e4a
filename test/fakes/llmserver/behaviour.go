// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llmserver

import (
	"context"
	"net/http"
	"strings"
)

// Behaviour answers one good request.
type Behaviour func(w http.ResponseWriter, r *http.Request, call *Call)

// Good answers with one to three hypotheses that follow from the body.
func Good() Behaviour {
	return func(w http.ResponseWriter, r *http.Request, call *Call) { Answer(Hypotheses(call))(w, r, call) }
}

// Answer lets the model say text. It is cut, and the answer says so, when it is longer than the request allows.
func Answer(text string) Behaviour {
	return func(w http.ResponseWriter, _ *http.Request, call *Call) {
		said := reply{text: text}
		if longest := 4 * call.MaxTokens; call.MaxTokens > 0 && int64(len(text)) > longest {
			said = reply{text: strings.ToValidUTF8(text[:longest], ""), stop: stopLength}
		}
		call.say(w, said)
	}
}

// Fenced answers well, inside a fence of Markdown and with a word before and after it.
func Fenced() Behaviour {
	return func(w http.ResponseWriter, r *http.Request, call *Call) {
		Answer("Here you are:\n```json\n"+Hypotheses(call)+"\n```\nI hope that helps.")(w, r, call)
	}
}

// Truncated stops in the middle of an answer because it became too long.
func Truncated() Behaviour {
	return func(w http.ResponseWriter, _ *http.Request, call *Call) {
		text := Hypotheses(call)
		call.say(w, reply{text: text[:len(text)/2], stop: stopLength})
	}
}

// Refusal declines to answer.
func Refusal() Behaviour {
	return func(w http.ResponseWriter, _ *http.Request, call *Call) { call.say(w, reply{stop: stopRefused}) }
}

// Failure answers with an error of the API: its HTTP status, its type, its code (empty for none), and its words.
func Failure(status int, kind, code, message string) Behaviour {
	return func(w http.ResponseWriter, _ *http.Request, call *Call) {
		call.dialect.fail(w, &refusal{status: status, kind: kind, code: code, message: message}, call.requestID())
	}
}

// RateLimited asks to wait. retryAfter is the header of this name, seconds or a date; empty sends none.
func RateLimited(retryAfter string) Behaviour {
	failure := perProtocol(Failure(http.StatusTooManyRequests, "rate_limit_error", "", "This request would exceed your organization's rate limit"),
		Failure(http.StatusTooManyRequests, "tokens", "rate_limit_exceeded", "Rate limit reached on tokens per min (TPM)"))
	if retryAfter == "" {
		return failure
	}
	return WithHeader("Retry-After", retryAfter, failure)
}

// QuotaExhausted says that the account has nothing left.
func QuotaExhausted() Behaviour {
	return perProtocol(Failure(http.StatusPaymentRequired, "billing_error", "", "There is an issue with your billing or payment information"),
		Failure(http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota", "You exceeded your current quota, please check your plan and billing details."))
}

// Broken fails inside the server.
func Broken() Behaviour {
	return perProtocol(Failure(http.StatusInternalServerError, "api_error", "", "Internal server error"),
		Failure(http.StatusInternalServerError, "server_error", "", "The server had an error while processing your request."))
}

// Overloaded has no room for the request.
func Overloaded() Behaviour {
	return perProtocol(Failure(529, "overloaded_error", "", "Overloaded"),
		Failure(http.StatusServiceUnavailable, "server_error", "", "That model is currently overloaded with other requests."))
}

// Redirect sends the client to another address.
func Redirect(address string) Behaviour {
	return func(w http.ResponseWriter, r *http.Request, _ *Call) {
		http.Redirect(w, r, address, http.StatusTemporaryRedirect)
	}
}

// Raw answers with these bytes.
func Raw(status int, contentType string, body []byte) Behaviour {
	return func(w http.ResponseWriter, _ *http.Request, _ *Call) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
}

// Huge answers with JSON of this many bytes.
func Huge(bytes int) Behaviour {
	return func(w http.ResponseWriter, _ *http.Request, _ *Call) {
		w.Header().Set("Content-Type", "application/json")
		chunk := make([]byte, 64<<10)
		for i := range chunk {
			chunk[i] = ' '
		}
		for sent := 0; sent < bytes; sent += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
}

// Hang answers nothing until the client gives up or the server is closed.
func Hang() Behaviour {
	return func(_ http.ResponseWriter, r *http.Request, call *Call) { call.wait(r.Context(), nil) }
}

// Slow sends the first bytes of an answer at once, and the rest when release is closed.
func Slow(release <-chan struct{}) Behaviour {
	return func(w http.ResponseWriter, r *http.Request, call *Call) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(" "))
		_ = http.NewResponseController(w).Flush()
		if call.wait(r.Context(), release) {
			Good()(bodyOnly{w}, r, call)
		}
	}
}

// Drop closes the connection without an answer.
func Drop() Behaviour {
	return func(http.ResponseWriter, *http.Request, *Call) { panic(http.ErrAbortHandler) }
}

// WithHeader adds a header to what then answers.
func WithHeader(name, value string, then Behaviour) Behaviour {
	return func(w http.ResponseWriter, r *http.Request, call *Call) {
		w.Header().Set(name, value)
		then(w, r, call)
	}
}

// Gate holds calls back.
type Gate struct {
	arrived chan *Call
	open    chan struct{}
}

// NewGate returns a closed gate. At most 1,024 calls may wait at it unseen.
func NewGate() *Gate {
	return &Gate{arrived: make(chan *Call, 1024), open: make(chan struct{})}
}

// Arrived gives each call as it comes to the gate.
func (g *Gate) Arrived() <-chan *Call { return g.arrived }

// Open lets every call through, those to come as well. It may be called once.
func (g *Gate) Open() { close(g.open) }

// Then holds a call back until the gate is open, and then lets behaviour answer.
func (g *Gate) Then(behaviour Behaviour) Behaviour {
	return func(w http.ResponseWriter, r *http.Request, call *Call) {
		g.arrived <- call
		if call.wait(r.Context(), g.open) {
			behaviour(w, r, call)
		}
	}
}

// wait returns true when release is closed, and false when nobody waits for an answer any more.
func (c *Call) wait(ctx context.Context, release <-chan struct{}) bool {
	select {
	case <-release:
		return true
	case <-ctx.Done():
	case <-c.server.closed:
	}
	return false
}

// say answers, and counts tokens as four bytes each.
func (c *Call) say(w http.ResponseWriter, said reply) {
	said.input, said.output = tokens(len(c.Body)), tokens(len(said.text))
	c.server.bill(said.input, said.output)
	said.text = park(said.text)
	writeJSON(w, http.StatusOK, c.dialect.answer(c, said))
}

func tokens(bytes int) int64 { return int64(bytes+3) / 4 }

func perProtocol(anthropic, openAI Behaviour) Behaviour {
	return func(w http.ResponseWriter, r *http.Request, call *Call) {
		if call.Protocol == Anthropic {
			anthropic(w, r, call)
			return
		}
		openAI(w, r, call)
	}
}

// bodyOnly is the rest of an answer that has begun.
type bodyOnly struct{ http.ResponseWriter }

func (bodyOnly) WriteHeader(int) {}
