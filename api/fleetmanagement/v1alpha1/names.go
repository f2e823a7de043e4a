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
	// is managed. Any other value is as none.
	AnnotationImportMode = "fleetmanagement.grafana.com/import-mode"
	ImportModeReadOnly   = "read-only"
	ImportModeAdopt      = "adopt"
	// AnnotationPipelineID is the ID of the pipeline that the object mirrors. A discovery sets it.
	AnnotationPipelineID = "fleetmanagement.grafana.com/fleet-pipeline-id"
	// AnnotationNameScope is NameScopeNamespace or NameScopeNone, and wins over --pipeline-name-scope.
	AnnotationNameScope = "fleetmanagement.grafana.com/name-scope"
	// AnnotationDryRun is "true" to have the pipeline checked by Fleet Management and not applied.
	AnnotationDryRun = "fleetmanagement.grafana.com/dry-run"
	// AnnotationSkipRemoteDelete is "true" to let an object go, whatever becomes of what it stands for.
	AnnotationSkipRemoteDelete = "fleetmanagement.grafana.com/skip-remote-delete"
)

// Name scopes of pipelines: what their name in Fleet Management starts with.
const (
	NameScopeNone      = "none"
	NameScopeNamespace = "namespace"
	NameScopeCluster   = "cluster"
)
