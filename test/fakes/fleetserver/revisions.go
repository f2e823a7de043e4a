// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetserver

import (
	"context"

	"connectrpc.com/connect"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
)

// ListPipelinesRevisions implements PipelineService. It leaves the contents of pipelines out.
func (p pipelineService) ListPipelinesRevisions(context.Context, *connect.Request[pipelinev1.ListPipelinesRevisionsRequest]) (*connect.Response[pipelinev1.PipelineRevisions], error) {
	revisions := p.server.Revisions()
	for _, revision := range revisions {
		revision.Snapshot.Contents = ""
	}
	return connect.NewResponse(&pipelinev1.PipelineRevisions{PipelineRevisions: revisions}), nil
}

// ListPipelineRevisions implements PipelineService. Those of a deleted pipeline stay.
func (p pipelineService) ListPipelineRevisions(_ context.Context, request *connect.Request[pipelinev1.ListPipelineRevisionsRequest]) (*connect.Response[pipelinev1.PipelineRevisions], error) {
	p.server.mutex.Lock()
	defer p.server.mutex.Unlock()
	var found []*pipelinev1.PipelineRevision
	for _, revision := range p.server.pipelines.revisions {
		if revision.GetSnapshot().GetId() == request.Msg.GetId() {
			found = append(found, revision)
		}
	}
	if len(found) == 0 {
		return nil, notFound("pipeline", request.Msg.GetId())
	}
	return connect.NewResponse(&pipelinev1.PipelineRevisions{PipelineRevisions: found}), nil
}

// GetPipelineRevision implements PipelineService.
func (p pipelineService) GetPipelineRevision(_ context.Context, request *connect.Request[pipelinev1.GetPipelineRevisionRequest]) (*connect.Response[pipelinev1.PipelineRevision], error) {
	p.server.mutex.Lock()
	defer p.server.mutex.Unlock()
	for _, revision := range p.server.pipelines.revisions {
		if revision.GetRevisionId() == request.Msg.GetRevisionId() {
			return connect.NewResponse(revision), nil
		}
	}
	return nil, notFound("pipeline revision", request.Msg.GetRevisionId())
}
