// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle holds the steps of a reconciliation once, for every kind. A kind says what is its own: Sync.
package lifecycle

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/candor-dev/candor/internal/fault"
)

const (
	// conflictWait is how soon a pass that lost a race is tried again.
	conflictWait = 100 * time.Millisecond
	// pendingRecheck is how soon an object whose work goes on elsewhere is looked at, should nobody wake it.
	pendingRecheck = time.Minute
)

// ErrPending is what Sync and Delete return when the work goes on elsewhere, which wakes the object when it is over. Nothing is
// written: the status says what it said.
var ErrPending = errors.New("the work goes on elsewhere")

// Object is a custom resource with a status of conditions.
type Object interface {
	client.Object
	StatusConditions() *[]metav1.Condition
	// ObservedGeneration is nil for a kind whose spec the operator itself writes: its status speaks of content, and a new
	// generation with the same content writes nothing.
	ObservedGeneration() *int64
}

// Syncer is all that a kind has to say.
type Syncer[T Object] interface {
	// Sync does what obj's spec asks for and records what it saw in obj's status, in memory.
	Sync(ctx context.Context, obj T) (Outcome, error)
}

// Settler is implemented by kinds whose work depends on more than their own spec.
type Settler[T Object] interface {
	// Settled reports that this pass has nothing to do, and when to look again; zero waits for the next event.
	Settled(obj T) (again time.Duration, settled bool)
}

// Deleter is implemented by kinds that leave something behind outside the cluster. They get a finalizer.
type Deleter[T Object] interface {
	// Delete removes what was left behind; a NotFound fault counts as done.
	Delete(ctx context.Context, obj T) error
}

// Gater is implemented by kinds that may have to wait before they leave anything behind.
type Gater[T Object] interface {
	// Gate returns why nothing may be done yet. It is asked before the finalizer is set.
	Gate(ctx context.Context, obj T) error
}

// Outcome is what one Sync concluded.
type Outcome struct {
	Reason, Message string
	// Status of the condition; the zero value is True. False is a conclusion, not an error: nothing is tried again.
	Status metav1.ConditionStatus
	// PollAfter is when to look again; zero waits for the next event.
	PollAfter time.Duration
	// Silent says that a change to this outcome is not worth an event.
	Silent bool
	// Gone says that Sync deleted the object, or tried to, so that no status is written.
	Gone bool
	// Then runs once the status is stored; nil for nothing.
	Then func()
}

// Reconciler takes objects of one kind through the steps.
type Reconciler[T Object] struct {
	Client   client.Client
	Recorder events.EventRecorder
	Syncer   Syncer[T]
	// Condition is the type of the condition that carries the verdict.
	Condition string
	// Summary is the type of a second condition that carries it, empty for none. While nothing is known to be wrong with an object
	// that was well, it stays True.
	Summary string
	// Finalizer is set on kinds whose Syncer is a Deleter.
	Finalizer string
	// Now stamps transitions.
	Now func() time.Time
}

// Reconcile runs one pass; reconcile.AsReconciler does the cached Get in front of it.
func (r *Reconciler[T]) Reconcile(ctx context.Context, obj T) (ctrl.Result, error) {
	if !obj.GetDeletionTimestamp().IsZero() {
		return r.finalize(ctx, obj)
	}
	if again, settled := r.settled(obj); settled {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	if err := r.gate(ctx, obj); err != nil {
		before := obj.DeepCopyObject().(T)
		return r.report(ctx, before, obj, judge(Outcome{}, err))
	}
	if err := r.ensureFinalizer(ctx, obj); err != nil {
		return conflictLater(err)
	}
	before := obj.DeepCopyObject().(T)
	outcome, err := r.Syncer.Sync(ctx, obj)
	switch {
	case errors.Is(err, ErrPending):
		return ctrl.Result{RequeueAfter: pendingRecheck}, nil
	case outcome.Gone && err == nil:
		return ctrl.Result{RequeueAfter: outcome.PollAfter}, nil
	}
	return r.report(ctx, before, obj, judge(outcome, err))
}

func (r *Reconciler[T]) gate(ctx context.Context, obj T) error {
	if g, gated := r.Syncer.(Gater[T]); gated {
		return g.Gate(ctx, obj)
	}
	return nil
}

// settled asks the kind. By default a spec is settled once it was done well: one that failed for good is tried again when
// its time comes.
func (r *Reconciler[T]) settled(obj T) (time.Duration, bool) {
	if s, ok := r.Syncer.(Settler[T]); ok {
		return s.Settled(obj)
	}
	observed := obj.ObservedGeneration()
	return 0, observed != nil && *observed == obj.GetGeneration() && meta.IsStatusConditionTrue(*obj.StatusConditions(), r.Condition)
}

func (r *Reconciler[T]) ensureFinalizer(ctx context.Context, obj T) error {
	if _, leaves := r.Syncer.(Deleter[T]); !leaves || !controllerutil.AddFinalizer(obj, r.Finalizer) {
		return nil
	}
	return r.Client.Update(ctx, obj)
}

func (r *Reconciler[T]) finalize(ctx context.Context, obj T) (ctrl.Result, error) {
	deleter, leaves := r.Syncer.(Deleter[T])
	if !leaves || !controllerutil.ContainsFinalizer(obj, r.Finalizer) {
		return ctrl.Result{}, nil
	}
	before := obj.DeepCopyObject().(T)
	err := fault.IgnoreNotFound(deleter.Delete(ctx, obj))
	if errors.Is(err, ErrPending) {
		return ctrl.Result{RequeueAfter: pendingRecheck}, nil
	}
	if err != nil {
		return r.report(ctx, before, obj, judge(Outcome{}, err))
	}
	controllerutil.RemoveFinalizer(obj, r.Finalizer)
	return conflictLater(client.IgnoreNotFound(r.Client.Update(ctx, obj)))
}

// report stores a verdict, then says it aloud: an event never speaks of a status that was not written.
func (r *Reconciler[T]) report(ctx context.Context, before, obj T, v verdict) (ctrl.Result, error) {
	changed := v.mark(r.Condition, r.Summary, obj, r.Now())
	if err := r.writeStatus(ctx, before, obj); err != nil {
		return conflictLater(client.IgnoreNotFound(err))
	}
	if changed {
		v.announce(r.Recorder, obj)
	}
	if v.then != nil {
		v.then()
	}
	return v.result()
}

func (r *Reconciler[T]) writeStatus(ctx context.Context, before, after T) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	return r.Client.Status().Update(ctx, after)
}

// conflictLater turns a lost race into another pass: the winner's event may already have been seen.
func conflictLater(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: conflictWait}, nil
	}
	return ctrl.Result{}, err
}
