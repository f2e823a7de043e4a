// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/pipelines"
	"github.com/candor-dev/candor/internal/fleet/validation"
)

// +kubebuilder:webhook:path=/validate-fleetmanagement-grafana-com-v1alpha1-pipeline,mutating=false,failurePolicy=fail,sideEffects=None,timeoutSeconds=5,groups=fleetmanagement.grafana.com,resources=pipelines,verbs=create;update,versions=v1alpha1,name=vpipeline-v1alpha1.fleetmanagement.grafana.com,admissionReviewVersions=v1

// Names knows who has which name in Fleet Management.
type Names interface {
	// Taken returns namespace and name of another Pipeline of this cluster that has the name which p would have; empty for none.
	Taken(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) (by string, err error)
}

// SetupPipelineWebhook registers the webhook.
func SetupPipelineWebhook(mgr manager.Manager, o Options) error {
	return pipelineValidator(o).register(mgr, &fleetmanagementv1alpha1.Pipeline{})
}

func pipelineValidator(o Options) validator[*fleetmanagementv1alpha1.Pipeline] {
	return validator[*fleetmanagementv1alpha1.Pipeline]{
		kind: "Pipeline", controllerOff: o.ControllerOff,
		validate: func(old, now *fleetmanagementv1alpha1.Pipeline) ([]string, field.ErrorList) {
			return validation.Pipeline(old, now, o.Options)
		},
		admit: []admit[*fleetmanagementv1alpha1.Pipeline]{pipelineTenancy.admission(o)},
		others: func(ctx context.Context, old, now *fleetmanagementv1alpha1.Pipeline) ([]string, field.ErrorList) {
			warnings, errs := nameTaken(ctx, old, now, o.Names)
			if len(errs) > 0 {
				return warnings, errs
			}
			more, refused := askRemote(ctx, old, now, o)
			return append(warnings, more...), refused
		},
	}
}

// nameTaken refuses a new Pipeline whose name another one has, and warns of a changed name, since two may swap theirs. It lets
// through one that cannot be looked up, and a mirror, which writes nothing. Names may be nil.
func nameTaken(ctx context.Context, old, p *fleetmanagementv1alpha1.Pipeline, names Names) ([]string, field.ErrorList) {
	if names == nil || pipelines.IsMirror(p) || old != nil && sameName(old, p) {
		return nil, nil
	}
	by, err := names.Taken(ctx, p)
	switch {
	case err != nil:
		log.FromContext(ctx).V(1).Info("Cannot tell whether the name of a Pipeline is taken", "error", err.Error())
		return nil, nil
	case by == "":
		return nil, nil
	}
	if old != nil {
		return []string{fmt.Sprintf("spec.name: the Pipeline %s has this name in Fleet Management: this one keeps its former name until that one gives it up", by)}, nil
	}
	return nil, field.ErrorList{field.Invalid(field.NewPath("spec", "name"), nameOf(p),
		fmt.Sprintf("the Pipeline %s has this name in Fleet Management: choose another name, or delete that one", by))}
}

func sameName(a, b *fleetmanagementv1alpha1.Pipeline) bool {
	scope := fleetmanagementv1alpha1.AnnotationNameScope
	return nameOf(a) == nameOf(b) && a.Annotations[scope] == b.Annotations[scope]
}

func nameOf(p *fleetmanagementv1alpha1.Pipeline) string { return cmp.Or(p.Spec.Name, p.Name) }
