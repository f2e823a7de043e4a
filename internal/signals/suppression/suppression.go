// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suppression answers what of a Finding is muted, by which Suppressions, and until when.
package suppression

import (
	"time"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

const day = 24 * time.Hour

// Longest returns how long a Suppression may mute from its creation on; zero sets no bound. The policy may be nil.
func Longest(operating *candorv1alpha1.OperatingPolicy) time.Duration {
	if operating == nil || operating.Spec.Suppression == nil || operating.Spec.Suppression.MaxDays == nil {
		return 0
	}
	return time.Duration(*operating.Spec.Suppression.MaxDays) * day
}

// End returns when a Suppression ends by itself, zero when it never does: at its expiresAt, or when it has lasted for longest.
func End(s *candorv1alpha1.Suppression, longest time.Duration) time.Time {
	var end time.Time
	if s.Spec.ExpiresAt != nil {
		end = s.Spec.ExpiresAt.Time
		if end.IsZero() { // a year 1 that somebody wrote is past, and not never
			end = end.Add(time.Second)
		}
	}
	if longest == 0 {
		return end
	}
	if bound := s.CreationTimestamp.Add(longest); end.IsZero() || bound.Before(end) {
		return bound
	}
	return end
}

// Shortened reports whether a Suppression ends sooner than it says, because of longest.
func Shortened(s *candorv1alpha1.Suppression, longest time.Duration) bool {
	return !End(s, longest).Equal(End(s, 0))
}

// Whole reports whether a Suppression mutes whole Findings: it names a content or a workload, and nothing inside them.
func Whole(s *candorv1alpha1.Suppression) bool {
	return len(s.Spec.VulnerabilityIDs) == 0 && len(s.Spec.Packages) == 0 && len(s.Spec.ImageRepositories) == 0
}

// ended reports whether something that lasts until end, for ever when that is zero, has ended.
func ended(end, now time.Time) bool { return !end.IsZero() && !end.After(now) }

// earlier returns the earlier of two moments, where zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
