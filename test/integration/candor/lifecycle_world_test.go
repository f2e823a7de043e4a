// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/kube"
	"github.com/candor-dev/candor/test/suite"
)

// patience bounds the waits for a manager that has a lot to do.
const patience = 2 * time.Minute

// scan makes the report of the container app of a StatefulSet say that it has these entries.
func (w *world) scan(ctx context.Context, name string, entries []any, change ...func(*unstructured.Unstructured)) {
	GinkgoHelper()
	w.apply(ctx, builder.VulnerabilityReport(w.namespace, "StatefulSet", name, "app", entries, change...))
}

// unscan deletes that report.
func (w *world) unscan(ctx context.Context, name string) {
	GinkgoHelper()
	w.remove(ctx, builder.VulnerabilityReport(w.namespace, "StatefulSet", name, "app", nil))
}

// rescan deletes that report and makes another, which has a new UID.
func (w *world) rescan(ctx context.Context, name string, entries []any, change ...func(*unstructured.Unstructured)) {
	GinkgoHelper()
	w.unscan(ctx, name)
	w.scan(ctx, name, entries, change...)
}

func (w *world) remove(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, o := range objects {
		Expect(client.IgnoreNotFound(cluster.Client.Delete(ctx, o))).To(Succeed())
	}
}

// workload is the identity of the container app of a StatefulSet.
func (w *world) workload(name string) signals.Identity {
	return signals.Identity{Provider: "trivy", Namespace: w.namespace, Kind: "StatefulSet", Name: name, Container: "app"}
}

// of returns a function that reads the Finding of the container app of a StatefulSet.
func (w *world) of(ctx context.Context, name string) func() *candorv1alpha1.Finding {
	return w.finding(ctx, "trivy", "StatefulSet", name, "app")
}

// settle waits until the manager has done everything that follows from what is in the cluster: events of one kind arrive in
// order, so whoever has seen the fence move has seen what came before. The second move is for the events of Findings.
func (w *world) settle(ctx context.Context) {
	GinkgoHelper()
	w.moveFence(ctx)
	w.idle()
	w.moveFence(ctx)
	w.idle()
}

// fence is a world like this one in the namespace of the fence.
func (w *world) fence() *world {
	fence := *w
	fence.namespace = w.namespace + "-fence"
	return &fence
}

// unexplained keeps the Findings of a policy from models.
func unexplained(p *candorv1alpha1.SignalPolicy) {
	p.Spec.Enrichment = &candorv1alpha1.EnrichmentPolicy{Enabled: ptr.To(false)}
}

// moveFence changes what the report of the fence says and waits until both its halves follow.
func (w *world) moveFence(ctx context.Context) {
	GinkgoHelper()
	fence := w.fence()
	if w.fences == 0 {
		cluster.CreateNamespace(ctx, fence.namespace)
		fence.apply(ctx, builder.StatefulSet(fence.namespace, "fence"), builder.Policy(fence.namespace, "default", []string{"trivy"}, unexplained))
	}
	w.fences++
	id := fmt.Sprintf("CVE-2025-%05d", w.fences)
	fence.scan(ctx, "fence", []any{builder.Vulnerability(id, "fence", "CRITICAL")})
	moved := func(f *candorv1alpha1.Finding) bool {
		if f == nil || !strings.Contains(f.Spec.Summary, id) {
			return false
		}
		return !w.options.Controllers["finding"].Enabled || f.Status.Fingerprint == signals.Fingerprint(signals.Of(f))
	}
	Eventually(fence.of(ctx, "fence")).WithTimeout(patience).Should(Satisfy(moved), "the fence did not move")
}

// idle waits until the queues are empty and nothing is written or looked at any more.
func (w *world) idle() {
	GinkgoHelper()
	last, calm := "", 0
	look := func() int {
		now := fmt.Sprint(w.counter.Writes(), w.metric("candor_reports_ingested_total")())
		if calm++; now != last || busy() != w.backlog {
			calm = 0
		}
		last = now
		return calm
	}
	Eventually(look).WithPolling(20*time.Millisecond).WithTimeout(patience).Should(BeNumerically(">=", 2), "the manager does not come to rest")
}

// busy counts the keys in the queues of all controllers, and the passes that run.
func busy() float64 {
	return total("workqueue_depth", "") + total("controller_runtime_active_workers", "")
}

// passes counts the passes that a controller has finished, in whichever manager.
func passes(controller string) float64 {
	return total("controller_runtime_reconcile_total", controller)
}

// total adds up a metric of controller-runtime; an empty controller stands for every one.
func total(name, controller string) float64 {
	if controller == "" {
		return suite.Sum(metrics.Registry, name)
	}
	return suite.Sum(metrics.Registry, name, "controller", controller)
}

// wake makes the report controller look at identities now, and waits until it has.
func (w *world) wake(ctx context.Context, ids ...signals.Identity) {
	GinkgoHelper()
	w.settle(ctx)
	unchanged := w.metric("candor_reports_ingested_total", "result", "unchanged")
	before := unchanged()
	for _, id := range append(ids, w.fence().workload("fence")) {
		Eventually(w.wakeReports).Should(BeSent(event.TypedGenericEvent[signals.Identity]{Object: id}))
	}
	Eventually(unchanged).Should(BeNumerically(">", before))
	w.settle(ctx)
}

// wakeFinding makes the finding controller look at a Finding now, and waits until it has.
func (w *world) wakeFinding(ctx context.Context, name string) {
	GinkgoHelper()
	before := passes("finding")
	object := &candorv1alpha1.Finding{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	Eventually(w.wakeFindings).Should(BeSent(event.GenericEvent{Object: object}))
	Eventually(func() float64 { return passes("finding") }).Should(BeNumerically(">", before))
	w.settle(ctx)
}

// cost returns what the manager asked the API server to store in this namespace because of what happens, events aside. Time
// passes before, so that a write of nothing but the time shows.
func (w *world) cost(ctx context.Context, happens func()) kube.Counts {
	GinkgoHelper()
	w.settle(ctx)
	before := w.stored()
	w.clock.Step(time.Second)
	happens()
	w.settle(ctx)
	return w.stored().Since(before)
}

// stored counts the writes to Findings of this namespace. Policies count theirs at leisure and are another spec's matter.
func (w *world) stored() kube.Counts {
	counts := kube.Counts{}
	for _, r := range w.counter.Requests() {
		if !r.Reads() && r.Namespace == w.namespace && strings.HasPrefix(r.Resource, "findings") {
			counts[r.Key()]++
		}
	}
	return counts
}

// events returns the reasons of the events about a Finding. Events leave the manager in their own time: ask for some that
// must be there before believing that others are not.
func (w *world) events(ctx context.Context, finding string) func() []string {
	return func() []string {
		var reasons []string
		for _, e := range cluster.Events(ctx, w.namespace) {
			if e.Regarding.Kind == "Finding" && e.Regarding.Name == finding {
				reasons = append(reasons, e.Reason)
			}
		}
		return reasons
	}
}
