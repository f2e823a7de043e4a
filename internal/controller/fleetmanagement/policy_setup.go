// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"maps"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// matchEvery is the least time from a change of a Collector to a pass of the policies that it concerns, so that the changes of
// thousands become one pass.
const matchEvery = time.Second

// SetupPolicies registers the remoteattributepolicy controller. wakes bring policies to look at now.
func SetupPolicies(mgr manager.Manager, options controller.Options, s *PolicySyncer, wakes ...Wake) error {
	b := builderFor(mgr, options, "remoteattributepolicy", &fleetmanagementv1alpha1.RemoteAttributePolicy{}, wakes).
		Watches(&fleetmanagementv1alpha1.Collector{}, s.concerned()).
		Watches(&fleetmanagementv1alpha1.RemoteAttributePolicy{}, handler.Funcs{
			DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				s.Selectors.forget(e.Object.GetUID())
			},
		})
	r := reconcile.AsReconciler(mgr.GetClient(), &counted[*fleetmanagementv1alpha1.RemoteAttributePolicy]{
		kind: "RemoteAttributePolicy", metrics: s.Metrics, next: &lifecycle.Reconciler[*fleetmanagementv1alpha1.RemoteAttributePolicy]{
			Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("candor"), Syncer: s,
			Condition: fleetmanagementv1alpha1.ConditionReady, Now: s.Clock.Now,
		},
	})
	return complete(b, r, "remoteattributepolicy")
}

// concerned enqueues the policies whose selector means a Collector as it is or was, and not both.
func (s *PolicySyncer) concerned() handler.Funcs {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			s.enqueue(ctx, q, nil, e.Object.(*fleetmanagementv1alpha1.Collector))
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			s.enqueue(ctx, q, e.ObjectOld.(*fleetmanagementv1alpha1.Collector), e.ObjectNew.(*fleetmanagementv1alpha1.Collector))
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			s.enqueue(ctx, q, e.Object.(*fleetmanagementv1alpha1.Collector), nil)
		},
	}
}

func (s *PolicySyncer) enqueue(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request], before, after *fleetmanagementv1alpha1.Collector) {
	var was, is facts
	namespace := ""
	if before != nil {
		was, namespace = factsOf(before), before.Namespace
	}
	if after != nil {
		is, namespace = factsOf(after), after.Namespace
	}
	if was.equal(is) {
		return
	}
	var list fleetmanagementv1alpha1.RemoteAttributePolicyList
	if err := s.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		logf.FromContext(ctx).Error(err, "Cannot list the policies that a Collector concerns")
		return
	}
	for i := range list.Items {
		p := &list.Items[i]
		if selector, err := s.Selectors.of(p); err == nil && selector.meets(was) != selector.meets(is) {
			q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p)}, matchEvery)
		}
	}
}

func (f facts) equal(g facts) bool {
	return f.id == g.id && f.registered == g.registered && maps.Equal(f.local, g.local) && maps.Equal(f.others, g.others)
}
