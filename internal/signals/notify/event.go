// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/verify"
)

// Event is what a sink is told of one Finding. Its JSON is what the forms that programs read send.
type Event struct {
	Kind      Kind                    `json:"kind"`
	Namespace string                  `json:"namespace"`
	Finding   string                  `json:"finding"`
	UID       types.UID               `json:"uid,omitempty"`
	Severity  candorv1alpha1.Severity `json:"severity"`
	// PreviousSeverity is the one that was raised; empty unless it was.
	PreviousSeverity candorv1alpha1.Severity `json:"previousSeverity,omitempty"`
	Outcome          candorv1alpha1.Outcome  `json:"outcome,omitempty"`
	Provider         string                  `json:"provider,omitempty"`
	Resource         Resource                `json:"resource"`
	// Summary is what was last seen.
	Summary string `json:"summary"`
	// Brief counts it by severity.
	Brief         string `json:"brief,omitempty"`
	Fingerprint   string `json:"fingerprint,omitempty"`
	TimesRecurred int32  `json:"timesRecurred"`
	// Key is the same each time that the event is sent; empty for KindOpen.
	Key string `json:"key,omitempty"`
	// At is when it happened; for KindOpen, since when the Finding is open.
	At time.Time `json:"at"`
}

// Resource is what a Finding is about.
type Resource struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Container string `json:"container,omitempty"`
}

// EventOf returns what a sink is told by an entry of the outbox of a Finding.
func EventOf(f *candorv1alpha1.Finding, n candorv1alpha1.Notification) Event {
	e := describe(f)
	e.Kind, e.Severity, e.PreviousSeverity, e.Fingerprint = kinds[n.Event], n.Severity, n.Before, n.Fingerprint
	e.TimesRecurred, e.Key, e.At = n.Occurrence, Key(f.UID, n), n.At.UTC()
	e.Outcome = outcome(n.Event, f.Status.VerificationOutcome)
	return e
}

// OpenEvent returns what a sink is told of a Finding that is open.
func OpenEvent(f *candorv1alpha1.Finding) Event {
	e := describe(f)
	e.Kind, e.Outcome, e.At = KindOpen, f.Status.VerificationOutcome, f.Status.Since.UTC()
	return e
}

func describe(f *candorv1alpha1.Finding) Event {
	source := f.Spec.Source
	return Event{
		Namespace: f.Namespace, Finding: f.Name, UID: f.UID, Severity: severity(shown(&f.Status)), Provider: source.Provider,
		Resource: Resource{Kind: source.Kind, Name: source.Name, Container: source.Container},
		Summary:  f.Spec.Summary, Brief: signals.Brief(f.Spec.Evidence), Fingerprint: short(f.Status.Fingerprint),
		TimesRecurred: f.Status.TimesRecurred,
	}
}

// outcome returns the outcome that an event brought, which may not be the present one any more.
func outcome(event candorv1alpha1.EventType, now candorv1alpha1.Outcome) candorv1alpha1.Outcome {
	switch {
	case event == candorv1alpha1.EventRecurred:
		return candorv1alpha1.OutcomeRecurred
	case event != candorv1alpha1.EventResolved:
		if verify.Open(now) {
			return now
		}
		return candorv1alpha1.OutcomeStillPresent
	case verify.Ended(now):
		return now
	default:
		return candorv1alpha1.OutcomeResolved
	}
}
