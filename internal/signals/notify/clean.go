// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

// Bounds of what a message holds, in bytes.
const (
	maxWord    = 63
	maxSummary = 1024
	maxBrief   = 128
)

// Clean returns the message with every text on one line, without control and formatting characters, and bounded. Each form of
// sink calls it first; what is left are printable words of strangers, which it escapes in its own way.
func (m Message) Clean() Message {
	m.Namespace, m.Policy, m.Sink = word(m.Namespace), name(m.Policy), word(m.Sink)
	m.Key = word(m.Key)
	m.Events, m.Open, m.Quiet = cleaned(m.Events), cleaned(m.Open), cleaned(m.Quiet)
	return m
}

func cleaned(events []Event) []Event {
	events = slices.Clone(events)
	for i := range events {
		e := &events[i]
		e.Namespace, e.Finding, e.UID, e.Key = word(e.Namespace), name(e.Finding), types.UID(word(string(e.UID))), word(e.Key)
		e.Severity, e.PreviousSeverity = candorv1alpha1.Severity(word(string(e.Severity))), candorv1alpha1.Severity(word(string(e.PreviousSeverity)))
		e.Provider, e.Outcome = word(e.Provider), candorv1alpha1.Outcome(word(string(e.Outcome)))
		e.Resource = Resource{Kind: word(e.Resource.Kind), Name: name(e.Resource.Name), Container: name(e.Resource.Container)}
		e.Summary, e.Brief, e.Fingerprint = signals.Clean(e.Summary, maxSummary), signals.Clean(e.Brief, maxBrief), word(e.Fingerprint)
	}
	return events
}

func word(text string) string { return signals.Clean(text, maxWord) }

func name(text string) string { return signals.Clean(text, signals.MaxName) }
