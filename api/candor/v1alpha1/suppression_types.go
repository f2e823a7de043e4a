// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SuppressionSpec names what is muted, why and until when.
// +kubebuilder:validation:XValidation:rule="has(self.reason) && self.reason.trim().size() > 0",message="a reason is required: say in spec.reason why this Finding is muted"
type SuppressionSpec struct {
	// fingerprint is the status.fingerprint of the Finding to mute, whole: 64 hexadecimal digits. When the content of the
	// Finding changes, so does its fingerprint, and the Finding speaks up again.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Fingerprint of the Finding",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Fingerprint string `json:"fingerprint"`

	// reason says why the Finding is muted. It is required, and shown on the Finding.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Reason",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// expiresAt is when the mute ends by itself. Without it, the mute lasts until the content changes.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Ends at",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
}

// SuppressionStatus is what a Suppression mutes now.
type SuppressionStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// muted is the number of Findings that this Suppression mutes now.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Muted Findings"
	// +optional
	// +kubebuilder:validation:Minimum=0
	Muted int32 `json:"muted"`

	// finding is the name of one of them.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Finding"
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Finding string `json:"finding,omitempty"`

	// conditions holds Ready.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions Conditions `json:"conditions,omitempty"`
}

// Suppression mutes the Finding that has a given fingerprint, in its own namespace.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=suppr,categories=candor
// +kubebuilder:printcolumn:name="Muted",type=integer,JSONPath=`.status.muted`
// +kubebuilder:printcolumn:name="Finding",type=string,JSONPath=`.status.finding`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.spec.expiresAt`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Why",type=string,JSONPath=`.spec.reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Fingerprint",type=string,priority=1,JSONPath=`.spec.fingerprint`
// +operator-sdk:csv:customresourcedefinitions:displayName="Suppression",resources={{Finding,v1alpha1,""},{Event,v1,""}}
type Suppression struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec names what is muted, why and until when.
	// +required
	Spec SuppressionSpec `json:"spec"`

	// status is what is muted now; the suppression controller alone writes it.
	// +optional
	Status SuppressionStatus `json:"status,omitempty"`
}

// SuppressionList is a list of Suppressions.
// +kubebuilder:object:root=true
type SuppressionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Suppression `json:"items"`
}

// StatusConditions returns the conditions for the controller to change.
func (s *Suppression) StatusConditions() *[]metav1.Condition {
	return (*[]metav1.Condition)(&s.Status.Conditions)
}

// ObservedGeneration returns the generation that the status speaks of, for the controller to change.
func (s *Suppression) ObservedGeneration() *int64 { return &s.Status.ObservedGeneration }
