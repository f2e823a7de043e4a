// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/candor-dev/candor/internal/egress"
)

const (
	// maxHead bounds what is kept of the body of an error, in bytes.
	maxHead = 16 << 10
	// maxWords bounds what is told of the words of others, in bytes.
	maxWords = 200
	// maxName bounds the names that a server gives its model and the request, in bytes.
	maxName = 128
	// maxCount bounds a number of tokens, so that sums and products of a few cannot overflow.
	maxCount = 1 << 31
	// minSecret is the shortest key that is kept out of texts. Shorter ones are words like "none", for servers that ask for none.
	minSecret = 8
)

// Exchange is one request to a model's server, and what came of it. A Backend makes one for each call, lets its SDK send the
// request through Watch, and has the outcome told by Failure, Unusable or Reply.
type Exchange struct {
	key      string
	sent     atomic.Bool
	response *http.Response
	head     []byte // of the body of an error
	broke    error  // why the body ended early
}

// NewExchange takes the present key. Its error is an *Error: the key or the address can be used for no request.
func NewExchange(options Options) (*Exchange, error) {
	base, err := url.Parse(options.BaseURL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, invalid(errors.New("model.baseURL is no address that begins with http:// or https://"))
	}
	key := strings.TrimSpace(options.Key())
	if strings.ContainsFunc(key, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) }) {
		return nil, &Error{Class: AuthFailed, Err: errors.New("the key holds characters that no header can carry: store it again, as one line")}
	}
	return &Exchange{key: key}, nil
}

// Key returns the key to send; empty when there is none.
func (x *Exchange) Key() string { return x.key }

// Watch is the middleware for the SDK. It learns whether anything was sent, and what came back.
func (x *Exchange) Watch(request *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	// A transport that begins again has proof that nothing of the former attempt was taken.
	trace := &httptrace.ClientTrace{GetConn: func(string) { x.sent.Store(false) }, WroteHeaders: func() { x.sent.Store(true) }}
	response, err := next(request.WithContext(httptrace.WithClientTrace(request.Context(), trace)))
	if err != nil {
		return response, err
	}
	x.response = response
	response.Body = &watched{ReadCloser: response.Body, exchange: x}
	return response, nil
}

// watched remembers how the reading of a body ended.
type watched struct {
	io.ReadCloser
	exchange *Exchange
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	x := w.exchange
	if room := maxHead - len(x.head); x.failed() && room > 0 {
		x.head = append(x.head, p[:min(n, room)]...)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		x.broke = err
	}
	return n, err
}

// failed tells that the status is one of an error.
func (x *Exchange) failed() bool {
	return x.response != nil && x.response.StatusCode >= http.StatusBadRequest
}

// Failure says why the SDK returned err. A cancelled context is told like a deadline, since nobody knows either what the
// server made of the request: Timeout and billed when something was sent, Unreachable when not; errors.Is finds the cause.
func (x *Exchange) Failure(ctx context.Context, err error) *Error {
	broken := cmp.Or(x.broke, err)
	switch late := ctx.Err() != nil || timedOut(broken); {
	case x.failed():
		return x.refused()
	case errors.Is(err, egress.ErrRedirect):
		return &Error{Class: ConfigInvalid, Err: x.because("model.baseURL is not the address of the API", err)}
	case errors.Is(broken, egress.ErrBodyTooLarge):
		return &Error{Class: TooLarge, Billed: true, Err: errors.New("the answer is larger than 1 MiB")}
	case x.response == nil && !x.sent.Load():
		return &Error{Class: Unreachable, Err: x.because("nothing was sent", err)}
	case late:
		return &Error{Class: Timeout, Billed: true, Err: x.because("no whole answer came in time", broken)}
	case x.response == nil || x.broke != nil:
		return &Error{Class: Unavailable, Billed: true, Err: x.because("the connection ended before the answer", broken)}
	default:
		return &Error{Class: InvalidOutput, Billed: true, Err: x.because("the answer is not one of this API: check model.provider and model.baseURL", err)}
	}
}

// Unusable says that an answer arrived and cannot be used.
func (x *Exchange) Unusable(class Class, usage Usage, why string) *Error {
	failure := &Error{Class: class, Billed: true, Err: errors.New(why)}
	if usage = usage.bounded(); usage != (Usage{}) {
		failure.Usage = &usage
	}
	return failure
}

// Reply is what a model said. The server's own words in it are bounded.
func (x *Exchange) Reply(text, model string, usage Usage) Reply {
	header := x.response.Header
	id := cmp.Or(header.Get("request-id"), header.Get("x-request-id"))
	return Reply{Text: text, Model: x.words(model, maxName), RequestID: x.words(id, maxName), Usage: usage.bounded()}
}

func (u Usage) bounded() Usage {
	return Usage{InputTokens: min(max(u.InputTokens, 0), maxCount), OutputTokens: min(max(u.OutputTokens, 0), maxCount)}
}

// words makes the words of others fit to be shown: one line without the key.
func (x *Exchange) words(text string, limit int) string {
	text = printable(text, 2*maxHead)
	if len(x.key) >= minSecret {
		text = strings.ReplaceAll(text, x.key, "[key]")
	}
	return printable(text, limit)
}

// because wraps the cause, without the address that a *url.Error begins with.
func (x *Exchange) because(what string, cause error) error {
	if wrapped := (*url.Error)(nil); errors.As(cause, &wrapped) {
		cause = wrapped.Err
	}
	return &reason{text: fmt.Sprintf("%s: %s", what, x.words(cause.Error(), maxWords)), cause: cause}
}

// reason is an error whose text is fit to be shown, whatever its cause says.
type reason struct {
	text  string
	cause error
}

func (r *reason) Error() string { return r.text }
func (r *reason) Unwrap() error { return r.cause }

func timedOut(err error) bool {
	timeout := interface{ Timeout() bool }(nil)
	return errors.As(err, &timeout) && timeout.Timeout()
}
