// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConflictPolicy is what to do about a remote attribute that somebody else set.
// +kubebuilder:validation:Enum=Overwrite;Skip;Fail
type ConflictPolicy string

// Conflict policies.
const (
	ConflictOverwrite ConflictPolicy = "Overwrite"
	ConflictSkip      ConflictPolicy = "Skip"
	ConflictFail      ConflictPolicy = "Fail"
)

// ReleasePolicy is what becomes of a remote attribute that is no longer asked for.
// +kubebuilder:validation:Enum=Restore;Remove
type ReleasePolicy string

// Release policies.
const (
	ReleaseRestore ReleasePolicy = "Restore"
	ReleaseRemove  ReleasePolicy = "Remove"
)

// OwnerKind is the kind of an object that asks for a remote attribute.
// +kubebuilder:validation:Enum=ExternalAttributeSync;Collector;RemoteAttributePolicy
type OwnerKind string

// Kinds that ask for remote attributes.
const (
	OwnerExternalAttributeSync OwnerKind = "ExternalAttributeSync"
	OwnerCollector             OwnerKind = "Collector"
	OwnerRemoteAttributePolicy OwnerKind = "RemoteAttributePolicy"
)

// CollectorSpec is a collector of Fleet Management, and what it is given.
type CollectorSpec struct {
	// id is the collector's ID in Fleet Management. It cannot be changed.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="ID",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('\\\\S')",message="id must not be blank"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="id cannot be changed: create another Collector"
	ID string `json:"id"`

	// name is shown in Grafana. Empty leaves it as it is.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// enabled is whether the collector gets a configuration at all. Unset leaves it as it is.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// remoteAttributes are attributes that the collector gets. They win over those of a RemoteAttributePolicy. A key has at most
	// 100 characters, and a value at most 150 unless --attribute-value-max says otherwise.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Remote attributes"
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) > 0)",message="an attribute key must not be empty"
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 100)",message="an attribute key has at most 100 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('collector.'))",message="keys that start with collector. are reserved: Fleet Management sets these itself, so remove each of them"
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(self[k]) <= 1024)",message="an attribute value has at most 1024 characters"
	RemoteAttributes map[string]string `json:"remoteAttributes,omitempty"`

	// conflictPolicy is what to do about a remote attribute that somebody else set to another value: Overwrite it, Skip it, or
	// Fail and change nothing.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Conflict policy",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Overwrite","urn:alm:descriptor:com.tectonic.ui:select:Skip","urn:alm:descriptor:com.tectonic.ui:select:Fail"}
	// +optional
	// +kubebuilder:default=Overwrite
	ConflictPolicy ConflictPolicy `json:"conflictPolicy,omitempty"`

	// releasePolicy is what becomes of an attribute that is no longer asked for: Restore the value that was overwritten, or
	// Remove it.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Release policy",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Restore","urn:alm:descriptor:com.tectonic.ui:select:Remove"}
	// +optional
	// +kubebuilder:default=Restore
	ReleasePolicy ReleasePolicy `json:"releasePolicy,omitempty"`
}

// AttributeOwner is who asks for a remote attribute.
type AttributeOwner struct {
	// key is the attribute's key.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Key string `json:"key"`

	// ownerKind is the kind of the object that asks for it.
	// +required
	OwnerKind OwnerKind `json:"ownerKind"`

	// ownerName is the namespace and name of that object.
	// +required
	// +kubebuilder:validation:MaxLength=512
	OwnerName string `json:"ownerName"`

	// value is what it asks for.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`

	// previousValue is what stood there before, to be restored.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	PreviousValue *string `json:"previousValue,omitempty"`
}

// CollectorStatus is what is known of the collector in Fleet Management.
type CollectorStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// registered says that Fleet Management knows the collector.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Registered"
	// +optional
	Registered bool `json:"registered"`

	// lastPing is when Fleet Management last heard of the collector. It is brought up to date with other changes, and at least
	// every half hour.
	// +optional
	LastPing *metav1.Time `json:"lastPing,omitempty"`

	// name is what is shown in Grafana.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Name string `json:"name,omitempty"`

	// enabled is whether the collector gets a configuration.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// collectorType is Alloy, OpenTelemetryCollector or Unspecified.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Type"
	// +optional
	// +kubebuilder:validation:MaxLength=64
	CollectorType string `json:"collectorType,omitempty"`

	// createdAt is when the collector was created in Fleet Management.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`

	// updatedAt is when it was last changed or heard of, as old as lastPing.
	// +optional
	UpdatedAt *metav1.Time `json:"updatedAt,omitempty"`

	// markedInactiveAt is since when Fleet Management takes it for gone.
	// +optional
	MarkedInactiveAt *metav1.Time `json:"markedInactiveAt,omitempty"`

	// localAttributes are what the collector tells of itself; at most 256 are kept.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	LocalAttributes map[string]string `json:"localAttributes,omitempty"`

	// otherRemoteAttributes are remote attributes that somebody else set; at most 256 are kept.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	OtherRemoteAttributes map[string]string `json:"otherRemoteAttributes,omitempty"`

	// effectiveRemoteAttributes are what all that asks for attributes of this collector comes to.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	EffectiveRemoteAttributes map[string]string `json:"effectiveRemoteAttributes,omitempty"`

	// attributeOwners says who asks for each of them, and what stood there before.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MaxItems=256
	AttributeOwners []AttributeOwner `json:"attributeOwners,omitempty"`

	// conditions holds Ready and Synced, and AttributesInvalid where some of what is asked for cannot be given.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions Conditions `json:"conditions,omitempty"`
}

// Collector is a collector that Fleet Management knows, and the remote attributes that it is to have.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=fmcol,categories=candor
// +kubebuilder:printcolumn:name="ID",type=string,JSONPath=`.spec.id`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.collectorType`
// +kubebuilder:printcolumn:name="Registered",type=boolean,JSONPath=`.status.registered`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +operator-sdk:csv:customresourcedefinitions:displayName="Collector",resources={{RemoteAttributePolicy,v1alpha1,""},{Event,v1,""}}
type Collector struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec names the collector, and what it is given.
	// +required
	Spec CollectorSpec `json:"spec"`

	// status is what is known of the collector; the collector controller alone writes it.
	// +optional
	Status CollectorStatus `json:"status,omitempty"`
}

// CollectorList is a list of Collectors.
// +kubebuilder:object:root=true
type CollectorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Collector `json:"items"`
}

// StatusConditions returns the conditions for the controller to change.
func (c *Collector) StatusConditions() *[]metav1.Condition {
	return (*[]metav1.Condition)(&c.Status.Conditions)
}

// ObservedGeneration returns the generation that the status speaks of, for the controller to change.
func (c *Collector) ObservedGeneration() *int64 { return &c.Status.ObservedGeneration }
