// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types. Each says its polarity: whether True is the good news.
const (
	// ConditionReady is True when what the spec asks for stands. It outlives a wait: while nothing is wrong with the object, it says
	// what is known. Every kind.
	ConditionReady = "Ready"
	// ConditionSynced is True when the last look found, or made, everything as the spec asks for. Every kind but TenantPolicy.
	ConditionSynced = "Synced"
	// ConditionPaused is True while spec.paused holds back changes; it is absent otherwise. Pipeline.
	ConditionPaused = "Paused"
	// ConditionDrifted is True, which is no good news, while the pipeline in Fleet Management differs from the spec and is left so;
	// it is absent otherwise. Pipeline.
	ConditionDrifted = "Drifted"
	// ConditionValidated is True when Fleet Management found nothing wrong in a dry run; it is absent without one. Pipeline.
	ConditionValidated = "Validated"
	// ConditionAttributesInvalid is True, which is no good news, while some of the attributes that are asked for cannot be given;
	// the others are. It is absent otherwise. Collector.
	ConditionAttributesInvalid = "AttributesInvalid"
	// ConditionTruncated is True when status.matchedCollectorIDs, or status.ownedKeys, does not hold all. RemoteAttributePolicy,
	// ExternalAttributeSync.
	ConditionTruncated = "Truncated"
	// ConditionTruncatedConflicts is True when status.conflicts does not hold all. PipelineDiscovery, CollectorDiscovery.
	ConditionTruncatedConflicts = "TruncatedConflicts"
	// ConditionRemovalSuspended is True, which is no good news, while more objects would be removed or marked stale at once than is
	// taken for granted; it is absent otherwise. PipelineDiscovery, CollectorDiscovery.
	ConditionRemovalSuspended = "RemovalSuspended"
	// ConditionStalled is True, which is no good news, while a fetch is held back because it would take away too much.
	// ExternalAttributeSync.
	ConditionStalled = "Stalled"
	// ConditionValid is True when the policy can be read. TenantPolicy.
	ConditionValid = "Valid"
)

// Reasons of Ready and Synced on a Pipeline or a Collector.
const (
	// ReasonSynced says that everything stands in Fleet Management as the spec asks for.
	ReasonSynced = "Synced"
	// ReasonReadOnly says that the object mirrors a pipeline; False that the pipeline cannot be read.
	ReasonReadOnly = "ReadOnly"
	// ReasonSyncFailed says that Fleet Management did not answer, or failed. It is tried again.
	ReasonSyncFailed = "SyncFailed"
	// ReasonValidationError says that Fleet Management refuses what the spec asks for, or that a value of the object means nothing; the
	// message says why.
	ReasonValidationError = "ValidationError"
	// ReasonDeleteFailed says that what the object stands for cannot be removed from Fleet Management yet. It is tried again.
	ReasonDeleteFailed = "DeleteFailed"
	// ReasonRateLimited says that Fleet Management asked to wait.
	ReasonRateLimited = "RateLimited"
	// ReasonAuthFailed says that Fleet Management refuses the credentials, or what they may do. It is tried again every minute, and
	// when the credentials change.
	ReasonAuthFailed = "AuthFailed"
	// ReasonNoCredentials says that no credentials are configured, so that nothing is done.
	ReasonNoCredentials = "NoCredentials"
	// ReasonBaseURLWrong says that something answers at the configured address and does not know the API.
	ReasonBaseURLWrong = "BaseURLWrong"
	// ReasonPaused says that spec.paused holds back what the spec asks for.
	ReasonPaused = "Paused"
	// ReasonDryRun says that the annotation dry-run holds back what the spec asks for.
	ReasonDryRun = "DryRun"
	// ReasonNameInUse says that a pipeline of this name exists, and spec.adoptionPolicy does not take it over.
	ReasonNameInUse = "NameInUse"
	// ReasonOwnedByOther says that another object, or another cluster, stamped the pipeline as its own.
	ReasonOwnedByOther = "OwnedByOther"
	// ReasonDuplicateName says that an older Pipeline of this cluster asks for the same name.
	ReasonDuplicateName = "DuplicateName"
	// ReasonMirrorEdited says that the spec of a mirror was edited; Fleet Management is not changed by it.
	ReasonMirrorEdited = "MirrorEdited"
	// ReasonNotRegistered says that Fleet Management does not know the collector.
	ReasonNotRegistered = "NotRegistered"
	// ReasonDuplicateCollectorID says that an older Collector of this cluster has the same spec.id.
	ReasonDuplicateCollectorID = "DuplicateCollectorID"
	// ReasonAttributeConflict says that somebody else set an attribute, and spec.conflictPolicy is Fail.
	ReasonAttributeConflict = "AttributeConflict"
)

// Reasons of Drifted. Of Ready and Synced on a Pipeline they are one, too, but for RemoteModified: there the drift policy asks to
// leave what stands.
const (
	// ReasonRemoteModified says that somebody changed the pipeline in Fleet Management.
	ReasonRemoteModified = "RemoteModified"
	// ReasonRemoteDeleted says that somebody deleted it there, and the drift policy leaves it so.
	ReasonRemoteDeleted = "RemoteDeleted"
	// ReasonContended says that somebody undoes each correction; the next one waits for a quarter of an hour.
	ReasonContended = "Contended"
)

// Reasons of Validated, AttributesInvalid, and of Ready, Synced and Truncated on a RemoteAttributePolicy.
const (
	// ReasonValid says that Fleet Management would take the pipeline.
	ReasonValid = "Valid"
	// ReasonAttributesRefused says that keys or values are over a limit, reserved, or refused by Fleet Management.
	ReasonAttributesRefused = "AttributesRefused"
	// ReasonMatched says that the selector matches collectors.
	ReasonMatched = "Matched"
	// ReasonNoMatch says that it matches none, or that a sync gives nothing of the records that it has.
	ReasonNoMatch = "NoMatch"
	// ReasonListFailed says that the Collectors of the namespace, or its TenantPolicies, could not be read. It is tried again.
	ReasonListFailed = "ListFailed"
	// ReasonMatchedIDsTruncated says that more than 1,000 collectors match.
	ReasonMatchedIDsTruncated = "MatchedIDsTruncated"
	// ReasonNotTruncated says that the status holds all of them.
	ReasonNotTruncated = "NotTruncated"
)

// Reasons of Ready and Synced on a PipelineDiscovery or a CollectorDiscovery, beside those of a Pipeline about reaching Fleet
// Management.
const (
	// ReasonInvalidConfig says that the spec cannot be followed.
	ReasonInvalidConfig = "InvalidConfig"
	// ReasonListPipelinesFailed says that the pipelines could not be listed. It is tried again.
	ReasonListPipelinesFailed = "ListPipelinesFailed"
	// ReasonListCollectorsFailed says that the collectors could not be listed. It is tried again.
	ReasonListCollectorsFailed = "ListCollectorsFailed"
	// ReasonUpsertFailed says that objects could not be created or changed. It is tried again.
	ReasonUpsertFailed = "UpsertFailed"
	// ReasonStaleProcessingFailed says that objects could not be marked stale or deleted. It is tried again.
	ReasonStaleProcessingFailed = "StaleProcessingFailed"
	// ReasonRemovalSuspended says that more objects would be removed or marked stale at once than is taken for granted.
	ReasonRemovalSuspended = "RemovalSuspended"
	// ReasonConflictListTruncated says that status.conflicts of a PipelineDiscovery does not hold all.
	ReasonConflictListTruncated = "ConflictListTruncated"
	// ReasonConflictsTruncated says that status.conflicts of a CollectorDiscovery does not hold all.
	ReasonConflictsTruncated = "ConflictsTruncated"
	// ReasonNoConflictsTruncated says that it does.
	ReasonNoConflictsTruncated = "NoConflictsTruncated"
)

// Reasons of Ready, Synced, Stalled and Truncated on an ExternalAttributeSync.
const (
	// ReasonSourceFailed says that the source did not answer, or not as expected. It is tried again; what was given stays.
	ReasonSourceFailed = "SourceFailed"
	// ReasonSecretUnreadable says that the Secret with the credentials cannot be read.
	ReasonSecretUnreadable = "SecretUnreadable"
	// ReasonStalled says that a fetch is held back because it would take away too much. What was given stays.
	ReasonStalled = "Stalled"
	// ReasonInvalidSchedule says that the schedule cannot be followed.
	ReasonInvalidSchedule = "InvalidSchedule"
	// ReasonSuspended says that spec.suspend stops fetching.
	ReasonSuspended = "Suspended"
	// ReasonDuplicateRecords says that records name the same collector, and spec.onDuplicate is Fail.
	ReasonDuplicateRecords = "DuplicateRecords"
	// ReasonOwnedKeysTruncated says that more is given than status.ownedKeys can hold.
	ReasonOwnedKeysTruncated = "OwnedKeysTruncated"
)

// Reasons of Ready and Valid on a TenantPolicy, and of refusals by one.
const (
	// ReasonParseError says that the policy cannot be read. Until it is mended, whom it names is refused, and so is what stands in the
	// namespaces that it selects.
	ReasonParseError = "ParseError"
	// ReasonNotEnforced says that the policy is valid, and has no effect until --enable-tenant-policy-enforcement is set.
	ReasonNotEnforced = "NotEnforced"
	// ReasonTenantForbidden says that a TenantPolicy of the namespace does not allow what the spec asks for.
	ReasonTenantForbidden = "TenantForbidden"
)

// Reasons of events that are no reason of a condition.
const (
	// EventCreated says that a pipeline was created.
	EventCreated = "Created"
	// EventUpdated says that it was changed to what the spec asks for.
	EventUpdated = "Updated"
	// EventAdopted says that an existing pipeline was taken over.
	EventAdopted = "Adopted"
	// EventRecreated says that a pipeline that somebody deleted was created again.
	EventRecreated = "Recreated"
	// EventRenamed says that the pipeline got another name in place.
	EventRenamed = "Renamed"
	// EventRebound says that somebody deleted the pipeline and created it again under its name, and the object now stands for that.
	EventRebound = "Rebound"
	// EventMirrorUpdated says that the spec of a mirror was brought up to date.
	EventMirrorUpdated = "MirrorUpdated"
	// EventDriftCorrected says which fields somebody else had changed.
	EventDriftCorrected = "DriftCorrected"
	// EventDeleted says that the pipeline was deleted, or a collector's attributes released.
	EventDeleted = "Deleted"
	// EventRemoteNotOwned says that the object went and the pipeline stays, since it is not the object's.
	EventRemoteNotOwned = "RemoteNotOwned"
	// EventResumed says that a Pipeline is no longer paused.
	EventResumed = "Resumed"
	// EventOrphaned says that the object went and the pipeline stays, as spec.deletionPolicy asks.
	EventOrphaned = "Orphaned"
	// EventAttributesUpdated says how many attributes of a collector were changed.
	EventAttributesUpdated = "AttributesUpdated"
	// EventAttributeTakenOver says that an attribute that somebody else had set was overwritten.
	EventAttributeTakenOver = "AttributeTakenOver"
	// EventPipelineDiscovered says how many Pipelines were made.
	EventPipelineDiscovered = "PipelineDiscovered"
	// EventDiscovered says how many Collectors were made.
	EventDiscovered = "Discovered"
	// EventPipelinePruned says how many Pipelines were deleted.
	EventPipelinePruned = "PipelinePruned"
	// EventPruned says how many Collectors were deleted.
	EventPruned = "Pruned"
	// EventPipelineConflict says which Pipeline is newly in the way.
	EventPipelineConflict = "PipelineConflict"
	// EventConflict says which Collector is newly in the way.
	EventConflict = "Conflict"
	// EventPipelineRebound says that a pipeline was deleted and created again under its name, and its Pipeline now stands for that.
	EventPipelineRebound = "PipelineRebound"
	// EventPriorityTie says that policies of equal priority give the same attribute different values.
	EventPriorityTie = "PriorityTie"
)
