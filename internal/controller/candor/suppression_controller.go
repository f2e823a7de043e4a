// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/lifecycle"
	"github.com/candor-dev/candor/internal/signals/suppression"
)

// +kubebuilder:rbac:groups=candor.dev,resources=suppressions/status,verbs=update

// SuppressionSyncer says what a Suppression mutes now. That it mutes is the finding controller's doing.
type SuppressionSyncer struct {
	Client client.Client
	Clock  clock.PassiveClock
}

// Settled implements lifecycle.Settler: what it mutes changes with the Findings and with time.
func (s *SuppressionSyncer) Settled(*candorv1alpha1.Suppression) (time.Duration, bool) {
	return 0, false
}

// Sync implements lifecycle.Syncer.
func (s *SuppressionSyncer) Sync(ctx context.Context, sup *candorv1alpha1.Suppression) (lifecycle.Outcome, error) {
	now := s.Clock.Now()
	sup.Status.Muted, sup.Status.Finding = 0, ""
	if suppression.Expired(sup, now) {
		return lifecycle.Outcome{
			Reason: candorv1alpha1.ReasonExpired, Status: metav1.ConditionFalse,
			Message: fmt.Sprintf("Expired at %s: mutes nothing.", sup.Spec.ExpiresAt.UTC().Format(time.RFC3339)),
		}, nil
	}
	if err := s.match(ctx, sup); err != nil {
		return lifecycle.Outcome{}, err
	}
	var expiry time.Time
	if sup.Spec.ExpiresAt != nil {
		expiry = sup.Spec.ExpiresAt.Time
	}
	outcome := lifecycle.Outcome{PollAfter: untilAfter(expiry, now)}
	if sup.Status.Muted == 0 {
		outcome.Reason, outcome.Status = candorv1alpha1.ReasonNoMatch, metav1.ConditionFalse
		outcome.Message = "No Finding of this namespace has this fingerprint now: its content changed, it is gone, or the fingerprint was not copied whole."
		return outcome, nil
	}
	outcome.Reason = candorv1alpha1.ReasonActive
	outcome.Message = fmt.Sprintf("Mutes %d Finding%s%s.", sup.Status.Muted, plural(sup.Status.Muted), until(expiry))
	return outcome, nil
}

func (s *SuppressionSyncer) match(ctx context.Context, sup *candorv1alpha1.Suppression) error {
	var list candorv1alpha1.FindingList
	err := s.Client.List(ctx, &list, client.InNamespace(sup.Namespace), client.MatchingFields{indexFingerprint: sup.Spec.Fingerprint},
		client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		return fmt.Errorf("listing the Findings of %s: %w", sup.Namespace, err)
	}
	for i := range list.Items {
		sup.Status.Muted++
		if name := list.Items[i].Name; sup.Status.Finding == "" || name < sup.Status.Finding {
			sup.Status.Finding = name
		}
	}
	return nil
}

func plural(n int32) string {
	if n == 1 {
		return ""
	}
	return "s"
}
