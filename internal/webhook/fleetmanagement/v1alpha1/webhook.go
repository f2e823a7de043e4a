// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 answers the API server's questions about objects of fleetmanagement.grafana.com/v1alpha1.
package v1alpha1

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/validation"
)

// Options are what the webhooks are set up with.
type Options struct {
	validation.Options
	// ControllerOff says that the controller of the kind does not run, so that objects are checked and have no effect.
	ControllerOff bool
	// Names knows the names that Pipelines of this cluster have in Fleet Management; nil allows every name.
	Names Names
	// Checker asks Fleet Management about Pipelines; nil asks nobody.
	Checker Checker
	// Enforce refuses what Fleet Management refuses, which is a warning otherwise.
	Enforce bool
	// CollectorIDs knows the IDs that Collectors of this cluster stand for; nil warns of none.
	CollectorIDs CollectorIDs
	// Tenancy knows what TenantPolicies allow; nil enforces none.
	Tenancy Tenancy
	// Self is the name of the user that this operator is. No TenantPolicy binds it.
	Self string
	// Access tells whether somebody may create what a discovery makes in another namespace; nil asks nobody.
	Access Access
}

// admit refuses what who writes an object must not do; old is nil for a new one. An error says that there is no answer.
type admit[T client.Object] func(ctx context.Context, old, now T) (field.ErrorList, error)

// validator implements admission.Validator for a kind.
type validator[T client.Object] struct {
	kind          string
	controllerOff bool
	// validate looks at an object; old is nil for a new one.
	validate func(old, now T) ([]string, field.ErrorList)
	// admit are asked one after another about an object that is valid, until one refuses. One that is nil lets all pass.
	admit []admit[T]
	// others looks at what an object alone does not tell, once it is valid; old is nil for a new one. Nil for a kind that has no such rule.
	others func(ctx context.Context, old, now T) ([]string, field.ErrorList)
}

func (v validator[T]) register(mgr manager.Manager, empty T) error {
	if err := builder.WebhookManagedBy(mgr, empty).WithValidator(v).Complete(); err != nil {
		return fmt.Errorf("setting up the %s webhook: %w", v.kind, err)
	}
	return nil
}

// ValidateCreate implements admission.Validator.
func (v validator[T]) ValidateCreate(ctx context.Context, now T) (admission.Warnings, error) {
	var none T
	return v.judge(ctx, none, now)
}

// ValidateUpdate implements admission.Validator.
func (v validator[T]) ValidateUpdate(ctx context.Context, old, now T) (admission.Warnings, error) {
	return v.judge(ctx, old, now)
}

func (v validator[T]) judge(ctx context.Context, old, now T) (admission.Warnings, error) {
	warnings, errs := v.validate(old, now)
	if now.GetDeletionTimestamp() != nil {
		return v.answer(now, warnings, errs)
	}
	for _, allows := range v.admit {
		if len(errs) > 0 || allows == nil {
			continue
		}
		var err error
		if errs, err = allows(ctx, old, now); err != nil {
			return warnings, err
		}
	}
	if len(errs) == 0 && v.others != nil {
		more, taken := v.others(ctx, old, now)
		warnings, errs = append(warnings, more...), taken
	}
	return v.answer(now, warnings, errs)
}

// isNew tells that there is no former object.
func isNew[T client.Object](old T) bool {
	var none T
	return any(old) == any(none)
}

// ValidateDelete implements admission.Validator.
func (v validator[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) {
	return nil, nil
}

func (v validator[T]) answer(now T, warnings admission.Warnings, errs field.ErrorList) (admission.Warnings, error) {
	if v.controllerOff && now.GetDeletionTimestamp() == nil {
		warnings = append(warnings, "the controller of this kind is off: the object is stored, and has no effect until it is on")
	}
	if len(errs) == 0 {
		return warnings, nil
	}
	return warnings, apierrors.NewInvalid(fleetmanagementv1alpha1.GroupVersion.WithKind(v.kind).GroupKind(), now.GetName(), errs)
}
