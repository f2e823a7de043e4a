// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/lifecycle"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/suppression"
)

// +kubebuilder:rbac:groups=candor.dev,resources=suppressions/status,verbs=update

// SuppressionSyncer says what a Suppression mutes now. That it mutes is the doing of the report controller, for entries, and of
// the finding controller.
type SuppressionSyncer struct {
	Client client.Client
	Clock  clock.PassiveClock
	Mutes  *Mutes
	// Lines returns the entries of an identity that are asked for, none where no report speaks of it, and false while nobody can
	// tell. It is asked about Findings that several Suppressions mute; nil where nobody reads reports.
	Lines func(ctx context.Context, id signals.Identity) ([]signals.Entry, bool, error)

	tallies tallies
}

// Settled implements lifecycle.Settler: what it mutes changes with the Findings and with time.
func (s *SuppressionSyncer) Settled(*candorv1alpha1.Suppression) (time.Duration, bool) {
	return 0, false
}

// Sync implements lifecycle.Syncer.
func (s *SuppressionSyncer) Sync(ctx context.Context, sup *candorv1alpha1.Suppression) (lifecycle.Outcome, error) {
	longest, err := longestMute(ctx, s.Client)
	if err != nil {
		return lifecycle.Outcome{}, err
	}
	st, now, end := &sup.Status, s.Clock.Now(), suppression.End(sup, longest)
	st.Muted, st.MutedEntries, st.Finding, st.Until = 0, 0, "", nil
	if !end.IsZero() {
		stored := metav1.NewTime(end).Rfc3339Copy() // as it is stored: a fraction of a second would be written at each pass
		st.Until = &stored
		if !end.After(now) {
			return lifecycle.Outcome{Reason: candorv1alpha1.ReasonExpired, Status: metav1.ConditionFalse, Message: expired(sup, end, longest)}, nil
		}
	}
	findings, err := s.match(ctx, sup)
	if err != nil {
		return lifecycle.Outcome{}, err
	}
	outcome := lifecycle.Outcome{PollAfter: untilAfter(end, now)}
	if findings == 0 {
		outcome.Reason, outcome.Status, outcome.Message = candorv1alpha1.ReasonNoMatch, metav1.ConditionFalse, unmatched(sup)
		// The report controller may be about to mute entries: the condition says so in a moment, and an event would stay.
		outcome.Silent = !suppression.Whole(sup)
		return outcome, nil
	}
	outcome.Reason, outcome.Message = candorv1alpha1.ReasonActive, mutes(sup, findings)+until(end)
	if suppression.Shortened(sup, longest) {
		outcome.Message += ", since " + allowance(longest)
	}
	outcome.Message += "."
	return outcome, nil
}

// match counts what the Suppression mutes, and returns the number of Findings in which it mutes something.
func (s *SuppressionSyncer) match(ctx context.Context, sup *candorv1alpha1.Suppression) (int32, error) {
	findings, err := s.findings(ctx, sup)
	if err != nil {
		return 0, err
	}
	scope, in := suppression.ScopeOf(sup, 0), int32(0)
	for i := range findings {
		f := &findings[i]
		n, all, err := s.entries(ctx, sup, scope, f)
		if err != nil {
			return 0, err
		}
		if n == 0 && !all {
			continue
		}
		in++
		sup.Status.MutedEntries += n
		if all {
			sup.Status.Muted++
		}
		if sup.Status.Finding == "" || f.Name < sup.Status.Finding {
			sup.Status.Finding = f.Name
		}
	}
	return in, nil
}

// findings returns the Findings in which the Suppression may mute something.
func (s *SuppressionSyncer) findings(ctx context.Context, sup *candorv1alpha1.Suppression) ([]candorv1alpha1.Finding, error) {
	indexes := []client.MatchingFields{findingsOf(sup)}
	if !suppression.Whole(sup) {
		indexes = append(indexes, client.MatchingFields{indexMutedBy: crowded})
	}
	seen := map[string]bool{}
	var all []candorv1alpha1.Finding
	for _, index := range indexes {
		var list candorv1alpha1.FindingList
		err := s.Client.List(ctx, &list, client.InNamespace(sup.Namespace), index, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
		if err != nil {
			return nil, fmt.Errorf("listing the Findings of %s: %w", sup.Namespace, err)
		}
		for i := range list.Items {
			if f := list.Items[i]; !seen[f.Name] {
				seen[f.Name] = true
				all = append(all, f)
			}
		}
	}
	return all, nil
}

// entries returns how many entries of a Finding the Suppression mutes, and whether all of that Finding is muted. Where others mute
// entries of it too, the reports tell them apart.
func (s *SuppressionSyncer) entries(ctx context.Context, sup *candorv1alpha1.Suppression, scope *suppression.Scope, f *candorv1alpha1.Finding) (int32, bool, error) {
	e := f.Spec.Evidence
	switch {
	case suppression.Whole(sup):
		if w := sup.Spec.Workload; w != nil && (w.Kind != f.Spec.Source.Kind || w.Name != f.Spec.Source.Name) {
			return 0, false, nil
		}
		return total(f), true, nil
	case len(e.MutedBy) == 1 || s.Lines == nil:
		return e.Muted, allMuted(e), nil
	}
	n, err := s.several(ctx, sup, scope, f)
	return n, n > 0 && allMuted(e), err
}

// several returns how many entries the Suppression mutes of a Finding of which others mute some too.
func (s *SuppressionSyncer) several(ctx context.Context, sup *candorv1alpha1.Suppression, scope *suppression.Scope, f *candorv1alpha1.Finding) (int32, error) {
	scopes, err := s.Mutes.Of(ctx, f.Namespace)
	if err != nil {
		return 0, err
	}
	if n, counted := s.tallies.count(scopes, sup, f); counted {
		return int32(n), nil
	}
	lines, told, err := s.Lines(ctx, signals.IdentityOf(f))
	switch {
	case err != nil:
		return 0, err
	case !told:
		return 0, lifecycle.ErrPending
	case len(lines) == 0 && slices.Contains(f.Spec.Evidence.MutedBy, sup.Name):
		return f.Spec.Evidence.Muted, nil // what was last seen; the others may have had a part in it
	}
	s.tallies.remember(scopes, f, lines)
	return int32(scope.Count(suppression.FactsOf(f), lines)), nil
}

func total(f *candorv1alpha1.Finding) int32 {
	if f.Spec.Evidence == nil {
		return 0
	}
	return f.Spec.Evidence.Total
}

// mutes says how much is muted.
func mutes(sup *candorv1alpha1.Suppression, findings int32) string {
	if suppression.Whole(sup) {
		return fmt.Sprintf("Mutes %d Finding%s", findings, plural(findings))
	}
	noun := "entries"
	if sup.Status.MutedEntries == 1 {
		noun = "entry"
	}
	said := fmt.Sprintf("Mutes %d %s in %d Finding%s", sup.Status.MutedEntries, noun, findings, plural(findings))
	if all := sup.Status.Muted; all > 0 {
		said += fmt.Sprintf(", of which %d %s muted as a whole", all, are(all))
	}
	return said
}

func are(n int32) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// unmatched says why nothing is muted.
func unmatched(sup *candorv1alpha1.Suppression) string {
	if suppression.Whole(sup) && sup.Spec.Workload == nil {
		return "No Finding of this namespace has this fingerprint now: its content changed, it is gone, or the fingerprint was not copied whole."
	}
	return "Nothing in the Findings of this namespace is what this names now. Everything that spec names has to hold at once, written as kubectl get finding -o yaml shows it."
}

func expired(sup *candorv1alpha1.Suppression, end time.Time, longest time.Duration) string {
	said := fmt.Sprintf("Expired at %s: mutes nothing.", end.UTC().Format(time.RFC3339))
	if suppression.Shortened(sup, longest) {
		said += " From its creation, " + allowance(longest) + ": create it anew to mute on."
	}
	return said
}

// allowance says what the OperatingPolicy allows.
func allowance(longest time.Duration) string {
	return fmt.Sprintf("spec.suppression.maxDays of the OperatingPolicy allows %d day%s", days(longest), plural(days(longest)))
}

func days(d time.Duration) int32 { return int32(d / (24 * time.Hour)) }

func plural(n int32) string {
	if n == 1 {
		return ""
	}
	return "s"
}
