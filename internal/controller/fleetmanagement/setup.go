// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleetmanagement takes the kinds of fleetmanagement.grafana.com to Fleet Management. The decisions are made in
// internal/fleet; what is here reads objects, calls and reports.
package fleetmanagement

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/lifecycle"
)

const (
	// backoffFrom and backoffTo bound the wait after a failed pass, which doubles with each failure of the same object.
	backoffFrom = time.Second
	backoffTo   = 5 * time.Minute
)

// Wake is a channel of objects that a controller is to look at now.
type Wake = lifecycle.Wake

// builderFor is that of lifecycle, with a queue that backs off as Fleet Management needs it.
func builderFor(mgr manager.Manager, options controller.Options, name string, object client.Object, wakes []Wake, also ...predicate.Predicate) *builder.Builder {
	if options.RateLimiter == nil {
		options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](backoffFrom, backoffTo)
	}
	return lifecycle.BuilderFor(mgr, options, name, object, wakes, also...)
}

// reconcilerFor takes objects of a kind through the lifecycle and counts how each pass ends. changed is when Fleet Management last
// heard of what the object stands for.
func reconcilerFor[T lifecycle.Object](mgr manager.Manager, c clock.PassiveClock, s lifecycle.Syncer[T], kind, finalizer string, m *Metrics,
	changed func(T) *metav1.Time,
) reconcile.Reconciler {
	return reconcile.AsReconciler(mgr.GetClient(), &counted[T]{kind: kind, metrics: m, clock: c, changed: changed, next: &lifecycle.Reconciler[T]{
		Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("candor"), Syncer: s,
		Condition: fleetmanagementv1alpha1.ConditionSynced, Summary: fleetmanagementv1alpha1.ConditionReady, Finalizer: finalizer, Now: c.Now,
	}})
}

func complete(b *builder.Builder, r reconcile.Reconciler, name string) error {
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("setting up the %s controller: %w", name, err)
	}
	return nil
}

// counted counts the passes of a kind by the reason that they end with.
type counted[T lifecycle.Object] struct {
	kind    string
	metrics *Metrics
	clock   clock.PassiveClock
	// changed is nil for a kind that stands for nothing in Fleet Management.
	changed func(T) *metav1.Time
	next    reconcile.ObjectReconciler[T]
}

// Reconcile implements reconcile.ObjectReconciler.
func (c *counted[T]) Reconcile(ctx context.Context, obj T) (ctrl.Result, error) {
	before := obj.GetResourceVersion()
	result, err := c.next.Reconcile(ctx, obj)
	if written := obj.GetResourceVersion() != before; written && c.changed != nil {
		if at := c.changed(obj); at != nil {
			c.metrics.aged(c.kind, c.clock.Since(at.Time))
		}
	}
	conditions := *obj.StatusConditions()
	verdict := meta.FindStatusCondition(conditions, fleetmanagementv1alpha1.ConditionSynced)
	if verdict == nil {
		verdict = meta.FindStatusCondition(conditions, fleetmanagementv1alpha1.ConditionReady)
	}
	if verdict != nil {
		c.metrics.passed(c.kind, verdict.Reason)
	}
	return result, err
}

// older reports which of two objects was created first; of the same second, the one whose UID comes first.
func older(a, b client.Object) bool {
	made, other := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if !made.Equal(&other) {
		return made.Before(&other)
	}
	return a.GetUID() < b.GetUID()
}

// annotationsDiffer passes an update that changes one of these annotations.
func annotationsDiffer(names ...string) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		if e.ObjectOld == nil || e.ObjectNew == nil {
			return false
		}
		before, after := e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()
		for _, name := range names {
			if before[name] != after[name] {
				return true
			}
		}
		return false
	}}
}
