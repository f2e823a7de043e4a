// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetserver

import (
	"fmt"
	"strconv"

	"connectrpc.com/connect"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// firstID is that of the first pipeline.
const firstID = 1001

// pipelines are the pipelines by ID and their history. A name belongs to one of them. Its owner locks.
type pipelines struct {
	table[*pipelinev1.Pipeline]
	ids       map[string]string
	nextID    int
	revisions []*pipelinev1.PipelineRevision
}

func newPipelines() pipelines { return pipelines{ids: map[string]string{}, nextID: firstID} }

func (p *pipelines) byID(id string) *pipelinev1.Pipeline {
	pipeline, _ := p.get(id)
	return pipeline
}

func (p *pipelines) byName(name string) *pipelinev1.Pipeline { return p.byID(p.ids[name]) }

func (p *pipelines) find(idOrName string) *pipelinev1.Pipeline {
	if pipeline := p.byID(idOrName); pipeline != nil {
		return pipeline
	}
	return p.byName(idOrName)
}

// target finds what an update is about, by its ID and without one by its name, and makes sure of the name.
func (p *pipelines) target(next *pipelinev1.Pipeline) (*pipelinev1.Pipeline, error) {
	former := p.byName(next.GetName())
	if id := next.GetId(); id != "" {
		former = p.byID(id)
	}
	if former == nil {
		return nil, notFound("pipeline", next.GetId()+next.GetName())
	}
	if other := p.byName(next.GetName()); other != nil && other.GetId() != former.GetId() {
		return nil, nameTaken(next.GetName())
	}
	return former, nil
}

// stamp gives next what the server decides: the ID and creation of the pipeline that it replaces, or new ones.
func (p *pipelines) stamp(next, former *pipelinev1.Pipeline, now *timestamppb.Timestamp) {
	next.CreatedAt, next.UpdatedAt = now, now
	switch {
	case former != nil:
		next.Id, next.CreatedAt = proto.String(former.GetId()), former.GetCreatedAt()
	case next.GetId() == "":
		for p.byID(strconv.Itoa(p.nextID)) != nil {
			p.nextID++
		}
		next.Id = proto.String(strconv.Itoa(p.nextID))
		p.nextID++
	}
}

// store puts next, which has an ID, in the place of former, which is nil for a new pipeline. Its caller has made sure of the name.
func (p *pipelines) store(next, former *pipelinev1.Pipeline, now *timestamppb.Timestamp) {
	if other := p.byName(next.GetName()); other != nil && other != former {
		panic("fleetserver: another pipeline is named " + next.GetName())
	}
	operation := pipelinev1.PipelineRevision_INSERT
	if former != nil {
		operation = pipelinev1.PipelineRevision_UPDATE
		delete(p.ids, former.GetName())
	}
	p.ids[next.GetName()] = next.GetId()
	p.put(next.GetId(), next)
	p.record(next, operation, now)
}

func (p *pipelines) remove(former *pipelinev1.Pipeline, now *timestamppb.Timestamp) {
	delete(p.ids, former.GetName())
	p.table.remove(former.GetId())
	p.record(former, pipelinev1.PipelineRevision_DELETE, now)
}

func (p *pipelines) record(snapshot *pipelinev1.Pipeline, operation pipelinev1.PipelineRevision_Operation, now *timestamppb.Timestamp) {
	p.revisions = append(p.revisions, &pipelinev1.PipelineRevision{
		RevisionId: strconv.Itoa(len(p.revisions) + 1), Snapshot: snapshot, CreatedAt: now, Operation: operation,
	})
}

func invalid(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}

// notFound is also what an ID or name gets that was forgotten, as a wrong request.
func notFound(kind, id string) error {
	if id == "" {
		return invalid("%s: an id or name is required", kind)
	}
	return connect.NewError(connect.CodeNotFound, fmt.Errorf("%s %q not found", kind, id))
}

func nameTaken(name string) error {
	return connect.NewError(connect.CodeAlreadyExists, fmt.Errorf("a pipeline named %q already exists", name))
}
