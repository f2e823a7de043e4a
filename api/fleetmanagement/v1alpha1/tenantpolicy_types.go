// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AllowedAttribute is an attribute that tenants may set.
type AllowedAttribute struct {
	// key is the attribute's key.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('collector.')",message="keys that start with collector. are reserved"
	Key string `json:"key"`

	// value is a regular expression (RE2) that has to match the whole value; empty allows every value.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
}

// TenantPolicySpec says who the tenants are, and what they may do.
type TenantPolicySpec struct {
	// subjects are the users, groups and service accounts that the policy binds.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Subjects"
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:XValidation:rule="self.all(s, s.kind in ['User', 'Group', 'ServiceAccount'])",message="the kind of a subject is User, Group or ServiceAccount"
	// +kubebuilder:validation:XValidation:rule="self.all(s, size(s.name) > 0)",message="a subject has a name"
	// +kubebuilder:validation:XValidation:rule="self.all(s, (s.kind == 'ServiceAccount') == (has(s.__namespace__) && size(s.__namespace__) > 0))",message="a ServiceAccount has a namespace, and a User or a Group has none"
	Subjects []rbacv1.Subject `json:"subjects"`

	// requiredMatchers are matchers of which a Pipeline, a RemoteAttributePolicy, an ExternalAttributeSync or a CollectorDiscovery has
	// to have one, however it is written. Those of all policies that bind somebody count together.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Required matchers"
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=200
	RequiredMatchers []string `json:"requiredMatchers"`

	// namespaceSelector says in which namespaces the policy binds; unset or empty means in all. Only a policy that has one binds
	// what is stored already, whoever wrote it.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Namespace selector"
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// allowedAttributes are the attributes that may be set by Collectors, RemoteAttributePolicies and ExternalAttributeSyncs. Unset
	// leaves them free; those of all policies that bind somebody and have some count together.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Allowed attributes"
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	AllowedAttributes []AllowedAttribute `json:"allowedAttributes,omitempty"`

	// allowedCollectors are matchers, all of which a collector has to meet to be given attributes. Unset leaves them free; a
	// collector that one of the policies allows is allowed.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Allowed collectors"
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=200
	AllowedCollectors []string `json:"allowedCollectors,omitempty"`
}

// TenantPolicyStatus says whether the policy can be read, and whom it binds.
type TenantPolicyStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// boundSubjectCount is how many subjects the policy names.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Subjects"
	// +optional
	// +kubebuilder:validation:Minimum=0
	BoundSubjectCount int32 `json:"boundSubjectCount"`

	// matchedNamespaces is how many namespaces it binds in.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Namespaces"
	// +optional
	// +kubebuilder:validation:Minimum=0
	MatchedNamespaces int32 `json:"matchedNamespaces"`

	// conditions holds Ready and Valid.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions Conditions `json:"conditions,omitempty"`
}

// TenantPolicy bounds what tenants may do with the kinds of this group. It has an effect while --enable-tenant-policy-enforcement
// is set.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=fmtp,categories=candor,scope=Cluster
// +kubebuilder:printcolumn:name="Subjects",type=integer,JSONPath=`.status.boundSubjectCount`
// +kubebuilder:printcolumn:name="Namespaces",type=integer,JSONPath=`.status.matchedNamespaces`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +operator-sdk:csv:customresourcedefinitions:displayName="Tenant policy",resources={{Event,v1,""}}
type TenantPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says who the tenants are, and what they may do.
	// +required
	Spec TenantPolicySpec `json:"spec"`

	// status says whether the policy can be read; the tenant policy controller alone writes it.
	// +optional
	Status TenantPolicyStatus `json:"status,omitempty"`
}

// TenantPolicyList is a list of TenantPolicies.
// +kubebuilder:object:root=true
type TenantPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []TenantPolicy `json:"items"`
}

// StatusConditions returns the conditions for the controller to change.
func (p *TenantPolicy) StatusConditions() *[]metav1.Condition {
	return (*[]metav1.Condition)(&p.Status.Conditions)
}

// ObservedGeneration returns the generation that the status speaks of, for the controller to change.
func (p *TenantPolicy) ObservedGeneration() *int64 { return &p.Status.ObservedGeneration }
