// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
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
)

// Wake is a channel of objects that a controller is to look at now.
type Wake = <-chan event.GenericEvent

// BuilderFor watches a kind for changes of its spec, and for what else is told to pass: a write of its status causes no other
// write. Wakes that are nil are left out.
func BuilderFor(mgr manager.Manager, options controller.Options, name string, object client.Object, wakes []Wake, also ...predicate.Predicate) *builder.Builder {
	b := ctrl.NewControllerManagedBy(mgr).Named(name).WithOptions(options).
		For(object, builder.WithPredicates(predicate.Or(append(also, predicate.GenerationChangedPredicate{})...)))
	for _, wake := range wakes {
		if wake != nil {
			b = b.WatchesRawSource(source.Channel(wake, &handler.EnqueueRequestForObject{}))
		}
	}
	return b
}

// Requests lists what an event concerns. An error is logged, and concerns nobody: what it hides is looked at with the next event.
func Requests(ctx context.Context, c client.Reader, list client.ObjectList, options ...client.ListOption) []reconcile.Request {
	options = append(options, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err := c.List(ctx, list, options...); err != nil {
		logf.FromContext(ctx).Error(err, "Cannot list what an event concerns")
		return nil
	}
	var all []reconcile.Request
	err := meta.EachListItem(list, func(o runtime.Object) error {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o.(client.Object))})
		return nil
	})
	if err != nil {
		logf.FromContext(ctx).Error(err, "Cannot read what an event concerns")
	}
	return all
}
