// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

// matchEvery is the least time from a change of a Collector to a pass of the objects whose selectors it concerns, so that the changes of
// thousands become one pass.
const matchEvery = time.Second

// meant enqueues the objects of a kind whose selector means a Collector as it is or was, and not both.
type meant struct {
	client.Reader
	selectors *Selectors
	// list is an empty one of the kind, of which each look fills a copy.
	list client.ObjectList
}

func (m meant) handler() handler.Funcs {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			m.enqueue(ctx, q, nil, e.Object.(*fleetmanagementv1alpha1.Collector))
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			m.enqueue(ctx, q, e.ObjectOld.(*fleetmanagementv1alpha1.Collector), e.ObjectNew.(*fleetmanagementv1alpha1.Collector))
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			m.enqueue(ctx, q, e.Object.(*fleetmanagementv1alpha1.Collector), nil)
		},
	}
}

func (m meant) enqueue(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request], before, after *fleetmanagementv1alpha1.Collector) {
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
	list := m.list.DeepCopyObject().(client.ObjectList)
	err := m.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err == nil {
		err = meta.EachListItem(list, func(item runtime.Object) error {
			o := item.(client.Object)
			if selector, err := m.selectors.of(o); err == nil && selector.meets(was) != selector.meets(is) {
				q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}, matchEvery)
			}
			return nil
		})
	}
	if err != nil {
		logf.FromContext(ctx).Error(err, "Cannot list the objects whose selectors a Collector concerns")
	}
}
