// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types. Each says its polarity: whether True is the good news.
const (
	// ConditionReady is True when the object does what its spec asks for. SignalPolicy, Suppression.
	ConditionReady = "Ready"
	// ConditionProviderAvailable is True when every provider that the policy names is being watched. SignalPolicy.
	ConditionProviderAvailable = "ProviderAvailable"
	// ConditionFieldsWithoutEffect is True, which is no good news, when the spec sets fields that this version accepts
	// and does not act on; it is absent otherwise. SignalPolicy.
	ConditionFieldsWithoutEffect = "FieldsWithoutEffect"
	// ConditionVerified is True when evidence stands behind status.verificationOutcome; its reason is that outcome.
	// Finding.
	ConditionVerified = "Verified"
	// ConditionSuppressed is True while a Suppression mutes the Finding; it is absent until the first one does. Finding.
	ConditionSuppressed = "Suppressed"
)

// Reasons of Ready and ProviderAvailable on a SignalPolicy.
const (
	// ReasonActive says that the policy takes in signals, or that the Suppression mutes.
	ReasonActive = "Active"
	// ReasonUnknownProvider says that spec.providers names a provider that this version does not have. The others work.
	ReasonUnknownProvider = "UnknownProvider"
	// ReasonProviderUnavailable says that the reports of a named provider cannot be watched; the message says why.
	ReasonProviderUnavailable = "ProviderUnavailable"
	// ReasonProviderUnreachable says that the API server did not answer whether the reports of a named provider exist.
	ReasonProviderUnreachable = "ProviderUnreachable"
	// ReasonProviderStarting says that the reports of a named provider are being read for the first time.
	ReasonProviderStarting = "ProviderStarting"
	// ReasonAvailable says that every named provider is being watched.
	ReasonAvailable = "Available"
)

// ReasonNoEffect is the reason of FieldsWithoutEffect: the named fields are accepted for compatibility and do nothing in
// this version.
const ReasonNoEffect = "NoEffect"

// Reasons of Ready on a Suppression.
const (
	// ReasonNoMatch says that no Finding of the namespace has this fingerprint now.
	ReasonNoMatch = "NoMatch"
	// ReasonExpired says that spec.expiresAt has passed.
	ReasonExpired = "Expired"
)

// Reasons of Verified on a Finding: its outcome.
const (
	// ReasonStillPresent says that the evidence is there.
	ReasonStillPresent = string(OutcomeStillPresent)
	// ReasonRecurred says that the evidence came back after an end.
	ReasonRecurred = string(OutcomeRecurred)
	// ReasonResolved says that a later report proved it gone.
	ReasonResolved = string(OutcomeResolved)
	// ReasonWorkloadGone says that the workload does not exist any more.
	ReasonWorkloadGone = string(OutcomeWorkloadGone)
	// ReasonStale says that nothing has been heard of it for longer than the grace.
	ReasonStale = string(OutcomeStale)
	// ReasonOutOfPolicy says that no policy asks for it any more.
	ReasonOutOfPolicy = string(OutcomeOutOfPolicy)
	// ReasonForeign says that the Finding does not have the name of its identity: nobody keeps it up to date.
	ReasonForeign = "Foreign"
)

// Reasons of Suppressed on a Finding.
const (
	// ReasonMuted says that a Suppression holds this fingerprint.
	ReasonMuted = "Muted"
	// ReasonSuppressionEnded says that the mute was lifted: the Suppression was deleted or expired, or the content changed.
	ReasonSuppressionEnded = "SuppressionEnded"
)

// ReasonFailed is the reason of any condition after an error that names no reason of its own.
const ReasonFailed = "Failed"
