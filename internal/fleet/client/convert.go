// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"fmt"
	"strings"
	"time"

	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
)

// sourceGrafana is SOURCE_TYPE_GRAFANA, which this version of the generated code does not name.
const sourceGrafana pipelinev1.PipelineSource_SourceType = 3

// Types of collectors, values of Collector.Type.
const (
	CollectorAlloy       = string(fleetmanagementv1alpha1.ConfigTypeAlloy)
	CollectorOTel        = string(fleetmanagementv1alpha1.ConfigTypeOTel)
	CollectorUnspecified = "Unspecified"
)

func (p Pipeline) message() (*pipelinev1.Pipeline, error) {
	message := &pipelinev1.Pipeline{
		Name:       p.Name,
		Contents:   p.Contents,
		Matchers:   p.Matchers,
		Enabled:    &p.Enabled,
		Source:     p.Source.message(),
		ConfigType: pipelinev1.ConfigType_CONFIG_TYPE_ALLOY,
	}
	if p.ConfigType == fleetmanagementv1alpha1.ConfigTypeOTel {
		message.ConfigType = pipelinev1.ConfigType_CONFIG_TYPE_OTEL
	}
	if p.ID != "" {
		message.Id = &p.ID
	}
	if len(p.Metadata) > 0 {
		metadata, err := structpb.NewStruct(p.Metadata)
		if err != nil {
			return nil, &fault.Fault{
				Kind: fault.Terminal, Reason: fleetmanagementv1alpha1.ReasonValidationError,
				Err: fmt.Errorf("the metadata of the pipeline cannot be sent: %w", err),
			}
		}
		message.Metadata = metadata
	}
	return message, nil
}

func pipelineOf(message *pipelinev1.Pipeline) Pipeline {
	pipeline := Pipeline{
		ID:         message.GetId(),
		Name:       message.GetName(),
		Contents:   message.GetContents(),
		Matchers:   message.GetMatchers(),
		Enabled:    message.GetEnabled(),
		ConfigType: fleetmanagementv1alpha1.ConfigTypeAlloy,
		Source:     sourceOf(message.GetSource()),
		CreatedAt:  timeOf(message.GetCreatedAt()),
		UpdatedAt:  timeOf(message.GetUpdatedAt()),
	}
	if message.GetConfigType() == pipelinev1.ConfigType_CONFIG_TYPE_OTEL {
		pipeline.ConfigType = fleetmanagementv1alpha1.ConfigTypeOTel
	}
	if message.GetMetadata() != nil {
		pipeline.Metadata = message.GetMetadata().AsMap()
	}
	return pipeline
}

// message is nil for the types that Fleet Management does not know.
func (s *Source) message() *pipelinev1.PipelineSource {
	if s == nil {
		return nil
	}
	message := &pipelinev1.PipelineSource{Namespace: s.Namespace}
	switch s.Type {
	case fleetmanagementv1alpha1.SourceGit:
		message.Type = pipelinev1.PipelineSource_SOURCE_TYPE_GIT
	case fleetmanagementv1alpha1.SourceTerraform:
		message.Type = pipelinev1.PipelineSource_SOURCE_TYPE_TERRAFORM
	case fleetmanagementv1alpha1.SourceGrafana:
		message.Type = sourceGrafana
	default:
		return nil
	}
	return message
}

func sourceOf(message *pipelinev1.PipelineSource) *Source {
	source := &Source{Namespace: message.GetNamespace()}
	switch message.GetType() {
	case pipelinev1.PipelineSource_SOURCE_TYPE_GIT:
		source.Type = fleetmanagementv1alpha1.SourceGit
	case pipelinev1.PipelineSource_SOURCE_TYPE_TERRAFORM:
		source.Type = fleetmanagementv1alpha1.SourceTerraform
	case sourceGrafana:
		source.Type = fleetmanagementv1alpha1.SourceGrafana
	default:
		if message.GetType() == pipelinev1.PipelineSource_SOURCE_TYPE_UNSPECIFIED && source.Namespace == "" {
			return nil
		}
		source.Type = fleetmanagementv1alpha1.SourceUnspecified
	}
	return source
}

func (c Collector) message() *collectorv1.Collector {
	message := &collectorv1.Collector{Id: c.ID, Name: c.Name, Enabled: c.Enabled, RemoteAttributes: c.RemoteAttributes}
	switch c.Type {
	case CollectorAlloy:
		message.CollectorType = collectorv1.CollectorType_COLLECTOR_TYPE_ALLOY
	case CollectorOTel:
		message.CollectorType = collectorv1.CollectorType_COLLECTOR_TYPE_OTEL
	}
	return message
}

func collectorOf(message *collectorv1.Collector) Collector {
	collector := Collector{
		ID:               message.GetId(),
		Name:             message.GetName(),
		Enabled:          message.Enabled,
		Type:             CollectorUnspecified,
		LocalAttributes:  message.GetLocalAttributes(),
		RemoteAttributes: message.GetRemoteAttributes(),
		CreatedAt:        timeOf(message.GetCreatedAt()),
		UpdatedAt:        timeOf(message.GetUpdatedAt()),
		MarkedInactiveAt: timeOf(message.GetMarkedInactiveAt()),
	}
	switch message.GetCollectorType() {
	case collectorv1.CollectorType_COLLECTOR_TYPE_ALLOY:
		collector.Type = CollectorAlloy
	case collectorv1.CollectorType_COLLECTOR_TYPE_OTEL:
		collector.Type = CollectorOTel
	}
	return collector
}

func (o Op) message() *collectorv1.Operation {
	message := &collectorv1.Operation{Path: remoteAttribute(o.Key)}
	switch o.Kind {
	case OpAdd:
		message.Op, message.Value = collectorv1.Operation_ADD, &o.Value
	case OpReplace:
		message.Op, message.Value, message.OldValue = collectorv1.Operation_REPLACE, &o.Value, o.Old
	case OpRemove:
		message.Op = collectorv1.Operation_REMOVE
		if o.Value != "" {
			message.Value = &o.Value
		}
	}
	return message
}

// escape writes a key as a part of a JSON pointer (RFC 6901).
var escape = strings.NewReplacer("~", "~0", "/", "~1")

// remoteAttribute is the path of a remote attribute in an operation.
func remoteAttribute(key string) string { return "/remote_attributes/" + escape.Replace(key) }

// timeOf returns zero for a time that is not told.
func timeOf(message *timestamppb.Timestamp) time.Time {
	if message == nil {
		return time.Time{}
	}
	return message.AsTime()
}
