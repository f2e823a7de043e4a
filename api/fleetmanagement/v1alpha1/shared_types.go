// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Conditions is a list of conditions, one of each type.
type Conditions []metav1.Condition

// PolicySelector says which collectors are meant: those that it names, and those that all of its matchers match.
// +kubebuilder:validation:XValidation:rule="(has(self.matchers) && size(self.matchers) > 0) || (has(self.collectorIDs) && size(self.collectorIDs) > 0)",message="at least one of matchers and collectorIDs must be set"
type PolicySelector struct {
	// matchers are matched against the attributes of a collector, as Fleet Management does: key, one of = != =~ !~, value. A
	// regular expression has to match the whole value, and an absent attribute is an empty one. All of them must hold.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=200
	Matchers []string `json:"matchers,omitempty"`

	// collectorIDs are IDs of collectors that are meant whatever their attributes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:XValidation:rule="self.matches('\\\\S')",message="an ID must not be blank"
	CollectorIDs []string `json:"collectorIDs,omitempty"`

	// includeRemote matches remote attributes too, except for those that this operator itself sets. By default only attributes
	// that the collector tells of itself are matched.
	// +optional
	IncludeRemote bool `json:"includeRemote,omitempty"`
}
