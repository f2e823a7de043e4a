// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/tenant"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// SetupTenantPolicies registers the tenantpolicy controller. wakes bring policies to look at now.
func SetupTenantPolicies(mgr manager.Manager, options controller.Options, s *TenantPolicySyncer, wakes ...Wake) error {
	b := builderFor(mgr, options, "tenantpolicy", &fleetmanagementv1alpha1.TenantPolicy{}, wakes).
		WatchesMetadata(&corev1.Namespace{}, s.bindsElsewhere())
	r := reconcile.AsReconciler(mgr.GetClient(), &counted[*fleetmanagementv1alpha1.TenantPolicy]{
		kind: "TenantPolicy", metrics: s.Metrics, next: &lifecycle.Reconciler[*fleetmanagementv1alpha1.TenantPolicy]{
			Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("candor"), Syncer: s,
			Condition: fleetmanagementv1alpha1.ConditionValid, Summary: fleetmanagementv1alpha1.ConditionReady, Now: s.Clock.Now,
		},
	})
	return complete(b, r, "tenantpolicy")
}

// bindsElsewhere enqueues the policies that bind in a namespace as it is or was, and not both.
func (s *TenantPolicySyncer) bindsElsewhere() handler.Funcs {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q requests) { s.enqueue(ctx, q, nil, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q requests) {
			s.enqueue(ctx, q, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q requests) { s.enqueue(ctx, q, e.Object, nil) },
	}
}

func (s *TenantPolicySyncer) enqueue(ctx context.Context, q requests, before, after client.Object) {
	var list fleetmanagementv1alpha1.TenantPolicyList
	if err := s.Client.List(ctx, &list, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		logf.FromContext(ctx).Error(err, "Cannot list the TenantPolicies that a namespace concerns")
		return
	}
	for i := range list.Items {
		policy, _ := tenant.Compile(&list.Items[i])
		binds := func(o client.Object) bool { return o != nil && policy.BindsIn(o.GetLabels()) }
		if binds(before) != binds(after) {
			q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])}, matchEvery)
		}
	}
}
