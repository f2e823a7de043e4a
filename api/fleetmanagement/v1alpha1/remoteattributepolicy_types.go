// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RemoteAttributePolicySpec gives attributes to many collectors.
type RemoteAttributePolicySpec struct {
	// selector says which Collectors of the namespace get the attributes.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Selector"
	// +required
	Selector PolicySelector `json:"selector"`

	// attributes are what they get. What a Collector itself asks for wins. A key has at most 100 characters, and a value at most
	// 150 unless --attribute-value-max says otherwise.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Attributes"
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) > 0)",message="an attribute key must not be empty"
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 100)",message="an attribute key has at most 100 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('collector.'))",message="keys that start with collector. are reserved: Fleet Management sets these itself, so remove each of them"
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(self[k]) <= 1024)",message="an attribute value has at most 1024 characters"
	Attributes map[string]string `json:"attributes"`

	// priority decides between policies that give the same attribute: the higher one wins, and of equal ones that whose name comes
	// first.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Priority",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	// +optional
	// +kubebuilder:default=0
	Priority int32 `json:"priority,omitempty"`
}

// RemoteAttributePolicyStatus is whom the policy concerns.
type RemoteAttributePolicyStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// matchedCollectorIDs are the IDs of the collectors that the selector matches, in order; at most the first 1,000.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	MatchedCollectorIDs []string `json:"matchedCollectorIDs,omitempty"`

	// matchedCount is how many collectors the selector matches.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Matched"
	// +optional
	// +kubebuilder:validation:Minimum=0
	MatchedCount int32 `json:"matchedCount"`

	// conditions holds Ready, Synced and Truncated.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions Conditions `json:"conditions,omitempty"`
}

// RemoteAttributePolicy gives remote attributes to the Collectors of its namespace that its selector matches.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=fmrap,categories=candor
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matchedCount`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +operator-sdk:csv:customresourcedefinitions:displayName="Remote attribute policy",resources={{Collector,v1alpha1,""},{Event,v1,""}}
type RemoteAttributePolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which collectors get what.
	// +required
	Spec RemoteAttributePolicySpec `json:"spec"`

	// status is whom the policy concerns; the policy controller alone writes it.
	// +optional
	Status RemoteAttributePolicyStatus `json:"status,omitempty"`
}

// RemoteAttributePolicyList is a list of RemoteAttributePolicies.
// +kubebuilder:object:root=true
type RemoteAttributePolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RemoteAttributePolicy `json:"items"`
}

// StatusConditions returns the conditions for the controller to change.
func (p *RemoteAttributePolicy) StatusConditions() *[]metav1.Condition {
	return (*[]metav1.Condition)(&p.Status.Conditions)
}

// ObservedGeneration returns the generation that the status speaks of, for the controller to change.
func (p *RemoteAttributePolicy) ObservedGeneration() *int64 { return &p.Status.ObservedGeneration }
