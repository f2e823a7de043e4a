// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/egress"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/netguard"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

func TestTheLifeOfAPipeline(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	ctx := t.Context()
	want := client.Pipeline{
		Name: "logs", Contents: "logging {}", Matchers: []string{`env="prod"`}, Enabled: true, ConfigType: fleetmanagementv1alpha1.ConfigTypeAlloy,
		Source:   &client.Source{Type: fleetmanagementv1alpha1.SourceGit, Namespace: "repo"},
		Metadata: map[string]any{"k8s.managed-by": "candor", "n": 1.5, "list": []any{"a", true, nil}},
	}
	g.Expect(s.ValidatePipeline(ctx, want)).To(Succeed())
	g.Expect(s.server.Pipelines()).To(BeEmpty())

	created, err := s.CreatePipeline(ctx, want)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(created.ID).NotTo(BeEmpty())
	g.Expect(created.CreatedAt).NotTo(BeZero())
	want.ID, want.CreatedAt, want.UpdatedAt = created.ID, created.CreatedAt, created.UpdatedAt
	g.Expect(created).To(Equal(want))
	_, err = s.CreatePipeline(ctx, want)
	g.Expect(err).To(MatchError(client.ErrExists))
	g.Expect(err).NotTo(MatchError(client.ErrMismatch))

	got, err := s.GetPipeline(ctx, want.ID)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal(want))
	g.Expect(s.PipelineID(ctx, "logs")).To(Equal(want.ID))
	g.Expect(s.ListPipelines(ctx)).To(Equal([]client.Pipeline{want}))

	renamed := client.Pipeline{ID: want.ID, Name: "renamed", Contents: "receivers: {}", ConfigType: fleetmanagementv1alpha1.ConfigTypeOTel}
	updated, err := s.UpdatePipeline(ctx, renamed)
	g.Expect(err).NotTo(HaveOccurred())
	renamed.CreatedAt, renamed.UpdatedAt = updated.CreatedAt, updated.UpdatedAt
	g.Expect(updated).To(Equal(renamed), "an update replaces everything")
	g.Expect(s.server.Pipelines()).To(HaveLen(1))

	g.Expect(s.DeletePipeline(ctx, want.ID)).To(Succeed())
	g.Expect(faultOf(t, s.DeletePipeline(ctx, want.ID)).Kind).To(Equal(fault.NotFound))
	_, err = s.GetPipeline(ctx, want.ID)
	g.Expect(faultOf(t, err).Kind).To(Equal(fault.NotFound))
	_, err = s.PipelineID(ctx, "renamed")
	g.Expect(faultOf(t, err).Kind).To(Equal(fault.NotFound))
	g.Expect(s.server.Count()).To(Equal(11))
}

func TestSourcesOfPipelines(t *testing.T) {
	source := func(kind fleetmanagementv1alpha1.SourceType) *client.Source {
		return &client.Source{Type: kind, Namespace: "n"}
	}
	sent := func(number int32) *pipelinev1.PipelineSource {
		return &pipelinev1.PipelineSource{Type: pipelinev1.PipelineSource_SourceType(number), Namespace: "n"}
	}
	for name, test := range map[string]struct {
		source *client.Source
		want   *pipelinev1.PipelineSource
	}{
		"none":        {nil, nil},
		"Git":         {source(fleetmanagementv1alpha1.SourceGit), sent(1)},
		"Terraform":   {source(fleetmanagementv1alpha1.SourceTerraform), sent(2)},
		"Grafana":     {source(fleetmanagementv1alpha1.SourceGrafana), sent(3)},
		"Kubernetes":  {source(fleetmanagementv1alpha1.SourceKubernetes), nil},
		"Unspecified": {source(fleetmanagementv1alpha1.SourceUnspecified), nil},
	} {
		t.Run(name+" is sent", func(t *testing.T) {
			g := NewWithT(t)
			s := newStand(t)
			g.Expect(s.ValidatePipeline(t.Context(), client.Pipeline{Name: "p", Contents: "logging {}", Source: test.source})).To(Succeed())
			request := s.server.Calls()[0].Request.(*pipelinev1.UpsertPipelineRequest)
			g.Expect(proto.Equal(request.GetPipeline().GetSource(), test.want)).To(BeTrue(), "%v", request)
			g.Expect(request.GetPipeline().Enabled).To(HaveValue(BeFalse()), "what is not said is not left to the server")
		})
	}
	for name, test := range map[string]struct {
		stored *pipelinev1.PipelineSource
		want   *client.Source
	}{
		"none":                           {nil, nil},
		"an empty one":                   {&pipelinev1.PipelineSource{}, nil},
		"one of Grafana":                 {sent(3), source(fleetmanagementv1alpha1.SourceGrafana)},
		"one that is not known yet":      {sent(9), source(fleetmanagementv1alpha1.SourceUnspecified)},
		"one that has a namespace alone": {sent(0), source(fleetmanagementv1alpha1.SourceUnspecified)},
	} {
		t.Run(name+" is read", func(t *testing.T) {
			s := newStand(t)
			stored := pipelineNamed("p")
			stored.Source = test.stored
			got, err := s.GetPipeline(t.Context(), s.server.PutPipeline(stored).GetId())
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(got.Source).To(Equal(test.want))
		})
	}
}

func TestMetadataThatCannotBeSentIsTheCallersFault(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	_, err := s.CreatePipeline(t.Context(), client.Pipeline{Name: "p", Metadata: map[string]any{"k": struct{}{}}})
	g.Expect(faultOf(t, err).Kind).To(Equal(fault.Terminal))
	g.Expect(err).To(MatchError(HavePrefix("the metadata of the pipeline cannot be sent: ")))
	g.Expect(s.server.Count()).To(BeZero())
}

func TestTheLifeOfACollector(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	ctx := t.Context()
	s.server.PutCollector(&collectorv1.Collector{
		Id: "c", Name: "edge", CollectorType: collectorv1.CollectorType_COLLECTOR_TYPE_OTEL,
		LocalAttributes: map[string]string{"os": "linux"}, RemoteAttributes: map[string]string{"team": "a", "a/b~c": "old"},
	})
	s.server.PutCollector(&collectorv1.Collector{Id: "d", LocalAttributes: map[string]string{"os": "plan9"}})

	all, err := s.ListCollectors(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all).To(HaveLen(2))
	matched, err := s.ListCollectors(ctx, `os="linux"`)
	g.Expect(err).NotTo(HaveOccurred())
	got, err := s.GetCollector(ctx, "c")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(matched).To(Equal([]client.Collector{got}))
	g.Expect(got.CreatedAt).NotTo(BeZero())
	g.Expect(got).To(Equal(client.Collector{
		ID: "c", Name: "edge", Enabled: proto.Bool(true), Type: client.CollectorOTel, CreatedAt: got.CreatedAt, UpdatedAt: got.UpdatedAt,
		LocalAttributes: map[string]string{"os": "linux"}, RemoteAttributes: map[string]string{"team": "a", "a/b~c": "old"},
	}))

	got.Name, got.Enabled = "renamed", nil
	g.Expect(s.UpdateCollector(ctx, got)).To(Succeed())
	stored := s.server.Collector("c")
	g.Expect(stored.GetName()).To(Equal("renamed"))
	g.Expect(stored.GetEnabled()).To(BeTrue())
	g.Expect(stored.GetRemoteAttributes()).To(Equal(map[string]string{"team": "a", "a/b~c": "old"}))

	old := "old"
	ops := []client.Op{
		{Kind: client.OpAdd, Key: "new", Value: "1"},
		{Kind: client.OpReplace, Key: "a/b~c", Value: "2", Old: &old},
		{Kind: client.OpRemove, Key: "team", Value: "a"},
	}
	g.Expect(s.BulkUpdateCollectors(ctx, []string{"c"}, ops)).To(Succeed())
	g.Expect(s.server.Collector("c").GetRemoteAttributes()).To(Equal(map[string]string{"new": "1", "a/b~c": "2"}))
	g.Expect(s.BulkUpdateCollectors(ctx, []string{"c"}, ops[1:2])).To(MatchError(client.ErrMismatch))
	g.Expect(faultOf(t, s.BulkUpdateCollectors(ctx, []string{"c", "none"}, ops[:1])).Kind).To(Equal(fault.NotFound))
	_, err = s.GetCollector(ctx, "none")
	g.Expect(faultOf(t, err).Kind).To(Equal(fault.NotFound))
}

func TestOperationsAsTheyAreSent(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	s.server.PutCollector(&collectorv1.Collector{Id: "c", RemoteAttributes: map[string]string{"k": "v", "l": "v", "m": "v"}})
	empty := ""
	_ = s.BulkUpdateCollectors(t.Context(), []string{"c"}, []client.Op{
		{Kind: client.OpAdd, Key: "app.kubernetes.io/name~"},
		{Kind: client.OpReplace, Key: "k", Value: "w"},
		{Kind: client.OpReplace, Key: "l", Value: "w", Old: &empty},
		{Kind: client.OpRemove, Key: "m"},
	})
	sent := s.server.Calls()[0].Request.(*collectorv1.BulkUpdateCollectorsRequest)
	g.Expect(sent.GetIds()).To(Equal([]string{"c"}))
	for i, want := range []*collectorv1.Operation{
		{Op: collectorv1.Operation_ADD, Path: "/remote_attributes/app.kubernetes.io~1name~0", Value: &empty},
		{Op: collectorv1.Operation_REPLACE, Path: "/remote_attributes/k", Value: proto.String("w")},
		{Op: collectorv1.Operation_REPLACE, Path: "/remote_attributes/l", Value: proto.String("w"), OldValue: &empty},
		{Op: collectorv1.Operation_REMOVE, Path: "/remote_attributes/m"},
	} {
		g.Expect(proto.Equal(sent.GetOps()[i], want)).To(BeTrue(), "%v", sent.GetOps()[i])
	}
}

func TestLimitsAreToldOrUnknown(t *testing.T) {
	json := map[string]string{"Content-Type": "application/json"}
	want := client.Limits{Collectors: 30000, Pipelines: 500, APIRequestsPerSecond: 3}
	for name, test := range map[string]struct {
		answer fleetserver.Response
		want   client.Limits
	}{
		"names of the API's description": {fleetserver.PlainText(200, `{"collectors":30000,"pipelines":500,"requests_per_second_api":3}`, json), want},
		"names of JSON, 64 bits as text": {fleetserver.PlainText(200, `{"collectors":"30000","pipelines":"500","requestsPerSecondApi":"3","new":[{}]}`, json), want},
		"nothing":                        {fleetserver.PlainText(200, `{}`, json), client.Limits{}},
		"not for us":                     {fleetserver.ConnectError(connect.CodePermissionDenied, ""), client.Limits{}},
		"no such procedure":              {fleetserver.ConnectError(connect.CodeUnimplemented, ""), client.Limits{}},
		"no such service":                {fleetserver.PlainText(404, "404 page not found", nil), client.Limits{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newStand(t)
			s.server.Fail(fleetserver.Rule{Respond: test.answer})
			g.Expect(s.Limits(t.Context())).To(Equal(test.want))
			g.Expect(s.Limits(t.Context())).To(Equal(test.want), "nothing pauses for it")
			g.Expect(s.Available()).To(Succeed())
			g.Expect(gathered(t, s)).To(HaveKeyWithValue("fleet_api_paused{AuthFailed}", 0.0))
		})
	}
	t.Run("any other error is one", func(t *testing.T) {
		s := newStand(t)
		s.server.Fail(fleetserver.Rule{Respond: fleetserver.ConnectError(connect.CodeUnavailable, "")})
		_, err := s.Limits(t.Context())
		NewWithT(t).Expect(faultOf(t, err).Kind).To(Equal(fault.Retry))
	})
	t.Run("the fake tells them", func(t *testing.T) {
		server := fleetserver.New(fleetserver.Options{Limits: fleetserver.Limits{Collectors: 30000, Pipelines: 500, RequestsPerSecondAPI: 3}})
		t.Cleanup(server.Close)
		NewWithT(t).Expect(standAt(t, server.URL(), httpClient(t, server.CA())).Limits(t.Context())).To(Equal(want))
	})
}

// gathered returns the values of counters and gauges, and the counts of histograms, by name and label values.
func gathered(t *testing.T, s *stand) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.metrics.Collectors()...)
	families, err := registry.Gather()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			values[fmt.Sprintf("%s{%s}", family.GetName(), strings.Join(labels, ","))] = valueOf(family.GetType(), metric)
		}
	}
	return values
}

func valueOf(kind dto.MetricType, metric *dto.Metric) float64 {
	switch kind {
	case dto.MetricType_COUNTER:
		return metric.GetCounter().GetValue()
	case dto.MetricType_GAUGE:
		return metric.GetGauge().GetValue()
	case dto.MetricType_HISTOGRAM:
		return float64(metric.GetHistogram().GetSampleCount())
	}
	return math.NaN()
}

func TestMetricsCountWhatIsSent(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	g.Expect(list(t.Context(), s.Client)).To(Succeed())
	g.Expect(s.DeletePipeline(t.Context(), "1")).NotTo(Succeed())
	s.server.Fail(fleetserver.Rule{Times: 1, Respond: fleetserver.PlainText(429, "", nil)})
	for range 3 { // of which one is sent
		g.Expect(list(t.Context(), s.Client)).NotTo(Succeed())
	}
	const pipelines = "/pipeline.v1.PipelineService/"
	g.Expect(gathered(t, s)).To(Equal(map[string]float64{
		"fleet_api_requests_total{" + pipelines + "ListPipelines}":                              2,
		"fleet_api_requests_total{" + pipelines + "DeletePipeline}":                             1,
		"fleet_api_errors_total{" + pipelines + "DeletePipeline,not_found}":                     1,
		"fleet_api_errors_total{" + pipelines + "ListPipelines,resource_exhausted}":             1,
		"fleet_api_request_duration_seconds{" + pipelines + "ListPipelines,ok}":                 1,
		"fleet_api_request_duration_seconds{" + pipelines + "ListPipelines,resource_exhausted}": 1,
		"fleet_api_request_duration_seconds{" + pipelines + "DeletePipeline,not_found}":         1,
		"fleet_api_rate_limiter_wait_duration_seconds{}":                                        3,
		"fleet_api_paused{AuthFailed}":                                                          0,
		"fleet_api_paused{BaseURLWrong}":                                                        0,
		"fleet_api_paused{NoCredentials}":                                                       0,
		"fleet_api_paused{RateLimited}":                                                         1,
	}))

	s.clock.Step(time.Minute)
	s.server.SetCredentials("another", "another")
	g.Expect(list(t.Context(), s.Client)).NotTo(Succeed())
	g.Expect(gathered(t, s)).To(And(HaveKeyWithValue("fleet_api_paused{AuthFailed}", 1.0), HaveKeyWithValue("fleet_api_paused{RateLimited}", 0.0)))
	s.use(func(*client.Credentials) {}, client.ErrNoCredentials)
	g.Expect(s.Available()).NotTo(Succeed())
	g.Expect(gathered(t, s)).To(HaveKeyWithValue("fleet_api_paused{NoCredentials}", 1.0))
	s.use(func(c *client.Credentials) { c.BaseURL = "fleet.example" }, nil)
	g.Expect(s.Available()).NotTo(Succeed())
	g.Expect(gathered(t, s)).To(And(HaveKeyWithValue("fleet_api_paused{BaseURLWrong}", 1.0), HaveKeyWithValue("fleet_api_paused{NoCredentials}", 0.0)))
}

func TestAnAnswerWithoutAnEndIsCutOff(t *testing.T) {
	g := NewWithT(t)
	var sent atomic.Int64
	ended := make(chan struct{})
	url, ca := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		defer close(ended)
		w.Header().Set("Content-Type", "application/proto")
		for sent.Load() < 300<<20 {
			n, err := io.CopyN(w, zeros{}, 1<<20)
			sent.Add(n)
			if err != nil {
				return
			}
		}
	})
	guard, err := netguard.New(netguard.Administrator, netguard.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	bounded, err := egress.NewClient(egress.Options{Guard: guard, CABundle: ca, MaxBody: 1 << 20})
	g.Expect(err).NotTo(HaveOccurred())
	err = list(t.Context(), standAt(t, url, bounded).Client)
	g.Expect(err).To(MatchError("ListPipelines: no usable answer of Fleet Management (200 OK): the answer is too large: it has more than 1048576 bytes"))
	<-ended
	g.Expect(sent.Load()).To(BeNumerically("<", 64<<20), "what the buffers of the connection hold")
}

// Run it with -race.
func TestFiftyGoroutinesMeetEveryWeather(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	s.server.PutCollector(&collectorv1.Collector{Id: "c"})
	weather := []fleetserver.Response{
		plain(429), plain(403), plain(500), fleetserver.Drop(), html(404),
		fleetserver.ConnectError(connect.CodeUnauthenticated, ""), fleetserver.ConnectError(connect.CodeAborted, ""),
	}
	var all sync.WaitGroup
	var unexpected atomic.Int32
	for i := range 50 {
		all.Go(func() {
			ctx := t.Context()
			for j := range 20 {
				if i == 0 {
					s.server.Fail(fleetserver.Rule{Times: 1, Respond: weather[j%len(weather)]})
					s.use(func(c *client.Credentials) { c.Password = []string{password, "outdated-" + password}[j%2] }, nil)
					s.clock.Step(time.Minute)
				}
				if i%10 == 1 && j%5 == 0 {
					given, cancel := context.WithTimeout(ctx, time.Millisecond)
					_ = list(given, s.Client)
					cancel()
				}
				for _, err := range []error{
					list(ctx, s.Client), s.DeletePipeline(ctx, "1"), s.BulkUpdateCollectors(ctx, []string{"c"}, nil), s.Available(),
				} {
					if f := (*fault.Fault)(nil); err != nil && !errors.As(err, &f) {
						unexpected.Add(1)
					}
				}
			}
		})
	}
	all.Wait()
	g.Expect(unexpected.Load()).To(BeZero())

	s.server.ClearFaults()
	s.use(func(c *client.Credentials) { c.Password = password }, nil)
	s.clock.Step(time.Hour)
	g.Expect(list(t.Context(), s.Client)).To(Succeed())
	sent := 0.0
	for name, value := range gathered(t, s) {
		if strings.HasPrefix(name, "fleet_api_requests_total") {
			sent += value
		}
	}
	g.Expect(sent).To(BeNumerically(">=", s.server.Count()), "what never reached the server is counted too")
}
