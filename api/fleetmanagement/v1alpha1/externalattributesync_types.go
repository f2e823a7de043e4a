// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SourceKind is where records come from.
// +kubebuilder:validation:Enum=HTTP;SQL
type SourceKind string

// Source kinds.
const (
	SourceHTTP SourceKind = "HTTP"
	SourceSQL  SourceKind = "SQL"
)

// HTTPMethod is how records are asked for.
// +kubebuilder:validation:Enum=GET;POST
type HTTPMethod string

// HTTP methods.
const (
	MethodGet  HTTPMethod = "GET"
	MethodPost HTTPMethod = "POST"
)

// DuplicatePolicy is what to do about records that name the same collector.
// +kubebuilder:validation:Enum=Last;First;Fail
type DuplicatePolicy string

// Duplicate policies.
const (
	DuplicateLast  DuplicatePolicy = "Last"
	DuplicateFirst DuplicatePolicy = "First"
	DuplicateFail  DuplicatePolicy = "Fail"
)

// HTTPSource is a server that answers with JSON.
type HTTPSource struct {
	// url is the address, https, or http where no credentials are sent. What is secret belongs in the Secret, not here.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="URL",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^[hH][tT][tT][pP][sS]?://[^/?#]`
	URL string `json:"url"`

	// method is how it is asked. A POST has no body.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Method",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:GET","urn:alm:descriptor:com.tectonic.ui:select:POST"}
	// +optional
	// +kubebuilder:default=GET
	Method HTTPMethod `json:"method,omitempty"`

	// recordsPath leads to the list of records, from the root: names of fields with dots between them. Empty means that the answer
	// is the list.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Records path",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^([^.]+(\.[^.]+)*)?$`
	RecordsPath string `json:"recordsPath,omitempty"`

	// caBundle are PEM certificates that the server is trusted by, beside those of the system.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	CABundle string `json:"caBundle,omitempty"`
}

// SQLSource is a database that answers a query.
// +kubebuilder:validation:XValidation:rule="has(self.driver) && self.driver in ['postgres', 'mysql']",message="driver is postgres or mysql"
// +kubebuilder:validation:XValidation:rule="has(self.query) && self.query.matches('\\\\S')",message="query must be set"
type SQLSource struct {
	// driver is postgres or mysql, which serves MariaDB, too.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Driver",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:postgres","urn:alm:descriptor:com.tectonic.ui:select:mysql"}
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Driver string `json:"driver,omitempty"`

	// query is one SELECT, which runs in a read-only transaction. Columns are the fields of records.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Query",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	Query string `json:"query,omitempty"`
}

// SecretReference names a Secret.
type SecretReference struct {
	// name is its name.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	Name string `json:"name,omitempty"`

	// namespace is empty, or that of the object: a Secret of another namespace is not read.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// ExternalSource is where records come from.
// +kubebuilder:validation:XValidation:rule="self.kind == 'HTTP' ? has(self.http) && !has(self.sql) : has(self.sql) && !has(self.http)",message="exactly one of http and sql must be set, as kind says"
// +kubebuilder:validation:XValidation:rule="self.kind != 'SQL' || has(self.secretRef)",message="secretRef must be set for SQL"
// +kubebuilder:validation:XValidation:rule="!has(self.secretRef) || !has(self.http) || self.http.url.matches('^[hH][tT][tT][pP][sS]:')",message="url must begin with https:// where secretRef is set"
type ExternalSource struct {
	// kind says which of http and sql is set.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Source kind",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:HTTP","urn:alm:descriptor:com.tectonic.ui:select:SQL"}
	// +required
	Kind SourceKind `json:"kind"`

	// http is a server that answers with JSON.
	// +optional
	HTTP *HTTPSource `json:"http,omitempty"`

	// sql is a database.
	// +optional
	SQL *SQLSource `json:"sql,omitempty"`

	// secretRef names the Secret with the credentials: bearer-token, or username and password, for http; dsn for sql. A Role of the
	// namespace has to let the operator get it.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Secret with the credentials"
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.name) && size(self.name) > 0",message="secretRef.name must be set"
	SecretRef *SecretReference `json:"secretRef,omitempty"`
}

// AttributeMapping makes attributes of records.
type AttributeMapping struct {
	// collectorIDField is the field that holds the collector's ID.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Collector ID field",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('\\\\S')",message="the name of a field must not be blank"
	CollectorIDField string `json:"collectorIDField"`

	// attributeFields says which attribute gets the value of which field.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Attribute fields"
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) > 0 && size(k) <= 100)",message="an attribute key has 1 to 100 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('collector.'))",message="keys that start with collector. are reserved: Fleet Management sets these itself, so remove each of them"
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(self[k]) > 0 && size(self[k]) <= 1024)",message="the name of a field has 1 to 1024 characters"
	AttributeFields map[string]string `json:"attributeFields"`

	// requiredKeys are fields without which a record is left out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	// +kubebuilder:validation:items:XValidation:rule="self.matches('\\\\S')",message="the name of a field must not be blank"
	RequiredKeys []string `json:"requiredKeys,omitempty"`
}

// ExternalAttributeSyncSpec says where attributes come from, how often, and who gets them.
type ExternalAttributeSyncSpec struct {
	// source is where records come from.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Source"
	// +required
	Source ExternalSource `json:"source"`

	// schedule is how often they are fetched: a duration of at least 30s, such as 10m, or a cron expression of five fields.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Schedule",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('\\\\S')",message="schedule must not be blank"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^\\\\+?(([0-9]+\\\\.?[0-9]*|\\\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$') || duration(self) >= duration('30s')",message="a duration is at least 30s"
	Schedule string `json:"schedule"`

	// timeZone is where the cron expression is read, such as Europe/Berlin; empty means UTC.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Time zone",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:text"}
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`

	// suspend stops fetching. What was given stays.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Suspend",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// selector says which Collectors of the namespace may get attributes.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Selector"
	// +required
	Selector PolicySelector `json:"selector"`

	// mapping makes attributes of records. They win over those of a Collector and of a RemoteAttributePolicy.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Mapping"
	// +required
	Mapping AttributeMapping `json:"mapping"`

	// onDuplicate is what to do about records that name the same collector: the Last one wins, or the First, or the fetch Fails.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="On duplicate",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Last","urn:alm:descriptor:com.tectonic.ui:select:First","urn:alm:descriptor:com.tectonic.ui:select:Fail"}
	// +optional
	// +kubebuilder:default=Last
	OnDuplicate DuplicatePolicy `json:"onDuplicate,omitempty"`

	// allowEmptyResults lets a fetch without a record take all attributes away.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Allow empty results",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	// +optional
	AllowEmptyResults bool `json:"allowEmptyResults,omitempty"`

	// maxShrinkPercent is how much of what was given a fetch may take away, in collectors and in attributes; more is held back until
	// a person agrees. 100 holds nothing back.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Max shrink percent",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	// +optional
	// +kubebuilder:default=25
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MaxShrinkPercent *int32 `json:"maxShrinkPercent,omitempty"`
}

// OwnedKeys are the attributes that a collector is to get.
type OwnedKeys struct {
	// collectorID is the collector's ID.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	CollectorID string `json:"collectorID"`

	// attributes are what it is to get.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	Attributes map[string]string `json:"attributes,omitempty"`
}

// ExternalAttributeSyncStatus is what the last fetch came to.
type ExternalAttributeSyncStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastSyncTime is when records were last asked for.
	// +optional
	LastSyncTime *metav1.Time `json:"lastSyncTime,omitempty"`

	// lastSuccessTime is when that last went well.
	// +optional
	LastSuccessTime *metav1.Time `json:"lastSuccessTime,omitempty"`

	// nextSyncTime is when they are asked for next.
	// +optional
	NextSyncTime *metav1.Time `json:"nextSyncTime,omitempty"`

	// failures is how many fetches in a row failed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failures int32 `json:"failures,omitempty"`

	// recordsSeen is how many records the last good fetch returned.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Records seen"
	// +optional
	// +kubebuilder:validation:Minimum=0
	RecordsSeen int32 `json:"recordsSeen"`

	// recordsApplied is how many collectors get attributes.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Records applied"
	// +optional
	// +kubebuilder:validation:Minimum=0
	RecordsApplied int32 `json:"recordsApplied"`

	// attributesApplied is how many attributes they get in all.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AttributesApplied int32 `json:"attributesApplied,omitempty"`

	// duplicates is how many records of the last good fetch named a collector that an earlier one names.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Duplicates int32 `json:"duplicates,omitempty"`

	// ownedKeys are the attributes that each collector is to get, by ID. It is empty, and Truncated is True, where that is more than
	// an object holds: more than 1,000 collectors, or 512 KiB.
	// +optional
	// +listType=map
	// +listMapKey=collectorID
	// +kubebuilder:validation:MaxItems=1000
	OwnedKeys []OwnedKeys `json:"ownedKeys,omitempty"`

	// sample shows what the first five records would come to, after a dry run.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	Sample []OwnedKeys `json:"sample,omitempty"`

	// handledFetchNow is the value of the annotation fetch-now that was last heeded.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	HandledFetchNow string `json:"handledFetchNow,omitempty"`

	// conditions holds Ready, Synced, Stalled and Truncated.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions Conditions `json:"conditions,omitempty"`
}

// ExternalAttributeSync gives collectors attributes that a server or a database knows. Deleting it takes them away.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=fmeas,categories=candor
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.spec.source.kind`
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Last Sync",type=date,JSONPath=`.status.lastSuccessTime`
// +kubebuilder:printcolumn:name="Records",type=integer,JSONPath=`.status.recordsApplied`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +operator-sdk:csv:customresourcedefinitions:displayName="External attribute sync",resources={{Collector,v1alpha1,""},{Secret,v1,""},{Event,v1,""}}
type ExternalAttributeSync struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says where attributes come from, how often, and who gets them.
	// +required
	Spec ExternalAttributeSyncSpec `json:"spec"`

	// status is what the last fetch came to; the sync controller alone writes it. Who may write it gives attributes.
	// +optional
	Status ExternalAttributeSyncStatus `json:"status,omitempty"`
}

// ExternalAttributeSyncList is a list of ExternalAttributeSyncs.
// +kubebuilder:object:root=true
type ExternalAttributeSyncList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExternalAttributeSync `json:"items"`
}

// StatusConditions returns the conditions for the controller to change.
func (s *ExternalAttributeSync) StatusConditions() *[]metav1.Condition {
	return (*[]metav1.Condition)(&s.Status.Conditions)
}

// ObservedGeneration returns the generation that the status speaks of, for the controller to change.
func (s *ExternalAttributeSync) ObservedGeneration() *int64 { return &s.Status.ObservedGeneration }
