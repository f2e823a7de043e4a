// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"net"
	"testing"

	. "github.com/onsi/gomega"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// spans is a server of OTLP that keeps what it is sent.
type spans struct {
	collectortrace.UnimplementedTraceServiceServer
	received chan *collectortrace.ExportTraceServiceRequest
}

func (s spans) Export(_ context.Context, request *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	s.received <- request
	return &collectortrace.ExportTraceServiceResponse{}, nil
}

func TestTheLastSpansAreSentAtTheEnd(t *testing.T) {
	g := NewWithT(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	server, sink := grpc.NewServer(), spans{received: make(chan *collectortrace.ExportTraceServiceRequest, 8)}
	collectortrace.RegisterTraceServiceServer(server, sink)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+listener.Addr().String())

	ctx, end := context.WithCancel(t.Context())
	provider, flush, err := newTracing(ctx, Options{Tracing: true})
	g.Expect(err).NotTo(HaveOccurred())
	_, span := provider.Tracer("candor").Start(ctx, "/pipeline.v1.PipelineService/GetPipeline")
	span.End()
	end()
	g.Expect(flush()).To(Succeed())
	var request *collectortrace.ExportTraceServiceRequest
	g.Expect(sink.received).To(Receive(&request))
	g.Expect(request.ResourceSpans).To(HaveLen(1))
	g.Expect(request.ResourceSpans[0].Resource.Attributes).To(ContainElement(HaveField("Key", "service.name")))
	g.Expect(request.ResourceSpans[0].ScopeSpans[0].Spans[0].Name).To(Equal("/pipeline.v1.PipelineService/GetPipeline"))
}

func TestTracingIsOnWhereAnEndpointIsGiven(t *testing.T) {
	for name, test := range map[string]struct {
		environ []string
		want    bool
	}{
		"nothing is said":                {nil, false},
		"an endpoint":                    {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4317"}, true},
		"an endpoint for traces alone":   {[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://collector:4317"}, true},
		"an empty endpoint":              {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT="}, false},
		"an endpoint for metrics alone":  {[]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://collector:4317"}, false},
		"an endpoint, and OTel disabled": {[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4317", "OTEL_SDK_DISABLED=TRUE"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(readTracing(lookupIn(test.environ))).To(Equal(test.want))
		})
	}
}

func TestWithoutTracingNothingIsSentAndNothingWaits(t *testing.T) {
	g := NewWithT(t)
	provider, flush, err := newTracing(t.Context(), Options{})
	g.Expect(err).NotTo(HaveOccurred())
	_, span := provider.Tracer("candor").Start(t.Context(), "call")
	g.Expect(span.IsRecording()).To(BeFalse())
	g.Expect(flush()).To(Succeed())
}
