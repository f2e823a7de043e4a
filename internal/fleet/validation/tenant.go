// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/attributes"
	"github.com/candor-dev/candor/internal/fleet/tenant"
)

type tenantPolicy = *fleetmanagementv1alpha1.TenantPolicy

const (
	maxSubjects          = 1000
	maxAllowedAttributes = 100
	maxPattern           = 1024
)

// tenantPolicyRules refuse what tenant.Compile does not read, and bound the rest.
func tenantPolicyRules(o Options) []rule[tenantPolicy] {
	return []rule[tenantPolicy]{
		{
			reads: func(p tenantPolicy) any { return p.Spec.Subjects },
			check: func(old, now tenantPolicy, f *findings) { checkSubjects(beforeOf(old).Subjects, now, f) },
		},
		{
			reads: func(p tenantPolicy) any { return p.Spec.RequiredMatchers },
			check: func(old, now tenantPolicy, f *findings) {
				checkReadable(spec.Child("requiredMatchers"), beforeOf(old).RequiredMatchers, now.Spec.RequiredMatchers, maxMatchers, now, f)
			},
		},
		{
			reads: func(p tenantPolicy) any { return p.Spec.NamespaceSelector },
			check: func(_, now tenantPolicy, f *findings) {
				path, selector := spec.Child("namespaceSelector"), now.Spec.NamespaceSelector
				checkReadable[string](path, nil, nil, 0, now, f)
				if selector != nil && len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 0 {
					f.warn(path, "is empty, so that the policy binds in all namespaces, and binds what is stored there, whoever wrote it")
				}
			},
		},
		{
			reads: func(p tenantPolicy) any { return p.Spec.AllowedAttributes },
			check: func(old, now tenantPolicy, f *findings) {
				checkAllowedAttributes(beforeOf(old).AllowedAttributes, now, o.attributeLimits(), f)
			},
		},
		{
			reads: func(p tenantPolicy) any { return p.Spec.AllowedCollectors },
			check: func(old, now tenantPolicy, f *findings) {
				checkReadable(spec.Child("allowedCollectors"), beforeOf(old).AllowedCollectors, now.Spec.AllowedCollectors, maxMatchers, now, f)
			},
		},
	}
}

// beforeOf returns the spec of a policy, an empty one for none.
func beforeOf(old tenantPolicy) fleetmanagementv1alpha1.TenantPolicySpec {
	if old == nil {
		return fleetmanagementv1alpha1.TenantPolicySpec{}
	}
	return old.Spec
}

// checkReadable refuses what cannot be read at a path, a list of at most limit items. It leaves out items that before holds already.
func checkReadable[T comparable](path *field.Path, before, items []T, limit int, p tenantPolicy, f *findings) {
	if len(items) > limit {
		f.errs = append(f.errs, field.TooMany(path, len(items), limit))
		return
	}
	existed := map[string]bool{}
	for i, item := range items {
		if slices.Contains(before, item) {
			existed[path.Index(i).String()] = true
		}
	}
	for _, err := range tenant.Validate(&p.Spec) {
		rest, here := strings.CutPrefix(err.Field, path.String())
		item, _, _ := strings.Cut(rest, "]")
		if here && !existed[path.String()+item+"]"] {
			f.errs = append(f.errs, err)
		}
	}
}

// broad are groups that hold people and machines who are no tenants.
var broad = []string{"system:authenticated", "system:masters", "system:serviceaccounts"}

func checkSubjects(before []rbacv1.Subject, p tenantPolicy, f *findings) {
	path := spec.Child("subjects")
	checkReadable(path, before, p.Spec.Subjects, maxSubjects, p, f)
	for i, subject := range p.Spec.Subjects {
		if slices.Contains(before, subject) {
			continue
		}
		if subject.APIGroup != "" && subject.APIGroup != rbacv1.GroupName {
			f.errs = append(f.errs, field.NotSupported(path.Index(i).Child("apiGroup"), shorten(subject.APIGroup), []string{"", rbacv1.GroupName}))
		}
		if subject.Kind == rbacv1.GroupKind && slices.Contains(broad, subject.Name) {
			f.warn(path.Index(i).Child("name"), fmt.Sprintf("%s binds administrators and other controllers, too; this operator alone is exempt", subject.Name))
		}
	}
}

func checkAllowedAttributes(before []fleetmanagementv1alpha1.AllowedAttribute, p tenantPolicy, limits attributes.Limits, f *findings) {
	path := spec.Child("allowedAttributes")
	checkReadable(path, before, p.Spec.AllowedAttributes, maxAllowedAttributes, p, f)
	for i, allowed := range p.Spec.AllowedAttributes {
		if slices.Contains(before, allowed) {
			continue
		}
		if utf8.RuneCountInString(allowed.Key) > limits.Key {
			f.errs = append(f.errs, field.TooLongCharacters(path.Index(i).Child("key"), "", limits.Key))
		}
		if utf8.RuneCountInString(allowed.Value) > maxPattern {
			f.errs = append(f.errs, field.TooLongCharacters(path.Index(i).Child("value"), "", maxPattern))
		}
	}
}
