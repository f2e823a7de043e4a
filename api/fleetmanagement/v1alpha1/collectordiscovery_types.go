// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConflictHandling is what a discovery does about an object that is in the way.
// +kubebuilder:validation:Enum=Skip
type ConflictHandling string

// ConflictHandlingSkip leaves the object alone.
const ConflictHandlingSkip ConflictHandling = "Skip"

// CollectorDiscoverySelector says which collectors are in scope: those that it names, and those that all of its matchers match. An
// empty one means all.
type CollectorDiscoverySelector struct {
	// matchers are compared with a collector's attributes, local and remote, as Fleet Management does it; all must hold.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=200
	Matchers []string `json:"matchers,omitempty"`

	// collectorIDs names collectors beside those that the matchers mean.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:XValidation:rule="self.matches('\\\\S')",message="an ID must not be blank"
	CollectorIDs []string `json:"collectorIDs,omitempty"`
}

// CollectorDiscoveryPolicy says what becomes of Collectors.
type CollectorDiscoveryPolicy struct {
	// onCollectorRemoved is what becomes of a Collector whose collector Fleet Management no longer has: Keep marks it stale, and
	// Delete deletes the object once a lookup of its own has confirmed that the collector is gone, unless somebody edited its spec.
	// One that is inactive, or merely left the selector's scope, is kept.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="On collector removed",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Keep","urn:alm:descriptor:com.tectonic.ui:select:Delete"}
	// +optional
	// +kubebuilder:default=Keep
	OnCollectorRemoved RemovalPolicy `json:"onCollectorRemoved,omitempty"`

	// onConflict is what to do about a Collector that is in the way: Skip leaves it alone.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="On conflict",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Skip"}
	// +optional
	// +kubebuilder:default=Skip
	OnConflict ConflictHandling `json:"onConflict,omitempty"`
}

// CollectorDiscoverySpec says which collectors of Fleet Management become Collectors, and where.
type CollectorDiscoverySpec struct {
	// pollInterval is how old a list of collectors may be, as a duration such as 5m; at least 1m. One list serves everybody who
	// needs it.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Poll interval",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^\\\\+?(([0-9]+\\\\.?[0-9]*|\\\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$') && duration(self) >= duration('1m')",message="pollInterval is a duration of at least 1m, such as 5m"
	PollInterval string `json:"pollInterval,omitempty"`

	// selector says which collectors are in scope. Empty means all.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Selector"
	// +optional
	Selector CollectorDiscoverySelector `json:"selector,omitempty"`

	// targetNamespace is where Collectors are created; empty means the namespace of this object. It cannot be changed.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Target namespace",xDescriptors={"urn:alm:descriptor:io.kubernetes:Namespace"}
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	TargetNamespace string `json:"targetNamespace,omitempty"`

	// includeInactive has Collectors made of collectors, too, that Fleet Management takes for gone.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Include inactive",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	// +optional
	IncludeInactive bool `json:"includeInactive,omitempty"`

	// policy says what becomes of Collectors whose collector is gone.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Policy"
	// +optional
	// +kubebuilder:default={}
	Policy CollectorDiscoveryPolicy `json:"policy,omitempty"`
}

// CollectorConflict is a collector that no Collector is made of.
type CollectorConflict struct {
	// collectorID is the collector's ID in Fleet Management.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	CollectorID string `json:"collectorID"`

	// crName is the name of the Collector that is in the way, or that the collector would get.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CRName string `json:"crName,omitempty"`

	// reason says why.
	// +required
	Reason ConflictReason `json:"reason"`
}

// CollectorDiscoveryStatus is what the last look found.
type CollectorDiscoveryStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastSyncTime is when collectors were last compared with objects. It is brought up to date with other changes, and at least
	// every half hour.
	// +optional
	LastSyncTime *metav1.Time `json:"lastSyncTime,omitempty"`

	// lastSuccessTime is when that last went well, as old as lastSyncTime.
	// +optional
	LastSuccessTime *metav1.Time `json:"lastSuccessTime,omitempty"`

	// collectorsObserved is how many collectors are in scope.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Observed"
	// +optional
	// +kubebuilder:validation:Minimum=0
	CollectorsObserved int32 `json:"collectorsObserved"`

	// collectorsManaged is how many of them have a Collector of this discovery.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Managed"
	// +optional
	// +kubebuilder:validation:Minimum=0
	CollectorsManaged int32 `json:"collectorsManaged"`

	// staleCollectors are the IDs of collectors that are gone and whose Collector is kept; at most the first 100, in order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	StaleCollectors []string `json:"staleCollectors,omitempty"`

	// staleTotal is how many there are.
	// +optional
	// +kubebuilder:validation:Minimum=0
	StaleTotal int32 `json:"staleTotal,omitempty"`

	// outOfScope is how many Collectors of this discovery stand for collectors that exist and that are inactive, or that the
	// selector no longer means.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OutOfScope int32 `json:"outOfScope,omitempty"`

	// conflicts are the collectors that no Collector is made of; at most the first 100, in order.
	// +optional
	// +listType=map
	// +listMapKey=collectorID
	// +kubebuilder:validation:MaxItems=100
	Conflicts []CollectorConflict `json:"conflicts,omitempty"`

	// conflictsTotal is how many there are.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ConflictsTotal int32 `json:"conflictsTotal"`

	// conditions holds Ready, Synced and TruncatedConflicts, and RemovalSuspended while more would be removed than is taken for
	// granted.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions Conditions `json:"conditions,omitempty"`
}

// CollectorDiscovery makes Collectors of the collectors that Fleet Management knows. Deleting it leaves them as they are.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=fmcd,categories=candor
// +kubebuilder:printcolumn:name="Poll",type=string,JSONPath=`.spec.pollInterval`
// +kubebuilder:printcolumn:name="Observed",type=integer,JSONPath=`.status.collectorsObserved`
// +kubebuilder:printcolumn:name="Managed",type=integer,JSONPath=`.status.collectorsManaged`
// +kubebuilder:printcolumn:name="Conflicts",type=integer,JSONPath=`.status.conflictsTotal`
// +kubebuilder:printcolumn:name="Last Sync",type=date,JSONPath=`.status.lastSyncTime`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +operator-sdk:csv:customresourcedefinitions:displayName="Collector discovery",resources={{Collector,v1alpha1,""},{Event,v1,""}}
type CollectorDiscovery struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which collectors become Collectors, and where.
	// +required
	// +kubebuilder:validation:XValidation:rule="(has(self.targetNamespace) ? self.targetNamespace : '') == (has(oldSelf.targetNamespace) ? oldSelf.targetNamespace : '')",message="targetNamespace cannot be changed: create another discovery"
	Spec CollectorDiscoverySpec `json:"spec"`

	// status is what the last look found; the discovery controller alone writes it.
	// +optional
	Status CollectorDiscoveryStatus `json:"status,omitempty"`
}

// CollectorDiscoveryList is a list of CollectorDiscoveries.
// +kubebuilder:object:root=true
type CollectorDiscoveryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CollectorDiscovery `json:"items"`
}

// StatusConditions returns the conditions for the controller to change.
func (d *CollectorDiscovery) StatusConditions() *[]metav1.Condition {
	return (*[]metav1.Condition)(&d.Status.Conditions)
}

// ObservedGeneration returns the generation that the status speaks of, for the controller to change.
func (d *CollectorDiscovery) ObservedGeneration() *int64 { return &d.Status.ObservedGeneration }
