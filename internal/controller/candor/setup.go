// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
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

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// Wake is a channel of objects that a controller is to look at now.
type Wake = <-chan event.GenericEvent

// SetupFindings registers the finding controller. A Finding whose fingerprint has just become known is looked at once more: a
// Suppression of it may have come while it was being written.
func SetupFindings(mgr manager.Manager, options controller.Options, s *FindingSyncer, wake Wake) error {
	b := builderFor(mgr, options, "finding", &candorv1alpha1.Finding{}, wake, fingerprintDiffers).
		Watches(&candorv1alpha1.Suppression{}, handler.EnqueueRequestsFromMapFunc(mutedBy(s.Client)), builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	return complete(mgr, b, s.Clock, s, candorv1alpha1.ConditionVerified)
}

// SetupSignalPolicies registers the signalpolicy controller. providerChanged brings policies whose providers came or went.
func SetupSignalPolicies(mgr manager.Manager, options controller.Options, s *SignalPolicySyncer, providerChanged Wake) error {
	b := builderFor(mgr, options, "signalpolicy", &candorv1alpha1.SignalPolicy{}, providerChanged).
		Watches(&candorv1alpha1.Finding{}, later(countEvery, policiesBeside(s.Client)), builder.WithPredicates(countsDiffer))
	return complete(mgr, b, s.Clock, s, candorv1alpha1.ConditionReady)
}

// SetupSuppressions registers the suppression controller.
func SetupSuppressions(mgr manager.Manager, options controller.Options, s *SuppressionSyncer, wake Wake) error {
	b := builderFor(mgr, options, "suppression", &candorv1alpha1.Suppression{}, wake).
		Watches(&candorv1alpha1.Finding{}, handler.EnqueueRequestsFromMapFunc(suppressionsOf(s.Client)), builder.WithPredicates(fingerprintDiffers))
	return complete(mgr, b, s.Clock, s, candorv1alpha1.ConditionReady)
}

// builderFor watches a kind for changes of its spec, and for what else is told to pass: a write of its status causes no other
// write.
func builderFor(mgr manager.Manager, options controller.Options, name string, object client.Object, wake Wake, also ...predicate.Predicate) *builder.Builder {
	b := ctrl.NewControllerManagedBy(mgr).Named(name).WithOptions(options).
		For(object, builder.WithPredicates(predicate.Or(append(also, predicate.GenerationChangedPredicate{})...)))
	if wake != nil {
		b = b.WatchesRawSource(source.Channel(wake, &handler.EnqueueRequestForObject{}))
	}
	return b
}

func complete[T lifecycle.Object](mgr manager.Manager, b *builder.Builder, c clock.PassiveClock, s lifecycle.Syncer[T], condition string) error {
	r := &lifecycle.Reconciler[T]{
		Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("candor"), Syncer: s, Condition: condition, Now: c.Now,
	}
	if err := b.Complete(reconcile.AsReconciler(mgr.GetClient(), r)); err != nil {
		return fmt.Errorf("setting up the controller of %s: %w", condition, err)
	}
	return nil
}

// mutedBy maps a Suppression to the Findings that have its fingerprint.
func mutedBy(c client.Client) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		var list candorv1alpha1.FindingList
		return requests(ctx, c, &list, client.InNamespace(o.GetNamespace()),
			client.MatchingFields{indexFingerprint: o.(*candorv1alpha1.Suppression).Spec.Fingerprint})
	}
}

// suppressionsOf maps a Finding to the Suppressions that hold its fingerprint.
func suppressionsOf(c client.Client) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		var list candorv1alpha1.SuppressionList
		return requests(ctx, c, &list, client.InNamespace(o.GetNamespace()),
			client.MatchingFields{indexFingerprint: o.(*candorv1alpha1.Finding).Status.Fingerprint})
	}
}

// policiesBeside maps a Finding to the policies of its namespace.
func policiesBeside(c client.Client) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		var list candorv1alpha1.SignalPolicyList
		return requests(ctx, c, &list, client.InNamespace(o.GetNamespace()))
	}
}

func requests(ctx context.Context, c client.Client, list client.ObjectList, options ...client.ListOption) []reconcile.Request {
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

// later enqueues after a wait; the queue keeps the earliest time of a key, so that a burst becomes one pass.
func later(wait time.Duration, find handler.MapFunc) handler.EventHandler {
	add := func(ctx context.Context, o client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		for _, request := range find(ctx, o) {
			q.AddAfter(request, wait)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(ctx, e.Object, q)
		},
	}
}

// countsDiffer passes the changes of a Finding that a policy counts.
var countsDiffer = onFindingUpdate(func(before, after *candorv1alpha1.Finding) bool {
	return before.Spec.Severity != after.Spec.Severity || before.Status.VerificationOutcome != after.Status.VerificationOutcome ||
		before.Status.Explained != after.Status.Explained
})

// fingerprintDiffers passes the changes of a Finding that decide which Suppression mutes it.
var fingerprintDiffers = onFindingUpdate(func(before, after *candorv1alpha1.Finding) bool {
	return before.Status.Fingerprint != after.Status.Fingerprint
})

func onFindingUpdate(passes func(before, after *candorv1alpha1.Finding) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*candorv1alpha1.Finding)
		after, also := e.ObjectNew.(*candorv1alpha1.Finding)
		return ok && also && passes(before, after)
	}}
}
