// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types. Each says its polarity: whether True is the good news.
const (
	// ConditionReady is True when the object does what its spec asks for. SignalPolicy, OperatingPolicy,
	// Suppression.
	ConditionReady = "Ready"
	// ConditionProviderAvailable is True when every provider that the policy names is being watched. SignalPolicy.
	ConditionProviderAvailable = "ProviderAvailable"
	// ConditionNotifying is True when people are told; its reason is that of the worst sink. It is absent without a sink.
	// SignalPolicy.
	ConditionNotifying = "Notifying"
	// ConditionReceiving is True when signals of other tools are taken for the policy. It is absent where the policy does not ask
	// for them. SignalPolicy.
	ConditionReceiving = "Receiving"
	// ConditionReceiverFull is True, which is no good news, while signals have made as many Findings as they may, so that those
	// of anything else are refused; it is absent otherwise. SignalPolicy.
	ConditionReceiverFull = "ReceiverFull"
	// ConditionFieldsWithoutEffect is True, which is no good news, when the spec sets fields that this version accepts
	// and does not act on; it is absent otherwise. SignalPolicy, OperatingPolicy.
	ConditionFieldsWithoutEffect = "FieldsWithoutEffect"
	// ConditionVerified is True when evidence stands behind status.verificationOutcome; its reason is that outcome.
	// Finding.
	ConditionVerified = "Verified"
	// ConditionSuppressed is True while Suppressions mute the whole Finding; it is absent until the first one does. Finding.
	ConditionSuppressed = "Suppressed"
	// ConditionEnriched is True when the hypotheses belong to the present content. It is absent while no model is
	// configured and none has ever answered. Finding.
	ConditionEnriched = "Enriched"
	// ConditionBudgetExhausted is True, which is no good news, while a budget holds back calls. SignalPolicy,
	// OperatingPolicy.
	ConditionBudgetExhausted = "BudgetExhausted"
	// ConditionBackendPaused is True, which is no good news, while the model's server must not be asked: it asked to wait,
	// refuses the key, or does not answer. OperatingPolicy.
	ConditionBackendPaused = "BackendPaused"
)

// Reasons of Ready and ProviderAvailable on a SignalPolicy.
const (
	// ReasonActive says that the policy takes in signals, that the OperatingPolicy holds, or that the Suppression mutes.
	ReasonActive = "Active"
	// ReasonUnknownProvider says that spec.providers names a provider that this version does not have. The others work.
	ReasonUnknownProvider = "UnknownProvider"
	// ReasonProviderUnavailable says that the reports of a named provider cannot be watched, or that its signals cannot be taken; the
	// message says why.
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
	// ReasonNoMatch says that nothing in the Findings of the namespace is what the Suppression names now.
	ReasonNoMatch = "NoMatch"
	// ReasonExpired says that spec.expiresAt has passed, or that it has lasted as long as the OperatingPolicy allows.
	ReasonExpired = "Expired"
)

// Reasons of Notifying.
const (
	// ReasonDelivering says that all sinks take what they are sent.
	ReasonDelivering = "Delivering"
	// ReasonFirstSync says that the first sync of the namespace goes on; people hear of it in one message.
	ReasonFirstSync = "FirstSync"
	// ReasonSinkFailing says that a sink does not take what it is sent. It is tried again.
	ReasonSinkFailing = "SinkFailing"
	// ReasonSinkMisconfigured says that a sink cannot be sent anything until somebody changes the policy, a Secret or a Role.
	ReasonSinkMisconfigured = "SinkMisconfigured"
	// EventNotificationLost says that people could not be told of something for a day.
	EventNotificationLost = "NotificationLost"
)

// Reasons of Receiving and ReceiverFull.
const (
	// ReasonListening says that signals are taken; the message says at which path.
	ReasonListening = "Listening"
	// ReasonNotConfigured says that the policy names the provider webhook and has no spec.webhookReceiver.
	ReasonNotConfigured = "NotConfigured"
	// ReasonProviderNotNamed says that the policy has a spec.webhookReceiver and does not name the provider webhook.
	ReasonProviderNotNamed = "ProviderNotNamed"
	// ReasonSecretUnreadable says that the Secret of spec.webhookReceiver cannot be used; the message says what to do.
	ReasonSecretUnreadable = "SecretUnreadable"
	// ReasonReceiverOff says that the manager takes no signals.
	ReasonReceiverOff = "ReceiverOff"
	// ReasonMaxFindings says that spec.webhookReceiver.maxFindings is reached.
	ReasonMaxFindings = "MaxFindings"
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
	// ReasonMuted says that a Suppression mutes the whole, or that Suppressions mute every entry.
	ReasonMuted = "Muted"
	// ReasonSuppressionEnded says that the mute was lifted: the Suppression was deleted or expired, or the content changed.
	ReasonSuppressionEnded = "SuppressionEnded"
)

// Reasons of Enriched on a Finding. The first one of the gate that stops a call is told.
const (
	// ReasonEnriched says that a model was asked about this content.
	ReasonEnriched = "Enriched"
	// ReasonSharedResult says that the answer to an equal question was taken over.
	ReasonSharedResult = "SharedResult"
	// ReasonPolicyMissing says that no SignalPolicy of the namespace names the provider: nobody pays.
	ReasonPolicyMissing = "PolicyMissing"
	// ReasonAudit says that spec.mode of the OperatingPolicy is Audit: nothing leaves the cluster.
	ReasonAudit = "Audit"
	// ReasonDisabled says that spec.enrichment.enabled of the paying SignalPolicy is false.
	ReasonDisabled = "Disabled"
	// ReasonNotOpen says that the Finding is not there any more.
	ReasonNotOpen = "NotOpen"
	// ReasonSuppressed says that a Suppression mutes the Finding.
	ReasonSuppressed = "Suppressed"
	// ReasonNoModel says that no model is configured, or that its key is missing.
	ReasonNoModel = "NoModel"
	// ReasonNotNeeded says that the content is explained already. It is a label of metrics and never a condition's reason.
	ReasonNotNeeded = "NotNeeded"
	// ReasonEnrichmentFailed says that the model was asked as often as it may be, and gave no usable answer.
	ReasonEnrichmentFailed = "EnrichmentFailed"
	// ReasonBackendPaused says that the model's server must not be asked for a while. It is a label of metrics; the condition
	// says Waiting, or why the last call for this Finding failed.
	ReasonBackendPaused = "BackendPaused"
	// ReasonBudgetExhausted says that a budget holds the call back until its window frees.
	ReasonBudgetExhausted = "BudgetExhausted"
	// ReasonWaiting says that the call waits for its turn, or runs.
	ReasonWaiting = "Waiting"
	// ReasonRateLimited says that the model's server asked to wait. The Finding's turn comes again.
	ReasonRateLimited = "RateLimited"
	// ReasonQuotaExhausted says that the account at the model's provider has nothing left.
	ReasonQuotaExhausted = "QuotaExhausted"
	// ReasonAuthFailed says that the model's server refuses the key.
	ReasonAuthFailed = "AuthFailed"
	// ReasonModelNotFound says that the model's server knows no such model.
	ReasonModelNotFound = "ModelNotFound"
	// ReasonUnavailable says that the model's server failed or is overloaded.
	ReasonUnavailable = "Unavailable"
	// ReasonUnreachable says that the model's server cannot be reached, or may not be.
	ReasonUnreachable = "Unreachable"
)

// Reasons of BudgetExhausted.
const (
	// ReasonLimitReached says that a budget holds calls back until its window frees.
	ReasonLimitReached = "LimitReached"
	// ReasonWithinBudget says that no call is held back by a budget.
	ReasonWithinBudget = "WithinBudget"
)

// Reasons of Ready on an OperatingPolicy.
const (
	// ReasonNoKey says that the model's protocol needs a key and there is none.
	ReasonNoKey = "NoKey"
	// ReasonModelInvalid says that the model's address may not be dialled, or cannot be read.
	ReasonModelInvalid = "ModelInvalid"
)

// ReasonFailed is the reason of any condition after an error that names no reason of its own.
const ReasonFailed = "Failed"
