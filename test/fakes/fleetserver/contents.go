// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetserver

import (
	"unicode/utf8"

	"github.com/grafana/alloy/syntax/parser"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	"sigs.k8s.io/yaml"
)

// sourceTypeGrafana is newer than the generated code.
const sourceTypeGrafana pipelinev1.PipelineSource_SourceType = 3

func checkPipeline(pipeline *pipelinev1.Pipeline) error {
	switch {
	case pipeline.GetName() == "":
		return invalid("pipeline name is required")
	case pipeline.GetContents() == "":
		return invalid("pipeline contents are required")
	}
	if err := checkContents(pipeline.GetConfigType(), pipeline.GetContents()); err != nil {
		return err
	}
	if _, err := parseMatchers(pipeline.GetMatchers()); err != nil {
		return err
	}
	return checkSource(pipeline.GetSource())
}

func checkContents(configType pipelinev1.ConfigType, contents string) error {
	if !utf8.ValidString(contents) {
		return invalid("pipeline contents are not UTF-8")
	}
	switch configType {
	case pipelinev1.ConfigType_CONFIG_TYPE_UNSPECIFIED, pipelinev1.ConfigType_CONFIG_TYPE_ALLOY:
		if _, err := parser.ParseFile("", []byte(contents)); err != nil {
			return invalid("invalid Alloy configuration: %w", err)
		}
	case pipelinev1.ConfigType_CONFIG_TYPE_OTEL:
		var config map[string]any
		if err := yaml.UnmarshalStrict([]byte(contents), &config); err != nil {
			return invalid("invalid OpenTelemetry Collector configuration: %w", err)
		}
	default:
		return invalid("config type %d is unknown", configType)
	}
	return nil
}

// checkSource wants a namespace of each source, since a sync deletes by it.
func checkSource(source *pipelinev1.PipelineSource) error {
	switch kind := source.GetType(); {
	case kind < 0 || kind > sourceTypeGrafana:
		return invalid("source type %d is unknown", kind)
	case kind == pipelinev1.PipelineSource_SOURCE_TYPE_UNSPECIFIED && source.GetNamespace() != "":
		return invalid("a source with a namespace needs a type")
	case kind != pipelinev1.PipelineSource_SOURCE_TYPE_UNSPECIFIED && source.GetNamespace() == "":
		return invalid("a source with a type needs a namespace")
	}
	return nil
}
