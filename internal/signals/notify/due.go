// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"k8s.io/apimachinery/pkg/api/meta"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/verify"
)

// fingerprintDigits is how much of a fingerprint tells the contents of one Finding apart.
const fingerprintDigits = 16

// Snapshot is what a status says of a Finding, as far as people are told of it.
type Snapshot struct {
	// Outcome is empty for a Finding that nobody has looked at yet.
	Outcome candorv1alpha1.Outcome
	// Former is the outcome to return to from OutOfPolicy.
	Former candorv1alpha1.Outcome
	// Severity is the worst one that is not muted; Unknown for a Finding that nobody has looked at yet.
	Severity signals.Rank
	// Fingerprint is that of the content, whole.
	Fingerprint string
	// Recurred counts the returns after an end.
	Recurred int32
	// Muted says that a Suppression mutes the whole Finding.
	Muted bool
}

// Of reads a status.
func Of(status *candorv1alpha1.FindingStatus) Snapshot {
	return Snapshot{
		Outcome: status.VerificationOutcome, Former: status.FormerOutcome, Severity: shown(status),
		Fingerprint: status.Fingerprint, Recurred: status.TimesRecurred,
		Muted: meta.IsStatusConditionTrue(status.Conditions, candorv1alpha1.ConditionSuppressed),
	}
}

// shown returns the worst severity of a Finding that is not muted. What has been stored for long says that of everything.
func shown(status *candorv1alpha1.FindingStatus) signals.Rank {
	if known := signals.RankOf(string(status.ShownSeverity)); known != signals.Unknown {
		return known
	}
	return min(max(signals.Rank(status.SeverityRank), signals.Unknown), signals.Critical)
}

// told is the outcome that people may have been told of: OutOfPolicy says nothing.
func (s Snapshot) told() candorv1alpha1.Outcome {
	if s.Outcome == candorv1alpha1.OutcomeOutOfPolicy {
		return s.Former
	}
	return s.Outcome
}

// Occasion is an event of a Finding that falls due.
type Occasion struct {
	Event candorv1alpha1.EventType
	// Fingerprint is the first 16 digits of that of the content.
	Fingerprint string
	// Occurrence counts the returns after an end.
	Occurrence int32
	Severity   candorv1alpha1.Severity
	// Before is the severity that was raised; empty unless it was.
	Before candorv1alpha1.Severity
}

// Due returns the event that a change of a Finding is, if it is one that people are told of. One change is one event: a
// Finding that recurs, or speaks up again, does not escalate besides.
func Due(before, after Snapshot) (Occasion, bool) {
	event := change(before, after)
	if event == "" {
		return Occasion{}, false
	}
	due := after.occasion(event)
	raised := after.Severity > before.Severity
	if raised && (event == candorv1alpha1.EventEscalated || event == candorv1alpha1.EventSuppressionEnded) {
		due.Before = severity(before.Severity)
	}
	return due, true
}

func (s Snapshot) occasion(event candorv1alpha1.EventType) Occasion {
	return Occasion{Event: event, Fingerprint: short(s.Fingerprint), Occurrence: s.Recurred, Severity: severity(s.Severity)}
}

func short(fingerprint string) string { return fingerprint[:min(fingerprintDigits, len(fingerprint))] }

func change(before, after Snapshot) candorv1alpha1.EventType {
	past := before.told()
	// Equal content that is worse than before was muted in part.
	worsens := after.Severity > before.Severity && !verify.Ended(past)
	switch {
	case after.Muted:
		return ""
	case verify.Ended(after.Outcome):
		if past == "" || verify.Ended(past) {
			return ""
		}
		return candorv1alpha1.EventResolved
	case !verify.Open(after.Outcome):
		return ""
	case past == "":
		return candorv1alpha1.EventCreated
	case after.Recurred > before.Recurred:
		return candorv1alpha1.EventRecurred
	case before.Muted, worsens && after.Fingerprint == before.Fingerprint:
		return candorv1alpha1.EventSuppressionEnded
	case worsens:
		return candorv1alpha1.EventEscalated
	default:
		return ""
	}
}

// severity returns a rank as a status may hold it: an unrated one is left out.
func severity(r signals.Rank) candorv1alpha1.Severity {
	if r == signals.Unknown {
		return ""
	}
	return r.Severity()
}
