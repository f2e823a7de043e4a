// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Action is what a model recommends to do next. Nothing acts on it but people.
// +kubebuilder:validation:Enum=None;Notify;ProposePullRequest
type Action string

const (
	// ActionNone means that nothing needs to be done, or that the model named nothing of this list.
	ActionNone Action = "None"
	// ActionNotify means that somebody should be told.
	ActionNotify Action = "Notify"
	// ActionProposePullRequest means that a change in a repository would repair it.
	ActionProposePullRequest Action = "ProposePullRequest"
)

// Sharing is how far equal answers of a model are shared.
// +kubebuilder:validation:Enum=Cluster;Namespace;None
type Sharing string

const (
	// SharingCluster shares the answers to equal questions in the whole cluster.
	SharingCluster Sharing = "Cluster"
	// SharingNamespace shares them within the namespace.
	SharingNamespace Sharing = "Namespace"
	// SharingNone shares nothing: each Finding is explained by a call of its own, which may name the container.
	SharingNone Sharing = "None"
)

// Request is what a model would be asked, or was.
type Request struct {
	// key is the SHA-256, in hexadecimal, of the exact body of the request.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Key string `json:"key"`

	// bytes is the size of that body.
	// +required
	// +kubebuilder:validation:Minimum=0
	Bytes int32 `json:"bytes"`

	// basis is a hash of what the body follows from. The body is composed again when it differs.
	// +required
	// +kubebuilder:validation:MaxLength=16
	Basis string `json:"basis"`
}

// Hypothesis is the opinion of a model about a cause. Nothing in it is a fact.
type Hypothesis struct {
	// cause is what may be behind the Finding.
	// +required
	// +kubebuilder:validation:MaxLength=300
	Cause string `json:"cause"`

	// confidence is how sure the model says it is, in per cent.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Confidence int32 `json:"confidence"`

	// rationale is why the model thinks so.
	// +optional
	// +kubebuilder:validation:MaxLength=1000
	Rationale string `json:"rationale,omitempty"`

	// recommendedAction is what the model would do next.
	// +optional
	RecommendedAction Action `json:"recommendedAction,omitempty"`
}

// Usage is what a call used, as the model's API reported it.
type Usage struct {
	// inputTokens counts what was read.
	// +optional
	// +kubebuilder:validation:Minimum=0
	InputTokens int64 `json:"inputTokens,omitempty"`

	// outputTokens counts what was written.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OutputTokens int64 `json:"outputTokens,omitempty"`
}

// Attempt is a call that was begun. It is stored before anything is sent.
type Attempt struct {
	// key is the key of the request.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Key string `json:"key"`

	// fingerprint is what the content hashed to.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Fingerprint string `json:"fingerprint"`

	// count is how many calls were begun for this key.
	// +required
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count"`

	// at is when the last one was begun.
	// +required
	At metav1.Time `json:"at"`

	// by identifies the process that began it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	By string `json:"by,omitempty"`

	// running is true from before the call until its result is stored. It stays true when the manager ended in between.
	// +optional
	Running bool `json:"running,omitempty"`

	// failure is why the last one gave no answer.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Failure string `json:"failure,omitempty"`

	// message says more about the failure.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// Enrichment is where the hypotheses come from.
type Enrichment struct {
	// model is the model that answered, as its API named it.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model,omitempty"`

	// promptVersion is the version of the prompt that was sent.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	PromptVersion string `json:"promptVersion,omitempty"`

	// key is the key of the request that was answered.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Key string `json:"key,omitempty"`

	// sharing is how far the answer may be shared.
	// +optional
	Sharing Sharing `json:"sharing,omitempty"`

	// usage is what the call used; an answer that was taken over used nothing.
	// +optional
	Usage Usage `json:"usage,omitzero"`

	// costMicros is what the call cost, in millionths of the currency of the prices; zero without prices.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CostMicros int64 `json:"costMicros,omitempty"`

	// at is when the answer was stored.
	// +optional
	At metav1.Time `json:"at,omitzero"`

	// shared is true when the answer to an equal question was taken over.
	// +optional
	Shared bool `json:"shared,omitempty"`

	// sharedFrom is the Finding of this namespace whose answer was taken over; empty when it is in another one.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SharedFrom string `json:"sharedFrom,omitempty"`

	// attempt is the last call that was begun.
	// +optional
	Attempt *Attempt `json:"attempt,omitempty"`
}
