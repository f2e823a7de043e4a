// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/kube"
)

// revisionReport makes the report of a ReplicaSet.
func (w *world) revisionReport(name string, entries []any, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	return builder.VulnerabilityReport(w.namespace, "ReplicaSet", name, "nginx", entries, change...)
}

var _ = Describe("A rollout", func() {
	var (
		w *world
		d *appsv1.Deployment
	)
	web := func(ctx context.Context) func() *candorv1alpha1.Finding {
		return w.finding(ctx, "trivy", "Deployment", "web", "nginx")
	}

	BeforeEach(func(ctx SpecContext) {
		w = newWorld(ctx)
		d = builder.Deployment(w.namespace, "web")
		w.apply(ctx, d)
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}), builder.ReplicaSet(d, w.namespace, "web-1", 1))
		w.start(ctx)
		w.serving()
	})

	// retires does to the report of web-1 what Trivy Operator does after a rollout.
	retires := func(ctx SpecContext, entries []any) {
		GinkgoHelper()
		w.apply(ctx, w.revisionReport("web-1", entries, builder.Superseded))
		w.settle(ctx)
		w.remove(ctx, w.revisionReport("web-1", nil))
	}

	DescribeTable("two-revisions: the current revision speaks, in one Finding, whichever report comes first",
		func(ctx SpecContext, first, second string) {
			says := map[string][]any{"web-1": cves("HIGH", "CVE-2026-1"), "web-2": cves("HIGH", "CVE-2026-2")}
			w.apply(ctx, builder.ReplicaSet(d, w.namespace, "web-2", 2))
			w.apply(ctx, w.revisionReport(first, says[first], builder.UpdatedAt(w.clock.Now())))
			w.settle(ctx)
			w.apply(ctx, w.revisionReport(second, says[second], builder.UpdatedAt(w.clock.Now().Add(time.Minute))))
			w.settle(ctx)
			Expect(w.findings(ctx)).To(HaveLen(1))
			Expect(web(ctx)().Spec.Evidence.Top[0].ID).To(Equal("CVE-2026-2"))
			before := web(ctx)()
			cost := w.cost(ctx, func() {
				w.restart(ctx)
				retires(ctx, says["web-1"])
			})
			Expect(cost).To(BeEmpty())
			Expect(web(ctx)()).To(Equal(before))
			Expect(before.Status.VerificationOutcome).To(Equal(candorv1alpha1.OutcomeStillPresent))
		},
		Entry("the old one", "web-1", "web-2"),
		Entry("the new one", "web-2", "web-1"),
	)

	It("of the same vulnerabilities writes nothing, from the first report of the new revision to the end of the old one", func(ctx SpecContext) {
		w.apply(ctx, w.revisionReport("web-1", builder.Vulnerabilities(3, "HIGH")))
		w.settle(ctx)
		cost := w.cost(ctx, func() {
			w.apply(ctx, builder.ReplicaSet(d, w.namespace, "web-2", 2))
			w.apply(ctx, w.revisionReport("web-2", builder.Vulnerabilities(3, "HIGH")))
			w.restart(ctx)
			retires(ctx, builder.Vulnerabilities(3, "HIGH"))
		})
		Expect(cost).To(BeEmpty())
	})

	It("that ships a fix resolves, while the old report still shows the vulnerability", func(ctx SpecContext) {
		w.apply(ctx, w.revisionReport("web-1", builder.Vulnerabilities(3, "HIGH")))
		w.settle(ctx)
		w.apply(ctx, builder.ReplicaSet(d, w.namespace, "web-2", 2), w.revisionReport("web-2", []any{}))
		w.settle(ctx)
		Expect(outcome(web(ctx))()).To(Equal(candorv1alpha1.OutcomeResolved))
		Expect(w.cost(ctx, func() { retires(ctx, builder.Vulnerabilities(3, "HIGH")) })).To(BeEmpty())
	})

	It("back to the former revision makes that one speak again", func(ctx SpecContext) {
		w.apply(ctx, builder.ReplicaSet(d, w.namespace, "web-2", 2))
		w.apply(ctx, w.revisionReport("web-1", cves("HIGH", "CVE-2026-1")), w.revisionReport("web-2", cves("HIGH", "CVE-2026-2")))
		w.settle(ctx)
		Expect(web(ctx)().Spec.Evidence.Top[0].ID).To(Equal("CVE-2026-2"))
		w.apply(ctx, builder.ReplicaSet(d, w.namespace, "web-1", 3))
		Eventually(func() string { return web(ctx)().Spec.Evidence.Top[0].ID }).Should(Equal("CVE-2026-1"))
	})

	DescribeTable("workload deleted: WorkloadGone, whatever goes first",
		func(ctx SpecContext, order ...string) {
			w.apply(ctx, w.revisionReport("web-1", builder.Vulnerabilities(3, "HIGH")))
			w.settle(ctx)
			objects := map[string]client.Object{
				"Deployment": builder.Deployment(w.namespace, "web"), "ReplicaSet": builder.ReplicaSet(nil, w.namespace, "web-1", 1),
				"report": w.revisionReport("web-1", nil),
			}
			cost := w.cost(ctx, func() {
				for i, name := range order {
					if i == 1 {
						w.restart(ctx)
					}
					w.remove(ctx, objects[name])
					w.settle(ctx)
				}
				Eventually(outcome(web(ctx))).Should(Equal(candorv1alpha1.OutcomeWorkloadGone))
			})
			Expect(cost).To(Equal(kube.Counts{"patch findings": 1, "update findings/status": 1}))
		},
		Entry("from the top down", "Deployment", "ReplicaSet", "report"),
		Entry("the ReplicaSet last", "Deployment", "report", "ReplicaSet"),
		Entry("the report first", "report", "Deployment", "ReplicaSet"),
	)

	It("workload deleted: one that is still terminating is looked for again", func(ctx SpecContext) {
		w.apply(ctx, w.revisionReport("web-1", builder.Vulnerabilities(3, "HIGH")))
		w.settle(ctx)
		Expect(cluster.Client.Patch(ctx, d, merge(`{"metadata":{"finalizers":["candor.dev/test"]}}`))).To(Succeed())
		w.remove(ctx, d, builder.ReplicaSet(nil, w.namespace, "web-1", 1), w.revisionReport("web-1", nil))
		w.settle(ctx)
		Expect(outcome(web(ctx))()).To(Equal(candorv1alpha1.OutcomeStillPresent))
		Expect(cluster.Client.Patch(ctx, d, merge(`{"metadata":{"finalizers":null}}`))).To(Succeed())
		Eventually(outcome(web(ctx))).Should(Equal(candorv1alpha1.OutcomeWorkloadGone), "nothing but a timer tells that it is gone")
	})
})

var _ = Describe("Missing evidence", func() {
	var w *world

	BeforeEach(func(ctx SpecContext) {
		w = newWorld(ctx)
		w.apply(ctx, builder.StatefulSet(w.namespace, "web"), builder.Policy(w.namespace, "default", []string{"trivy"}))
		w.start(ctx)
		w.serving()
		w.scan(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
		w.settle(ctx)
	})

	DescribeTable("changes nothing for the grace, which starts anew with the process; then Stale, and StillPresent when it returns",
		func(ctx SpecContext, vanish func(context.Context)) {
			web, grace := w.of(ctx, "web"), w.options.EvidenceGrace
			after := func(wait time.Duration) kube.Counts {
				GinkgoHelper()
				return w.cost(ctx, func() {
					w.clock.Step(wait)
					w.wake(ctx, w.workload("web"))
				})
			}
			Expect(w.cost(ctx, func() { vanish(ctx) })).To(BeEmpty())
			Expect(after(grace - time.Minute)).To(BeEmpty())
			w.restart(ctx)
			Expect(after(2 * time.Minute)).To(BeEmpty())
			Expect(after(grace)).To(Equal(kube.Counts{"patch findings": 1, "update findings/status": 1}))
			Expect(outcome(web)()).To(Equal(candorv1alpha1.OutcomeStale))
			Expect(web().Labels).To(HaveKeyWithValue(candorv1alpha1.LabelOutcome, "stale"))
			Expect(after(24 * time.Hour)).To(BeEmpty())
			w.scan(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
			w.settle(ctx)
			Expect(outcome(web)()).To(Equal(candorv1alpha1.OutcomeStillPresent))
			Expect(web().Status.TimesRecurred).To(BeZero())
		},
		Entry("scale-to-zero: there is no report, and the workload is there", func(ctx context.Context) { w.unscan(ctx, "web") }),
		Entry("unknown-only: the report holds unrated entries only", func(ctx context.Context) {
			w.scan(ctx, "web", cves("UNKNOWN", "CVE-2026-1"))
		}),
		Entry("the report cannot be read", func(ctx context.Context) {
			w.scan(ctx, "web", []any{builder.Vulnerability("", "openssl", "HIGH")})
		}),
	)

	It("that comes back in time starts the grace anew the next time", func(ctx SpecContext) {
		cost := w.cost(ctx, func() {
			for range 3 {
				w.unscan(ctx, "web")
				w.settle(ctx)
				w.clock.Step(w.options.EvidenceGrace - time.Minute)
				w.wake(ctx, w.workload("web"))
				w.scan(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
				w.settle(ctx)
			}
		})
		Expect(cost).To(BeEmpty())
	})
})
