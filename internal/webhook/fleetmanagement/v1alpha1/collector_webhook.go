// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/validation"
)

// +kubebuilder:webhook:path=/validate-fleetmanagement-grafana-com-v1alpha1-collector,mutating=false,failurePolicy=fail,sideEffects=None,timeoutSeconds=5,groups=fleetmanagement.grafana.com,resources=collectors,verbs=create;update,versions=v1alpha1,name=vcollector-v1alpha1.fleetmanagement.grafana.com,admissionReviewVersions=v1

// CollectorIDs knows who stands for which collector.
type CollectorIDs interface {
	// Taken returns namespace and name of another Collector of this cluster with the spec.id of c; empty for none.
	Taken(ctx context.Context, c *fleetmanagementv1alpha1.Collector) (by string, err error)
}

// SetupCollectorWebhook registers the webhook.
func SetupCollectorWebhook(mgr manager.Manager, o Options) error {
	return collectorValidator(o).register(mgr, &fleetmanagementv1alpha1.Collector{})
}

func collectorValidator(o Options) validator[*fleetmanagementv1alpha1.Collector] {
	v := validator[*fleetmanagementv1alpha1.Collector]{
		kind: "Collector", controllerOff: o.ControllerOff,
		validate: func(old, now *fleetmanagementv1alpha1.Collector) ([]string, field.ErrorList) {
			return validation.Collector(old, now, o.Options)
		},
		admit: []admit[*fleetmanagementv1alpha1.Collector]{collectorTenancy.admission(o)},
	}
	if o.CollectorIDs != nil {
		v.others = func(ctx context.Context, old, now *fleetmanagementv1alpha1.Collector) ([]string, field.ErrorList) {
			if old != nil { // an ID cannot be changed
				return nil, nil
			}
			return idTaken(ctx, now, o.CollectorIDs), nil
		}
	}
	return v
}

// idTaken only warns: to move a Collector to another namespace takes a moment in which there are two.
func idTaken(ctx context.Context, c *fleetmanagementv1alpha1.Collector, ids CollectorIDs) []string {
	by, err := ids.Taken(ctx, c)
	switch {
	case err != nil:
		log.FromContext(ctx).V(1).Info("Cannot tell whether the ID of a Collector is taken", "error", err.Error())
		return nil
	case by == "":
		return nil
	}
	return []string{fmt.Sprintf("spec.id: the Collector %s is older and has the same ID, so that this one has no effect: delete one of them", by)}
}
