// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"sigs.k8s.io/controller-runtime/pkg/manager"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/validation"
)

// +kubebuilder:webhook:path=/validate-fleetmanagement-grafana-com-v1alpha1-pipelinediscovery,mutating=false,failurePolicy=fail,sideEffects=None,timeoutSeconds=5,groups=fleetmanagement.grafana.com,resources=pipelinediscoveries,verbs=create;update,versions=v1alpha1,name=vpipelinediscovery-v1alpha1.fleetmanagement.grafana.com,admissionReviewVersions=v1

// SetupPipelineDiscoveryWebhook registers the webhook.
func SetupPipelineDiscoveryWebhook(mgr manager.Manager, o Options) error {
	return pipelineDiscoveryValidator(o).register(mgr, &fleetmanagementv1alpha1.PipelineDiscovery{})
}

func pipelineDiscoveryValidator(o Options) validator[*fleetmanagementv1alpha1.PipelineDiscovery] {
	return validator[*fleetmanagementv1alpha1.PipelineDiscovery]{
		kind: "PipelineDiscovery", controllerOff: o.ControllerOff,
		validate: validation.PipelineDiscovery,
		admit:    []admit[*fleetmanagementv1alpha1.PipelineDiscovery]{pipelineDiscoveryTenancy.admission(o), pipelineDiscoveryAccess.admission(o)},
	}
}

// pipelineDiscoveryAccess is about the PipelineDiscovery's namespace of pipelines.
var pipelineDiscoveryAccess = discovery[*fleetmanagementv1alpha1.PipelineDiscovery]{
	makes:  "pipelines",
	target: func(d *fleetmanagementv1alpha1.PipelineDiscovery) string { return d.Spec.TargetNamespace },
	spec:   func(d *fleetmanagementv1alpha1.PipelineDiscovery) any { return d.Spec },
}
