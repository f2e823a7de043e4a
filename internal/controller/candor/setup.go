// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// Wake is a channel of objects that a controller is to look at now.
type Wake = lifecycle.Wake

// SetupFindings registers the finding controller. A Finding whose fingerprint has just become known is looked at once more: a
// Suppression of it may have come while it was being written. wakes bring Findings to look at now.
func SetupFindings(mgr manager.Manager, options controller.Options, s *FindingSyncer, wakes ...Wake) error {
	spec := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	b := lifecycle.BuilderFor(mgr, options, "finding", &candorv1alpha1.Finding{}, wakes, fingerprintDiffers).
		Watches(&candorv1alpha1.Suppression{}, handler.EnqueueRequestsFromMapFunc(s.Mutes.after(mutedBy(s.Client))), spec).
		Watches(&candorv1alpha1.SignalPolicy{}, handler.EnqueueRequestsFromMapFunc(findingsBeside(s.Client)), spec).
		Watches(&candorv1alpha1.OperatingPolicy{}, handler.EnqueueRequestsFromMapFunc(s.Mutes.after(everyFinding(s.Client))), spec).
		Watches(&candorv1alpha1.Finding{}, handler.Funcs{
			DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				s.Explainer.Forget(e.Object.GetUID())
				s.Notifier.lanes.forget(e.Object.GetUID())
			},
		})
	r := reconcilerFor(mgr, s.Clock, s, candorv1alpha1.ConditionVerified)
	s.Explainer.Callers.Flush, s.Notifier.FlushFinding = passOf(r), passOf(r)
	return complete(b, r, candorv1alpha1.ConditionVerified)
}

// passOf returns what runs a pass when the controller has stopped.
func passOf(r reconcile.Reconciler) func(context.Context, reconcile.Request) error {
	return func(ctx context.Context, request reconcile.Request) error {
		_, err := r.Reconcile(ctx, request)
		return err
	}
}

// SetupSignalPolicies registers the signalpolicy controller. wakes bring policies to look at now, such as those whose providers
// came or went.
func SetupSignalPolicies(mgr manager.Manager, options controller.Options, s *SignalPolicySyncer, wakes ...Wake) error {
	b := lifecycle.BuilderFor(mgr, options, "signalpolicy", &candorv1alpha1.SignalPolicy{}, wakes).
		Watches(&candorv1alpha1.SignalPolicy{}, handler.Funcs{
			DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				s.Notifier.lanes.forgetPolicy(client.ObjectKeyFromObject(e.Object))
			},
		}).
		Watches(&candorv1alpha1.Finding{}, later(countEvery, policiesBeside(s.Client)), builder.WithPredicates(countsDiffer)).
		Watches(&candorv1alpha1.OperatingPolicy{}, later(countEvery, everyPolicy(s.Client)), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&candorv1alpha1.Ledger{}, payers(s.Client))
	r := reconcilerFor(mgr, s.Clock, s, candorv1alpha1.ConditionReady)
	s.Notifier.FlushPolicy = passOf(r)
	return complete(b, r, candorv1alpha1.ConditionReady)
}

// SetupOperatingPolicies registers the operatingpolicy controller.
func SetupOperatingPolicies(mgr manager.Manager, options controller.Options, s *OperatingPolicySyncer) error {
	b := lifecycle.BuilderFor(mgr, options, "operatingpolicy", &candorv1alpha1.OperatingPolicy{}, nil).
		Watches(&candorv1alpha1.Ledger{}, later(countEvery, func(context.Context, client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: candorv1alpha1.Singleton}}}
		}))
	return complete(b, reconcilerFor(mgr, s.Clock, s, candorv1alpha1.ConditionReady), candorv1alpha1.ConditionReady)
}

// SetupSuppressions registers the suppression controller.
func SetupSuppressions(mgr manager.Manager, options controller.Options, s *SuppressionSyncer, wake Wake) error {
	b := lifecycle.BuilderFor(mgr, options, "suppression", &candorv1alpha1.Suppression{}, []Wake{wake}).
		Watches(&candorv1alpha1.Suppression{}, handler.EnqueueRequestsFromMapFunc(s.Mutes.after(nobody)), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&candorv1alpha1.Finding{}, handler.EnqueueRequestsFromMapFunc(suppressionsOf(s.Mutes)), builder.WithPredicates(predicate.Or(fingerprintDiffers, mutesDiffer))).
		Watches(&candorv1alpha1.OperatingPolicy{}, handler.EnqueueRequestsFromMapFunc(s.Mutes.after(everySuppression(s.Client))), builder.WithPredicates(longestDiffers))
	return complete(b, reconcilerFor(mgr, s.Clock, s, candorv1alpha1.ConditionReady), candorv1alpha1.ConditionReady)
}

func reconcilerFor[T lifecycle.Object](mgr manager.Manager, c clock.PassiveClock, s lifecycle.Syncer[T], condition string) reconcile.Reconciler {
	return reconcile.AsReconciler(mgr.GetClient(), &lifecycle.Reconciler[T]{
		Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("candor"), Syncer: s, Condition: condition, Now: c.Now,
	})
}

func complete(b *builder.Builder, r reconcile.Reconciler, condition string) error {
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("setting up the controller of %s: %w", condition, err)
	}
	return nil
}

// policiesBeside maps a Finding to the policies of its namespace.
func policiesBeside(c client.Client) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		var list candorv1alpha1.SignalPolicyList
		return lifecycle.Requests(ctx, c, &list, client.InNamespace(o.GetNamespace()))
	}
}

// findingsBeside maps a policy to the Findings of its namespace.
func findingsBeside(c client.Client) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		var list candorv1alpha1.FindingList
		return lifecycle.Requests(ctx, c, &list, client.InNamespace(o.GetNamespace()))
	}
}

func everyFinding(c client.Client) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		var list candorv1alpha1.FindingList
		return lifecycle.Requests(ctx, c, &list)
	}
}

func everyPolicy(c client.Client) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []reconcile.Request {
		var list candorv1alpha1.SignalPolicyList
		return lifecycle.Requests(ctx, c, &list)
	}
}

// payers maps a change of the Ledger to the policies of the namespaces that it concerns.
func payers(c client.Client) handler.EventHandler {
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			before, after := e.ObjectOld.(*candorv1alpha1.Ledger), e.ObjectNew.(*candorv1alpha1.Ledger)
			for _, namespace := range changedNamespaces(before, after) {
				var list candorv1alpha1.SignalPolicyList
				for _, request := range lifecycle.Requests(ctx, c, &list, client.InNamespace(namespace)) {
					q.AddAfter(request, countEvery)
				}
			}
		},
	}
}

func changedNamespaces(before, after *candorv1alpha1.Ledger) []string {
	old := map[string]candorv1alpha1.LedgerScope{}
	for _, scope := range before.Status.Scopes {
		old[scope.Name] = scope
	}
	var changed []string
	for _, scope := range after.Status.Scopes {
		namespace, ok := strings.CutPrefix(scope.Name, candorv1alpha1.LedgerScopeNamespace(""))
		if ok && !equality.Semantic.DeepEqual(old[scope.Name], scope) {
			changed = append(changed, namespace)
		}
	}
	return changed
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
		before.Status.ShownSeverity != after.Status.ShownSeverity || before.Status.Explained != after.Status.Explained || requestKey(before) != requestKey(after)
})

func requestKey(f *candorv1alpha1.Finding) string {
	if f.Status.Request == nil {
		return ""
	}
	return f.Status.Request.Key
}

// fingerprintDiffers passes the changes of a Finding that decide which Suppression mutes it.
var fingerprintDiffers = onFindingUpdate(func(before, after *candorv1alpha1.Finding) bool {
	return before.Status.Fingerprint != after.Status.Fingerprint
})

// mutesDiffer passes the changes of what is muted inside a Finding.
var mutesDiffer = onFindingUpdate(func(before, after *candorv1alpha1.Finding) bool {
	return muted(before) != muted(after) || !slices.Equal(muters(before), muters(after))
})

func muted(f *candorv1alpha1.Finding) int32 {
	if f.Spec.Evidence == nil {
		return 0
	}
	return f.Spec.Evidence.Muted
}

func onFindingUpdate(passes func(before, after *candorv1alpha1.Finding) bool) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*candorv1alpha1.Finding)
		after, also := e.ObjectNew.(*candorv1alpha1.Finding)
		return ok && also && passes(before, after)
	}}
}
