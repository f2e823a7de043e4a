// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

type (
	pipelineDiscovery  = *fleetmanagementv1alpha1.PipelineDiscovery
	collectorDiscovery = *fleetmanagementv1alpha1.CollectorDiscovery
)

func pipelineDiscoveryRules() []rule[pipelineDiscovery] {
	return []rule[pipelineDiscovery]{
		pollRule(func(d pipelineDiscovery) string { return d.Spec.PollInterval }),
		targetRule(func(d pipelineDiscovery) string { return d.Spec.TargetNamespace }),
		{
			reads: func(d pipelineDiscovery) any { return d.Spec.Selector.ConfigType },
			check: func(_, now pipelineDiscovery, f *findings) {
				if configType := now.Spec.Selector.ConfigType; configType != nil {
					checkOneOf(spec.Child("selector", "configType"), *configType, f, fleetmanagementv1alpha1.ConfigTypeAlloy, fleetmanagementv1alpha1.ConfigTypeOTel)
				}
			},
		},
		{
			reads: func(d pipelineDiscovery) any { return managesStack(d) },
			check: func(_, now pipelineDiscovery, f *findings) {
				if managesStack(now) {
					f.warn(spec.Child("selector"), "is empty, so that all pipelines of the stack are managed from here")
				}
			},
		},
		{
			reads: func(d pipelineDiscovery) any { return d.Spec.ImportMode },
			check: func(_, now pipelineDiscovery, f *findings) {
				checkOneOf(spec.Child("importMode"), now.Spec.ImportMode, f, fleetmanagementv1alpha1.ImportAdopt, fleetmanagementv1alpha1.ImportReadOnly)
			},
		},
		{
			reads: func(d pipelineDiscovery) any { return d.Spec.Policy },
			check: func(_, now pipelineDiscovery, f *findings) {
				checkOneOf(spec.Child("policy", "onPipelineRemoved"), now.Spec.Policy.OnPipelineRemoved, f,
					fleetmanagementv1alpha1.RemovalKeep, fleetmanagementv1alpha1.RemovalDelete)
			},
		},
	}
}

// managesStack tells a discovery that takes over whatever Fleet Management holds.
func managesStack(d pipelineDiscovery) bool {
	return d.Spec.ImportMode == fleetmanagementv1alpha1.ImportAdopt && d.Spec.Selector == (fleetmanagementv1alpha1.PipelineDiscoverySelector{})
}

func collectorDiscoveryRules() []rule[collectorDiscovery] {
	return []rule[collectorDiscovery]{
		pollRule(func(d collectorDiscovery) string { return d.Spec.PollInterval }),
		targetRule(func(d collectorDiscovery) string { return d.Spec.TargetNamespace }),
		{
			reads: func(d collectorDiscovery) any { return d.Spec.Selector },
			check: func(old, now collectorDiscovery, f *findings) {
				var before fleetmanagementv1alpha1.CollectorDiscoverySelector
				if old != nil {
					before = old.Spec.Selector
				}
				path, selector := spec.Child("selector"), now.Spec.Selector
				if len(selector.Matchers) == 0 && len(selector.CollectorIDs) == 0 {
					f.warn(path, "is empty, so that all collectors of the stack are in scope")
				}
				checkMatchers(path.Child("matchers"), before.Matchers, selector.Matchers, f)
				checkCollectorIDs(path.Child("collectorIDs"), before.CollectorIDs, selector.CollectorIDs, f)
			},
		},
		{
			reads: func(d collectorDiscovery) any { return d.Spec.Policy },
			check: func(_, now collectorDiscovery, f *findings) {
				path, policy := spec.Child("policy"), now.Spec.Policy
				checkOneOf(path.Child("onCollectorRemoved"), policy.OnCollectorRemoved, f, fleetmanagementv1alpha1.RemovalKeep, fleetmanagementv1alpha1.RemovalDelete)
				checkOneOf(path.Child("onConflict"), policy.OnConflict, f, fleetmanagementv1alpha1.ConflictHandlingSkip)
			},
		},
	}
}

// MinPollInterval is the shortest pollInterval of a discovery.
const MinPollInterval = time.Minute

func pollRule[T metav1.Object](interval func(T) string) rule[T] {
	return rule[T]{
		reads: func(d T) any { return interval(d) },
		check: func(_, now T, f *findings) {
			path, text := spec.Child("pollInterval"), interval(now)
			if text == "" {
				return
			}
			switch every, err := time.ParseDuration(text); {
			case err != nil:
				f.refuse(path, shorten(text), "is no duration: write a number and a unit, such as 5m or 1h30m")
			case every < MinPollInterval:
				f.refuse(path, text, "is too often: write 1m or more")
			}
		},
	}
}

// targetRule is about a namespace that cannot be changed, since what was made in the former one would be left there.
func targetRule[T interface {
	metav1.Object
	comparable
}](target func(T) string,
) rule[T] {
	return rule[T]{
		reads: func(d T) any { return target(d) },
		check: func(old, now T, f *findings) {
			var none T
			path, namespace := spec.Child("targetNamespace"), target(now)
			switch {
			case old != none:
				f.refuse(path, shorten(namespace), fmt.Sprintf("cannot be changed from %q: create another discovery", target(old)))
			case namespace == "":
			case len(validation.IsDNS1123Label(namespace)) > 0:
				f.errs = append(f.errs, field.Invalid(path, shorten(namespace),
					"is no name of a namespace: write at most 63 lower case letters, digits and hyphens, or leave it out for the namespace of this object"))
			}
		},
	}
}
