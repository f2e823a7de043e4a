// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"maps"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// SetupPolicies registers the remoteattributepolicy controller. wakes bring policies to look at now.
func SetupPolicies(mgr manager.Manager, options controller.Options, s *PolicySyncer, wakes ...Wake) error {
	b := builderFor(mgr, options, "remoteattributepolicy", &fleetmanagementv1alpha1.RemoteAttributePolicy{}, wakes).
		Watches(&fleetmanagementv1alpha1.Collector{}, meant{s.Client, s.Selectors, &fleetmanagementv1alpha1.RemoteAttributePolicyList{}}.handler()).
		Watches(&fleetmanagementv1alpha1.RemoteAttributePolicy{}, handler.Funcs{
			DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				s.Selectors.forget(e.Object.GetUID())
			},
		})
	b = s.Tenancy.watch(b, func(ctx context.Context, namespace string) []reconcile.Request {
		return lifecycle.Requests(ctx, s.Client, &fleetmanagementv1alpha1.RemoteAttributePolicyList{}, client.InNamespace(namespace))
	})
	r := reconcile.AsReconciler(mgr.GetClient(), &counted[*fleetmanagementv1alpha1.RemoteAttributePolicy]{
		kind: "RemoteAttributePolicy", metrics: s.Metrics, next: &lifecycle.Reconciler[*fleetmanagementv1alpha1.RemoteAttributePolicy]{
			Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("candor"), Syncer: s,
			Condition: fleetmanagementv1alpha1.ConditionReady, Now: s.Clock.Now,
		},
	})
	return complete(b, r, "remoteattributepolicy")
}

func (f facts) equal(g facts) bool {
	return f.id == g.id && f.registered == g.registered && maps.Equal(f.local, g.local) && maps.Equal(f.others, g.others)
}
