// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/app"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/kube"
	"github.com/candor-dev/candor/test/suite"
)

// world is one namespace and one manager that a spec has to itself. Time stands still unless the spec steps it.
type world struct {
	namespace string
	clock     *clocktesting.FakeClock
	options   app.Options
	counter   *kube.Counter
	// manager is nil before the start.
	manager *suite.Manager

	wakeReports      chan event.TypedGenericEvent[signals.Identity]
	wakeFindings     chan event.GenericEvent
	wakeSuppressions chan event.GenericEvent
	wakePolicies     chan event.GenericEvent
	// forbidden returns the log lines of the spec that say "forbidden".
	forbidden func() []string
	// lacksRights says that the spec takes rights away, so that such lines are right.
	lacksRights bool

	// meddle stands between the manager and the API server; nil for nothing.
	meddle func(http.RoundTripper) http.RoundTripper
	// gather is how long Findings are collected before the worst of them is explained; zero is a tenth of a second.
	gather time.Duration
	// sinkTimeout bounds a request to a sink; zero is 10 seconds.
	sinkTimeout time.Duration
	// lookForKeys says when to look whether the key has changed; nil is every 30 seconds.
	lookForKeys chan time.Time
	// backlog is what a manager that was stopped at work left in the metrics of its queues.
	backlog float64
	// fences counts the moves of the fence.
	fences int
}

// worlds counts all that were made, living those that are not cleared yet.
var worlds, living int

// newWorld makes a namespace; the manager does not run yet.
func newWorld(ctx context.Context) *world {
	GinkgoHelper()
	worlds++
	living++
	w := &world{
		namespace: fmt.Sprintf("team-%d", worlds), clock: suite.NewClock(), options: suite.NewOptions(), counter: kube.NewCounter(),
		forbidden: cluster.Forbidden(),
	}
	cluster.CreateNamespace(ctx, w.namespace)
	DeferCleanup(func(ctx SpecContext) {
		w.stop()
		w.clear(ctx)
		w.fence().clear(ctx)
		if living--; living == 0 {
			var left candorv1alpha1.FindingList
			Expect(cluster.Client.List(ctx, &left)).To(Succeed())
			Expect(left.Items).To(BeEmpty(), "metrics count all namespaces, so the next spec would count these")
		}
		if !w.lacksRights {
			Expect(w.forbidden()).To(BeEmpty(), "the manager lacks a right")
		}
	})
	return w
}

// clear deletes what the spec made.
func (w *world) clear(ctx context.Context) {
	GinkgoHelper()
	ours, apps := candorv1alpha1.GroupVersion, appsv1.SchemeGroupVersion
	cluster.DeleteAll(ctx, w.namespace, ours.WithKind("Finding"), ours.WithKind("SignalPolicy"), ours.WithKind("Suppression"),
		apps.WithKind("ReplicaSet"), apps.WithKind("Deployment"), apps.WithKind("StatefulSet"), corev1.SchemeGroupVersion.WithKind("Pod"))
	for _, class := range app.Classes() {
		cluster.DeleteAll(ctx, w.namespace, class.Kind)
	}
	cluster.DeleteAll(ctx, "", ours.WithKind("OperatingPolicy"), ours.WithKind("Ledger"))
}

// start runs the manager as its ServiceAccount.
func (w *world) start(ctx context.Context) {
	GinkgoHelper()
	w.backlog = busy()
	w.wakeReports = make(chan event.TypedGenericEvent[signals.Identity])
	w.wakeFindings, w.wakeSuppressions, w.wakePolicies = make(chan event.GenericEvent), make(chan event.GenericEvent), make(chan event.GenericEvent)
	w.manager = cluster.StartManager(ctx, w.options, app.Parts{
		Clock: w.clock, GatherCalls: cmp.Or(w.gather, 100*time.Millisecond), LookForKeys: w.lookForKeys,
		WakeReports: w.wakeReports, WakeFindings: w.wakeFindings, WakeSuppressions: w.wakeSuppressions, WakeSignalPolicies: w.wakePolicies,
		SinkTimeout: w.sinkTimeout,
	}, w.counter.Wrap, w.meddle)
}

// stop ends the manager and waits for it.
func (w *world) stop() {
	GinkgoHelper()
	w.manager.Stop()
}

// restart runs another manager in place of the first, which remembers nothing.
func (w *world) restart(ctx context.Context) {
	GinkgoHelper()
	w.stop()
	w.start(ctx)
	w.serving()
}

// serving waits until the reports of the providers are being watched.
func (w *world) serving(providers ...string) {
	GinkgoHelper()
	if len(providers) == 0 {
		providers = []string{"trivy", "trivy/config", "trivy/rbac"}
	}
	for _, p := range providers {
		Eventually(w.metric("candor_provider_up", "provider", p)).Should(Equal(1.0), p)
	}
}

// metric returns a function that reads a metric; labels are name, value, name, value.
func (w *world) metric(name string, labels ...string) func() float64 {
	return func() float64 { return suite.Sum(w.manager.Registry, name, labels...) }
}

// apply creates an object, or makes the one there is like it.
func (w *world) apply(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, o := range objects {
		desired := o.DeepCopyObject().(client.Object)
		err := cluster.Client.Create(ctx, o)
		if apierrors.IsAlreadyExists(err) {
			// The manager may write the status between the two.
			err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				there := o.DeepCopyObject().(client.Object)
				Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(o), there)).To(Succeed())
				desired.SetResourceVersion(there.GetResourceVersion())
				return cluster.Client.Update(ctx, desired)
			})
		}
		Expect(err).NotTo(HaveOccurred())
	}
}

// finding returns a function that reads the Finding of an identity, nil when there is none.
func (w *world) finding(ctx context.Context, provider, kind, name, container string) func() *candorv1alpha1.Finding {
	id := signals.Identity{Provider: provider, Namespace: w.namespace, Kind: kind, Name: name, Container: container}
	return func() *candorv1alpha1.Finding {
		var f candorv1alpha1.Finding
		err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: id.FindingName()}, &f)
		if err != nil {
			return nil
		}
		return &f
	}
}

// findings returns every Finding of the namespace.
func (w *world) findings(ctx context.Context) []candorv1alpha1.Finding {
	GinkgoHelper()
	var list candorv1alpha1.FindingList
	Expect(cluster.Client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	return list.Items
}

// writes counts what the manager wrote, but for events and leases.
func (w *world) writes() kube.Counts { return w.counter.Writes().Without("events", "leases") }

// outcome reads the outcome of a Finding, empty when there is none.
func outcome(f func() *candorv1alpha1.Finding) func() candorv1alpha1.Outcome {
	return func() candorv1alpha1.Outcome {
		if found := f(); found != nil {
			return found.Status.VerificationOutcome
		}
		return ""
	}
}
