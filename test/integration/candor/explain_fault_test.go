// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/llmserver"
	"github.com/candor-dev/candor/test/suite"
)

// scanSeveral makes n StatefulSets with a policy and reports, each with content of its own, and returns what reads their
// Findings.
func (w *world) scanSeveral(ctx context.Context, n int) []func() *candorv1alpha1.Finding {
	GinkgoHelper()
	var all []func() *candorv1alpha1.Finding
	for i := range n {
		name := fmt.Sprintf("web-%d", i)
		w.deploy(ctx, name, []any{builder.Vulnerability(fmt.Sprintf("CVE-2023-%05d", i), "package", "HIGH")})
		all = append(all, w.of(ctx, name))
	}
	return all
}

// laggard lets a world learn of changes late: what a watch tells arrives some time after it was sent.
func (w *world) laggard(late time.Duration) {
	w.meddle = func(next http.RoundTripper) http.RoundTripper {
		return suite.RoundTrip(func(req *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(req)
			if err == nil && req.URL.Query().Get("watch") != "" && strings.Contains(req.URL.Path, "candor.dev") {
				response.Body = &lateBody{ReadCloser: response.Body, late: late}
			}
			return response, err
		})
	}
}

type lateBody struct {
	io.ReadCloser
	late time.Duration
}

func (b *lateBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	<-time.After(b.late)
	return n, err
}

var _ = Describe("A model that is asked while the API server misbehaves", func() {
	var (
		w     *world
		model *llmserver.Server
	)

	BeforeEach(func(ctx SpecContext) {
		w = newWorld(ctx)
		model = withModel(w)
	})

	DescribeTable("is asked once although one write", func(ctx SpecContext, at step, n int, happens fault) {
		w.meet(func(s step, seen int) fault {
			if s == at && seen == n {
				return happens
			}
			return nil
		})
		w.start(ctx)
		w.deploy(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
		web := w.of(ctx, "web")
		forgotten := w.waitsInVain(web)
		Eventually(func() bool { return explains(web()) || forgotten() }).Should(BeTrue())
		if !explains(web()) {
			w.clock.Step(orphaned)
		}
		Eventually(w.looking(web)).WithPolling(200 * time.Millisecond).Should(Satisfy(explains))
		w.settle(ctx)
		expectOneCallEach(model, 1)
		expectLedgerCovers(ctx, model)
		Expect(web().Status.Enrichment.Attempt).To(BeNil())
	},
		Entry("of the mark meets a conflict", marks, 1, fault(conflicting)),
		Entry("of the mark fails", marks, 1, fault(failing)),
		Entry("of the mark is lost", marks, 1, fault(unsent)),
		Entry("of the mark is stored and not answered", marks, 1, fault(unanswered)),
		Entry("of the mark is repeated", marks, 1, fault(misanswered)),
		Entry("of the reservation meets a conflict", reckons, 1, fault(conflicting)),
		Entry("of the reservation fails", reckons, 1, fault(failing)),
		Entry("of the reservation is lost", reckons, 1, fault(unsent)),
		Entry("of the reservation is stored and not answered", reckons, 1, fault(unanswered)),
		Entry("of the reservation is repeated", reckons, 1, fault(misanswered)),
		Entry("of the settlement meets a conflict", reckons, 2, fault(conflicting)),
		Entry("of the settlement fails", reckons, 2, fault(failing)),
		Entry("of the settlement is lost", reckons, 2, fault(unsent)),
		Entry("of the settlement is stored and not answered", reckons, 2, fault(unanswered)),
		Entry("of the settlement is repeated", reckons, 2, fault(misanswered)),
		Entry("of the answer meets a conflict", records, 1, fault(conflicting)),
		Entry("of the answer fails", records, 1, fault(failing)),
		Entry("of the answer is lost", records, 1, fault(unsent)),
		Entry("of the answer is stored and not answered", records, 1, fault(unanswered)),
		Entry("of the answer is repeated", records, 1, fault(misanswered)),
	)

	DescribeTable("is asked once for each of several Findings although every second write", func(ctx SpecContext, happens fault) {
		w.meet(func(_ step, n int) fault {
			if n%2 == 0 {
				return happens
			}
			return nil
		})
		w.start(ctx)
		for _, f := range w.scanSeveral(ctx, 6) {
			Eventually(f).WithTimeout(patience).Should(Satisfy(explains))
		}
		w.settle(ctx)
		expectOneCallEach(model, 6)
		expectLedgerCovers(ctx, model)
	},
		Entry("meets a conflict: conflict-after-call, G9", fault(conflicting)),
	)

	It("is asked once for each Finding although the cache lags behind: stale-cache-after-write, W16", func(ctx SpecContext) {
		w.laggard(300 * time.Millisecond)
		w.start(ctx)
		for _, f := range w.scanSeveral(ctx, 6) {
			Eventually(f).WithTimeout(patience).Should(Satisfy(explains))
		}
		expectOneCallEach(model, 6)
		expectLedgerCovers(ctx, model)
	})

	It("is asked once for each Finding by two managers that both believe to lead", func(ctx SpecContext) {
		w.start(ctx)
		other := *w
		other.start(ctx)
		DeferCleanup(other.stop)
		findings := w.scanSeveral(ctx, 6)
		for _, f := range findings {
			Eventually(f).WithTimeout(patience).Should(Satisfy(explains))
		}
		expectOneCallEach(model, 6)
		expectLedgerCovers(ctx, model)
	})
})

// waitsInVain returns a function that reports whether a Finding has been marked for a second of the real clock while nobody did
// anything about it: a call takes less.
func (w *world) waitsInVain(finding func() *candorv1alpha1.Finding) func() bool {
	var since time.Time
	return func() bool {
		f, now := finding(), time.Now()
		if f == nil || f.Status.Enrichment == nil || f.Status.Enrichment.Attempt == nil || !f.Status.Enrichment.Attempt.Running || busy() != w.backlog {
			since = time.Time{}
			return false
		}
		if since.IsZero() {
			since = now
		}
		return now.Sub(since) >= time.Second
	}
}
