// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/validation"
)

// +kubebuilder:webhook:path=/validate-fleetmanagement-grafana-com-v1alpha1-remoteattributepolicy,mutating=false,failurePolicy=fail,sideEffects=None,timeoutSeconds=5,groups=fleetmanagement.grafana.com,resources=remoteattributepolicies,verbs=create;update,versions=v1alpha1,name=vremoteattributepolicy-v1alpha1.fleetmanagement.grafana.com,admissionReviewVersions=v1

// SetupRemoteAttributePolicyWebhook registers the webhook.
func SetupRemoteAttributePolicyWebhook(mgr manager.Manager, o Options) error {
	return remoteAttributePolicyValidator(o).register(mgr, &fleetmanagementv1alpha1.RemoteAttributePolicy{})
}

func remoteAttributePolicyValidator(o Options) validator[*fleetmanagementv1alpha1.RemoteAttributePolicy] {
	return validator[*fleetmanagementv1alpha1.RemoteAttributePolicy]{
		kind: "RemoteAttributePolicy", controllerOff: o.ControllerOff,
		validate: func(old, now *fleetmanagementv1alpha1.RemoteAttributePolicy) ([]string, field.ErrorList) {
			return validation.RemoteAttributePolicy(old, now, o.Options)
		},
		admit: []admit[*fleetmanagementv1alpha1.RemoteAttributePolicy]{policyTenancy.admission(o)},
	}
}
