// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Observation is what the last look at the source said.
// +kubebuilder:validation:Enum=Present;Cleared;Missing;OwnerGone;Excluded
type Observation string

const (
	// ObservedPresent means that a report holds entries that the policies ask for. An empty observation means the same.
	ObservedPresent Observation = "Present"
	// ObservedCleared means that a later report holds none of them.
	ObservedCleared Observation = "Cleared"
	// ObservedMissing means that there has been no usable report for longer than the grace.
	ObservedMissing Observation = "Missing"
	// ObservedOwnerGone means that there is no report and the workload does not exist either.
	ObservedOwnerGone Observation = "OwnerGone"
	// ObservedExcluded means that no policy asks for it any more: none names the provider, or what it shows is below every
	// threshold.
	ObservedExcluded Observation = "Excluded"
)

// Outcome is whether the thing found is still true.
// +kubebuilder:validation:Enum=StillPresent;Recurred;Resolved;WorkloadGone;Stale;OutOfPolicy
type Outcome string

const (
	// OutcomeStillPresent means that the evidence is there.
	OutcomeStillPresent Outcome = "StillPresent"
	// OutcomeRecurred means that the evidence came back after an end; it stays until the next end.
	OutcomeRecurred Outcome = "Recurred"
	// OutcomeResolved means that a later report proved it gone.
	OutcomeResolved Outcome = "Resolved"
	// OutcomeWorkloadGone means that the workload does not exist any more.
	OutcomeWorkloadGone Outcome = "WorkloadGone"
	// OutcomeStale means that nothing has been heard of it for longer than the grace.
	OutcomeStale Outcome = "Stale"
	// OutcomeOutOfPolicy means that no policy asks for it any more: neither resolved nor open.
	OutcomeOutOfPolicy Outcome = "OutOfPolicy"
)

// Explained is the one word that a listing says about the explanation of a Finding.
// +kubebuilder:validation:Enum=True;Budget;Muted;Waiting;Failed;Off
type Explained string

const (
	// ExplainedTrue means that the hypotheses belong to the present content.
	ExplainedTrue Explained = "True"
	// ExplainedWaiting means that a model will be asked: its turn has not come yet, or the model has to be waited for.
	ExplainedWaiting Explained = "Waiting"
	// ExplainedBudget means that a budget is exhausted until its window frees.
	ExplainedBudget Explained = "Budget"
	// ExplainedFailed means that the model was asked as often as it may be, and gave no usable answer.
	ExplainedFailed Explained = "Failed"
	// ExplainedOff means that no model is asked.
	ExplainedOff Explained = "Off"
	// ExplainedMuted means that a Suppression mutes the Finding.
	ExplainedMuted Explained = "Muted"
)

// LabelOutcome is the label to list Findings by: open for what is there now, stale, ended or excluded for the rest.
// It follows spec.observed.
const LabelOutcome = "candor.dev/outcome"

// AnnotationSignalledAt holds when a Finding of the provider webhook last heard of its signal, in RFC 3339. It is renewed now and
// then while the signal is repeated, and a signal that was signed earlier changes nothing.
const AnnotationSignalledAt = "candor.dev/signalled-at"

// Source is where a Finding comes from. Provider, kind, name and container are its identity and never change. For the provider
// webhook, refKind and refName belong to it.
// +kubebuilder:validation:XValidation:rule="self.provider == oldSelf.provider && self.kind == oldSelf.kind && self.name == oldSelf.name && has(self.container) == has(oldSelf.container) && (!has(self.container) || self.container == oldSelf.container)",message="the identity of a Finding (provider, kind, name, container) never changes: create another Finding instead"
type Source struct {
	// provider is the name by which a SignalPolicy asks for this source.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Provider string `json:"provider"`

	// kind is the kind of the workload, or of the object that was checked.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name is the name of the workload, or of the object that was checked.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// container is the container of the workload, where the source speaks of one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Container string `json:"container,omitempty"`

	// refKind is the kind of the report; WebhookEvent/ and the name of the policy for a signal that was posted.
	// +required
	// +kubebuilder:validation:MaxLength=266
	RefKind string `json:"refKind"`

	// refName is the name of the report, or of the workload where the report's own name changes with each rollout; the id of a
	// signal that was posted.
	// +required
	// +kubebuilder:validation:MaxLength=253
	RefName string `json:"refName"`
}

// FindingSpec is what was seen. The report controller writes it, and the receiver of signals where they were posted.
type FindingSpec struct {
	// source is where the Finding comes from.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Where"
	// +required
	Source Source `json:"source"`

	// severity is the worst severity in the evidence.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Severity"
	// +required
	Severity Severity `json:"severity"`

	// summary says in one line what was seen. It is computed from the evidence, never by a model; of a signal that was posted, it
	// is the sender's.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Summary"
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Summary string `json:"summary"`

	// observed is what the last look at the source said. Unless it is Present, severity, summary and evidence keep what
	// was last seen.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Last look"
	// +optional
	Observed Observation `json:"observed,omitempty"`

	// evidence is the set of entries that the policies ask for.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Evidence"
	// +optional
	Evidence *Evidence `json:"evidence,omitempty"`
}

// FindingStatus is what it means. The finding controller alone writes it.
type FindingStatus struct {
	// resource is kind and name of the workload, for listings.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Resource"
	// +optional
	// +kubebuilder:validation:MaxLength=320
	Resource string `json:"resource,omitempty"`

	// brief counts the evidence by severity in a few words, for listings.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="In short"
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Brief string `json:"brief,omitempty"`

	// severityRank is the severity as a number, 1 for LOW to 4 for CRITICAL, to sort by.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4
	SeverityRank int32 `json:"severityRank,omitempty"`

	// fingerprint is what the content hashes to now. A Suppression mutes by it.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Fingerprint"
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Fingerprint string `json:"fingerprint,omitempty"`

	// enrichedFingerprint is what the content hashed to when a model last looked at it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	EnrichedFingerprint string `json:"enrichedFingerprint,omitempty"`

	// explained is one word on the explanation by a model.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Explained"
	// +optional
	Explained Explained `json:"explained,omitempty"`

	// hypotheses are what a model thinks is behind it, likeliest first. They belong to the content that
	// enrichedFingerprint names.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="What a model thinks"
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	Hypotheses []Hypothesis `json:"hypotheses,omitempty"`

	// enrichment is where the hypotheses come from.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Explanation"
	// +optional
	Enrichment *Enrichment `json:"enrichment,omitempty"`

	// request is what a model would be asked, or was.
	// +optional
	Request *Request `json:"request,omitempty"`

	// verificationOutcome is whether it is still true.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Outcome"
	// +optional
	VerificationOutcome Outcome `json:"verificationOutcome,omitempty"`

	// formerOutcome is the outcome to return to from OutOfPolicy.
	// +optional
	FormerOutcome Outcome `json:"formerOutcome,omitempty"`

	// since is when the outcome last changed.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Since"
	// +optional
	Since metav1.Time `json:"since,omitzero"`

	// firstSeen is when the Finding was first looked at.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="First seen"
	// +optional
	FirstSeen metav1.Time `json:"firstSeen,omitzero"`

	// lastSeen is when this status was last written. A look that changes nothing writes nothing.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Last seen"
	LastSeen metav1.Time `json:"lastSeen,omitzero"`

	// timesRecurred counts how often it came back after an end.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Times recurred"
	// +optional
	// +kubebuilder:validation:Minimum=0
	TimesRecurred int32 `json:"timesRecurred,omitempty"`

	// notified is what people were told of, or are to be told of.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Notified []Notification `json:"notified,omitempty"`

	// shownSeverity is the worst severity that is not muted, for listings; that of the evidence where all of it is muted.
	// +optional
	ShownSeverity Severity `json:"shownSeverity,omitempty"`

	// conditions are Verified and, where they apply, Suppressed and Enriched.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions Conditions `json:"conditions,omitempty"`
}

// Finding is one thing worth knowing: what the reports say about one container of one workload, or about one checked
// object. It has one name for as long as the workload exists, whatever is rescanned or rolled out.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=fnd,categories=candor
// +kubebuilder:printcolumn:name="Severity",type=string,JSONPath=`.status.shownSeverity`
// +kubebuilder:printcolumn:name="Resource",type=string,JSONPath=`.status.resource`
// +kubebuilder:printcolumn:name="Container",type=string,JSONPath=`.spec.source.container`
// +kubebuilder:printcolumn:name="Outcome",type=string,JSONPath=`.status.verificationOutcome`
// +kubebuilder:printcolumn:name="Explained",type=string,JSONPath=`.status.explained`
// +kubebuilder:printcolumn:name="Summary",type=string,JSONPath=`.status.brief`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.spec.evidence.artifact.repository`
// +kubebuilder:printcolumn:name="Tag",type=string,priority=1,JSONPath=`.spec.evidence.artifact.tag`
// +kubebuilder:printcolumn:name="In full",type=string,priority=1,JSONPath=`.spec.summary`
// +kubebuilder:printcolumn:name="Fingerprint",type=string,priority=1,JSONPath=`.status.fingerprint`
// +operator-sdk:csv:customresourcedefinitions:displayName="Finding",resources={{Deployment,v1,""},{StatefulSet,v1,""},{DaemonSet,v1,""},{ReplicaSet,v1,""},{CronJob,v1,""},{Job,v1,""},{Pod,v1,""},{Event,v1,""}}
type Finding struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what was seen.
	// +required
	Spec FindingSpec `json:"spec"`

	// status is what it means.
	// +optional
	Status FindingStatus `json:"status,omitempty"`
}

// FindingList is a list of Findings.
// +kubebuilder:object:root=true
type FindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Finding `json:"items"`
}

// StatusConditions returns the conditions for the controller to change.
func (f *Finding) StatusConditions() *[]metav1.Condition {
	return (*[]metav1.Condition)(&f.Status.Conditions)
}

// ObservedGeneration returns nil: the status follows the content of the spec, and not each write of it.
func (f *Finding) ObservedGeneration() *int64 { return nil }
