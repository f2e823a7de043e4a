// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/fakes/llmserver"
	"github.com/candor-dev/candor/test/suite"
)

// orphaned is how long a call that nobody answers for is waited for: its timeout, and half a minute.
const orphaned = 91 * time.Second

// step is a write that belongs to a call.
type step string

const (
	marks   step = "mark"
	reckons step = "reserve or settle"
	records step = "record"
	// shows is a write of the status of a Finding that is none of these.
	shows step = "show"
)

// stepOf tells the writes of a call by what they store; empty for every other request.
func stepOf(req *http.Request) step {
	switch {
	case req.Method != http.MethodPut || !strings.HasSuffix(req.URL.Path, "/status"):
		return ""
	case strings.Contains(req.URL.Path, "/ledgers/"):
		return reckons
	case !strings.Contains(req.URL.Path, "/findings/"):
		return ""
	}
	content, err := req.GetBody()
	if err != nil {
		return shows
	}
	defer content.Close()
	body, _ := io.ReadAll(content)
	switch {
	case bytes.Contains(body, []byte(`"running":true`)):
		return marks
	case bytes.Contains(body, []byte(`"hypotheses":[`)):
		return records
	default:
		return shows
	}
}

// fault is what becomes of a request instead of a good end.
type fault func(*http.Request, http.RoundTripper) (*http.Response, error)

var errGone = errors.New("the connection is gone")

// conflicting refuses a write as one over an old copy.
func conflicting(req *http.Request, _ http.RoundTripper) (*http.Response, error) {
	return status(req, http.StatusConflict, "Conflict", nil), nil
}

// failing stores nothing and says so.
func failing(req *http.Request, _ http.RoundTripper) (*http.Response, error) {
	return status(req, http.StatusInternalServerError, "InternalError", nil), nil
}

// unsent stores nothing, which nobody can know.
func unsent(*http.Request, http.RoundTripper) (*http.Response, error) { return nil, errGone }

// unanswered stores, which nobody can know.
func unanswered(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	discard(next.RoundTrip(req))
	return nil, errGone
}

// misanswered stores, and asks to try again as a load balancer does that has lost its server. client-go obeys.
func misanswered(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	discard(next.RoundTrip(req))
	return status(req, http.StatusServiceUnavailable, "ServiceUnavailable", http.Header{"Retry-After": {"0"}}), nil
}

func discard(response *http.Response, err error) {
	if err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
}

func status(req *http.Request, code int, reason string, header http.Header) *http.Response {
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"` + reason + `","message":"a fault of the test"}`
	answer := http.Header{"Content-Type": {"application/json"}}
	for name, values := range header {
		answer[name] = values
	}
	return &http.Response{StatusCode: code, Header: answer, Body: io.NopCloser(strings.NewReader(body)), Request: req}
}

// meet lets a world meet faults: plan is asked at each write of a call, the n-th of its step.
func (w *world) meet(plan func(s step, n int) fault) {
	var mu sync.Mutex
	seen := map[step]int{}
	w.meddle = func(next http.RoundTripper) http.RoundTripper {
		return suite.RoundTrip(func(req *http.Request) (*http.Response, error) {
			s := stepOf(req)
			if s == "" {
				return next.RoundTrip(req)
			}
			mu.Lock()
			seen[s]++
			n := seen[s]
			mu.Unlock()
			if f := plan(s, n); f != nil {
				return f(req, next)
			}
			return next.RoundTrip(req)
		})
	}
}

// mortal is a process's way to the API server. Where the process dies nothing goes through any more.
type mortal struct {
	// dead is closed at the end.
	dead chan struct{}

	mu sync.Mutex
	// left counts the writes of calls up to the last one; zero for an immortal.
	left int
	// stores says that the last write is stored, and only its answer is lost.
	stores bool
}

// dieAt lets the process die at a write of a call: at once before it is stored, or at once after.
func (m *mortal) dieAt(write int, stored bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left, m.stores = write, stored
}

// die ends the process now.
func (m *mortal) die() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.isDead() {
		close(m.dead)
	}
}

func (m *mortal) isDead() bool {
	select {
	case <-m.dead:
		return true
	default:
		return false
	}
}

func (m *mortal) wrap(next http.RoundTripper) http.RoundTripper {
	return suite.RoundTrip(func(req *http.Request) (*http.Response, error) {
		s := stepOf(req)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.isDead() {
			return nil, errGone
		}
		if s != "" && m.left > 0 {
			if m.left--; m.left == 0 {
				close(m.dead)
				if m.stores {
					return unanswered(req, next)
				}
				return nil, errGone
			}
		}
		m.mu.Unlock()
		defer m.mu.Lock()
		return next.RoundTrip(req)
	})
}

// startMortal runs another manager, which may die.
func (w *world) startMortal(ctx context.Context) *mortal {
	GinkgoHelper()
	m := &mortal{dead: make(chan struct{})}
	w.meddle = m.wrap
	w.start(ctx)
	return m
}

// abandon forgets the manager, as one that is dead, and lets the goroutines of it end in peace before the spec does.
func (w *world) abandon() {
	dead := w.manager
	w.manager = nil
	dead.Cancel()
	DeferCleanup(func() { Eventually(dead.Ended).WithTimeout(patience).Should(Receive()) })
}

// look makes the finding controller look at a Finding now.
func (w *world) look(f *candorv1alpha1.Finding) {
	GinkgoHelper()
	object := &candorv1alpha1.Finding{}
	object.Namespace, object.Name = f.Namespace, f.Name
	Eventually(w.wakeFindings).Should(BeSent(event.GenericEvent{Object: object}))
}

// looking reads a Finding like f, and has it looked at each time, as its timer would: waits are in the time of the world, and
// timers in that of the machine.
func (w *world) looking(f func() *candorv1alpha1.Finding) func() *candorv1alpha1.Finding {
	return func() *candorv1alpha1.Finding {
		found := f()
		if found != nil {
			w.look(found)
		}
		return found
	}
}

// explains matches a Finding whose present content is explained.
func explains(f *candorv1alpha1.Finding) bool {
	return f != nil && f.Status.Explained == candorv1alpha1.ExplainedTrue && len(f.Status.Hypotheses) > 0 &&
		f.Status.EnrichedFingerprint == signals.Fingerprint(signals.Of(f))
}

// expectOneCallEach says that no request was paid for twice, and that there were so many.
func expectOneCallEach(model *llmserver.Server, requests int) {
	GinkgoHelper()
	for key, n := range model.Stats().ByKey {
		Expect(n).To(Equal(1), key)
	}
	Expect(model.Stats().ByKey).To(HaveLen(requests))
}

// expectLedgerCovers says that the Ledger holds at least what the server was asked and billed.
func expectLedgerCovers(ctx context.Context, model *llmserver.Server) {
	GinkgoHelper()
	stats, spent := model.Stats(), ledger(ctx, candorv1alpha1.LedgerScopeCluster)
	Expect(spent.Calls).To(BeNumerically(">=", stats.Calls))
	Expect(spent.Tokens).To(BeNumerically(">=", stats.InputTokens+stats.OutputTokens))
}

// arrived waits until so many calls have come to a gate.
func arrived(gate *llmserver.Gate, n int) {
	GinkgoHelper()
	for range n {
		Eventually(gate.Arrived()).Should(Receive())
	}
}

// storedLedger reads the Ledger, nil when there is none.
func storedLedger(ctx context.Context) *candorv1alpha1.Ledger {
	GinkgoHelper()
	var l candorv1alpha1.Ledger
	err := cluster.Client.Get(ctx, client.ObjectKey{Name: candorv1alpha1.Singleton}, &l)
	if client.IgnoreNotFound(err) == nil && err != nil {
		return nil
	}
	Expect(err).NotTo(HaveOccurred())
	return &l
}

// losesLease makes the manager that is started next one that cannot renew its lease any more once lose was called, and can do
// nothing once the process has died.
func (w *world) losesLease() (process *mortal, lose func()) {
	process = &mortal{dead: make(chan struct{})}
	var lost atomic.Bool
	w.meddle = func(next http.RoundTripper) http.RoundTripper {
		next = process.wrap(next)
		return suite.RoundTrip(func(req *http.Request) (*http.Response, error) {
			if lost.Load() && strings.Contains(req.URL.Path, "/leases") {
				return nil, errGone
			}
			return next.RoundTrip(req)
		})
	}
	return process, func() { lost.Store(true) }
}
