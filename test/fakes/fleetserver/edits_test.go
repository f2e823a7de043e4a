// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetserver_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

func TestPipelinesAreEditedOutOfBand(t *testing.T) {
	g := NewWithT(t)
	f := start(t, fleetserver.Options{})
	created := create(t, f, pipeline("logs"))
	f.clock.SetTime(noon.Add(time.Minute))

	f.EditPipeline("logs", func(p *pipelinev1.Pipeline) {
		p.Name, p.Contents, p.Id = "all-logs", "not {{ checked", proto.String("other")
	})
	edited := must(t, f.pipelines.GetPipeline, &pipelinev1.GetPipelineRequest{Id: created.GetId()})
	g.Expect(edited.GetContents()).To(Equal("not {{ checked"))
	g.Expect(edited.GetUpdatedAt().AsTime()).To(Equal(noon.Add(time.Minute)))
	refused(t, connect.CodeNotFound, f.pipelines.GetPipelineID, &pipelinev1.GetPipelineIDRequest{Name: "logs"})

	put := f.PutPipeline(&pipelinev1.Pipeline{Name: "logs", Id: proto.String("1002"), CreatedAt: timestamppb.New(noon)})
	g.Expect(proto.Equal(put, &pipelinev1.Pipeline{
		Name: "logs", Id: proto.String("1002"), CreatedAt: timestamppb.New(noon), UpdatedAt: timestamppb.New(noon.Add(time.Minute)),
		Enabled: proto.Bool(true), ConfigType: pipelinev1.ConfigType_CONFIG_TYPE_ALLOY,
	})).To(BeTrue(), "%v", put)
	g.Expect(create(t, f, pipeline("third")).GetId()).To(Equal("1003"))
	g.Expect(f.PutPipeline(pipeline("third")).GetId()).To(Equal("1003"), "the same name is the same pipeline")

	g.Expect(f.DeletePipeline("all-logs")).To(BeTrue())
	g.Expect(f.DeletePipeline("1001")).To(BeFalse())
	refused(t, connect.CodeNotFound, f.pipelines.GetPipeline, &pipelinev1.GetPipelineRequest{Id: "1001"})
	g.Expect(f.Pipeline("1001")).To(BeNil())
	g.Expect(names(f.Pipelines())).To(Equal([]string{"logs", "third"}))
	g.Expect(f.Revisions()).To(HaveLen(6))

	g.Expect(func() { f.EditPipeline("absent", func(*pipelinev1.Pipeline) {}) }).To(Panic())
	g.Expect(func() { f.EditPipeline("logs", func(p *pipelinev1.Pipeline) { p.Name = "third" }) }).To(Panic())
	g.Expect(names(f.Pipelines())).To(Equal([]string{"logs", "third"}), "the server is usable afterwards")
}

func TestCollectorsAreEditedOutOfBand(t *testing.T) {
	g := NewWithT(t)
	f := start(t, fleetserver.Options{})
	registered := collector("a", pairs{"x": "1"})
	f.PutCollector(registered)
	registered.RemoteAttributes["x"] = "changed by the caller"
	g.Expect(f.Collector("a").GetRemoteAttributes()).To(Equal(pairs{"x": "1"}))
	g.Expect(f.Collector("a").GetEnabled()).To(BeTrue())
	f.Collector("a").RemoteAttributes["x"] = "changed by the reader"
	f.Collectors()[0].RemoteAttributes["x"] = "changed by the reader"
	g.Expect(f.Collector("a").GetRemoteAttributes()).To(Equal(pairs{"x": "1"}))

	f.clock.SetTime(noon.Add(time.Minute))
	f.EditCollector("a", func(c *collectorv1.Collector) { c.LocalAttributes["collector.os"], c.Id = "windows", "b" })
	edited := must(t, f.collectors.GetCollector, &collectorv1.GetCollectorRequest{Id: "a"})
	g.Expect(edited.GetLocalAttributes()).To(HaveKeyWithValue("collector.os", "windows"))
	g.Expect(edited.GetUpdatedAt().AsTime()).To(Equal(noon.Add(time.Minute)))

	g.Expect(f.DeleteCollector("a")).To(BeTrue())
	g.Expect(f.DeleteCollector("a")).To(BeFalse())
	g.Expect(f.Collector("a")).To(BeNil())
	g.Expect(func() { f.EditCollector("a", func(*collectorv1.Collector) {}) }).To(Panic())
	g.Expect(func() { f.PutCollector(&collectorv1.Collector{}) }).To(Panic())
}
