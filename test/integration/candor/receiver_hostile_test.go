// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/receiver"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/suite"
)

var _ = Describe("The receiver of signals under attack", func() {
	It("lets in no more than it may, however many come at once", func(ctx SpecContext) {
		w := receiverWorld(ctx, func(p *candorv1alpha1.SignalPolicy) { p.Spec.WebhookReceiver.MaxFindings = 5 })
		w.takes(ctx)
		var sending sync.WaitGroup
		var created atomic.Int32
		for i := range 40 {
			sending.Go(func() {
				defer GinkgoRecover()
				switch said := w.signalAt(w.clock.Now(), disk().with("id", fmt.Sprint("id-", i))); said {
				case "202 created":
					created.Add(1)
				default:
					Expect(said).To(Equal("429 full"))
				}
			})
		}
		sending.Wait()
		Expect(created.Load()).To(BeEquivalentTo(5))
		Expect(w.findings(ctx)).To(HaveLen(5))
	})

	It("does not say that it keeps what a namespace that is going does not take", func(ctx SpecContext) {
		w := receiverWorld(ctx)
		w.lacksRights = true // to make anything there
		w.takes(ctx)
		Expect(w.signal(disk())).To(Equal("202 created"))
		w.remove(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
		Eventually(func() string { return w.signal(disk().with("id", "new")) }).Should(Equal("202 filtered"))
		for _, f := range w.findings(ctx) {
			Expect(f.Spec.Source.RefName).To(Equal("disk"))
		}
	})

	It("does not tell by the time of a refusal that a Secret was read", func(ctx SpecContext) {
		w := receiverWorld(ctx)
		w.takes(ctx)
		for _, name := range []string{"default", "nobody"} {
			begin := time.Now()
			Expect(w.post(w.namespace, name, bodyOf(disk())).status).To(Equal(http.StatusUnauthorized))
			Expect(time.Since(begin)).To(BeNumerically(">=", receiver.RefusalTime))
		}
	})

	It("takes names as long as they may be", func(ctx SpecContext) {
		w := receiverWorld(ctx)
		long := strings.Repeat("a", 253)
		w.apply(ctx, builder.Policy(w.namespace, long, []string{"webhook"}, receiving))
		w.takes(ctx)
		hostile := `<!channel> *now* "\\" ☃ `
		s := said{
			"severity": "HIGH", "kind": strings.Repeat("K", 63), "name": strings.Repeat("n", 253), "container": strings.Repeat("c", 253),
			"id": strings.Repeat("ö", 64), "summary": strings.Repeat(hostile, 100),
		}
		for _, summary := range []string{strings.Repeat(hostile, 100), strings.Repeat("\"", 2000), ""} {
			w.clock.Step(time.Second)
			body := bodyOf(s.with("summary", summary))
			Eventually(func() string { return w.post(w.namespace, long, body, signedAt(body, doorKey, w.clock.Now())).String() }).Should(Or(Equal("202 created"), Equal("202 updated")))
		}
		Expect(w.findings(ctx)).To(HaveLen(1))
	})

	DescribeTable("takes nothing that it does not keep, and everything when the trouble is over", func(ctx SpecContext, trouble func(*http.Request) *http.Response) {
		w := receiverWorld(ctx)
		var broken atomic.Bool
		w.meddle = func(next http.RoundTripper) http.RoundTripper {
			return suite.RoundTrip(func(r *http.Request) (*http.Response, error) {
				if broken.Load() && strings.Contains(r.URL.Path, "/findings") && (r.Method == http.MethodPost || r.Method == http.MethodPatch) && !strings.HasSuffix(r.URL.Path, "/status") {
					if trouble == nil {
						return nil, io.ErrUnexpectedEOF
					}
					return trouble(r), nil
				}
				return next.RoundTrip(r)
			})
		}
		w.takes(ctx)
		Expect(w.signal(disk())).To(Equal("202 created"))
		broken.Store(true)
		for _, s := range []said{disk().with("id", "new"), disk().with("severity", "CRITICAL"), disk().with("status", "resolved")} {
			Expect(w.signal(s)).To(HavePrefix("503 "))
		}
		broken.Store(false)
		Expect(w.signal(disk().with("id", "new"))).To(Equal("202 created"))
		Expect(w.signal(disk().with("status", "resolved"))).To(Equal("202 resolved"))
	},
		Entry("an error", func(r *http.Request) *http.Response {
			return troubled(r, http.StatusInternalServerError, "InternalError")
		}),
		Entry("conflicts without end", func(r *http.Request) *http.Response { return troubled(r, http.StatusConflict, "Conflict") }),
		Entry("no answer", nil))
})

// troubled is what an API server says that is in trouble.
func troubled(r *http.Request, code int, reason string) *http.Response {
	status := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, code)
	return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(status))}
}
