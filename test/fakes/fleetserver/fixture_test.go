// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetserver_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1/collectorv1connect"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	"github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1/pipelinev1connect"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/proto"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

const (
	username, password = "123456", "glc_secret"

	alloy = "logging {\n  level = \"info\"\n}\n"
	otel  = "receivers:\n  otlp: {}\n"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// fixture is a server and the clients of one codec.
type fixture struct {
	*fleetserver.Server
	clock      *clocktesting.FakePassiveClock
	http       *http.Client
	pipelines  pipelinev1connect.PipelineServiceClient
	collectors collectorv1connect.CollectorServiceClient
}

func start(t testing.TB, options fleetserver.Options, codec ...connect.ClientOption) *fixture {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(noon)
	options.Username, options.Password, options.Clock = username, password, clock
	server := fleetserver.New(options)
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	NewWithT(t).Expect(roots.AppendCertsFromPEM(server.CA())).To(BeTrue())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	codec = append(codec, connect.WithInterceptors(connect.UnaryInterceptorFunc(basicAuth)))
	return &fixture{
		Server: server, clock: clock, http: client,
		pipelines:  pipelinev1connect.NewPipelineServiceClient(client, server.URL(), codec...),
		collectors: collectorv1connect.NewCollectorServiceClient(client, server.URL(), codec...),
	}
}

func basicAuth(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		request.Header().Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(username+":"+password)))
		return next(ctx, request)
	}
}

// inBothCodecs runs a test in protobuf and in JSON.
func inBothCodecs(t *testing.T, options fleetserver.Options, test func(t *testing.T, f *fixture)) {
	t.Run("protobuf", func(t *testing.T) { test(t, start(t, options)) })
	t.Run("JSON", func(t *testing.T) { test(t, start(t, options, connect.WithProtoJSON())) })
}

// call makes a request and hands back the message alone.
func call[Q, A any](t testing.TB, procedure func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), request *Q) (*A, error) {
	answer, err := procedure(t.Context(), connect.NewRequest(request))
	if err != nil {
		return nil, err
	}
	return answer.Msg, nil
}

func must[Q, A any](t testing.TB, procedure func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), request *Q) *A {
	t.Helper()
	answer, err := call(t, procedure, request)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return answer
}

// refused makes a request that must fail with this code.
func refused[Q, A any](t testing.TB, code connect.Code, procedure func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), request *Q) {
	t.Helper()
	_, err := call(t, procedure, request)
	NewWithT(t).Expect(err).To(HaveOccurred())
	NewWithT(t).Expect(connect.CodeOf(err)).To(Equal(code), err.Error())
}

func (f *fixture) post(t *testing.T, path, contentType, body string) (status int, answer string, header http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL()+path, strings.NewReader(body))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Content-Type", contentType)
	request.SetBasicAuth(username, password)
	response, err := f.http.Do(request)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(read), response.Header
}

func pipeline(name string, changes ...func(*pipelinev1.Pipeline)) *pipelinev1.Pipeline {
	p := &pipelinev1.Pipeline{
		Name: name, Contents: alloy, Enabled: proto.Bool(true), ConfigType: pipelinev1.ConfigType_CONFIG_TYPE_ALLOY, Matchers: []string{"env=prod"},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func create(t testing.TB, f *fixture, p *pipelinev1.Pipeline) *pipelinev1.Pipeline {
	t.Helper()
	return must(t, f.pipelines.CreatePipeline, &pipelinev1.CreatePipelineRequest{Pipeline: p})
}

func names(pipelines []*pipelinev1.Pipeline) []string {
	found := []string{}
	for _, p := range pipelines {
		found = append(found, p.GetName())
	}
	return found
}
