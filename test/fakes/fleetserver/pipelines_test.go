// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetserver_test

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

func TestAPipelineLivesFromCreateToDelete(t *testing.T) {
	inBothCodecs(t, fleetserver.Options{}, func(t *testing.T, f *fixture) {
		g := NewWithT(t)
		metadata, err := structpb.NewStruct(map[string]any{"k8s.name": "logs"})
		g.Expect(err).NotTo(HaveOccurred())

		created := create(t, f, pipeline("logs", func(p *pipelinev1.Pipeline) {
			p.Metadata, p.Id = metadata, proto.String("mine")
			p.Source = &pipelinev1.PipelineSource{Type: 3, Namespace: "ui"}
		}))
		g.Expect(created.GetId()).To(Equal("1001"))
		g.Expect(created.GetCreatedAt().AsTime()).To(Equal(noon))
		g.Expect(created.GetMetadata().AsMap()).To(HaveKeyWithValue("k8s.name", "logs"))
		refused(t, connect.CodeAlreadyExists, f.pipelines.CreatePipeline, &pipelinev1.CreatePipelineRequest{Pipeline: pipeline("logs")})
		g.Expect(must(t, f.pipelines.GetPipelineID, &pipelinev1.GetPipelineIDRequest{Name: "logs"}).GetId()).To(Equal("1001"))
		g.Expect(proto.Equal(must(t, f.pipelines.GetPipeline, &pipelinev1.GetPipelineRequest{Id: "1001"}), created)).To(BeTrue())

		f.clock.SetTime(noon.Add(time.Minute))
		renamed := must(t, f.pipelines.UpdatePipeline, &pipelinev1.UpdatePipelineRequest{Pipeline: &pipelinev1.Pipeline{
			Id: proto.String("1001"), Name: "all-logs", Contents: otel, ConfigType: pipelinev1.ConfigType_CONFIG_TYPE_OTEL,
		}})
		g.Expect(proto.Equal(renamed, &pipelinev1.Pipeline{
			Id: proto.String("1001"), Name: "all-logs", Contents: otel, ConfigType: pipelinev1.ConfigType_CONFIG_TYPE_OTEL, Enabled: proto.Bool(false),
			CreatedAt: created.GetCreatedAt(), UpdatedAt: renamed.GetUpdatedAt(),
		})).To(BeTrue(), "what an update does not set is removed: %v", renamed)
		g.Expect(renamed.GetUpdatedAt().AsTime()).To(Equal(noon.Add(time.Minute)))
		refused(t, connect.CodeNotFound, f.pipelines.GetPipelineID, &pipelinev1.GetPipelineIDRequest{Name: "logs"})

		must(t, f.pipelines.DeletePipeline, &pipelinev1.DeletePipelineRequest{Id: "1001"})
		refused(t, connect.CodeNotFound, f.pipelines.DeletePipeline, &pipelinev1.DeletePipelineRequest{Id: "1001"})
		refused(t, connect.CodeInvalidArgument, f.pipelines.DeletePipeline, &pipelinev1.DeletePipelineRequest{})
		refused(t, connect.CodeNotFound, f.pipelines.GetPipeline, &pipelinev1.GetPipelineRequest{Id: "1001"})
		g.Expect(f.Pipelines()).To(BeEmpty())
	})
}

func TestNamesOfPipelinesAreUnique(t *testing.T) {
	g := NewWithT(t)
	f := start(t, fleetserver.Options{})
	create(t, f, pipeline("a"))
	b := create(t, f, pipeline("b"))

	b.Name = "a"
	refused(t, connect.CodeAlreadyExists, f.pipelines.UpdatePipeline, &pipelinev1.UpdatePipelineRequest{Pipeline: b})
	refused(t, connect.CodeNotFound, f.pipelines.UpdatePipeline, &pipelinev1.UpdatePipelineRequest{Pipeline: pipeline("c")})
	upserted := must(t, f.pipelines.UpsertPipeline, &pipelinev1.UpsertPipelineRequest{Pipeline: b})
	g.Expect(upserted.GetId()).To(Equal("1001"), "an upsert goes by the name")
	g.Expect(must(t, f.pipelines.UpdatePipeline, &pipelinev1.UpdatePipelineRequest{Pipeline: pipeline("b")}).GetId()).To(Equal("1002"))
	g.Expect(must(t, f.pipelines.UpsertPipeline, &pipelinev1.UpsertPipelineRequest{Pipeline: pipeline("c")}).GetId()).To(Equal("1003"))
	g.Expect(names(f.Pipelines())).To(Equal([]string{"a", "b", "c"}))
}

func TestAPreviewStoresNothing(t *testing.T) {
	g := NewWithT(t)
	f := start(t, fleetserver.Options{})
	create(t, f, pipeline("a"))
	before, revisions := f.Pipelines(), len(f.Revisions())
	change := pipeline("a", func(p *pipelinev1.Pipeline) { p.Contents = "// other\n" })

	preview := must(t, f.pipelines.CreatePipeline, &pipelinev1.CreatePipelineRequest{Pipeline: pipeline("b"), ValidateOnly: true})
	g.Expect(preview.GetName()).To(Equal("b"))
	g.Expect(preview.GetId()).To(BeEmpty())
	g.Expect(must(t, f.pipelines.UpsertPipeline, &pipelinev1.UpsertPipelineRequest{Pipeline: change, ValidateOnly: true}).GetId()).To(Equal("1001"))
	g.Expect(must(t, f.pipelines.UpdatePipeline, &pipelinev1.UpdatePipelineRequest{Pipeline: change, ValidateOnly: true}).GetContents()).To(Equal("// other\n"))
	refused(t, connect.CodeAlreadyExists, f.pipelines.CreatePipeline, &pipelinev1.CreatePipelineRequest{Pipeline: change, ValidateOnly: true})

	g.Expect(f.Pipelines()).To(HaveLen(1))
	g.Expect(proto.Equal(f.Pipelines()[0], before[0])).To(BeTrue())
	g.Expect(f.Revisions()).To(HaveLen(revisions))
	g.Expect(create(t, f, pipeline("b")).GetId()).To(Equal("1002"), "a preview uses no ID up")
}

func TestAPipelineIsCheckedBeforeItIsStored(t *testing.T) {
	source := func(kind pipelinev1.PipelineSource_SourceType, namespace string) func(*pipelinev1.Pipeline) {
		return func(p *pipelinev1.Pipeline) {
			p.Source = &pipelinev1.PipelineSource{Type: kind, Namespace: namespace}
		}
	}
	matchers := func(given ...string) func(*pipelinev1.Pipeline) {
		return func(p *pipelinev1.Pipeline) { p.Matchers = given }
	}
	contents := func(kind pipelinev1.ConfigType, text string) func(*pipelinev1.Pipeline) {
		return func(p *pipelinev1.Pipeline) { p.ConfigType, p.Contents = kind, text }
	}
	f := start(t, fleetserver.Options{})
	for _, c := range []struct {
		name   string
		change func(*pipelinev1.Pipeline)
		says   string
	}{
		{"a pipeline needs a name", func(p *pipelinev1.Pipeline) { p.Name = "" }, "name is required"},
		{"a pipeline needs contents", func(p *pipelinev1.Pipeline) { p.Contents = "" }, "contents are required"},
		{"Alloy must parse", contents(pipelinev1.ConfigType_CONFIG_TYPE_ALLOY, "invalid {{{"), "1:10"},
		{"YAML is no Alloy", contents(pipelinev1.ConfigType_CONFIG_TYPE_ALLOY, otel), "invalid Alloy"},
		{"an unspecified type is Alloy", contents(pipelinev1.ConfigType_CONFIG_TYPE_UNSPECIFIED, otel), "invalid Alloy"},
		{"YAML must parse", contents(pipelinev1.ConfigType_CONFIG_TYPE_OTEL, "receivers: [\n"), "invalid OpenTelemetry"},
		{"the YAML must be a mapping", contents(pipelinev1.ConfigType_CONFIG_TYPE_OTEL, "receivers"), "invalid OpenTelemetry"},
		{"a key of the YAML stands once", contents(pipelinev1.ConfigType_CONFIG_TYPE_OTEL, "a: 1\na: 2\n"), "invalid OpenTelemetry"},
		{"a type must exist", contents(7, otel), "config type 7"},
		{"a matcher must parse", matchers("env=prod", "env"), `matcher "env"`},
		{"a regular expression must parse", matchers(`env=~"("`), "matcher"},
		{"braces need quotes", matchers(`env=~[a-z]{2}`), "matcher"},
		{"a matcher has 200 characters at most", matchers("env=" + strings.Repeat("é", 197)), "200 characters"},
		{"a type of source must exist", source(4, "x"), "source type 4"},
		{"a source needs a namespace", source(pipelinev1.PipelineSource_SOURCE_TYPE_GIT, ""), "needs a namespace"},
		{"a namespace needs a type of source", source(0, "x"), "needs a type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := call(t, f.pipelines.UpsertPipeline, &pipelinev1.UpsertPipelineRequest{Pipeline: pipeline("p", c.change)})
			g.Expect(err).To(MatchError(ContainSubstring(c.says)))
			g.Expect(connect.CodeOf(err)).To(Equal(connect.CodeInvalidArgument))
			g.Expect(f.Pipelines()).To(BeEmpty())
		})
	}
	refused(t, connect.CodeInvalidArgument, f.pipelines.CreatePipeline, &pipelinev1.CreatePipelineRequest{})
	create(t, f, pipeline("p", matchers("env="+strings.Repeat("é", 196), `"a b"!~"[a-z]{2}"`), source(pipelinev1.PipelineSource_SOURCE_TYPE_UNSPECIFIED, "")))
	NewWithT(t).Expect(f.Pipeline("p").GetSource()).To(BeNil())
}

func TestAServerMayDropMetadata(t *testing.T) {
	f := start(t, fleetserver.Options{DropMetadata: true})
	metadata, err := structpb.NewStruct(map[string]any{"k8s.name": "logs"})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	created := create(t, f, pipeline("logs", func(p *pipelinev1.Pipeline) { p.Metadata = metadata }))
	NewWithT(t).Expect(created.GetMetadata()).To(BeNil())
}

func TestPipelinesAreListedByFilter(t *testing.T) {
	f := start(t, fleetserver.Options{})
	create(t, f, pipeline("prod"))
	create(t, f, pipeline("linux", func(p *pipelinev1.Pipeline) { p.Matchers = []string{"collector.os=linux", "env=~pr"} }))
	create(t, f, pipeline("off", func(p *pipelinev1.Pipeline) { p.Enabled, p.Matchers = nil, []string{"env!=prod"} }))
	create(t, f, pipeline("otel", func(p *pipelinev1.Pipeline) {
		p.ConfigType, p.Contents, p.Matchers = pipelinev1.ConfigType_CONFIG_TYPE_OTEL, otel, nil
	}))
	for _, c := range []struct {
		name    string
		request *pipelinev1.ListPipelinesRequest
		want    []string
	}{
		{"all without a filter", &pipelinev1.ListPipelinesRequest{}, []string{"prod", "linux", "off", "otel"}},
		{"those of a type", &pipelinev1.ListPipelinesRequest{ConfigType: pipelinev1.ConfigType_CONFIG_TYPE_OTEL.Enum()}, []string{"otel"}},
		{"those disabled", &pipelinev1.ListPipelinesRequest{Enabled: proto.Bool(false)}, []string{"off"}},
		{"those that remote attributes get", &pipelinev1.ListPipelinesRequest{RemoteAttributes: map[string]string{"env": "prod"}}, []string{"prod", "otel"}},
		{"remote attributes win over local ones", &pipelinev1.ListPipelinesRequest{
			LocalAttributes: map[string]string{"env": "prod"}, RemoteAttributes: map[string]string{"env": "dev"},
		}, []string{"off", "otel"}},
		{"but not where the name is reserved, and patterns are anchored", &pipelinev1.ListPipelinesRequest{
			LocalAttributes: map[string]string{"collector.os": "linux", "env": "pr"}, RemoteAttributes: map[string]string{"collector.os": "windows"},
		}, []string{"linux", "off", "otel"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			NewWithT(t).Expect(names(must(t, f.pipelines.ListPipelines, c.request).GetPipelines())).To(Equal(c.want))
		})
	}
}

func TestASyncReplacesWhatItsSourceOwns(t *testing.T) {
	g := NewWithT(t)
	f := start(t, fleetserver.Options{})
	git := &pipelinev1.PipelineSource{Type: pipelinev1.PipelineSource_SOURCE_TYPE_GIT, Namespace: "repo"}
	other := &pipelinev1.PipelineSource{Type: pipelinev1.PipelineSource_SOURCE_TYPE_GIT, Namespace: "other"}
	create(t, f, pipeline("by hand"))
	create(t, f, pipeline("old", func(p *pipelinev1.Pipeline) { p.Source = git }))
	create(t, f, pipeline("theirs", func(p *pipelinev1.Pipeline) { p.Source = other }))
	create(t, f, pipeline("kept", func(p *pipelinev1.Pipeline) { p.Source = other }))

	for _, bad := range []*pipelinev1.SyncPipelinesRequest{
		{},
		{Source: &pipelinev1.PipelineSource{Type: pipelinev1.PipelineSource_SOURCE_TYPE_GIT}},
		{Source: git, Pipelines: []*pipelinev1.Pipeline{pipeline("new"), {Name: "bad"}}},
		{Source: git, Pipelines: []*pipelinev1.Pipeline{pipeline("new"), pipeline("new")}},
	} {
		refused(t, connect.CodeInvalidArgument, f.pipelines.SyncPipelines, bad)
		g.Expect(names(f.Pipelines())).To(Equal([]string{"by hand", "old", "theirs", "kept"}))
	}
	must(t, f.pipelines.SyncPipelines, &pipelinev1.SyncPipelinesRequest{Source: git, Pipelines: []*pipelinev1.Pipeline{pipeline("new"), pipeline("theirs")}})
	g.Expect(names(f.Pipelines())).To(Equal([]string{"by hand", "theirs", "kept", "new"}))
	g.Expect(f.Pipeline("theirs").GetId()).To(Equal("1003"))
	g.Expect(proto.Equal(f.Pipeline("theirs").GetSource(), git)).To(BeTrue())
}

func TestRevisionsTellWhatBecameOfAPipeline(t *testing.T) {
	g := NewWithT(t)
	f := start(t, fleetserver.Options{})
	create(t, f, pipeline("a"))
	create(t, f, pipeline("b"))
	must(t, f.pipelines.UpsertPipeline, &pipelinev1.UpsertPipelineRequest{Pipeline: pipeline("a")})
	must(t, f.pipelines.DeletePipeline, &pipelinev1.DeletePipelineRequest{Id: "1001"})

	var operations []pipelinev1.PipelineRevision_Operation
	for _, revision := range must(t, f.pipelines.ListPipelineRevisions, &pipelinev1.ListPipelineRevisionsRequest{Id: "1001"}).GetPipelineRevisions() {
		operations = append(operations, revision.GetOperation())
		g.Expect(revision.GetSnapshot().GetContents()).To(Equal(alloy))
	}
	g.Expect(operations).To(Equal([]pipelinev1.PipelineRevision_Operation{
		pipelinev1.PipelineRevision_INSERT, pipelinev1.PipelineRevision_UPDATE, pipelinev1.PipelineRevision_DELETE,
	}))
	all := must(t, f.pipelines.ListPipelinesRevisions, &pipelinev1.ListPipelinesRevisionsRequest{}).GetPipelineRevisions()
	g.Expect(all).To(HaveLen(4))
	g.Expect(all[1].GetSnapshot().GetName()).To(Equal("b"))
	g.Expect(all[1].GetSnapshot().GetContents()).To(BeEmpty())
	one := must(t, f.pipelines.GetPipelineRevision, &pipelinev1.GetPipelineRevisionRequest{RevisionId: all[1].GetRevisionId()})
	g.Expect(one.GetSnapshot().GetContents()).To(Equal(alloy))
	refused(t, connect.CodeNotFound, f.pipelines.GetPipelineRevision, &pipelinev1.GetPipelineRevisionRequest{RevisionId: "99"})
	refused(t, connect.CodeNotFound, f.pipelines.ListPipelineRevisions, &pipelinev1.ListPipelineRevisionsRequest{Id: "99"})
	refused(t, connect.CodeUnimplemented, f.pipelines.CreateAlloyPipelines, &pipelinev1.CreateAlloyPipelinesRequest{})
}
