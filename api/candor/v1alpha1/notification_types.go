// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SinkType is the form in which people are told.
// +kubebuilder:validation:Enum=Webhook;Slack;Alertmanager;CloudEvents
type SinkType string

// Sink types.
const (
	// SinkWebhook posts JSON of our own.
	SinkWebhook SinkType = "Webhook"
	// SinkSlack posts to an incoming webhook of Slack, or of what understands the same.
	SinkSlack SinkType = "Slack"
	// SinkAlertmanager posts alerts to the API v2 of Alertmanager.
	SinkAlertmanager SinkType = "Alertmanager"
	// SinkCloudEvents posts CloudEvents 1.0 in structured mode.
	SinkCloudEvents SinkType = "CloudEvents"
)

// EventType is what people are told of.
// +kubebuilder:validation:Enum=Created;Escalated;Recurred;Resolved;SuppressionEnded;BudgetExhausted;Digest
type EventType string

// Event types.
const (
	// EventCreated tells of a new Finding.
	EventCreated EventType = "Created"
	// EventEscalated tells that an open Finding became more severe.
	EventEscalated EventType = "Escalated"
	// EventRecurred tells that a Finding came back after an end.
	EventRecurred EventType = "Recurred"
	// EventResolved tells that a Finding ended, by evidence or with its workload.
	EventResolved EventType = "Resolved"
	// EventSuppressionEnded tells that an open Finding is no longer muted.
	EventSuppressionEnded EventType = "SuppressionEnded"
	// EventBudgetExhausted tells that a budget began to hold back calls.
	EventBudgetExhausted EventType = "BudgetExhausted"
	// EventDigest tells what changed since the last digest, and what it cost.
	EventDigest EventType = "Digest"
)

// SecretKeyReference names a key of a Secret in the same namespace.
type SecretKeyReference struct {
	// name is the name of the Secret. A Role of the namespace has to let the operator get it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key is the key in it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// Sink is where people are told, and of what.
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.urlFrom)",message="exactly one of url and urlFrom must be set: an address that is secret belongs in a Secret"
type Sink struct {
	// name tells sinks of a policy apart.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self != 'webhook'",message="the name webhook is that of spec.webhook"
	Name string `json:"name"`

	// type is the form in which people are told.
	// +required
	Type SinkType `json:"type"`

	// urlFrom names the Secret that holds the address, under the key url unless it says otherwise.
	// +optional
	URLFrom *SecretKeyReference `json:"urlFrom,omitempty"`

	// url is the address, where it is no secret.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`

	// signingKeyFrom names the Secret that holds the key of the signature, under the key secret unless it says otherwise: each
	// request then carries an HMAC-SHA256 over its time and its body.
	// +optional
	SigningKeyFrom *SecretKeyReference `json:"signingKeyFrom,omitempty"`

	// minSeverity is the mildest severity that is told of; by default that of the policy.
	// +optional
	MinSeverity Severity `json:"minSeverity,omitempty"`

	// events are what is told of; empty means everything.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=7
	Events []EventType `json:"events,omitempty"`
}

// SinkState is how telling people goes.
// +kubebuilder:validation:Enum=Waiting;Active;Failing;Misconfigured
type SinkState string

// Sink states.
const (
	// SinkWaiting says that the first sync of the namespace goes on; people hear of it in one message.
	SinkWaiting SinkState = "Waiting"
	// SinkActive says that the last delivery went well, or that none was due yet.
	SinkActive SinkState = "Active"
	// SinkFailing says that the last delivery failed. It is tried again.
	SinkFailing SinkState = "Failing"
	// SinkMisconfigured says that nothing can be sent until somebody changes the policy, its Secret, or a Role.
	SinkMisconfigured SinkState = "Misconfigured"
)

// PolicyMessage is a message about a whole policy that is not delivered yet.
type PolicyMessage struct {
	// event is what it tells of; Created stands for the summary of the first sync.
	// +required
	Event EventType `json:"event"`

	// key is the same each time that it is sent.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Key string `json:"key"`

	// since is when what it tells of began.
	// +optional
	Since metav1.Time `json:"since,omitzero"`

	// at is when it fell due.
	// +required
	At metav1.Time `json:"at"`

	// attempts is how often it was sent in vain.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts int32 `json:"attempts,omitempty"`

	// nextAttempt is when it is sent again.
	// +optional
	NextAttempt metav1.Time `json:"nextAttempt,omitzero"`
}

// SinkStatus is how telling people through one sink goes.
type SinkStatus struct {
	// name is that of the sink; webhook is that of spec.webhook.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// type is the form in which people are told.
	// +required
	Type SinkType `json:"type"`

	// state is how it goes.
	// +required
	State SinkState `json:"state"`

	// message says why it does not go well. It never holds an address.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// summarisedAt is up to when what there was is told of by one message: a Finding that was first seen later has one of its own.
	// +optional
	SummarisedAt metav1.Time `json:"summarisedAt,omitzero"`

	// lastDigest is when the last digest fell due.
	// +optional
	LastDigest metav1.Time `json:"lastDigest,omitzero"`

	// pending are messages about the whole policy that are not delivered yet.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	Pending []PolicyMessage `json:"pending,omitempty"`
}

// NotificationState is how far the telling of one event is.
// +kubebuilder:validation:Enum=Pending;Sent;Failed
type NotificationState string

// Notification states.
const (
	NotificationPending NotificationState = "Pending"
	NotificationSent    NotificationState = "Sent"
	// NotificationFailed says that nobody could be told for a day.
	NotificationFailed NotificationState = "Failed"
)

// Notification is one event of a Finding, told through one sink.
type Notification struct {
	// sink is the policy's and the sink's name, with a slash between them.
	// +required
	// +kubebuilder:validation:MaxLength=320
	Sink string `json:"sink"`

	// event is what is told.
	// +required
	Event EventType `json:"event"`

	// fingerprint is the first 16 digits of that which the Finding had.
	// +required
	// +kubebuilder:validation:MaxLength=16
	Fingerprint string `json:"fingerprint"`

	// occurrence is how often the Finding had come back.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Occurrence int32 `json:"occurrence,omitempty"`

	// severity is that of the event; before is the one that it was raised from.
	// +optional
	Severity Severity `json:"severity,omitempty"`
	// +optional
	Before Severity `json:"before,omitempty"`

	// state is how far the telling is.
	// +required
	State NotificationState `json:"state"`

	// at is when the event happened.
	// +required
	At metav1.Time `json:"at"`

	// attempts is how often it was sent in vain, and nextAttempt when it is sent again.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts int32 `json:"attempts,omitempty"`
	// +optional
	NextAttempt metav1.Time `json:"nextAttempt,omitzero"`
}
