// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"
	"time"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

// What holds where spec.webhookReceiver does not say.
const (
	staleAfter  = 168 * time.Hour
	maxFindings = 1000
)

// Receives reports whether a policy takes signals that are posted to it: it names their provider and has a receiver. One that is
// being deleted takes none.
func Receives(p *candorv1alpha1.SignalPolicy) bool {
	return p.DeletionTimestamp.IsZero() && p.Spec.WebhookReceiver != nil && slices.Contains(p.Spec.Providers, signals.Posted)
}

// StaleAfter returns how long a signal holds that nobody repeats.
func StaleAfter(p *candorv1alpha1.SignalPolicy) time.Duration {
	if r := p.Spec.WebhookReceiver; r != nil && r.StaleAfter != nil && r.StaleAfter.Duration > 0 {
		return r.StaleAfter.Duration
	}
	return staleAfter
}

// MaxFindings returns how many Findings that have not ended the signals of a policy may make.
func MaxFindings(p *candorv1alpha1.SignalPolicy) int {
	if r := p.Spec.WebhookReceiver; r != nil {
		return int(cmp.Or(r.MaxFindings, maxFindings))
	}
	return maxFindings
}
