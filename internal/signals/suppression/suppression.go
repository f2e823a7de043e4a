// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suppression answers whether a Finding is muted, and until when.
package suppression

import (
	"time"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// Mute is the answer for one fingerprint at one moment.
type Mute struct {
	// By is the Suppression that mutes; nil when nothing does.
	By *candorv1alpha1.Suppression
	// Until is when By expires; zero when it never does.
	Until time.Time
}

// Find returns what mutes a fingerprint at the time now: of several Suppressions, the one that lasts longest, then the
// first by name.
func Find(suppressions []candorv1alpha1.Suppression, fingerprint string, now time.Time) Mute {
	var mute Mute
	for i := range suppressions {
		s := &suppressions[i]
		if s.Spec.Fingerprint != fingerprint || !Active(s, now) {
			continue
		}
		if mute.By == nil || outlasts(s, mute.By) {
			mute = Mute{By: s}
			if s.Spec.ExpiresAt != nil {
				mute.Until = s.Spec.ExpiresAt.Time
			}
		}
	}
	return mute
}

// Active reports whether a Suppression mutes anything at the time now. One that is being deleted does not.
func Active(s *candorv1alpha1.Suppression, now time.Time) bool {
	return s.DeletionTimestamp.IsZero() && !Expired(s, now)
}

// Expired reports whether a Suppression has ended by itself.
func Expired(s *candorv1alpha1.Suppression, now time.Time) bool {
	return s.Spec.ExpiresAt != nil && !s.Spec.ExpiresAt.After(now)
}

func outlasts(a, b *candorv1alpha1.Suppression) bool {
	switch {
	case (a.Spec.ExpiresAt == nil) != (b.Spec.ExpiresAt == nil):
		return a.Spec.ExpiresAt == nil
	case a.Spec.ExpiresAt != nil && !a.Spec.ExpiresAt.Equal(b.Spec.ExpiresAt):
		return a.Spec.ExpiresAt.After(b.Spec.ExpiresAt.Time)
	default:
		return a.Name < b.Name
	}
}
