// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation says what is wrong, or surprising, about objects that people write. Rules that need neither another
// object nor a clock stand in the types.
package validation

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/policy"
)

var fingerprint = regexp.MustCompile(`^[0-9a-f]{64}$`)

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
		{"spec.webhook", p.Spec.Webhook != nil},
		{"spec.webhookReceiver", p.Spec.WebhookReceiver != nil},
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

// Suppression returns warnings about a Suppression at the time now. None of them is an error: a manifest that was right
// once must still apply when a cluster is rebuilt from it.
func Suppression(s *candorv1alpha1.Suppression, now time.Time) []string {
	var warnings []string
	if !fingerprint.MatchString(s.Spec.Fingerprint) {
		warnings = append(warnings, fmt.Sprintf("spec.fingerprint: %q is no fingerprint, which has 64 digits of 0-9a-f, and mutes nothing: "+
			"copy it whole with kubectl get finding NAME -o jsonpath='{.status.fingerprint}'", s.Spec.Fingerprint))
	}
	if at := s.Spec.ExpiresAt; at != nil && !at.After(now) {
		warnings = append(warnings, fmt.Sprintf("spec.expiresAt: %s has passed, so this mutes nothing: set a later time, or leave it out to mute until the content changes",
			at.UTC().Format(time.RFC3339)))
	}
	return warnings
}
