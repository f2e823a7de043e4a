// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package pipelines

import (
	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

// IsMirror reports whether a Pipeline follows what Fleet Management holds, and never changes it. A pipeline of Grafana is one
// whatever its annotation says.
func IsMirror(p *fleetmanagementv1alpha1.Pipeline) bool {
	return p.Spec.Source != nil && p.Spec.Source.Type == fleetmanagementv1alpha1.SourceGrafana ||
		p.Annotations[fleetmanagementv1alpha1.AnnotationImportMode] == fleetmanagementv1alpha1.ImportModeReadOnly
}

// EffectiveName returns the name that a Pipeline has in Fleet Management. defaultScope is one of the name scopes, and clusterID what
// the scope of a cluster starts with. A mirror, and what a discovery found, keep the name that they have there.
func EffectiveName(p *fleetmanagementv1alpha1.Pipeline, defaultScope, clusterID string) string {
	name := p.Spec.Name
	if name == "" {
		name = p.Name
	}
	if IsMirror(p) || p.Annotations[fleetmanagementv1alpha1.AnnotationPipelineID] != "" {
		return name
	}
	switch NameScope(p, defaultScope) {
	case fleetmanagementv1alpha1.NameScopeNamespace:
		return p.Namespace + "." + name
	case fleetmanagementv1alpha1.NameScopeCluster:
		return clusterID + "." + p.Namespace + "." + name
	default:
		return name
	}
}

// NameScope returns the scope that a Pipeline's name has: that of its annotation, or else defaultScope.
func NameScope(p *fleetmanagementv1alpha1.Pipeline, defaultScope string) string {
	switch scope := p.Annotations[fleetmanagementv1alpha1.AnnotationNameScope]; scope {
	case fleetmanagementv1alpha1.NameScopeNamespace, fleetmanagementv1alpha1.NameScopeNone:
		return scope
	default:
		return defaultScope
	}
}
