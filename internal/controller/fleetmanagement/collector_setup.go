// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// indexCollectorID finds Collectors by spec.id.
const indexCollectorID = "collector.spec.id"

// SetupCollectors registers the collector controller and what works for it. wakes bring Collectors to look at now.
func SetupCollectors(mgr manager.Manager, options controller.Options, s *CollectorSyncer, wakes ...Wake) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &fleetmanagementv1alpha1.Collector{}, indexCollectorID, func(o client.Object) []string {
		return []string{o.(*fleetmanagementv1alpha1.Collector).Spec.ID}
	})
	if err != nil {
		return fmt.Errorf("adding the index %s: %w", indexCollectorID, err)
	}
	for _, worker := range []manager.Runnable{s.poller, s.namer, s.batcher} {
		if err := mgr.Add(worker); err != nil {
			return fmt.Errorf("adding what works for the collector controller: %w", err)
		}
	}
	b := builderFor(mgr, options, "collector", &fleetmanagementv1alpha1.Collector{}, wakes, annotationsDiffer(fleetmanagementv1alpha1.AnnotationSkipRemoteDelete)).
		Watches(&fleetmanagementv1alpha1.Collector{}, handler.Funcs{DeleteFunc: s.gone}).
		Watches(&fleetmanagementv1alpha1.RemoteAttributePolicy{}, handler.EnqueueRequestsFromMapFunc(s.concernedBy),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&fleetmanagementv1alpha1.ExternalAttributeSync{}, handler.EnqueueRequestsFromMapFunc(s.concernedBy),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(s.queue.source())
	b = s.Tenancy.watch(b, func(ctx context.Context, namespace string) []reconcile.Request {
		return lifecycle.Requests(ctx, s.Client, &fleetmanagementv1alpha1.CollectorList{}, client.InNamespace(namespace))
	})
	return complete(b, reconcilerFor(mgr, s.Clock, s, "Collector", fleetmanagementv1alpha1.CollectorFinalizer, s.Metrics,
		func(o *fleetmanagementv1alpha1.Collector) *metav1.Time { return o.Status.LastPing }), "collector")
}

// ownQueue lets those who work for a controller add to its queue, which never blocks. What comes before the controller runs is not
// missed: it begins with all objects.
type ownQueue struct {
	queue atomic.Pointer[workqueue.TypedRateLimitingInterface[reconcile.Request]]
}

func (o *ownQueue) source() source.Source {
	return source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		o.queue.Store(&q)
		return nil
	})
}

func (o *ownQueue) add(key client.ObjectKey) { o.addAfter(key, 0) }

// addAfter adds in a while, by the clock of the machine.
func (o *ownQueue) addAfter(key client.ObjectKey, wait time.Duration) {
	if q := o.queue.Load(); q != nil {
		(*q).AddAfter(reconcile.Request{NamespacedName: key}, wait)
	}
}

// gone forgets a Collector, and wakes those that could not be served while it was there.
func (s *CollectorSyncer) gone(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	c := e.Object.(*fleetmanagementv1alpha1.Collector)
	s.attempts.forget(c.Spec.ID, c.UID)
	s.Metrics.letGo(c.UID)
	var list fleetmanagementv1alpha1.CollectorList
	for _, request := range lifecycle.Requests(ctx, s.Client, &list, client.MatchingFields{indexCollectorID: c.Spec.ID}) {
		q.Add(request)
	}
}

// concernedBy maps a policy or a sync, as it is or was, to the Collectors that its selector means. It goes by what passes go by, the
// inventory: a status may be behind.
func (s *CollectorSyncer) concernedBy(ctx context.Context, o client.Object) []reconcile.Request {
	selector, err := compile(o)
	var list fleetmanagementv1alpha1.CollectorList
	if err := s.Client.List(ctx, &list, client.InNamespace(o.GetNamespace()), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		logf.FromContext(ctx).Error(err, "Cannot list the Collectors that a selector concerns")
		return nil
	}
	var all []reconcile.Request
	for i := range list.Items {
		c := &list.Items[i]
		live, registered := s.Inventory.Get(c.Spec.ID)
		// What counts as others' attributes depends on what is being done: a selector that goes by them may concern everybody.
		if registered && (err != nil || selector.includeRemote || selector.meets(factsOfLive(live, nil))) {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c)})
		}
	}
	return all
}
