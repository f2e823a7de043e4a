// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Severity is how bad a signal is, in the words of the scanners.
// +kubebuilder:validation:Enum=LOW;MEDIUM;HIGH;CRITICAL
type Severity string

// The severities, mildest first.
const (
	SeverityLow      Severity = "LOW"
	SeverityMedium   Severity = "MEDIUM"
	SeverityHigh     Severity = "HIGH"
	SeverityCritical Severity = "CRITICAL"
)

// SecretReference names a Secret in the same namespace.
type SecretReference struct {
	// name is the name of the Secret.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// Conditions is the list of conditions in a status, one a type.
// +kubebuilder:validation:MaxItems=16
type Conditions []metav1.Condition
