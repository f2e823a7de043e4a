// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"fmt"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/validation"
)

// +kubebuilder:webhook:path=/validate-candor-dev-v1alpha1-suppression,mutating=false,failurePolicy=ignore,sideEffects=None,timeoutSeconds=5,groups=candor.dev,resources=suppressions,verbs=create;update,versions=v1alpha1,name=vsuppression-v1alpha1.candor.dev,admissionReviewVersions=v1

type suppressionValidator struct{ clock clock.PassiveClock }

// SetupSuppressionWebhook registers the webhook.
func SetupSuppressionWebhook(mgr manager.Manager, c clock.PassiveClock) error {
	err := builder.WebhookManagedBy(mgr, &candorv1alpha1.Suppression{}).WithValidator(suppressionValidator{c}).Complete()
	if err != nil {
		return fmt.Errorf("setting up the Suppression webhook: %w", err)
	}
	return nil
}

// ValidateCreate implements admission.Validator.
func (v suppressionValidator) ValidateCreate(_ context.Context, s *candorv1alpha1.Suppression) (admission.Warnings, error) {
	return validation.Suppression(s, v.clock.Now()), nil
}

// ValidateUpdate implements admission.Validator.
func (v suppressionValidator) ValidateUpdate(_ context.Context, _, s *candorv1alpha1.Suppression) (admission.Warnings, error) {
	return validation.Suppression(s, v.clock.Now()), nil
}

// ValidateDelete implements admission.Validator.
func (v suppressionValidator) ValidateDelete(context.Context, *candorv1alpha1.Suppression) (admission.Warnings, error) {
	return nil, nil
}
