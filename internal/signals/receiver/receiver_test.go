// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/candor-dev/candor/internal/signals/notify"
)

const (
	secret = "s3cret-s3cret-s3cret"
	token  = "t0ken-t0ken-t0ken-t0ken"
	// path is that of a policy with both, as in senders.
	path = "/webhook/team-a/signals"
	// firing is a signal without blanks, so that a shell can sign it.
	firing = `{"severity":"HIGH","kind":"Deployment","name":"web","id":"a"}`
)

var (
	start  = time.Unix(1700000000, 0)
	policy = types.NamespacedName{Namespace: "team-a", Name: "signals"}
)

// world is a Handler with everything around it in memory.
type world struct {
	*Handler
	clock *clocktesting.FakePassiveClock
	// logged is what the log says at its most talkative.
	logged strings.Builder

	mu    sync.Mutex
	taken []Signal
	// result is what the store answers; err goes first. Where there is an entered, it tells that it was asked, and waits for hold.
	result        Result
	err           error
	entered, hold chan struct{}
	// wait holds refusals back; nil for nothing.
	wait chan time.Time
	// credentials are those of the policies that take signals; trouble goes first.
	credentials map[types.NamespacedName]Credentials
	trouble     error
}

func newWorld() *world {
	w := &world{clock: clocktesting.NewFakePassiveClock(start), result: Created, credentials: map[types.NamespacedName]Credentials{
		policy:                                 {Signing: []byte(secret), Token: []byte(token)},
		{Namespace: "team-a", Name: "signing"}: {Signing: []byte(secret)},
		{Namespace: "team-a", Name: "token"}:   {Token: []byte(token)},
	}}
	w.Handler = New(Options{Keys: w, Store: w, Clock: w.clock, Metrics: NewMetrics(), Log: w.log(), Refuse: w.due})
	return w
}

// due says that the time of a refusal is over, unless refusals wait for something.
func (w *world) due() <-chan time.Time {
	if w.wait != nil {
		return w.wait
	}
	over := make(chan time.Time)
	close(over)
	return over
}

func (w *world) log() logr.Logger {
	return funcr.New(func(prefix, args string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		fmt.Fprintln(&w.logged, prefix, args)
	}, funcr.Options{Verbosity: 10})
}

// Keys implements Keys.
func (w *world) Keys(_ context.Context, of types.NamespacedName) (Credentials, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trouble != nil {
		return Credentials{}, w.trouble
	}
	c, found := w.credentials[of]
	if !found {
		return Credentials{}, fmt.Errorf("looking for %s: %w", of, ErrUnknown)
	}
	return c, nil
}

// Take implements Store.
func (w *world) Take(_ context.Context, _ types.NamespacedName, s Signal) (Result, error) {
	if w.entered != nil {
		w.entered <- struct{}{}
		<-w.hold
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return "", w.err
	}
	w.taken = append(w.taken, s)
	return w.result, nil
}

// said returns what the answer to a request is.
func (w *world) said(r *http.Request) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	w.ServeHTTP(recorder, r)
	return recorder
}

// request returns one to the policy with pairs of a header and its value.
func request(body string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// plain is how the existing senders sign.
func plain(body string) []string {
	return []string{notify.HeaderSignature, sign([]byte(secret), []byte(body))}
}

// stamped is how a sender signs at a time.
func stamped(at time.Time, body string) []string {
	return []string{
		notify.HeaderTimestamp, fmt.Sprint(at.Unix()), notify.HeaderSignature, notify.Signature([]byte(secret), at, []byte(body)),
	}
}

func bearing(token string) []string { return []string{"Authorization", "Bearer " + token} }

// received and refused return how often something was counted.
func (w *world) received(form Form, result Result) float64 {
	return count(w.Metrics.receivedTotal.WithLabelValues(string(form), string(result)))
}

func (w *world) refused(reason Reason) float64 {
	return count(w.Metrics.refusedTotal.WithLabelValues(string(reason)))
}

func count(c prometheus.Counter) float64 {
	var m dto.Metric
	_ = c.Write(&m)
	return m.GetCounter().GetValue()
}

func gauge(m *Metrics) float64 {
	var read dto.Metric
	_ = m.up.Write(&read)
	return read.GetGauge().GetValue()
}

var errDown = errors.New("the API server is away, and said s3cret-s3cret-s3cret")
