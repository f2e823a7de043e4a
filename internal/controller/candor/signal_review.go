// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/policy"
)

// conflictRecheck is how soon a Finding is looked at again that a signal changed meanwhile.
const conflictRecheck = time.Second

// review makes a Finding of posted signals follow what is no signal: the policy, the Suppressions, and time. What signals say is
// written by the SignalStore, on each replica; so a write here holds for the Finding that was read and for no other.
func (r *ReportReconciler) review(ctx context.Context, id signals.Identity) (ctrl.Result, error) {
	p := &pass{id: id}
	var err error
	if p.finding, err = r.finding(ctx, id); err != nil || p.finding == nil {
		return ctrl.Result{}, err
	}
	observed, err := r.reviewed(ctx, p)
	if err != nil {
		return ctrl.Result{}, err
	}
	after := p.finding.DeepCopy()
	observe(after, observed)
	evidence := signals.PostedEvidence(id, signals.RankOf(string(after.Spec.Severity)))
	p.look.Ask.MinRank = evidence.Worst
	if err := r.mute(ctx, p, after, evidence); err != nil {
		return ctrl.Result{}, err
	}
	if reflect.DeepEqual(p.finding.Spec, after.Spec) && reflect.DeepEqual(p.finding.Labels, after.Labels) {
		return ctrl.Result{RequeueAfter: p.again}, nil
	}
	err = r.Client.Patch(ctx, after, client.MergeFromWithOptions(p.finding, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictRecheck}, nil
	case client.IgnoreNotFound(err) != nil:
		return ctrl.Result{}, fmt.Errorf("writing the Finding of %s: %w", id, err)
	default:
		return ctrl.Result{RequeueAfter: p.again}, nil
	}
}

// reviewed returns what a Finding of posted signals is to say was observed, and sets when to look again.
func (r *ReportReconciler) reviewed(ctx context.Context, p *pass) (candorv1alpha1.Observation, error) {
	current := p.finding.Spec.Observed
	if finished(p.finding) {
		return current, nil
	}
	asks, err := r.postedTo(ctx, p.id)
	if err != nil {
		return "", err
	}
	if asks == nil || signals.RankOf(string(p.finding.Spec.Severity)) < policy.Threshold(asks) {
		return candorv1alpha1.ObservedExcluded, nil
	}
	heard := signalledAt(p.finding, r.Clock.Now())
	if heard.IsZero() {
		heard = p.finding.CreationTimestamp.Time
	}
	stale := policy.StaleAfter(asks)
	if left := heard.Add(stale).Sub(r.Clock.Now()); left > 0 {
		p.again = left
		return candorv1alpha1.ObservedPresent, nil
	}
	there, err := r.owners().exists(ctx, p.id)
	switch {
	case err != nil:
		return "", err
	case there == gone:
		return candorv1alpha1.ObservedOwnerGone, nil
	case there == terminating:
		p.again = terminatingRecheck
	default:
		p.again = stale
	}
	return candorv1alpha1.ObservedMissing, nil
}

// postedTo returns the policy that takes signals of an identity; nil when there is none any more.
func (r *ReportReconciler) postedTo(ctx context.Context, id signals.Identity) (*candorv1alpha1.SignalPolicy, error) {
	var p candorv1alpha1.SignalPolicy
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: id.Namespace, Name: id.Policy()}, &p)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the policy of %s: %w", id, err)
	case !policy.Receives(&p):
		return nil, nil
	default:
		return &p, nil
	}
}
