// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SuppressionState is why something is muted, in the words of those who triage.
// +kubebuilder:validation:Enum=FalsePositive;AcceptedRisk;NotAffected
type SuppressionState string

// Suppression states.
const (
	// StateFalsePositive says that the scanner is wrong.
	StateFalsePositive SuppressionState = "FalsePositive"
	// StateAcceptedRisk says that it is right, and that the risk is taken.
	StateAcceptedRisk SuppressionState = "AcceptedRisk"
	// StateNotAffected says that it is right, and that it cannot be exploited here.
	StateNotAffected SuppressionState = "NotAffected"
)

// WorkloadScope names a workload.
type WorkloadScope struct {
	// kind is its kind, such as Deployment.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name is its name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// SuppressionSpec names what is muted. All scopes that are set have to hold.
// +kubebuilder:validation:XValidation:rule="has(self.reason) && self.reason.trim().size() > 0",message="a reason is required: say in spec.reason why this Finding is muted"
// +kubebuilder:validation:XValidation:rule="has(self.fingerprint) || has(self.vulnerabilityIDs) || has(self.packages) || has(self.imageRepositories) || has(self.workload)",message="say what is muted: set fingerprint, vulnerabilityIDs, packages, imageRepositories or workload"
type SuppressionSpec struct {
	// fingerprint is the status.fingerprint of the Finding to mute, whole: 64 hexadecimal digits. When the content of the
	// Finding changes, so does its fingerprint, and the Finding speaks up again.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Fingerprint of the Finding",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Fingerprint string `json:"fingerprint,omitempty"`

	// vulnerabilityIDs are the identifiers of vulnerabilities or of checks, such as CVE-2024-1234, to mute wherever the other
	// scopes hold.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Vulnerabilities"
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	VulnerabilityIDs []string `json:"vulnerabilityIDs,omitempty"`

	// packages are names of packages, such as openssl, or names with the installed version, such as openssl@3.0.1-r0.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Packages"
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Packages []string `json:"packages,omitempty"`

	// imageRepositories are images without tag, with or without their registry, such as library/nginx or
	// registry.example.com/base/java; a name that ends with /* means everything below it.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Images"
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	ImageRepositories []string `json:"imageRepositories,omitempty"`

	// workload is the one workload that is meant.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Workload"
	// +optional
	Workload *WorkloadScope `json:"workload,omitempty"`

	// state is why it is muted, in one word.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="State",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:FalsePositive","urn:alm:descriptor:com.tectonic.ui:select:AcceptedRisk","urn:alm:descriptor:com.tectonic.ui:select:NotAffected"}
	// +optional
	// +kubebuilder:default=FalsePositive
	State SuppressionState `json:"state,omitempty"`

	// reason says why the Finding is muted. It is required, and shown on the Finding.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Reason",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// expiresAt is when the mute ends by itself. Without it, the mute lasts until the content changes, or as long as the
	// OperatingPolicy allows.
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

	// muted is the number of Findings that are muted as a whole, and in which this Suppression mutes something.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Muted Findings"
	// +optional
	// +kubebuilder:validation:Minimum=0
	Muted int32 `json:"muted"`

	// mutedEntries is the number of vulnerabilities or checks that it mutes now, in all Findings.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Muted entries"
	// +optional
	// +kubebuilder:validation:Minimum=0
	MutedEntries int32 `json:"mutedEntries,omitempty"`

	// until is when the mute ends; absent where it does not by itself.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

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

// Suppression mutes what it names in the Findings of its own namespace: a content, a workload, or entries of them.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=suppr,categories=candor
// +kubebuilder:printcolumn:name="Muted",type=integer,JSONPath=`.status.muted`
// +kubebuilder:printcolumn:name="Finding",type=string,JSONPath=`.status.finding`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.status.until`
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
