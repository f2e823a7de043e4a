// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ImportMode is what a Pipeline that a discovery makes may do.
// +kubebuilder:validation:Enum=Adopt;ReadOnly
type ImportMode string

// Import modes.
const (
	ImportAdopt    ImportMode = "Adopt"
	ImportReadOnly ImportMode = "ReadOnly"
)

// RemovalPolicy is what becomes of an object whose counterpart in Fleet Management is gone.
// +kubebuilder:validation:Enum=Keep;Delete
type RemovalPolicy string

// Removal policies.
const (
	RemovalKeep   RemovalPolicy = "Keep"
	RemovalDelete RemovalPolicy = "Delete"
)

// ConflictReason says why a discovery makes no object of something.
// +kubebuilder:validation:Enum=NotOwnedByDiscovery;OwnedByOtherDiscovery;NameSanitizationFailed
type ConflictReason string

// Reasons of conflicts.
const (
	// ConflictNotOwned says that an object of the name exists, and no discovery made it.
	ConflictNotOwned ConflictReason = "NotOwnedByDiscovery"
	// ConflictOwnedByOther says that another discovery made it.
	ConflictOwnedByOther ConflictReason = "OwnedByOtherDiscovery"
	// ConflictName says that no name can be made, or that the object stands for something else that still exists.
	ConflictName ConflictReason = "NameSanitizationFailed"
)

// PipelineDiscoverySelector says which pipelines are in scope. An empty one means all.
type PipelineDiscoverySelector struct {
	// configType leaves only pipelines of this type. Unset means both.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Config type",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Alloy","urn:alm:descriptor:com.tectonic.ui:select:OpenTelemetryCollector"}
	// +optional
	ConfigType *ConfigType `json:"configType,omitempty"`

	// enabled leaves only pipelines that are, or are not, enabled. Unset means both.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// PipelineDiscoveryPolicy says what becomes of Pipelines.
type PipelineDiscoveryPolicy struct {
	// onPipelineRemoved is what becomes of a Pipeline whose pipeline Fleet Management no longer has: Keep marks it stale, and Delete
	// deletes the object once a lookup of its own has confirmed that the pipeline is gone. One that merely left the selector's
	// scope is kept.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="On pipeline removed",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Keep","urn:alm:descriptor:com.tectonic.ui:select:Delete"}
	// +optional
	// +kubebuilder:default=Keep
	OnPipelineRemoved RemovalPolicy `json:"onPipelineRemoved,omitempty"`
}

// PipelineDiscoverySpec says which pipelines of Fleet Management become Pipelines, and where.
type PipelineDiscoverySpec struct {
	// pollInterval is how old a list of pipelines may be, as a duration such as 5m; at least 1m. One list serves everybody who
	// needs it.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Poll interval",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^\\\\+?(([0-9]+\\\\.?[0-9]*|\\\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$') && duration(self) >= duration('1m')",message="pollInterval is a duration of at least 1m, such as 5m"
	PollInterval string `json:"pollInterval,omitempty"`

	// selector says which pipelines are in scope. Empty means all.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Selector"
	// +optional
	Selector PipelineDiscoverySelector `json:"selector,omitempty"`

	// targetNamespace is where Pipelines are created; empty means the namespace of this object. It cannot be changed.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Target namespace",xDescriptors={"urn:alm:descriptor:io.kubernetes:Namespace"}
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$`
	TargetNamespace string `json:"targetNamespace,omitempty"`

	// importMode is what the Pipelines may do: ReadOnly ones show what Fleet Management holds and change nothing, Adopt ones manage
	// their pipeline from then on.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Import mode",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:ReadOnly","urn:alm:descriptor:com.tectonic.ui:select:Adopt"}
	// +optional
	// +kubebuilder:default=ReadOnly
	ImportMode ImportMode `json:"importMode,omitempty"`

	// policy says what becomes of Pipelines whose pipeline is gone.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Policy"
	// +optional
	// +kubebuilder:default={}
	Policy PipelineDiscoveryPolicy `json:"policy,omitempty"`
}

// PipelineConflict is a pipeline that no Pipeline is made of.
type PipelineConflict struct {
	// pipelineID is the pipeline's ID in Fleet Management.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	PipelineID string `json:"pipelineID"`

	// crName is the name of the Pipeline that is in the way, or that the pipeline would get.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CRName string `json:"crName,omitempty"`

	// reason says why.
	// +required
	Reason ConflictReason `json:"reason"`
}

// PipelineDiscoveryStatus is what the last look found.
type PipelineDiscoveryStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastSyncTime is when pipelines were last compared with objects. It is brought up to date with other changes, and at least
	// every half hour.
	// +optional
	LastSyncTime *metav1.Time `json:"lastSyncTime,omitempty"`

	// lastSuccessTime is when that last went well, as old as lastSyncTime.
	// +optional
	LastSuccessTime *metav1.Time `json:"lastSuccessTime,omitempty"`

	// pipelinesObserved is how many pipelines are in scope.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Observed"
	// +optional
	// +kubebuilder:validation:Minimum=0
	PipelinesObserved int32 `json:"pipelinesObserved"`

	// pipelinesManaged is how many of them have a Pipeline of this discovery.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Managed"
	// +optional
	// +kubebuilder:validation:Minimum=0
	PipelinesManaged int32 `json:"pipelinesManaged"`

	// stalePipelines are the IDs of pipelines that are gone and whose Pipeline is kept; at most the first 100, in order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	StalePipelines []string `json:"stalePipelines,omitempty"`

	// staleTotal is how many there are.
	// +optional
	// +kubebuilder:validation:Minimum=0
	StaleTotal int32 `json:"staleTotal,omitempty"`

	// outOfScope is how many Pipelines of this discovery stand for pipelines that exist and that the selector no longer means.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OutOfScope int32 `json:"outOfScope,omitempty"`

	// conflicts are the pipelines that no Pipeline is made of; at most the first 100, in order.
	// +optional
	// +listType=map
	// +listMapKey=pipelineID
	// +kubebuilder:validation:MaxItems=100
	Conflicts []PipelineConflict `json:"conflicts,omitempty"`

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

// PipelineDiscovery makes Pipelines of what Fleet Management holds. Deleting it leaves them as they are.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=fmpd,categories=candor
// +kubebuilder:printcolumn:name="Poll",type=string,JSONPath=`.spec.pollInterval`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.importMode`
// +kubebuilder:printcolumn:name="Observed",type=integer,JSONPath=`.status.pipelinesObserved`
// +kubebuilder:printcolumn:name="Managed",type=integer,JSONPath=`.status.pipelinesManaged`
// +kubebuilder:printcolumn:name="Conflicts",type=integer,JSONPath=`.status.conflictsTotal`
// +kubebuilder:printcolumn:name="Last Sync",type=date,JSONPath=`.status.lastSyncTime`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +operator-sdk:csv:customresourcedefinitions:displayName="Pipeline discovery",resources={{Pipeline,v1alpha1,""},{Event,v1,""}}
type PipelineDiscovery struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which pipelines become Pipelines, and where.
	// +required
	// +kubebuilder:validation:XValidation:rule="(has(self.targetNamespace) ? self.targetNamespace : '') == (has(oldSelf.targetNamespace) ? oldSelf.targetNamespace : '')",message="targetNamespace cannot be changed: create another discovery"
	Spec PipelineDiscoverySpec `json:"spec"`

	// status is what the last look found; the discovery controller alone writes it.
	// +optional
	Status PipelineDiscoveryStatus `json:"status,omitempty"`
}

// PipelineDiscoveryList is a list of PipelineDiscoveries.
// +kubebuilder:object:root=true
type PipelineDiscoveryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PipelineDiscovery `json:"items"`
}

// StatusConditions returns the conditions for the controller to change.
func (d *PipelineDiscovery) StatusConditions() *[]metav1.Condition {
	return (*[]metav1.Condition)(&d.Status.Conditions)
}

// ObservedGeneration returns the generation that the status speaks of, for the controller to change.
func (d *PipelineDiscovery) ObservedGeneration() *int64 { return &d.Status.ObservedGeneration }
