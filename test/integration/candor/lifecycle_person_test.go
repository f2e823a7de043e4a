// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/kube"
)

// rival writes to a Finding right before the manager does, so that the manager loses the race.
type rival struct {
	next http.RoundTripper
	// method and suffix say before which requests.
	method, suffix string
	// races is how often it still does.
	races *atomic.Int32
	write func(r *http.Request, finding *candorv1alpha1.Finding) error
}

// RoundTrip implements http.RoundTripper.
func (r rival) RoundTrip(req *http.Request) (*http.Response, error) {
	_, path, found := strings.Cut(req.URL.Path, "/findings/")
	name, suffix, _ := strings.Cut(path, "/")
	if !found || req.Method != r.method || suffix != r.suffix || r.races.Add(-1) < 0 {
		return r.next.RoundTrip(req)
	}
	f := &candorv1alpha1.Finding{}
	f.Namespace, f.Name = strings.Split(req.URL.Path, "/")[5], name
	if err := r.write(req, f); err != nil {
		return nil, err
	}
	return r.next.RoundTrip(req)
}

func merge(text string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(text))
}

var _ = Describe("Another writer", func() {
	var w *world

	BeforeEach(func(ctx SpecContext) {
		w = newWorld(ctx)
		w.apply(ctx, builder.StatefulSet(w.namespace, "web"), builder.Policy(w.namespace, "default", []string{"trivy"}))
	})

	found := func(ctx SpecContext) *candorv1alpha1.Finding {
		GinkgoHelper()
		w.scan(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
		w.settle(ctx)
		f := w.of(ctx, "web")()
		Expect(f).NotTo(BeNil())
		return f
	}

	It("a person who deletes a Finding sees it made again", func(ctx SpecContext) {
		w.start(ctx)
		w.serving()
		before := found(ctx)
		w.clock.Step(time.Hour)
		cost := w.cost(ctx, func() { w.remove(ctx, before.DeepCopy()) })
		Expect(cost).To(Equal(kube.Counts{"create findings": 1, "update findings/status": 1}))
		after := w.of(ctx, "web")()
		Expect(after.UID).NotTo(Equal(before.UID))
		Expect(after.Spec).To(Equal(before.Spec))
		Expect(after.Status.VerificationOutcome).To(Equal(candorv1alpha1.OutcomeStillPresent))
	})

	It("a person who deletes a Finding while the manager is down sees it made again", func(ctx SpecContext) {
		w.start(ctx)
		w.serving()
		before := found(ctx)
		w.stop()
		w.remove(ctx, before)
		w.restart(ctx)
		w.settle(ctx)
		Expect(w.of(ctx, "web")().Spec).To(Equal(before.Spec))
	})

	DescribeTable("a person who edits the spec of a Finding sees it put back",
		func(ctx SpecContext, down bool, edit string) {
			w.start(ctx)
			w.serving()
			before := found(ctx)
			if down {
				w.stop()
			}
			Expect(cluster.Client.Patch(ctx, before.DeepCopy(), merge(edit))).To(Succeed())
			if down {
				w.restart(ctx)
			}
			w.settle(ctx)
			after := w.of(ctx, "web")()
			Expect(after.Spec).To(Equal(before.Spec))
			Expect(after.Labels).To(Equal(before.Labels))
			Expect(after.Status.Fingerprint).To(Equal(before.Status.Fingerprint))
			Expect(after.Status.VerificationOutcome).To(Equal(candorv1alpha1.OutcomeStillPresent))
		},
		Entry("its summary and severity", false, `{"spec":{"summary":"All is well","severity":"LOW"}}`),
		Entry("its evidence", false, `{"spec":{"evidence":null}}`),
		Entry("its shown entries", false, `{"spec":{"evidence":{"top":[{"id":"CVE-1","severity":"LOW"}]}}}`),
		Entry("its shown entries, taken away while the manager is down", true, `{"spec":{"evidence":{"top":null}}}`),
		Entry("its summary, while the manager is down", true, `{"spec":{"summary":"All is well"}}`),
		Entry("its label, while the manager is down", true, `{"metadata":{"labels":{"candor.dev/outcome":"ended"}}}`),
	)

	It("a person cannot turn a Finding into that of another workload", func(ctx SpecContext) {
		w.start(ctx)
		w.serving()
		err := cluster.Client.Patch(ctx, found(ctx), merge(`{"spec":{"source":{"name":"other"}}}`))
		Expect(err).To(MatchError(ContainSubstring("never changes")))
	})

	It("conflict: writes the status in between, keeps what it wrote, and the manager catches up", func(ctx SpecContext) {
		races := &atomic.Int32{}
		w.meddle = func(next http.RoundTripper) http.RoundTripper {
			return rival{next: next, method: http.MethodPut, suffix: "status", races: races, write: func(r *http.Request, f *candorv1alpha1.Finding) error {
				return cluster.Client.Status().Patch(r.Context(), f, merge(`{"status":{"enrichedFingerprint":"`+time.Now().Format(time.StampNano)+`"}}`))
			}}
		}
		w.start(ctx)
		w.serving()
		found(ctx)
		races.Store(5)
		w.scan(ctx, "web", builder.Vulnerabilities(4, "HIGH"))
		w.settle(ctx)
		Eventually(races.Load).Should(BeNumerically("<", 0), "every race was run, and one more write won")
		w.settle(ctx)
		f := w.of(ctx, "web")()
		Expect(f.Status.Brief).To(Equal("4 high"))
		Expect(f.Status.Fingerprint).To(Equal(signals.Fingerprint(signals.Of(f))))
		Expect(f.Status.EnrichedFingerprint).NotTo(BeEmpty())
		Expect(w.events(ctx, f.Name)()).To(BeEmpty())
	})
})

var _ = Describe("Retention", func() {
	var w *world

	BeforeEach(func(ctx SpecContext) {
		w = newWorld(ctx)
		w.apply(ctx, builder.StatefulSet(w.namespace, "web"), builder.Policy(w.namespace, "default", []string{"trivy"}))
	})

	DescribeTable("deletes what has ended, after its time and once",
		func(ctx SpecContext, end sight) {
			w.start(ctx)
			w.serving()
			w.show(ctx, "web", present)
			w.show(ctx, "web", end)
			f := w.of(ctx, "web")()
			w.clock.Step(w.options.FindingRetention - time.Minute)
			w.wakeFinding(ctx, f.Name)
			Expect(w.of(ctx, "web")()).NotTo(BeNil())
			w.restart(ctx)
			cost := w.cost(ctx, func() {
				w.clock.Step(2 * time.Minute)
				w.wakeFinding(ctx, f.Name)
			})
			Expect(cost).To(Equal(kube.Counts{"delete findings": 1}))
			Expect(w.of(ctx, "web")()).To(BeNil())
		},
		Entry("Resolved", cleared),
		Entry("WorkloadGone", ownerGone),
	)

	It("keeps what is open", func(ctx SpecContext) {
		w.start(ctx)
		w.serving()
		w.show(ctx, "web", present)
		cost := w.cost(ctx, func() {
			w.clock.Step(10 * w.options.FindingRetention)
			w.wakeFinding(ctx, w.of(ctx, "web")().Name)
		})
		Expect(cost).To(BeEmpty())
	})

	It("keeps a Finding that came back at the last moment", func(ctx SpecContext) {
		races := &atomic.Int32{}
		w.meddle = func(next http.RoundTripper) http.RoundTripper {
			return rival{next: next, method: http.MethodDelete, races: races, write: func(r *http.Request, f *candorv1alpha1.Finding) error {
				w.scan(r.Context(), "web", builder.Vulnerabilities(3, "HIGH"))
				return cluster.Client.Patch(r.Context(), f, merge(`{"spec":{"observed":"Present"}}`))
			}}
		}
		w.start(ctx)
		w.serving()
		w.show(ctx, "web", present)
		before := w.of(ctx, "web")()
		w.show(ctx, "web", cleared)
		races.Store(1)
		w.clock.Step(w.options.FindingRetention + time.Minute)
		w.wakeFinding(ctx, before.Name)
		Expect(w.stored()).To(HaveKeyWithValue("delete findings", 1), "it was tried, and refused")
		Expect(w.of(ctx, "web")().UID).To(Equal(before.UID))
	})
})
