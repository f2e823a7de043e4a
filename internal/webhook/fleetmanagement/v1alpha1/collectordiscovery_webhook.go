// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"sigs.k8s.io/controller-runtime/pkg/manager"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/validation"
)

// +kubebuilder:webhook:path=/validate-fleetmanagement-grafana-com-v1alpha1-collectordiscovery,mutating=false,failurePolicy=fail,sideEffects=None,timeoutSeconds=5,groups=fleetmanagement.grafana.com,resources=collectordiscoveries,verbs=create;update,versions=v1alpha1,name=vcollectordiscovery-v1alpha1.fleetmanagement.grafana.com,admissionReviewVersions=v1

// SetupCollectorDiscoveryWebhook registers the webhook.
func SetupCollectorDiscoveryWebhook(mgr manager.Manager, o Options) error {
	return collectorDiscoveryValidator(o).register(mgr, &fleetmanagementv1alpha1.CollectorDiscovery{})
}

func collectorDiscoveryValidator(o Options) validator[*fleetmanagementv1alpha1.CollectorDiscovery] {
	return validator[*fleetmanagementv1alpha1.CollectorDiscovery]{
		kind: "CollectorDiscovery", controllerOff: o.ControllerOff,
		validate: validation.CollectorDiscovery,
		admit:    []admit[*fleetmanagementv1alpha1.CollectorDiscovery]{collectorDiscoveryTenancy.admission(o), collectorDiscoveryAccess.admission(o)},
	}
}

// collectorDiscoveryAccess is about the CollectorDiscovery's namespace of collectors.
var collectorDiscoveryAccess = discovery[*fleetmanagementv1alpha1.CollectorDiscovery]{
	makes:  "collectors",
	target: func(d *fleetmanagementv1alpha1.CollectorDiscovery) string { return d.Spec.TargetNamespace },
	spec:   func(d *fleetmanagementv1alpha1.CollectorDiscovery) any { return d.Spec },
}
