// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Finalizers. An object carries one while something of it may stand in Fleet Management.
const (
	PipelineFinalizer  = "pipeline.fleetmanagement.grafana.com/finalizer"
	CollectorFinalizer = "collector.fleetmanagement.grafana.com/finalizer"
)

// Annotations of a Pipeline that people or a discovery set.
const (
	// AnnotationImportMode is ImportModeReadOnly for a mirror, whose spec follows Fleet Management, or ImportModeAdopt for one that
	// is managed. With any other value nothing is written.
	AnnotationImportMode = "fleetmanagement.grafana.com/import-mode"
	ImportModeReadOnly   = "read-only"
	ImportModeAdopt      = "adopt"
	// AnnotationPipelineID is the ID of the pipeline that the object mirrors. A discovery sets it.
	AnnotationPipelineID = "fleetmanagement.grafana.com/fleet-pipeline-id"
	// AnnotationNameScope is NameScopeNamespace or NameScopeNone, and wins over --pipeline-name-scope.
	AnnotationNameScope = "fleetmanagement.grafana.com/name-scope"
	// AnnotationDryRun is "true" to have the pipeline checked by Fleet Management and not applied. With a value that is neither that
	// nor "false" nothing is written.
	AnnotationDryRun = "fleetmanagement.grafana.com/dry-run"
	// AnnotationSkipRemoteDelete is "true" to let an object go, whatever becomes of what it stands for. So does any value
	// but "false".
	AnnotationSkipRemoteDelete = "fleetmanagement.grafana.com/skip-remote-delete"
)

// Labels and annotations that a discovery sets on the objects that it makes. They stand for ownership: deleting a discovery leaves its
// objects, with what people wrote into them.
const (
	LabelPipelineDiscoveryName      = "fleetmanagement.grafana.com/pipeline-discovery-name"
	LabelPipelineDiscoveryNamespace = "fleetmanagement.grafana.com/pipeline-discovery-namespace"
	// AnnotationPipelineDiscoveredBy is namespace and name of the discovery, with a slash between them.
	AnnotationPipelineDiscoveredBy = "fleetmanagement.grafana.com/pipeline-discovered-by"
	// AnnotationPipelineStale is "true" on a Pipeline whose pipeline is gone.
	AnnotationPipelineStale = "fleetmanagement.grafana.com/pipeline-discovery-stale"

	LabelCollectorDiscoveryName      = "fleetmanagement.grafana.com/discovery-name"
	LabelCollectorDiscoveryNamespace = "fleetmanagement.grafana.com/discovery-namespace"
	// AnnotationCollectorDiscoveredBy is namespace and name of the discovery, with a slash between them.
	AnnotationCollectorDiscoveredBy = "fleetmanagement.grafana.com/discovered-by"
	// AnnotationCollectorID is the ID of the collector as Fleet Management spells it.
	AnnotationCollectorID = "fleetmanagement.grafana.com/fleet-collector-id"
	// AnnotationCollectorStale is "true" on a Collector whose collector is gone.
	AnnotationCollectorStale = "fleetmanagement.grafana.com/discovery-stale"
)

// Annotations that people set on a discovery or an ExternalAttributeSync.
const (
	// AnnotationApproveRemoval lets through what is held back as too much at once. Its value is the word that the condition tells,
	// which stands for exactly what is to be removed.
	AnnotationApproveRemoval = "fleetmanagement.grafana.com/approve-removal"
	// AnnotationFetchNow has an ExternalAttributeSync fetch once for each new value.
	AnnotationFetchNow = "fleetmanagement.grafana.com/fetch-now"
	// DryRunRedacted is a value of AnnotationDryRun on an ExternalAttributeSync: the sample shows no values. "true" shows them.
	DryRunRedacted = "redacted"
)

// LabelExternalSource marks a Secret that an ExternalAttributeSync may use, by the convention of
// --external-source-secret-label-selector.
const LabelExternalSource = "fleetmanagement.grafana.com/external-source"

// Name scopes of pipelines: what their name in Fleet Management starts with.
const (
	NameScopeNone      = "none"
	NameScopeNamespace = "namespace"
	NameScopeCluster   = "cluster"
)
