// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
)

// ListPipelines returns all pipelines, with their contents.
func (c *Client) ListPipelines(ctx context.Context) ([]Pipeline, error) {
	list, err := answer(ctx, c.pipelines.ListPipelines, &pipelinev1.ListPipelinesRequest{})
	if err != nil {
		return nil, err
	}
	pipelines := make([]Pipeline, 0, len(list.GetPipelines()))
	for _, pipeline := range list.GetPipelines() {
		pipelines = append(pipelines, pipelineOf(pipeline))
	}
	return pipelines, nil
}

// GetPipeline returns the pipeline of an ID, or a NotFound fault.
func (c *Client) GetPipeline(ctx context.Context, id string) (Pipeline, error) {
	return pipelineOr(answer(ctx, c.pipelines.GetPipeline, &pipelinev1.GetPipelineRequest{Id: id}))
}

// PipelineID returns the ID of the pipeline of a name, or a NotFound fault.
func (c *Client) PipelineID(ctx context.Context, name string) (string, error) {
	found, err := answer(ctx, c.pipelines.GetPipelineID, &pipelinev1.GetPipelineIDRequest{Name: name})
	return found.GetId(), err
}

// CreatePipeline creates a pipeline and returns it as it is stored. Its ID is not sent. The error matches ErrExists when the
// name is taken.
func (c *Client) CreatePipeline(ctx context.Context, pipeline Pipeline) (Pipeline, error) {
	message, err := pipeline.message()
	if err != nil {
		return Pipeline{}, err
	}
	message.Id = nil
	return pipelineOr(answer(ctx, c.pipelines.CreatePipeline, &pipelinev1.CreatePipelineRequest{Pipeline: message}))
}

// UpdatePipeline replaces all of the pipeline of an ID and returns it as it is stored. A new name renames it.
func (c *Client) UpdatePipeline(ctx context.Context, pipeline Pipeline) (Pipeline, error) {
	message, err := pipeline.message()
	if err != nil {
		return Pipeline{}, err
	}
	return pipelineOr(answer(ctx, c.pipelines.UpdatePipeline, &pipelinev1.UpdatePipelineRequest{Pipeline: message}))
}

// ValidatePipeline asks what Fleet Management would say of a pipeline. Nothing is stored.
func (c *Client) ValidatePipeline(ctx context.Context, pipeline Pipeline) error {
	message, err := pipeline.message()
	if err != nil {
		return err
	}
	_, err = answer(ctx, c.pipelines.UpsertPipeline, &pipelinev1.UpsertPipelineRequest{Pipeline: message, ValidateOnly: true})
	return err
}

// DeletePipeline deletes the pipeline of an ID; there being none is a NotFound fault.
func (c *Client) DeletePipeline(ctx context.Context, id string) error {
	_, err := answer(ctx, c.pipelines.DeletePipeline, &pipelinev1.DeletePipelineRequest{Id: id})
	return err
}

func pipelineOr(pipeline *pipelinev1.Pipeline, err error) (Pipeline, error) {
	if err != nil {
		return Pipeline{}, err
	}
	return pipelineOf(pipeline), nil
}
