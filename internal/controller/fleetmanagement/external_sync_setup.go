// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// SetupExternalSyncs registers the external-sync controller. It needs the collector controller, which lists collectors and gives them
// what is fetched. wakes bring syncs to look at now.
func SetupExternalSyncs(mgr manager.Manager, options controller.Options, s *ExternalSyncSyncer, wakes ...Wake) error {
	b := builderFor(mgr, options, "external-sync", &fleetmanagementv1alpha1.ExternalAttributeSync{}, wakes, annotationsDiffer(
		fleetmanagementv1alpha1.AnnotationFetchNow, fleetmanagementv1alpha1.AnnotationApproveRemoval, fleetmanagementv1alpha1.AnnotationDryRun)).
		Watches(&fleetmanagementv1alpha1.Collector{}, meant{s.Client, s.Selectors, &fleetmanagementv1alpha1.ExternalAttributeSyncList{}}.handler()).
		Watches(&fleetmanagementv1alpha1.ExternalAttributeSync{}, handler.Funcs{
			DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				uid := e.Object.GetUID()
				s.memories.forget(uid)
				s.Claims.Drop(uid)
				s.Selectors.forget(uid)
			},
		})
	b = s.Tenancy.watch(b, func(ctx context.Context, namespace string) []reconcile.Request {
		return lifecycle.Requests(ctx, s.Client, &fleetmanagementv1alpha1.ExternalAttributeSyncList{}, client.InNamespace(namespace))
	})
	return complete(b, reconcilerFor(mgr, s.Clock, s, "ExternalAttributeSync", "", s.Metrics,
		func(o *fleetmanagementv1alpha1.ExternalAttributeSync) *metav1.Time { return o.Status.LastSuccessTime }), "external-sync")
}
