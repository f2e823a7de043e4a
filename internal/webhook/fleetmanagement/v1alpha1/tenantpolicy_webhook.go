// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/validation"
)

// +kubebuilder:webhook:path=/validate-fleetmanagement-grafana-com-v1alpha1-tenantpolicy,mutating=false,failurePolicy=fail,sideEffects=None,timeoutSeconds=5,groups=fleetmanagement.grafana.com,resources=tenantpolicies,verbs=create;update,versions=v1alpha1,name=vtenantpolicy-v1alpha1.fleetmanagement.grafana.com,admissionReviewVersions=v1

// SetupTenantPolicyWebhook registers the webhook.
func SetupTenantPolicyWebhook(mgr manager.Manager, o Options) error {
	return tenantPolicyValidator(o).register(mgr, &fleetmanagementv1alpha1.TenantPolicy{})
}

func tenantPolicyValidator(o Options) validator[*fleetmanagementv1alpha1.TenantPolicy] {
	return validator[*fleetmanagementv1alpha1.TenantPolicy]{
		kind: "TenantPolicy", controllerOff: o.ControllerOff,
		validate: func(old, now *fleetmanagementv1alpha1.TenantPolicy) ([]string, field.ErrorList) {
			return validation.TenantPolicy(old, now, o.Options)
		},
	}
}
