// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/policy"
	"github.com/candor-dev/candor/internal/signals/suppression"
)

// mute writes into the spec of a Finding which of its entries are muted, and nothing else. Without evidence, nobody sees the entries
// now. It sets when the pass is to be made again.
func (r *ReportReconciler) mute(ctx context.Context, p *pass, f *candorv1alpha1.Finding, evidence signals.Evidence) error {
	e := f.Spec.Evidence
	if e == nil {
		return nil
	}
	scopes, err := r.Mutes.Of(ctx, f.Namespace)
	if err != nil {
		return err
	}
	now := r.Clock.Now()
	p.again = earliest(p.again, untilAfter(muteEntries(scopes, f, evidence, p.look.Ask, now), now))
	return nil
}

// muteEntries writes into the spec of a Finding which of its entries are muted, and returns when that may change by itself; zero
// when it never does. The Finding holds evidence; the entries may be unseen.
func muteEntries(scopes *suppression.Scopes, f *candorv1alpha1.Finding, evidence signals.Evidence, ask policy.Ask, now time.Time) time.Time {
	e := f.Spec.Evidence
	worst := e.WorstUnmuted
	var verdict suppression.Verdict
	if len(evidence.Entries) > 0 {
		verdict = scopes.Judge(suppression.FactsOf(f), evidence.Entries, now)
		worst = ask.Select(verdict.Left).Worst.Severity()
	} else {
		verdict = scopes.Keep(suppression.FactsOf(f), e, now)
	}
	if e.Muted, e.MutedBy = int32(verdict.Muted), verdict.By; e.Muted == 0 || e.Muted >= e.Total {
		worst = ""
	}
	e.WorstUnmuted = worst
	return verdict.Next
}

// keep writes what is muted into a Finding of which there is nothing else to say.
func (r *ReportReconciler) keep(ctx context.Context, p *pass) error {
	if p.finding == nil {
		return nil
	}
	after := p.finding.DeepCopy()
	if err := r.mute(ctx, p, after, signals.Evidence{}); err != nil {
		return err
	}
	_, err := r.patch(ctx, p, after)
	return err
}

// Lines returns what the reports of an identity say that is asked for, none where no report speaks of it, and false while nobody
// can tell.
func (r *ReportReconciler) Lines(ctx context.Context, id signals.Identity) ([]signals.Entry, bool, error) {
	class, ok := r.Providers.Classes.ByProvider(id.Provider)
	if !ok {
		return nil, true, nil
	}
	p := &pass{id: id, class: class}
	if err := r.readAsk(ctx, p); err != nil || !p.look.Asked {
		return nil, true, err
	}
	told, err := r.readReport(ctx, p)
	if err != nil || p.look.Report == nil {
		return nil, told, err
	}
	return p.look.Ask.Select(p.look.Report.Entries).Entries, told, nil
}

// ofSuppression returns the identities of the Findings in which a Suppression may mute entries, or does.
func (r *ReportReconciler) ofSuppression(ctx context.Context, s *candorv1alpha1.Suppression) []signals.Identity {
	r.Mutes.Forget(s.Namespace)
	if suppression.Whole(s) {
		return nil
	}
	options := listOptions{client.InNamespace(s.Namespace), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency}
	if w := s.Spec.Workload; w != nil {
		options = append(options, client.MatchingFields{indexWorkload: objectKey(w.Kind, w.Name)})
	}
	var findings candorv1alpha1.FindingList
	if err := r.Client.List(ctx, &findings, options); err != nil {
		logf.FromContext(ctx).Error(err, "Cannot list the Findings of a Suppression")
		return nil
	}
	scope := suppression.ScopeOf(s, 0)
	var ids []signals.Identity
	for i := range findings.Items {
		f := &findings.Items[i]
		if scope.Concerns(suppression.FactsOf(f)) || slices.Contains(muters(f), s.Name) {
			ids = append(ids, r.ofFinding(ctx, f)...)
		}
	}
	return ids
}

// ofOperatingPolicy returns the identities of the Findings in which some Suppression mutes entries, since the longest mute changed.
func (r *ReportReconciler) ofOperatingPolicy(ctx context.Context, _ *candorv1alpha1.OperatingPolicy) []signals.Identity {
	r.Mutes.ForgetAll()
	var list candorv1alpha1.SuppressionList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		logf.FromContext(ctx).Error(err, "Cannot list Suppressions")
	}
	var ids []signals.Identity
	for i := range list.Items {
		ids = append(ids, r.ofSuppression(ctx, &list.Items[i])...)
	}
	return ids
}

// watchMutes has the controller hear of what mutes: Suppressions, and how long they may.
func (r *ReportReconciler) watchMutes(mgr manager.Manager, b *builder.TypedBuilder[signals.Identity]) *builder.TypedBuilder[signals.Identity] {
	return b.
		WatchesRawSource(source.TypedKind(mgr.GetCache(), &candorv1alpha1.Suppression{}, onEach(r.ofSuppression), predicate.TypedFuncs[*candorv1alpha1.Suppression]{
			UpdateFunc: func(e event.TypedUpdateEvent[*candorv1alpha1.Suppression]) bool {
				return e.ObjectOld.Generation != e.ObjectNew.Generation
			},
		})).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), &candorv1alpha1.OperatingPolicy{}, onEach(r.ofOperatingPolicy), predicate.TypedFuncs[*candorv1alpha1.OperatingPolicy]{
			CreateFunc: func(e event.TypedCreateEvent[*candorv1alpha1.OperatingPolicy]) bool {
				return suppression.Longest(e.Object) != 0
			},
			DeleteFunc: func(e event.TypedDeleteEvent[*candorv1alpha1.OperatingPolicy]) bool {
				return suppression.Longest(e.Object) != 0
			},
			UpdateFunc: func(e event.TypedUpdateEvent[*candorv1alpha1.OperatingPolicy]) bool {
				return suppression.Longest(e.ObjectOld) != suppression.Longest(e.ObjectNew)
			},
		}))
}
