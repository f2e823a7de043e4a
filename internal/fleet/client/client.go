// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1/collectorv1connect"
	"github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1/pipelinev1connect"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/utils/clock"
)

// MaxAnswer bounds an answer, compressed and not, in bytes. Lists come in one piece.
const MaxAnswer = 256 << 20

const (
	defaultRPS   = 3
	defaultBurst = 50

	// callTimeout and listTimeout bound one request, from the dial to the last byte of the answer. Waiting for a turn does not count.
	callTimeout = 30 * time.Second
	listTimeout = 2 * time.Minute
)

// getLimits is no part of the public API, and not every server has it.
const getLimits = "/tenant.v1.TenantService/GetLimits"

// Options are what a Client is made of.
type Options struct {
	// Credentials returns the present ones, or an error that wraps ErrNoCredentials. It is read for each call, by one goroutine at
	// a time. Required.
	Credentials func() (Credentials, error)
	// HTTP sends the requests. It must not follow redirects, and must bound what it reads to MaxAnswer. Required.
	HTTP *http.Client
	// Clock paces requests and pauses. Required.
	Clock clock.Clock
	// RPS is how many requests a second are sent in the long run, 3 when it is not positive.
	RPS float64
	// Burst is how many may be sent at once after a rest, 50 when it is not positive.
	Burst int
	// Metrics counts; nil for not at all.
	Metrics *Metrics
	// Tracer makes a span of each call; nil for none.
	Tracer trace.TracerProvider
	// Recovered is called when credentials are taken again after they were refused, when they change, and when there are some again:
	// what waits may try at once. It must neither block nor call the Client: whoever is given the new credentials finds it done. Nil for
	// nothing.
	Recovered func()
}

// Client calls Fleet Management. A process needs one, since it paces all requests together. It never tries a call again by itself.
//
// Each error is a *fault.Fault, and one about a request wraps an *Error. A call never waits for a pause to end, only for its turn
// among other calls. It is safe for concurrent use.
type Client struct {
	admission  *admission
	pipelines  pipelinev1connect.PipelineServiceClient
	collectors collectorv1connect.CollectorServiceClient
	limits     *connect.Client[structpb.Struct, structpb.Struct]
}

// New returns a Client. It sends nothing yet.
func New(options Options) *Client {
	if options.RPS <= 0 {
		options.RPS = defaultRPS
	}
	if options.Burst <= 0 {
		options.Burst = defaultBurst
	}
	if options.Metrics == nil {
		options.Metrics = NewMetrics()
	}
	if options.Tracer == nil {
		options.Tracer = noop.NewTracerProvider()
	}
	admission := newAdmission(options)
	options.Metrics.watch(admission)
	server := &server{http: options.HTTP, clock: options.Clock}
	chain := connect.WithClientOptions(
		connect.WithReadMaxBytes(MaxAnswer),
		connect.WithInterceptors(
			&tracing{tracer: options.Tracer.Tracer(tracerName)},
			admission,
			&metering{metrics: options.Metrics, clock: options.Clock},
			&translation{clock: options.Clock},
		),
	)
	return &Client{
		admission:  admission,
		pipelines:  pipelinev1connect.NewPipelineServiceClient(server, anyHost, chain),
		collectors: collectorv1connect.NewCollectorServiceClient(server, anyHost, chain),
		limits:     connect.NewClient[structpb.Struct, structpb.Struct](server, anyHost+getLimits, connect.WithProtoJSON(), chain),
	}
}

// Available returns nil, or the *fault.Fault that each call would get now: there are no credentials, or a pause.
func (c *Client) Available() error { return c.admission.available() }

// Bind returns a digest that tells the stack of the present credentials from others, and a context whose calls go to that stack or
// fail with ErrOtherStack: an ID means nothing in another one. Other passwords of one username are of the same stack. While there are
// no credentials, it is the stack of the last ones; empty, and bound to nothing, where there were none yet.
func (c *Client) Bind(ctx context.Context) (context.Context, string) { return c.admission.bind(ctx) }

// Pace sets how many requests a second are sent in the long run, from the next one that waits on. It never goes above Options.RPS,
// and zero or less is that. How many may be sent at once after a rest stays as it is.
func (c *Client) Pace(rps float64) { c.admission.lanes.pace(rps) }

// answer sends a message and returns the message that answers it.
func answer[Req, Res any](ctx context.Context, call func(context.Context, *connect.Request[Req]) (*connect.Response[Res], error), message *Req) (*Res, error) {
	response, err := call(ctx, connect.NewRequest(message))
	if err != nil {
		return nil, err
	}
	return response.Msg, nil
}
