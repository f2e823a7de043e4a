// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConfigType is the language of a pipeline's contents.
// +kubebuilder:validation:Enum=Alloy;OpenTelemetryCollector
type ConfigType string

// Config types.
const (
	ConfigTypeAlloy ConfigType = "Alloy"
	ConfigTypeOTel  ConfigType = "OpenTelemetryCollector"
)

// SourceType is what a pipeline comes from, as Fleet Management is told.
// +kubebuilder:validation:Enum=Git;Terraform;Grafana;Kubernetes;Unspecified
type SourceType string

// Source types.
const (
	SourceGit       SourceType = "Git"
	SourceTerraform SourceType = "Terraform"
	SourceGrafana   SourceType = "Grafana"
	// SourceKubernetes is accepted and never sent: Fleet Management knows no such source.
	SourceKubernetes  SourceType = "Kubernetes"
	SourceUnspecified SourceType = "Unspecified"
)

// AdoptionPolicy is what to do about a pipeline of the same name that nobody stamped as his own.
// +kubebuilder:validation:Enum=Never;IfUnmanaged;Always
type AdoptionPolicy string

// Adoption policies.
const (
	AdoptNever       AdoptionPolicy = "Never"
	AdoptIfUnmanaged AdoptionPolicy = "IfUnmanaged"
	AdoptAlways      AdoptionPolicy = "Always"
)

// DeletionPolicy is what becomes of the pipeline in Fleet Management when the object is deleted.
// +kubebuilder:validation:Enum=Delete;Orphan
type DeletionPolicy string

// Deletion policies.
const (
	DeletionDelete DeletionPolicy = "Delete"
	DeletionOrphan DeletionPolicy = "Orphan"
)

// DriftPolicy is what to do when somebody else changed the pipeline in Fleet Management.
// +kubebuilder:validation:Enum=Correct;Warn;Ignore
type DriftPolicy string

// Drift policies.
const (
	DriftCorrect DriftPolicy = "Correct"
	DriftWarn    DriftPolicy = "Warn"
	DriftIgnore  DriftPolicy = "Ignore"
)

// PipelineSource is where a pipeline comes from.
type PipelineSource struct {
	// type is Git, Terraform or Grafana. Kubernetes is accepted and not sent, since Fleet Management has no such source. A pipeline
	// of Grafana is a mirror: it is never written.
	// +optional
	Type SourceType `json:"type,omitempty"`

	// namespace groups the pipelines of one source, such as a repository. A job that synchronises this source and namespace
	// deletes pipelines that it does not know.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Namespace string `json:"namespace,omitempty"`
}

// PipelineSpec is a configuration for collectors, and which of them get it.
// +kubebuilder:validation:XValidation:rule="(has(self.configType) && self.configType == 'OpenTelemetryCollector') || !self.contents.substring(0, size(self.contents) < 4096 ? size(self.contents) : 4096).matches('^(\\\\s|#[^\\\\n]*\\\\n)*(receivers|processors|exporters|connectors|extensions|service)\\\\s*:')",message="contents is YAML: set configType to OpenTelemetryCollector"
type PipelineSpec struct {
	// name is the pipeline's name in Fleet Management, which is unique in the whole stack; by default the name of the object. A new
	// name renames the pipeline in place.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Name",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// contents is the configuration: Alloy's language, or YAML of the OpenTelemetry Collector.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Contents",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1048576
	// +kubebuilder:validation:XValidation:rule="self.matches('\\\\S')",message="contents must not be blank"
	Contents string `json:"contents"`

	// matchers say which collectors get it, by their attributes: key, one of = != =~ !~, value. All of them must hold.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Matchers"
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=200
	Matchers []string `json:"matchers,omitempty"`

	// enabled is whether collectors get it at all.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Enabled",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// configType is the language of contents.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Language"
	// +optional
	// +kubebuilder:default=Alloy
	ConfigType ConfigType `json:"configType,omitempty"`

	// source is where the pipeline comes from, for those who look at it in Grafana.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!(has(self.type) && self.type in ['Git', 'Terraform', 'Grafana']) || (has(self.__namespace__) && self.__namespace__.matches('\\\\S'))",message="namespace is required for the types Git, Terraform and Grafana"
	// +kubebuilder:validation:XValidation:rule="(has(self.type) && self.type != 'Unspecified') || !has(self.__namespace__) || size(self.__namespace__) == 0",message="namespace must be empty without a type: set type, or leave namespace out"
	Source *PipelineSource `json:"source,omitempty"`

	// paused stops creating and updating. A deletion goes on.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Paused",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	// +optional
	Paused bool `json:"paused,omitempty"`

	// adoptionPolicy is what to do about a pipeline of the same name that exists already and that nobody stamped as his own: Never
	// touch it, take it over IfUnmanaged and equal, or Always. One that another object or cluster stamped is never touched.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Adoption policy",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Never","urn:alm:descriptor:com.tectonic.ui:select:IfUnmanaged","urn:alm:descriptor:com.tectonic.ui:select:Always"}
	// +optional
	// +kubebuilder:default=IfUnmanaged
	AdoptionPolicy AdoptionPolicy `json:"adoptionPolicy,omitempty"`

	// deletionPolicy is what becomes of the pipeline when the object is deleted. By default one that the object created is
	// deleted, and one that existed before stays.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Deletion policy",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Delete","urn:alm:descriptor:com.tectonic.ui:select:Orphan"}
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// driftPolicy is what to do when somebody changed the pipeline in Fleet Management: Correct it, Warn, or Ignore it. The default
	// is that of --pipeline-drift-policy, Correct unless it is set.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Drift policy",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Correct","urn:alm:descriptor:com.tectonic.ui:select:Warn","urn:alm:descriptor:com.tectonic.ui:select:Ignore"}
	// +optional
	DriftPolicy DriftPolicy `json:"driftPolicy,omitempty"`
}

// PipelineDrift is how the pipeline in Fleet Management was found to differ from the spec.
type PipelineDrift struct {
	// fields are the names of what differed; contents are never told.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=64
	Fields []string `json:"fields,omitempty"`

	// seenAt is when the last difference was seen.
	// +optional
	SeenAt *metav1.Time `json:"seenAt,omitempty"`

	// corrections is how often the pipeline was corrected since windowStart.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Corrections int32 `json:"corrections,omitempty"`

	// windowStart is when counting began.
	// +optional
	WindowStart *metav1.Time `json:"windowStart,omitempty"`
}

// PipelineStatus is what is known of the pipeline in Fleet Management.
type PipelineStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// stack tells the stack of Fleet Management that this status speaks of from others. In another one the object starts anew.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Stack string `json:"stack,omitempty"`

	// id is the pipeline's ID in Fleet Management.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Fleet ID"
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ID string `json:"id,omitempty"`

	// syncedName is the name under which the pipeline exists.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	SyncedName string `json:"syncedName,omitempty"`

	// syncedHash is the SHA-256 of what was last written, or found to be there already; of a mirror, of what it shows.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SyncedHash string `json:"syncedHash,omitempty"`

	// adopted says that the pipeline existed before the object did.
	// +optional
	Adopted bool `json:"adopted,omitempty"`

	// createdAt is when the pipeline was created in Fleet Management.
	// +optional
	CreatedAt *metav1.Time `json:"createdAt,omitempty"`

	// updatedAt is when it was last changed there.
	// +optional
	UpdatedAt *metav1.Time `json:"updatedAt,omitempty"`

	// source is what Fleet Management says the pipeline comes from.
	// +optional
	Source *PipelineSource `json:"source,omitempty"`

	// drift is how somebody else last changed the pipeline.
	// +optional
	Drift *PipelineDrift `json:"drift,omitempty"`

	// conditions holds Ready and Synced, and where they have something to say Paused, Drifted and Validated.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions Conditions `json:"conditions,omitempty"`
}

// Pipeline is a configuration that Fleet Management hands to collectors.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=fmp,categories=candor
// +kubebuilder:printcolumn:name="Enabled",type=boolean,JSONPath=`.spec.enabled`
// +kubebuilder:printcolumn:name="Paused",type=boolean,JSONPath=`.spec.paused`
// +kubebuilder:printcolumn:name="Config Type",type=string,JSONPath=`.spec.configType`
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.spec.source.type`
// +kubebuilder:printcolumn:name="Fleet ID",type=string,JSONPath=`.status.id`
// +kubebuilder:printcolumn:name="Drifted",type=string,JSONPath=`.status.conditions[?(@.type=="Drifted")].status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +operator-sdk:csv:customresourcedefinitions:displayName="Pipeline",resources={{Event,v1,""}}
type Pipeline struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the configuration, and who gets it.
	// +required
	Spec PipelineSpec `json:"spec"`

	// status is what is known of the pipeline in Fleet Management; the pipeline controller alone writes it.
	// +optional
	Status PipelineStatus `json:"status,omitempty"`
}

// PipelineList is a list of Pipelines.
// +kubebuilder:object:root=true
type PipelineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Pipeline `json:"items"`
}

// StatusConditions returns the conditions for the controller to change.
func (p *Pipeline) StatusConditions() *[]metav1.Condition {
	return (*[]metav1.Condition)(&p.Status.Conditions)
}

// ObservedGeneration returns the generation that the status speaks of, for the controller to change.
func (p *Pipeline) ObservedGeneration() *int64 { return &p.Status.ObservedGeneration }
