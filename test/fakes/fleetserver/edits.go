// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetserver

import (
	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// What follows is what people do in the user interface, and collectors by registering. None of it is checked, limited, failed by a
// rule, or in the journal. What goes in and comes out is copied.

// PutPipeline stores a pipeline in the place of that of the same ID, or else of the same name, and returns it as stored. It gets an
// ID and times where it has none; unless it says otherwise it is enabled, and Alloy.
func (s *Server) PutPipeline(pipeline *pipelinev1.Pipeline) *pipelinev1.Pipeline {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	next := proto.CloneOf(pipeline)
	if next.Enabled == nil {
		next.Enabled = proto.Bool(true)
	}
	if next.ConfigType == pipelinev1.ConfigType_CONFIG_TYPE_UNSPECIFIED {
		next.ConfigType = pipelinev1.ConfigType_CONFIG_TYPE_ALLOY
	}
	former := s.pipelines.find(next.GetId())
	if former == nil {
		former = s.pipelines.find(next.GetName())
	}
	created, updated := next.GetCreatedAt(), next.GetUpdatedAt()
	s.pipelines.stamp(next, former, s.now())
	if created != nil {
		next.CreatedAt = created
	}
	if updated != nil {
		next.UpdatedAt = updated
	}
	s.pipelines.store(next, former, s.now())
	return proto.CloneOf(next)
}

// EditPipeline changes the pipeline with this ID, or else this name; not its ID. It panics where there is none, and where the new name
// is taken.
func (s *Server) EditPipeline(idOrName string, edit func(*pipelinev1.Pipeline)) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	former := s.pipelines.find(idOrName)
	if former == nil {
		panic("fleetserver: no pipeline has the ID or name " + idOrName)
	}
	next := proto.CloneOf(former)
	next.UpdatedAt = s.now()
	edit(next)
	next.Id = proto.String(former.GetId())
	s.pipelines.store(next, former, s.now())
}

// DeletePipeline deletes the pipeline with this ID, or else this name, and returns whether there was one.
func (s *Server) DeletePipeline(idOrName string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	former := s.pipelines.find(idOrName)
	if former != nil {
		s.pipelines.remove(former, s.now())
	}
	return former != nil
}

// Pipeline returns the pipeline with this ID, or else this name; nil where there is none.
func (s *Server) Pipeline(idOrName string) *pipelinev1.Pipeline {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return proto.CloneOf(s.pipelines.find(idOrName))
}

// Pipelines returns all pipelines, in the order of their creation.
func (s *Server) Pipelines() []*pipelinev1.Pipeline {
	s.mutex.Lock()
	listed := s.pipelines.list()
	s.mutex.Unlock()
	return clones(listed)
}

// Revisions returns what became of pipelines, oldest first.
func (s *Server) Revisions() []*pipelinev1.PipelineRevision {
	s.mutex.Lock()
	listed := s.pipelines.revisions
	s.mutex.Unlock()
	return clones(listed)
}

// PutCollector stores a collector in the place of that of the same ID. Without times it gets them, and unless it says otherwise it is
// enabled. It panics where the collector has no ID.
func (s *Server) PutCollector(collector *collectorv1.Collector) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.putCollector(proto.CloneOf(collector))
}

// PutCollectors stores n collectors, made from 0 to n-1.
func (s *Server) PutCollectors(n int, collector func(i int) *collectorv1.Collector) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for i := range n {
		s.putCollector(proto.CloneOf(collector(i)))
	}
}

func (s *Server) putCollector(next *collectorv1.Collector) {
	if next.GetId() == "" {
		panic("fleetserver: a collector needs an ID")
	}
	if next.CreatedAt == nil {
		next.CreatedAt = s.now()
	}
	if next.UpdatedAt == nil {
		next.UpdatedAt = s.now()
	}
	if next.Enabled == nil {
		next.Enabled = proto.Bool(true)
	}
	s.collectors.put(next.GetId(), next)
}

// EditCollector changes a collector, but for its ID. It panics where there is none with this ID.
func (s *Server) EditCollector(id string, edit func(*collectorv1.Collector)) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	former, found := s.collectors.get(id)
	if !found {
		panic("fleetserver: no collector has the ID " + id)
	}
	next := proto.CloneOf(former)
	next.UpdatedAt = s.now()
	edit(next)
	next.Id = id
	s.collectors.put(id, next)
}

// DeleteCollector deletes a collector, and returns whether there was one.
func (s *Server) DeleteCollector(id string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	_, found := s.collectors.get(id)
	s.collectors.remove(id)
	return found
}

// Collector returns the collector with this ID; nil where there is none.
func (s *Server) Collector(id string) *collectorv1.Collector {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	collector, _ := s.collectors.get(id)
	return proto.CloneOf(collector)
}

// Collectors returns all collectors, in the order of their creation.
func (s *Server) Collectors() []*collectorv1.Collector {
	s.mutex.Lock()
	listed := s.collectors.list()
	s.mutex.Unlock()
	return clones(listed)
}

func (s *Server) now() *timestamppb.Timestamp { return timestamppb.New(s.clock.Now()) }

func clones[M proto.Message](messages []M) []M {
	copies := make([]M, len(messages))
	for i, message := range messages {
		copies[i] = proto.CloneOf(message)
	}
	return copies
}
