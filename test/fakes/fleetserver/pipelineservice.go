// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetserver

import (
	"context"
	"slices"

	"connectrpc.com/connect"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	"github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1/pipelinev1connect"
	"google.golang.org/protobuf/proto"
)

// pipelineService is PipelineService, but for CreateAlloyPipelines, which is not for clients.
type pipelineService struct {
	pipelinev1connect.UnimplementedPipelineServiceHandler
	server *Server
}

// GetPipeline implements PipelineService.
func (p pipelineService) GetPipeline(_ context.Context, request *connect.Request[pipelinev1.GetPipelineRequest]) (*connect.Response[pipelinev1.Pipeline], error) {
	p.server.mutex.Lock()
	defer p.server.mutex.Unlock()
	pipeline := p.server.pipelines.byID(request.Msg.GetId())
	if pipeline == nil {
		return nil, notFound("pipeline", request.Msg.GetId())
	}
	return connect.NewResponse(pipeline), nil
}

// GetPipelineID implements PipelineService.
func (p pipelineService) GetPipelineID(_ context.Context, request *connect.Request[pipelinev1.GetPipelineIDRequest]) (*connect.Response[pipelinev1.GetPipelineIDResponse], error) {
	p.server.mutex.Lock()
	defer p.server.mutex.Unlock()
	pipeline := p.server.pipelines.byName(request.Msg.GetName())
	if pipeline == nil {
		return nil, notFound("pipeline", request.Msg.GetName())
	}
	return connect.NewResponse(&pipelinev1.GetPipelineIDResponse{Id: pipeline.GetId()}), nil
}

// ListPipelines implements PipelineService.
func (p pipelineService) ListPipelines(_ context.Context, request *connect.Request[pipelinev1.ListPipelinesRequest]) (*connect.Response[pipelinev1.Pipelines], error) {
	p.server.mutex.Lock()
	listed := p.server.pipelines.list()
	p.server.mutex.Unlock()
	asked := request.Msg
	var found []*pipelinev1.Pipeline
	for _, pipeline := range listed {
		if asked.Enabled != nil && asked.GetEnabled() != pipeline.GetEnabled() {
			continue
		}
		if asked.GetConfigType() != pipelinev1.ConfigType_CONFIG_TYPE_UNSPECIFIED && asked.GetConfigType() != pipeline.GetConfigType() {
			continue
		}
		if len(asked.GetLocalAttributes())+len(asked.GetRemoteAttributes()) > 0 {
			matches, err := parseMatchers(pipeline.GetMatchers())
			if err != nil || !matches.all(attributes{local: asked.GetLocalAttributes(), remote: asked.GetRemoteAttributes()}) {
				continue
			}
		}
		found = append(found, pipeline)
	}
	return connect.NewResponse(&pipelinev1.Pipelines{Pipelines: found}), nil
}

// CreatePipeline implements PipelineService. It takes no ID from the client.
func (p pipelineService) CreatePipeline(_ context.Context, request *connect.Request[pipelinev1.CreatePipelineRequest]) (*connect.Response[pipelinev1.Pipeline], error) {
	return p.write(request.Msg.GetPipeline(), request.Msg.GetValidateOnly(), func(next *pipelinev1.Pipeline) (*pipelinev1.Pipeline, error) {
		if p.server.pipelines.byName(next.GetName()) != nil {
			return nil, nameTaken(next.GetName())
		}
		return nil, nil
	})
}

// UpdatePipeline implements PipelineService.
func (p pipelineService) UpdatePipeline(_ context.Context, request *connect.Request[pipelinev1.UpdatePipelineRequest]) (*connect.Response[pipelinev1.Pipeline], error) {
	return p.write(request.Msg.GetPipeline(), request.Msg.GetValidateOnly(), p.server.pipelines.target)
}

// UpsertPipeline implements PipelineService. It goes by the name, whatever the ID.
func (p pipelineService) UpsertPipeline(_ context.Context, request *connect.Request[pipelinev1.UpsertPipelineRequest]) (*connect.Response[pipelinev1.Pipeline], error) {
	return p.write(request.Msg.GetPipeline(), request.Msg.GetValidateOnly(), func(next *pipelinev1.Pipeline) (*pipelinev1.Pipeline, error) {
		return p.server.pipelines.byName(next.GetName()), nil
	})
}

// write checks a pipeline, lets choose find what it replaces, and stores it unless that is only a preview.
func (p pipelineService) write(given *pipelinev1.Pipeline, preview bool, choose func(next *pipelinev1.Pipeline) (former *pipelinev1.Pipeline, err error)) (*connect.Response[pipelinev1.Pipeline], error) {
	next, err := p.server.accept(given)
	if err != nil {
		return nil, err
	}
	p.server.mutex.Lock()
	defer p.server.mutex.Unlock()
	former, err := choose(next)
	if err != nil {
		return nil, err
	}
	next.Id = nil
	if preview && former == nil {
		return connect.NewResponse(next), nil
	}
	p.server.pipelines.stamp(next, former, p.server.now())
	if !preview {
		p.server.pipelines.store(next, former, p.server.now())
	}
	return connect.NewResponse(next), nil
}

// accept checks a pipeline that a client sends, and returns a copy as the server keeps it: what is not set is set to its default.
func (s *Server) accept(given *pipelinev1.Pipeline) (*pipelinev1.Pipeline, error) {
	if given == nil {
		return nil, invalid("pipeline is required")
	}
	if err := checkPipeline(given); err != nil {
		return nil, err
	}
	next := proto.CloneOf(given)
	next.Enabled = proto.Bool(given.GetEnabled())
	if next.ConfigType == pipelinev1.ConfigType_CONFIG_TYPE_UNSPECIFIED {
		next.ConfigType = pipelinev1.ConfigType_CONFIG_TYPE_ALLOY
	}
	if next.Source.GetType() == pipelinev1.PipelineSource_SOURCE_TYPE_UNSPECIFIED {
		next.Source = nil
	}
	if s.options.DropMetadata {
		next.Metadata = nil
	}
	return next, nil
}

// DeletePipeline implements PipelineService.
func (p pipelineService) DeletePipeline(_ context.Context, request *connect.Request[pipelinev1.DeletePipelineRequest]) (*connect.Response[pipelinev1.DeletePipelineResponse], error) {
	p.server.mutex.Lock()
	defer p.server.mutex.Unlock()
	former := p.server.pipelines.byID(request.Msg.GetId())
	if former == nil {
		return nil, notFound("pipeline", request.Msg.GetId())
	}
	p.server.pipelines.remove(former, p.server.now())
	return connect.NewResponse(&pipelinev1.DeletePipelineResponse{}), nil
}

// SyncPipelines implements PipelineService: all or nothing, by name, and what the source no longer has is deleted.
func (p pipelineService) SyncPipelines(_ context.Context, request *connect.Request[pipelinev1.SyncPipelinesRequest]) (*connect.Response[pipelinev1.SyncPipelinesResponse], error) {
	source := request.Msg.GetSource()
	if source.GetType() == pipelinev1.PipelineSource_SOURCE_TYPE_UNSPECIFIED {
		return nil, invalid("source is required")
	}
	if err := checkSource(source); err != nil {
		return nil, err
	}
	accepted := map[string]bool{}
	nexts := make([]*pipelinev1.Pipeline, 0, len(request.Msg.GetPipelines()))
	for _, given := range request.Msg.GetPipelines() {
		given = proto.CloneOf(given)
		given.Source = source
		next, err := p.server.accept(given)
		if err != nil {
			return nil, err
		}
		if accepted[next.GetName()] {
			return nil, invalid("pipeline %q is given twice", next.GetName())
		}
		accepted[next.GetName()] = true
		nexts = append(nexts, next)
	}
	p.server.mutex.Lock()
	defer p.server.mutex.Unlock()
	state := &p.server.pipelines
	for _, former := range slices.Clone(state.list()) {
		if proto.Equal(former.GetSource(), source) && !accepted[former.GetName()] {
			state.remove(former, p.server.now())
		}
	}
	for _, next := range nexts {
		former := state.byName(next.GetName())
		next.Id = nil
		state.stamp(next, former, p.server.now())
		state.store(next, former, p.server.now())
	}
	return connect.NewResponse(&pipelinev1.SyncPipelinesResponse{}), nil
}
