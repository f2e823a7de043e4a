// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/attributes"
	"github.com/candor-dev/candor/internal/fleet/pipelines"
)

type (
	collector = *fleetmanagementv1alpha1.Collector
	policy    = *fleetmanagementv1alpha1.RemoteAttributePolicy
)

func collectorRules(o Options) []rule[collector] {
	return []rule[collector]{
		{
			reads: func(c collector) any { return c.Spec.ID },
			check: func(old, now collector, f *findings) { checkID(old, now, f) },
		},
		{
			reads: func(c collector) any { return c.Spec.RemoteAttributes },
			check: func(old, now collector, f *findings) {
				var before map[string]string
				if old != nil {
					before = old.Spec.RemoteAttributes
				}
				checkAttributes(spec.Child("remoteAttributes"), before, now.Spec.RemoteAttributes, o.attributeLimits(), f)
			},
		},
		annotationRule[collector](fleetmanagementv1alpha1.AnnotationSkipRemoteDelete, pipelines.Switches...),
	}
}

func checkID(old, now collector, f *findings) {
	path := spec.Child("id")
	switch {
	case old != nil:
		f.refuse(path, now.Spec.ID, fmt.Sprintf("cannot be changed from %q: create another Collector, and delete this one", old.Spec.ID))
	case strings.TrimSpace(now.Spec.ID) == "":
		f.require(path, "write the ID that the collector has in Fleet Management")
	}
}

func policyRules(o Options) []rule[policy] {
	return []rule[policy]{
		{
			reads: func(p policy) any { return p.Spec.Attributes },
			check: func(old, now policy, f *findings) {
				path := spec.Child("attributes")
				if len(now.Spec.Attributes) == 0 {
					f.require(path, "write at least one attribute, or delete the policy")
				}
				var before map[string]string
				if old != nil {
					before = old.Spec.Attributes
				}
				checkAttributes(path, before, now.Spec.Attributes, o.attributeLimits(), f)
			},
		},
		{
			reads: func(p policy) any { return p.Spec.Selector },
			check: func(old, now policy, f *findings) {
				var before fleetmanagementv1alpha1.PolicySelector
				if old != nil {
					before = old.Spec.Selector
				}
				checkSelector(spec.Child("selector"), before, now.Spec.Selector, f)
			},
		},
	}
}

// checkAttributes leaves out what before holds already.
func checkAttributes(path *field.Path, before, now map[string]string, limits attributes.Limits, f *findings) {
	if len(now) > limits.Total {
		f.errs = append(f.errs, field.TooMany(path, len(now), limits.Total))
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if value, existed := before[key]; existed && value == now[key] {
			continue
		}
		if reason := limits.Check(key, now[key]); reason != "" {
			f.refuse(path.Key(shorten(key)), unsaid, reason)
		}
	}
}
