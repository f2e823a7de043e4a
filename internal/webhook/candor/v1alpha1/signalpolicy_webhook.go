// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 answers the API server's questions about objects of candor.dev/v1alpha1.
package v1alpha1

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/validation"
)

// +kubebuilder:webhook:path=/validate-candor-dev-v1alpha1-signalpolicy,mutating=false,failurePolicy=ignore,sideEffects=None,timeoutSeconds=5,groups=candor.dev,resources=signalpolicies,verbs=create;update,versions=v1alpha1,name=vsignalpolicy-v1alpha1.candor.dev,admissionReviewVersions=v1

type signalPolicyValidator struct{ known []string }

// SetupSignalPolicyWebhook registers the webhook. known are the providers of this version.
func SetupSignalPolicyWebhook(mgr manager.Manager, known []string) error {
	err := builder.WebhookManagedBy(mgr, &candorv1alpha1.SignalPolicy{}).WithValidator(signalPolicyValidator{known}).Complete()
	if err != nil {
		return fmt.Errorf("setting up the SignalPolicy webhook: %w", err)
	}
	return nil
}

// ValidateCreate implements admission.Validator.
func (v signalPolicyValidator) ValidateCreate(_ context.Context, p *candorv1alpha1.SignalPolicy) (admission.Warnings, error) {
	return validation.SignalPolicy(nil, p, v.known), nil
}

// ValidateUpdate implements admission.Validator.
func (v signalPolicyValidator) ValidateUpdate(_ context.Context, old, p *candorv1alpha1.SignalPolicy) (admission.Warnings, error) {
	return validation.SignalPolicy(old, p, v.known), nil
}

// ValidateDelete implements admission.Validator.
func (v signalPolicyValidator) ValidateDelete(context.Context, *candorv1alpha1.SignalPolicy) (admission.Warnings, error) {
	return nil, nil
}
