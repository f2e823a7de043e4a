// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/validation"
)

// +kubebuilder:webhook:path=/validate-fleetmanagement-grafana-com-v1alpha1-externalattributesync,mutating=false,failurePolicy=fail,sideEffects=None,timeoutSeconds=5,groups=fleetmanagement.grafana.com,resources=externalattributesyncs,verbs=create;update,versions=v1alpha1,name=vexternalattributesync-v1alpha1.fleetmanagement.grafana.com,admissionReviewVersions=v1

// SetupExternalAttributeSyncWebhook registers the webhook.
func SetupExternalAttributeSyncWebhook(mgr manager.Manager, o Options) error {
	return externalAttributeSyncValidator(o).register(mgr, &fleetmanagementv1alpha1.ExternalAttributeSync{})
}

func externalAttributeSyncValidator(o Options) validator[*fleetmanagementv1alpha1.ExternalAttributeSync] {
	return validator[*fleetmanagementv1alpha1.ExternalAttributeSync]{
		kind: "ExternalAttributeSync", controllerOff: o.ControllerOff,
		validate: func(old, now *fleetmanagementv1alpha1.ExternalAttributeSync) ([]string, field.ErrorList) {
			return validation.ExternalAttributeSync(old, now, o.Options)
		},
		admit: []admit[*fleetmanagementv1alpha1.ExternalAttributeSync]{syncTenancy.admission(o)},
	}
}
