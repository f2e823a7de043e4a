// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/tenant"
)

// storedIn returns the objects of a kind that the rules of a namespace are for.
type storedIn func(ctx context.Context, namespace string) []reconcile.Request

// watch has a controller look at what is stored in a namespace when other policies bind there, or one that does changes. A nil
// Tenancy watches nothing.
func (t *Tenancy) watch(b *builder.Builder, stored storedIn) *builder.Builder {
	if t == nil {
		return b
	}
	return b.
		Watches(&fleetmanagementv1alpha1.TenantPolicy{}, t.policyChanged(stored), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(&corev1.Namespace{}, t.namespaceChanged(stored))
}

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// policyChanged enqueues what is stored where a policy binds, or bound before.
func (t *Tenancy) policyChanged(stored storedIn) handler.EventHandler {
	enqueue := func(ctx context.Context, q requests, objects ...client.Object) {
		namespaces, err := listNamespaces(ctx, t.Client)
		if err != nil {
			logf.FromContext(ctx).Error(err, "Cannot list the namespaces that a TenantPolicy concerns")
			return
		}
		for _, o := range objects {
			policy, _ := tenant.Compile(o.(*fleetmanagementv1alpha1.TenantPolicy)) // what cannot be read binds as well
			for i := range namespaces {
				if policy.BindsStored(namespaces[i].Labels) {
					add(q, stored(ctx, namespaces[i].Name))
				}
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q requests) { enqueue(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q requests) { enqueue(ctx, q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q requests) { enqueue(ctx, q, e.Object) },
	}
}

// namespaceChanged enqueues what is stored in a namespace once its labels have other policies bind there. What came before its
// namespace was seen is tried again anyway.
func (t *Tenancy) namespaceChanged(stored storedIn) handler.EventHandler {
	return handler.Funcs{UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q requests) {
		was, is := e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()
		if maps.Equal(was, is) {
			return
		}
		policies, err := t.policies(ctx)
		if err != nil {
			logf.FromContext(ctx).Error(err, "Cannot list the TenantPolicies that a namespace concerns")
			return
		}
		for _, policy := range policies {
			if policy.BindsStored(was) != policy.BindsStored(is) {
				add(q, stored(ctx, e.ObjectNew.GetName()))
				return
			}
		}
	}}
}

func add(q requests, all []reconcile.Request) {
	for _, request := range all {
		q.Add(request)
	}
}

// listNamespaces returns the metadata of all namespaces. It is the cache's own: nothing of it may be changed.
func listNamespaces(ctx context.Context, reader client.Reader) ([]metav1.PartialObjectMetadata, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	err := reader.List(ctx, &list, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	return list.Items, err
}

// CompactNamespace leaves of a Namespace what policies select it by.
func CompactNamespace(o any) (any, error) {
	if namespace, is := o.(*metav1.PartialObjectMetadata); is {
		namespace.ObjectMeta = metav1.ObjectMeta{
			Name: namespace.Name, UID: namespace.UID, ResourceVersion: namespace.ResourceVersion, Labels: namespace.Labels,
		}
	}
	return o, nil
}
