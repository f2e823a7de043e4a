// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/alloy"
	"github.com/candor-dev/candor/internal/fleet/lint"
	"github.com/candor-dev/candor/internal/fleet/otelcol"
	"github.com/candor-dev/candor/internal/fleet/pipelines"
)

type pipeline = *fleetmanagementv1alpha1.Pipeline

const maxName = 253

// pipelineRules do not look at the name, contents and matchers of a mirror: Fleet Management holds them already.
func pipelineRules(o Options) []rule[pipeline] {
	return []rule[pipeline]{
		{
			reads: func(p pipeline) any { return []any{p.Spec.Name, pipelines.IsMirror(p)} },
			check: func(_, now pipeline, f *findings) { checkName(now, f) },
		},
		{
			reads: func(p pipeline) any { return []any{p.Spec.Contents, p.Spec.ConfigType, pipelines.IsMirror(p)} },
			check: func(_, now pipeline, f *findings) { checkContents(now, o.MaxPipelineBytes, f) },
		},
		{
			reads: func(p pipeline) any { return []any{p.Spec.Matchers, pipelines.IsMirror(p)} },
			check: func(old, now pipeline, f *findings) {
				var before []string
				if old != nil && !pipelines.IsMirror(old) {
					before = old.Spec.Matchers
				}
				if !pipelines.IsMirror(now) {
					checkMatchers(spec.Child("matchers"), before, now.Spec.Matchers, f)
				}
			},
		},
		{
			reads: func(p pipeline) any {
				return []any{p.Spec.Source, p.Annotations[fleetmanagementv1alpha1.AnnotationImportMode]}
			},
			check: func(_, now pipeline, f *findings) { checkSource(now, f) },
		},
		{
			reads: func(p pipeline) any {
				return []any{p.Spec.Name, p.Annotations[fleetmanagementv1alpha1.AnnotationNameScope], pipelines.IsMirror(p)}
			},
			check: func(_, now pipeline, f *findings) { checkNameScope(now, o.NameScope, f) },
		},
		annotationRule[pipeline](fleetmanagementv1alpha1.AnnotationImportMode, pipelines.ImportModes...),
		annotationRule[pipeline](fleetmanagementv1alpha1.AnnotationDryRun, pipelines.Switches...),
		annotationRule[pipeline](fleetmanagementv1alpha1.AnnotationSkipRemoteDelete, pipelines.Switches...),
	}
}

func checkName(p pipeline, f *findings) {
	path, name := spec.Child("name"), p.Spec.Name
	switch {
	case pipelines.IsMirror(p), name == p.Status.SyncedName: // it has this name already
	case len(name) > maxName:
		f.errs = append(f.errs, field.TooLong(path, unsaid, maxName))
	case strings.ContainsFunc(name, unicode.IsControl):
		f.refuse(path, name, "must not have control characters: remove them")
	case strings.ContainsFunc(name, unicode.IsSpace):
		f.refuse(path, name, "must not have white space: write - or _ in its place")
	}
}

func checkContents(p pipeline, maxBytes int, f *findings) {
	path, contents := spec.Child("contents"), p.Spec.Contents
	if pipelines.IsMirror(p) {
		return
	}
	if strings.TrimSpace(contents) == "" {
		f.require(path, "write the configuration that collectors get")
		return
	}
	if maxBytes > 0 && len(contents) > maxBytes {
		f.refuse(path, unsaid, fmt.Sprintf("has %d bytes, and at most %d are allowed: split the pipeline, or have --max-pipeline-bytes raised",
			len(contents), maxBytes))
		return
	}
	var problems []lint.Problem
	switch p.Spec.ConfigType {
	case fleetmanagementv1alpha1.ConfigTypeAlloy, "":
		problems = alloy.Check(contents, maxBytes)
	case fleetmanagementv1alpha1.ConfigTypeOTel:
		problems = otelcol.Check(contents, maxBytes)
	default:
		f.errs = append(f.errs, field.NotSupported(spec.Child("configType"), p.Spec.ConfigType,
			[]fleetmanagementv1alpha1.ConfigType{fleetmanagementv1alpha1.ConfigTypeAlloy, fleetmanagementv1alpha1.ConfigTypeOTel}))
		return
	}
	for _, p := range problems {
		if p.Severity == lint.Error {
			f.refuse(path, unsaid, p.String())
		} else {
			f.warn(path, p.String())
		}
	}
}

func checkSource(p pipeline, f *findings) {
	source, path := p.Spec.Source, spec.Child("source")
	if source == nil {
		return
	}
	named := strings.TrimSpace(source.Namespace) != ""
	switch source.Type {
	case "", fleetmanagementv1alpha1.SourceUnspecified:
		if source.Namespace != "" {
			f.refuse(path.Child("namespace"), source.Namespace, "must be empty without a type: set type, or leave namespace out")
		}
	case fleetmanagementv1alpha1.SourceGit, fleetmanagementv1alpha1.SourceTerraform, fleetmanagementv1alpha1.SourceGrafana:
		if !named {
			f.require(path.Child("namespace"), "write it for the types Git, Terraform and Grafana, or leave source out")
		}
	case fleetmanagementv1alpha1.SourceKubernetes:
		f.warn(path.Child("type"), "Kubernetes is deprecated and not sent, since Fleet Management has no such source: leave source out")
	default:
		f.errs = append(f.errs, field.NotSupported(path.Child("type"), source.Type, []fleetmanagementv1alpha1.SourceType{
			fleetmanagementv1alpha1.SourceGit, fleetmanagementv1alpha1.SourceTerraform, fleetmanagementv1alpha1.SourceGrafana,
			fleetmanagementv1alpha1.SourceKubernetes, fleetmanagementv1alpha1.SourceUnspecified,
		}))
	}
	mode := fleetmanagementv1alpha1.AnnotationImportMode
	switch {
	case source.Type == fleetmanagementv1alpha1.SourceGrafana && p.Annotations[mode] == fleetmanagementv1alpha1.ImportModeAdopt:
		f.refuse(annotation(mode), fleetmanagementv1alpha1.ImportModeAdopt,
			"a pipeline of Grafana is never written, so that it cannot be adopted: remove the annotation, or spec.source")
	case named && (source.Type == fleetmanagementv1alpha1.SourceGit || source.Type == fleetmanagementv1alpha1.SourceTerraform):
		f.warn(path, fmt.Sprintf("a job that synchronises %s pipelines of this namespace with Fleet Management deletes those that it does not know, this one included",
			source.Type))
	}
}

// scopedName is how a name starts that the scope of a namespace makes.
var scopedName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?\.`)

// checkNameScope keeps a Pipeline from taking a name that another namespace's Pipeline has by its scope.
func checkNameScope(p pipeline, defaultScope string, f *findings) {
	key := fleetmanagementv1alpha1.AnnotationNameScope
	switch scope, set := p.Annotations[key]; {
	case set && scope != fleetmanagementv1alpha1.NameScopeNamespace && scope != fleetmanagementv1alpha1.NameScopeNone:
		f.errs = append(f.errs, field.NotSupported(annotation(key), scope,
			[]string{fleetmanagementv1alpha1.NameScopeNamespace, fleetmanagementv1alpha1.NameScopeNone}))
	case scope != fleetmanagementv1alpha1.NameScopeNone || pipelines.IsMirror(p):
	case defaultScope == "" || defaultScope == fleetmanagementv1alpha1.NameScopeNone:
	case scopedName.MatchString(p.Spec.Name):
		f.refuse(spec.Child("name"), p.Spec.Name, fmt.Sprintf("looks like the name of a Pipeline in the scope of a namespace, which the annotation %s=%s must not take: "+
			"leave the dot out, or remove the annotation", key, fleetmanagementv1alpha1.NameScopeNone))
	}
}
