// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/utils/clock"

	"github.com/candor-dev/candor/internal/egress"
	"github.com/candor-dev/candor/internal/fault"
)

// anyHost stands in requests until the server of the credentials takes its place.
const anyHost = "https://fleet-management.invalid"

const (
	// maxFailure bounds what is read of an answer that is an error, in bytes.
	maxFailure = 64 << 10
	// defaultRetryAfter is waited, and up to a fifth more, when a server that is too busy does not say for how long.
	defaultRetryAfter = 10 * time.Second
)

// exchange is one request and what is seen of its answer. Whoever waits for it may give up before it is over.
type exchange struct {
	credentials Credentials

	mu  sync.Mutex
	saw sight
}

// sight is what is seen of an answer.
type sight struct {
	// status is zero until an answer comes.
	status int
	// code and message are the API's, or message alone is that of whoever answers in its place.
	code, message string
	retryAfter    string
	// foreign says that the answer is of a type that the API never sends.
	foreign bool
	// redirected says that the server wants to be asked elsewhere.
	redirected bool
	// broke is why the answer did not come, or ended early.
	broke error
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

func (x *exchange) note(change func(*sight)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change(&x.saw)
}

func (x *exchange) seen() sight {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.saw
}

// translation bounds a call in time and turns what comes of it into a fault.
type translation struct {
	unaryOnly
	clock clock.PassiveClock
}

// WrapUnary implements connect.Interceptor.
func (t *translation) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		procedure := request.Spec().Procedure
		limited, cancel := context.WithTimeout(ctx, timeoutOf(procedure))
		defer cancel()
		response, err := next(limited, request)
		if err == nil {
			return response, nil
		}
		x := exchangeOf(ctx)
		saw := x.seen()
		if saw.status < http.StatusMultipleChoices {
			saw.message = x.credentials.clean(why(limited, saw, err))
		}
		e := newError(procedure, saw, causeOf(limited, saw))
		if e.class == busy {
			e.RetryAfter = retryAfter(saw.retryAfter, t.clock.Now())
		}
		return nil, e.fault()
	}
}

func timeoutOf(procedure string) time.Duration {
	if strings.HasPrefix(path.Base(procedure), "List") {
		return listTimeout
	}
	return callTimeout
}

// causeOf is what errors.Is finds: the end of the context, or what broke the connection.
func causeOf(ctx context.Context, saw sight) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return saw.broke
}

// why tells in words what happened when no server does.
func why(ctx context.Context, saw sight, err error) string {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "no whole answer came in time"
	case ctx.Err() != nil:
		return "the call was given up"
	case errors.Is(saw.broke, io.ErrUnexpectedEOF) && saw.status != 0:
		return "the answer ended early"
	case saw.broke != nil:
		return passing.ReplaceAllString(saw.broke.Error(), "")
	}
	if wrapped := (*connect.Error)(nil); errors.As(err, &wrapped) {
		return wrapped.Message()
	}
	return err.Error()
}

// passing is what tells one broken connection from the next: our own port, and the number of the stream. A condition that repeated
// it would be written at each attempt.
var passing = regexp.MustCompile(`\S+:\d+->|stream ID \d+; `)

// retryAfter is what a header of this name asks for, or a while when it does not say.
func retryAfter(header string, now time.Time) time.Duration {
	if wait := fault.RetryAfter(header, now); wait > 0 {
		return wait
	}
	return defaultRetryAfter + rand.N(defaultRetryAfter/5)
}

// server sends requests to the server of the credentials, with them, and sees what comes back.
type server struct {
	http  *http.Client
	clock clock.PassiveClock
}

// Do implements connect.HTTPClient.
func (s *server) Do(request *http.Request) (*http.Response, error) {
	x := exchangeOf(request.Context())
	address, err := url.Parse(x.credentials.BaseURL)
	if err != nil {
		return nil, err
	}
	trace.SpanFromContext(request.Context()).SetAttributes(attribute.String("server.address", address.Hostname()), attribute.String("net.peer.name", address.Hostname()))
	request.URL.Scheme, request.URL.Host, request.URL.Path = address.Scheme, address.Host, address.Path+request.URL.Path
	request.Host = address.Host
	request.SetBasicAuth(x.credentials.Username, x.credentials.Password)
	response, err := s.http.Do(request)
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err // without the address, which stands before it
	}
	if err != nil {
		x.note(func(saw *sight) { saw.broke, saw.redirected = err, errors.Is(err, egress.ErrRedirect) })
		return nil, err
	}
	x.see(response)
	return response, nil
}

// see notes the head of an answer, and the body of one that is an error.
func (x *exchange) see(response *http.Response) {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	saw := sight{status: response.StatusCode, retryAfter: response.Header.Get("Retry-After")}
	if saw.status == http.StatusOK {
		saw.foreign = kind != "application/proto" && kind != "application/json"
		if response.ContentLength > MaxAnswer {
			_ = response.Body.Close()
			response.Body = io.NopCloser(brokenBody{egress.ErrBodyTooLarge})
		}
		response.Body = &watched{ReadCloser: response.Body, exchange: x}
	} else {
		body := failureOf(response)
		saw.code, saw.message = told(kind, body)
		saw.message = x.credentials.clean(saw.message)
		saw.foreign = kind == "text/html" || kind == "application/xhtml+xml"
		response.Body = io.NopCloser(bytes.NewReader(body))
	}
	x.note(func(s *sight) { *s = saw })
}

// failureOf reads the body of an error, as far as it matters.
func failureOf(response *http.Response) []byte {
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxFailure))
	if response.Header.Get("Content-Encoding") == "gzip" {
		response.Header.Del("Content-Encoding")
		unpacked, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil
		}
		body, _ = io.ReadAll(io.LimitReader(unpacked, maxFailure))
	}
	return body
}

// told reads an error of Connect; of other texts it returns the message alone, and nothing of an HTML page.
func told(kind string, body []byte) (code, message string) {
	var failure struct{ Code, Message string }
	if kind == "application/json" && json.Unmarshal(body, &failure) == nil {
		if _, known := codesByName[failure.Code]; known {
			return failure.Code, failure.Message
		}
	}
	if kind == "text/html" || kind == "application/xhtml+xml" {
		return "", "an HTML page"
	}
	return "", string(body)
}

// watched remembers how the reading of a body ended.
type watched struct {
	io.ReadCloser
	exchange *exchange
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.exchange.note(func(saw *sight) { saw.broke = err })
	}
	return n, err
}

// brokenBody is a body that cannot be read.
type brokenBody struct{ err error }

func (b brokenBody) Read([]byte) (int, error) { return 0, b.err }

// unaryOnly is the rest of an interceptor: the API streams nothing.
type unaryOnly struct{}

// WrapStreamingClient implements connect.Interceptor.
func (unaryOnly) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements connect.Interceptor.
func (unaryOnly) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}
