// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Singleton is the only name that an OperatingPolicy and a Ledger may have.
const Singleton = "default"

// Mode is whether a model may be asked.
// +kubebuilder:validation:Enum=Active;Audit
type Mode string

const (
	// ModeActive lets models be asked, inside the budgets.
	ModeActive Mode = "Active"
	// ModeAudit sends nothing out of the cluster. Policies say how many calls the other mode would make.
	ModeAudit Mode = "Audit"
)

// ModelProvider is the protocol that a model is spoken to in.
// +kubebuilder:validation:Enum=Anthropic;OpenAI
type ModelProvider string

const (
	// ModelAnthropic is the Messages API of Anthropic.
	ModelAnthropic ModelProvider = "Anthropic"
	// ModelOpenAI is the Chat Completions API of OpenAI, which most other servers speak as well.
	ModelOpenAI ModelProvider = "OpenAI"
)

// StructuredOutput is how an OpenAI-compatible server is told the shape of an answer.
// +kubebuilder:validation:Enum=JSONSchema;JSONObject;None
type StructuredOutput string

const (
	// StructuredJSONSchema sends a schema.
	StructuredJSONSchema StructuredOutput = "JSONSchema"
	// StructuredJSONObject asks for any JSON object.
	StructuredJSONObject StructuredOutput = "JSONObject"
	// StructuredNone leaves it to the prompt.
	StructuredNone StructuredOutput = "None"
)

// TokenLimit is the field by which an OpenAI-compatible server is told the longest answer.
// +kubebuilder:validation:Enum=MaxCompletionTokens;MaxTokens
type TokenLimit string

const (
	// TokenLimitMaxCompletionTokens is the present name.
	TokenLimitMaxCompletionTokens TokenLimit = "MaxCompletionTokens"
	// TokenLimitMaxTokens is the former name, which is all that some servers know.
	TokenLimitMaxTokens TokenLimit = "MaxTokens"
)

// OperatingPolicySpec says what Candor may do in the whole cluster.
// +kubebuilder:validation:XValidation:rule="!(has(self.budget) && has(self.budget.maxCostMicros) || has(self.namespaceBudget) && has(self.namespaceBudget.maxCostMicros)) || has(self.model) && has(self.model.prices)",message="maxCostMicros needs prices: set spec.model.prices, or leave the ceiling out"
type OperatingPolicySpec struct {
	// mode is whether a model may be asked. Audit is the brake: it stops every call at once.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Mode",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Active","urn:alm:descriptor:com.tectonic.ui:select:Audit"}
	// +optional
	// +kubebuilder:default=Active
	Mode Mode `json:"mode,omitempty"`

	// model is the model that explains Findings. Left out, the manager's environment may name one; if it does not, Findings
	// stay deterministic.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Model"
	// +optional
	Model *Model `json:"model,omitempty"`

	// budget bounds what models cost the whole cluster. Left out, it is 200 calls and 1,000,000 tokens in 24 hours.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Budget of the cluster"
	// +optional
	Budget *CostBudget `json:"budget,omitempty"`

	// namespaceBudget bounds what models cost each namespace whose policy does not say otherwise. Left out, it is 50 calls
	// and 250,000 tokens in 24 hours.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Budget of a namespace"
	// +optional
	NamespaceBudget *CostBudget `json:"namespaceBudget,omitempty"`

	// suppression bounds what Suppressions may do.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Suppressions"
	// +optional
	Suppression *SuppressionLimits `json:"suppression,omitempty"`

	// pullRequestRateLimit bounds proposed fixes. It has no effect in this version.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Budget of fixes",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:hidden"}
	// +optional
	PullRequestRateLimit *PullRequestBudget `json:"pullRequestRateLimit,omitempty"`
}

// SuppressionLimits bounds what Suppressions may do.
type SuppressionLimits struct {
	// maxDays is how long a Suppression mutes at most, from its creation. Unset sets no bound.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Longest mute in days",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3650
	MaxDays *int32 `json:"maxDays,omitempty"`
}

// Model is a language model and how to reach it. Its key stands in the Secret candor-llm beside the manager.
type Model struct {
	// provider is the protocol that the model's server speaks.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Protocol",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Anthropic","urn:alm:descriptor:com.tectonic.ui:select:OpenAI"}
	// +required
	Provider ModelProvider `json:"provider"`

	// name is the name of the model, as its server knows it.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Name"
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name"`

	// baseURL is the address of the server, for OpenAI with its /v1. Left out, it is that of the provider. Private addresses
	// are allowed; link-local ones, those of cloud metadata, and redirects are not.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Address"
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^https?://[^\s/?#@]+(/[^\s?#]*)?$`
	BaseURL string `json:"baseURL,omitempty"`

	// maxOutputTokens is the longest answer, in tokens.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Longest answer in tokens",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	// +optional
	// +kubebuilder:default=1024
	// +kubebuilder:validation:Minimum=128
	// +kubebuilder:validation:Maximum=16384
	MaxOutputTokens int32 `json:"maxOutputTokens,omitempty"`

	// timeoutSeconds is how long one call may take.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Timeout in seconds",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=240
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// maxConcurrent is how many calls may run at once.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Calls at once",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32
	MaxConcurrent int32 `json:"maxConcurrent,omitempty"`

	// structuredOutput is how an OpenAI-compatible server is told the shape of the answer. Anthropic is always sent a schema.
	// +optional
	// +kubebuilder:default=JSONSchema
	StructuredOutput StructuredOutput `json:"structuredOutput,omitempty"`

	// tokenLimit is the field by which an OpenAI-compatible server is told maxOutputTokens.
	// +optional
	// +kubebuilder:default=MaxCompletionTokens
	TokenLimit TokenLimit `json:"tokenLimit,omitempty"`

	// prices are what the model costs. Without them costs are not counted.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Prices"
	// +optional
	Prices *Prices `json:"prices,omitempty"`
}

// Prices are what a million tokens cost, in millionths of a currency unit: 3,000,000 is 3 dollars, if you count in dollars.
type Prices struct {
	// inputMicros is the price of a million tokens that the model reads.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000000
	InputMicros int64 `json:"inputMicros"`

	// outputMicros is the price of a million tokens that the model writes.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000000
	OutputMicros int64 `json:"outputMicros"`
}

// CostBudget is a ceiling for model calls in a sliding window of time.
type CostBudget struct {
	// maxCalls is the number of calls allowed in one window.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Calls",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxCalls *int32 `json:"maxCalls,omitempty"`

	// maxTokens is the number of tokens, read and written, allowed in one window.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Tokens",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxTokens *int64 `json:"maxTokens,omitempty"`

	// maxCostMicros is what the calls of one window may cost, in millionths of the currency of model.prices. Left out, cost
	// is bounded by calls and tokens alone.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Cost in micros",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxCostMicros *int64 `json:"maxCostMicros,omitempty"`

	// windowSeconds is the length of the window in seconds.
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Window",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:number"}
	// +optional
	// +kubebuilder:default=86400
	// +kubebuilder:validation:Minimum=60
	WindowSeconds int32 `json:"windowSeconds,omitempty"`
}

// OperatingPolicyStatus is what holds in the cluster now.
type OperatingPolicyStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// observedMode is the mode that holds.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Mode that holds"
	// +optional
	ObservedMode Mode `json:"observedMode,omitempty"`

	// budget is what the cluster spent in the window.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Budget"
	// +optional
	Budget *BudgetStatus `json:"budget,omitempty"`

	// conditions are Ready and, where they apply, BudgetExhausted, BackendPaused and FieldsWithoutEffect.
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions Conditions `json:"conditions,omitempty"`
}

// OperatingPolicy says what Candor may do in the whole cluster: whether a model may be asked, which one, and what it may
// cost. There is one, named default. Without it the ceilings are those of an empty one.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=operatingpolicies,shortName=oppol,categories=candor
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'default'",message="there is one OperatingPolicy, named default: give it that name"
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.model.name`
// +kubebuilder:printcolumn:name="Calls",type=integer,JSONPath=`.status.budget.calls`
// +kubebuilder:printcolumn:name="Left",type=integer,JSONPath=`.status.budget.callsLeft`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +operator-sdk:csv:customresourcedefinitions:displayName="Operating policy",resources={{Ledger,v1alpha1,""},{SignalPolicy,v1alpha1,""},{Event,v1,""}}
type OperatingPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what Candor may do.
	// +optional
	Spec OperatingPolicySpec `json:"spec,omitzero"`

	// status is what holds now; the operatingpolicy controller alone writes it.
	// +optional
	Status OperatingPolicyStatus `json:"status,omitempty"`
}

// OperatingPolicyList is a list of OperatingPolicies.
// +kubebuilder:object:root=true
type OperatingPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OperatingPolicy `json:"items"`
}

// StatusConditions returns the conditions for the controller to change.
func (p *OperatingPolicy) StatusConditions() *[]metav1.Condition {
	return (*[]metav1.Condition)(&p.Status.Conditions)
}

// ObservedGeneration returns the generation that the status speaks of, for the controller to change.
func (p *OperatingPolicy) ObservedGeneration() *int64 { return &p.Status.ObservedGeneration }
