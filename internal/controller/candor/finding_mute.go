// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/lifecycle"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/suppression"
)

// shownReason bounds the JSON of a Suppression's reason that a Finding shows, which stays under 16 KiB whatever people write.
const shownReason = 256

// mute is what mutes a whole Finding.
type mute struct {
	// by is the one Suppression that does; nil when several do together, and when it is gone already.
	by *suppression.Scope
	// names are the Suppressions that do; nil when the Finding is not muted.
	names []string
	// again is when to look whether it still is; zero when the spec will say so.
	again time.Time
}

func (m mute) muted() bool { return len(m.names) > 0 }

// mute returns what mutes the Finding: a Suppression of its content or its workload, or those that the report controller found to
// mute all of its entries. The latter ends when the spec says so.
func (s *FindingSyncer) mute(ctx context.Context, f *candorv1alpha1.Finding) (mute, error) {
	scopes, err := s.Mutes.Of(ctx, f.Namespace)
	if err != nil {
		return mute{}, err
	}
	if whole := scopes.Whole(suppression.FactsOf(f), s.Clock.Now()); whole != nil {
		return mute{by: whole, names: []string{whole.Name}, again: whole.End}, nil
	}
	if !allMuted(f.Spec.Evidence) {
		return mute{}, nil
	}
	m := mute{names: f.Spec.Evidence.MutedBy}
	if len(m.names) == 1 {
		m.by = scopes.Named(m.names[0])
	}
	return m, nil
}

func allMuted(e *candorv1alpha1.Evidence) bool {
	return e != nil && e.Muted > 0 && e.Muted >= e.Total
}

// shownSeverity returns the worst severity that is not muted. A Finding that is muted as a whole shows its own beside that word.
func shownSeverity(f *candorv1alpha1.Finding) candorv1alpha1.Severity {
	if e := f.Spec.Evidence; e != nil && e.WorstUnmuted != "" {
		return e.WorstUnmuted
	}
	return f.Spec.Severity
}

// show writes whether the Finding is muted, and reports whether that changed.
func (s *FindingSyncer) show(f *candorv1alpha1.Finding, m mute) bool {
	condition := metav1.Condition{Type: candorv1alpha1.ConditionSuppressed}
	switch {
	case m.muted():
		f.Status.Explained = candorv1alpha1.ExplainedMuted
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, candorv1alpha1.ReasonMuted, m.spoken()
	case meta.FindStatusCondition(f.Status.Conditions, candorv1alpha1.ConditionSuppressed) != nil:
		f.Status.Explained = candorv1alpha1.ExplainedOff
		condition.Status, condition.Reason = metav1.ConditionFalse, candorv1alpha1.ReasonSuppressionEnded
		condition.Message = "No Suppression of this namespace holds the present fingerprint: the last one was deleted or expired, or the content changed."
		if muted(f) > 0 {
			condition.Message = "Suppressions of this namespace mute some entries, and not all of them any more: one was deleted or expired, or the content changed."
		}
	default:
		f.Status.Explained = candorv1alpha1.ExplainedOff
		return false
	}
	return lifecycle.SetCondition(f, s.Clock.Now(), condition)
}

// spoken says what mutes, with the reason of a single Suppression.
func (m mute) spoken() string {
	if m.by != nil {
		reason := signals.CutJSON(signals.Clean(m.by.Reason, shownReason), shownReason)
		return fmt.Sprintf("Muted by Suppression %s%s: %s", m.by.Name, until(m.by.End), reason)
	}
	return fmt.Sprintf("All entries are muted, by Suppression%s %s.", plural(int32(len(m.names))), strings.Join(m.names, ", "))
}
