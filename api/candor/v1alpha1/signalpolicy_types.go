// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// UnknownSeverity says how entries that the scanner could not rate are treated.
// +kubebuilder:validation:Enum=Ignore;Low;High
type UnknownSeverity string

const (
	// UnknownIgnore leaves unrated entries out; they are never proof that a workload is clean.
	UnknownIgnore UnknownSeverity = "Ignore"
	// UnknownLow treats unrated entries as LOW.
	UnknownLow UnknownSeverity = "Low"
	// UnknownHigh treats unrated entries as HIGH.
	UnknownHigh UnknownSeverity = "High"
)

// SignalPolicySpec says which signals of its own namespace become Findings.
type SignalPolicySpec struct {
	// providers lists the sources of signals this policy takes in, such as trivy, trivy/config and webhook. A name that
	// no provider of this version has is reported by the condition Ready and ignored otherwise.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Providers"
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Providers []string `json:"providers"`

	// minSeverity is the mildest severity that is worth a Finding.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Mildest severity",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:LOW","urn:alm:descriptor:com.tectonic.ui:select:MEDIUM","urn:alm:descriptor:com.tectonic.ui:select:HIGH","urn:alm:descriptor:com.tectonic.ui:select:CRITICAL"}
	// +optional
	// +kubebuilder:default=HIGH
	MinSeverity Severity `json:"minSeverity,omitempty"`

	// unknownSeverity says how entries that the scanner could not rate are treated.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Unrated entries",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Ignore","urn:alm:descriptor:com.tectonic.ui:select:Low","urn:alm:descriptor:com.tectonic.ui:select:High"}
	// +optional
	// +kubebuilder:default=Ignore
	UnknownSeverity UnknownSeverity `json:"unknownSeverity,omitempty"`

	// onlyFixable leaves out vulnerabilities that no released version fixes. Failed checks always have a remedy, so it
	// changes nothing for them.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Only what can be fixed",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	// +optional
	OnlyFixable bool `json:"onlyFixable,omitempty"`

	// enrichment says whether and how a language model explains the Findings.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Explanation by a model"
	// +optional
	Enrichment *EnrichmentPolicy `json:"enrichment,omitempty"`

	// budget bounds what a language model may cost this namespace. Where several policies name a provider, that of the
	// oldest counts. What is left out comes from the OperatingPolicy's namespaceBudget. It is never unlimited.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Budget of model calls"
	// +optional
	Budget *Budget `json:"budget,omitempty"`

	// webhook is an address that is posted to, one event a request. An address that is secret belongs in sinks.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Webhook"
	// +optional
	Webhook *Webhook `json:"webhook,omitempty"`

	// sinks are where people are told, each in its own form.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Sinks"
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Sinks []Sink `json:"sinks,omitempty"`

	// webhookReceiver lets other tools post signals, for the provider webhook.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Signals of other tools"
	// +optional
	WebhookReceiver *WebhookReceiver `json:"webhookReceiver,omitempty"`

	// gitOpsRepo is a repository for proposed fixes. It has no effect in this version.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Repository for fixes",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:hidden"}
	// +optional
	GitOpsRepo *GitOpsRepo `json:"gitOpsRepo,omitempty"`

	// pullRequestBudget bounds proposed fixes. It has no effect in this version.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Budget of fixes",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:hidden"}
	// +optional
	PullRequestBudget *PullRequestBudget `json:"pullRequestBudget,omitempty"`
}

// EnrichmentPolicy says whether and how a language model explains the Findings of a namespace.
type EnrichmentPolicy struct {
	// enabled lets a model be asked. False keeps everything of this namespace in the cluster.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Enabled",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`

	// sharing is how far equal answers are shared. Questions that are shared name no workload, container or namespace.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Sharing of answers",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Cluster","urn:alm:descriptor:com.tectonic.ui:select:Namespace","urn:alm:descriptor:com.tectonic.ui:select:None"}
	// +optional
	// +kubebuilder:default=Cluster
	Sharing Sharing `json:"sharing,omitempty"`
}

// Budget is a ceiling for model calls in a sliding window of time.
type Budget struct {
	// maxCalls is the number of calls allowed in one window.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Calls",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	// +required
	// +kubebuilder:validation:Minimum=1
	MaxCalls int32 `json:"maxCalls"`

	// maxTokens is the number of tokens, read and written, allowed in one window.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Tokens",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxTokens *int64 `json:"maxTokens,omitempty"`

	// windowSeconds is the length of the window in seconds.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Window",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	// +optional
	// +kubebuilder:default=86400
	// +kubebuilder:validation:Minimum=60
	WindowSeconds int32 `json:"windowSeconds,omitempty"`
}

// Webhook is an HTTP endpoint that takes notifications.
type Webhook struct {
	// url is the address that is posted to.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`
}

// WebhookReceiver says who may post signals, and how many they may be.
type WebhookReceiver struct {
	// secretRef names the Secret that senders share: its key "secret" signs signals, and its key "token" is presented by senders
	// that cannot sign. Each is 16 bytes at least, and either may be missing.
	// +required
	SecretRef SecretReference `json:"secretRef"`

	// maxFindings is how many Findings that have not ended the signals of this policy may make; more are refused.
	// +optional
	// +kubebuilder:default=1000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	MaxFindings int32 `json:"maxFindings,omitempty"`

	// staleAfter is how long a signal holds that nobody repeats, 1h at least; then its Finding is Stale. 0s stands for 168h.
	// +optional
	// +kubebuilder:default="168h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="duration(self) == duration('0s') || duration(self) >= duration('1h')",message="must be 0s, which stands for 168h, or at least 1h"
	StaleAfter *metav1.Duration `json:"staleAfter,omitempty"`
}

// GitOpsRepo is one value in one file of a repository.
type GitOpsRepo struct {
	// owner is the user or organisation that owns the repository.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Owner string `json:"owner"`

	// repo is the name of the repository.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Repo string `json:"repo"`

	// path is the file that holds the value.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path"`

	// yamlPath is the dotted path of the value in the file.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	YAMLPath string `json:"yamlPath"`

	// baseBranch is the branch that changes start from.
	// +optional
	// +kubebuilder:default=main
	// +kubebuilder:validation:MaxLength=253
	BaseBranch string `json:"baseBranch,omitempty"`

	// secretRef names the Secret whose key "token" may write to the repository.
	// +required
	SecretRef SecretReference `json:"secretRef"`
}

// PullRequestBudget is a ceiling for proposed fixes in a window of time.
type PullRequestBudget struct {
	// maxPullRequests is the number of pull requests allowed in one window.
	// +required
	// +kubebuilder:validation:Minimum=1
	MaxPullRequests int32 `json:"maxPullRequests"`

	// windowSeconds is the length of the window in seconds.
	// +optional
	// +kubebuilder:default=86400
	// +kubebuilder:validation:Minimum=60
	WindowSeconds int32 `json:"windowSeconds,omitempty"`
}

// BudgetStatus is what was spent in the present window, and what is left of the ceilings. It mirrors the Ledger.
type BudgetStatus struct {
	// calls is the number of calls that count.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Calls int64 `json:"calls"`

	// callsLeft is the number of calls that the window still allows.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CallsLeft int64 `json:"callsLeft"`

	// tokens is the number of tokens that count.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Tokens int64 `json:"tokens"`

	// tokensLeft is the number of tokens that the window still allows.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TokensLeft int64 `json:"tokensLeft"`

	// costMicros is what the calls cost, in millionths of the currency of the prices; zero without prices.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CostMicros int64 `json:"costMicros,omitempty"`

	// nextFree is when something that counts leaves the window; absent while nothing counts.
	// +optional
	NextFree *metav1.Time `json:"nextFree,omitempty"`
}

// SignalPolicyStatus is what a policy does now.
type SignalPolicyStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// findings is the number of Findings of this policy's providers at or above its own threshold, whatever became of them.
	// It may lag by 5 seconds.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Findings"
	// +optional
	// +kubebuilder:validation:Minimum=0
	Findings int32 `json:"findings"`

	// open is the number of those that are still there and not muted.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Open Findings"
	// +optional
	// +kubebuilder:validation:Minimum=0
	Open int32 `json:"open"`

	// waiting is the number of open Findings that a model would be asked about: what mode Audit, or an exhausted budget,
	// holds back. Equal questions that are shared count once each.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Findings to explain"
	// +optional
	// +kubebuilder:validation:Minimum=0
	Waiting int32 `json:"waiting,omitempty"`

	// budget is what this namespace spent in the window. It is absent while no model is configured.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Budget"
	// +optional
	Budget *BudgetStatus `json:"budget,omitempty"`

	// sinks is how telling people goes, sink by sink.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=9
	Sinks []SinkStatus `json:"sinks,omitempty"`

	// conditions are Ready, ProviderAvailable and, where they apply, Notifying, Receiving, ReceiverFull, BudgetExhausted and
	// FieldsWithoutEffect.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions Conditions `json:"conditions,omitempty"`
}

// SignalPolicy says which signals of its own namespace become Findings. Several policies in one namespace add up: for each
// provider the lowest threshold and the most inclusive filters of those that name it count.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=sigpol,categories=candor
// +kubebuilder:printcolumn:name="Providers",type=string,JSONPath=`.spec.providers`
// +kubebuilder:printcolumn:name="Min",type=string,JSONPath=`.spec.minSeverity`
// +kubebuilder:printcolumn:name="Findings",type=integer,JSONPath=`.status.findings`
// +kubebuilder:printcolumn:name="Open",type=integer,JSONPath=`.status.open`
// +kubebuilder:printcolumn:name="Calls",type=integer,JSONPath=`.status.budget.calls`
// +kubebuilder:printcolumn:name="Left",type=integer,JSONPath=`.status.budget.callsLeft`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Notifying",type=string,JSONPath=`.status.conditions[?(@.type=="Notifying")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +operator-sdk:csv:customresourcedefinitions:displayName="Signal policy",resources={{Finding,v1alpha1,""},{Event,v1,""}}
type SignalPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which signals become Findings.
	// +required
	Spec SignalPolicySpec `json:"spec"`

	// status is what the policy does now; the signalpolicy controller alone writes it.
	// +optional
	Status SignalPolicyStatus `json:"status,omitempty"`
}

// SignalPolicyList is a list of SignalPolicies.
// +kubebuilder:object:root=true
type SignalPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SignalPolicy `json:"items"`
}

// StatusConditions returns the conditions for the controller to change.
func (p *SignalPolicy) StatusConditions() *[]metav1.Condition {
	return (*[]metav1.Condition)(&p.Status.Conditions)
}

// ObservedGeneration returns the generation that the status speaks of, for the controller to change.
func (p *SignalPolicy) ObservedGeneration() *int64 { return &p.Status.ObservedGeneration }
