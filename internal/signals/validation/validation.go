// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation says what is wrong, or surprising, about objects that people write. Rules that need neither another
// object nor a clock stand in the types.
package validation

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/policy"
)

// SignalPolicy returns warnings about a policy; old is nil for a new one. known are the providers of this version.
func SignalPolicy(old, p *candorv1alpha1.SignalPolicy, known []string) []string {
	var warnings []string
	spec := field.NewPath("spec")
	for i, name := range p.Spec.Providers {
		if !slices.Contains(known, name) {
			warnings = append(warnings, fmt.Sprintf("%s: no provider named %q exists; known: %s",
				spec.Child("providers").Index(i), name, strings.Join(known, ", ")))
		}
	}
	switch named, has := slices.Contains(p.Spec.Providers, signals.Posted), p.Spec.WebhookReceiver != nil; {
	case named && !has:
		warnings = append(warnings, "spec.webhookReceiver: is missing, so that the provider webhook takes no signals")
	case has && !named:
		warnings = append(warnings, "spec.providers: does not name webhook, so that spec.webhookReceiver takes no signals")
	}
	if names := FieldsWithoutEffect(p); len(names) > 0 {
		warnings = append(warnings, strings.Join(names, ", ")+": accepted for compatibility, without effect in this version")
	}
	if old != nil && asksDifferently(old, p) {
		warnings = append(warnings, "spec: a changed minSeverity, onlyFixable or unknownSeverity changes what Findings say: "+
			"their fingerprints change, which ends mutes and reopens them for explanation")
	}
	return warnings
}

func asksDifferently(a, b *candorv1alpha1.SignalPolicy) bool {
	return policy.Threshold(a) != policy.Threshold(b) || a.Spec.OnlyFixable != b.Spec.OnlyFixable ||
		a.Spec.UnknownSeverity != b.Spec.UnknownSeverity
}

// FieldsWithoutEffect names the fields of a policy that are set and do nothing in this version.
func FieldsWithoutEffect(p *candorv1alpha1.SignalPolicy) []string {
	var names []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"spec.gitOpsRepo", p.Spec.GitOpsRepo != nil},
		{"spec.pullRequestBudget", p.Spec.PullRequestBudget != nil},
	} {
		if f.set {
			names = append(names, f.name)
		}
	}
	return names
}

// OperatingFieldsWithoutEffect names the fields of an OperatingPolicy that are set and do nothing in this version.
func OperatingFieldsWithoutEffect(p *candorv1alpha1.OperatingPolicy) []string {
	if p.Spec.PullRequestRateLimit != nil {
		return []string{"spec.pullRequestRateLimit"}
	}
	return nil
}
