// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/suppression"
	"github.com/candor-dev/candor/internal/signals/validation"
)

// +kubebuilder:webhook:path=/validate-candor-dev-v1alpha1-suppression,mutating=false,failurePolicy=ignore,sideEffects=None,timeoutSeconds=5,groups=candor.dev,resources=suppressions,verbs=create;update,versions=v1alpha1,name=vsuppression-v1alpha1.candor.dev,admissionReviewVersions=v1

type suppressionValidator struct {
	reader client.Reader
	clock  clock.PassiveClock
}

// SetupSuppressionWebhook registers the webhook.
func SetupSuppressionWebhook(mgr manager.Manager, c clock.PassiveClock) error {
	err := builder.WebhookManagedBy(mgr, &candorv1alpha1.Suppression{}).WithValidator(suppressionValidator{mgr.GetClient(), c}).Complete()
	if err != nil {
		return fmt.Errorf("setting up the Suppression webhook: %w", err)
	}
	return nil
}

// ValidateCreate implements admission.Validator.
func (v suppressionValidator) ValidateCreate(ctx context.Context, s *candorv1alpha1.Suppression) (admission.Warnings, error) {
	return v.warnings(ctx, s), nil
}

// ValidateUpdate implements admission.Validator.
func (v suppressionValidator) ValidateUpdate(ctx context.Context, _, s *candorv1alpha1.Suppression) (admission.Warnings, error) {
	return v.warnings(ctx, s), nil
}

// ValidateDelete implements admission.Validator.
func (v suppressionValidator) ValidateDelete(context.Context, *candorv1alpha1.Suppression) (admission.Warnings, error) {
	return nil, nil
}

// warnings leave out what depends on an OperatingPolicy that cannot be read: the Suppression's own status will say it.
func (v suppressionValidator) warnings(ctx context.Context, s *candorv1alpha1.Suppression) admission.Warnings {
	var longest time.Duration
	var operating candorv1alpha1.OperatingPolicy
	if err := v.reader.Get(ctx, client.ObjectKey{Name: candorv1alpha1.Singleton}, &operating); err == nil {
		longest = suppression.Longest(&operating)
	}
	return validation.Suppression(s, longest, v.clock.Now())
}
