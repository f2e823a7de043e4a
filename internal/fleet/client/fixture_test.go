// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/candor-dev/candor/internal/egress"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/netguard"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

const (
	username = "4711"
	password = "hunter2-hunter2"
)

// stand is a client and all that it touches.
type stand struct {
	*client.Client
	server    *fleetserver.Server
	clock     *clocktesting.FakeClock
	metrics   *client.Metrics
	spans     *tracetest.SpanRecorder
	recovered atomic.Int32

	mu          sync.Mutex
	credentials client.Credentials
	unread      error
}

func (s *stand) read() (client.Credentials, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.credentials, s.unread
}

// use replaces the credentials that the client reads.
func (s *stand) use(change func(*client.Credentials), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.credentials)
	s.unread = err
}

// httpClient is that of the manager, for a server with a certificate of its own.
func httpClient(t *testing.T, ca []byte) *http.Client {
	t.Helper()
	guard, err := netguard.New(netguard.Administrator, netguard.Options{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	made, err := egress.NewClient(egress.Options{Guard: guard, CABundle: ca, MaxBody: client.MaxAnswer})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(made.CloseIdleConnections)
	return made
}

// standAt makes a client of a server that answers at a base URL. Its bucket is large; change may make it smaller.
func standAt(t *testing.T, baseURL string, sender *http.Client, change ...func(*client.Options)) *stand {
	t.Helper()
	s := &stand{
		clock:       clocktesting.NewFakeClock(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)),
		metrics:     client.NewMetrics(),
		spans:       tracetest.NewSpanRecorder(),
		credentials: client.Credentials{BaseURL: baseURL, Username: username, Password: password},
	}
	options := client.Options{
		Credentials: s.read, HTTP: sender, Clock: s.clock, RPS: 1e6, Burst: 1e6, Metrics: s.metrics,
		Tracer:    sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.spans)),
		Recovered: func() { s.recovered.Add(1) },
	}
	for _, c := range change {
		c(&options)
	}
	s.Client = client.New(options)
	return s
}

// newStand makes a client of a fake Fleet Management.
func newStand(t *testing.T, change ...func(*client.Options)) *stand {
	t.Helper()
	server := fleetserver.New(fleetserver.Options{Username: username, Password: password})
	t.Cleanup(server.Close)
	s := standAt(t, server.URL(), httpClient(t, server.CA()), change...)
	s.server = server
	return s
}

// serve starts a server of HTTP/1.1 over TLS that logs nothing, and returns its URL and its certificate.
func serve(t *testing.T, handler http.HandlerFunc) (baseURL string, ca []byte) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// faultOf returns the fault that err is; each error of a Client is one.
func faultOf(t *testing.T, err error) *fault.Fault {
	t.Helper()
	f, is := err.(*fault.Fault) //nolint:errorlint // it must be one, not wrap one
	NewWithT(t).Expect(is).To(BeTrue(), "%v is a %T", err, err)
	return f
}

// errorOf returns the client.Error in err.
func errorOf(t *testing.T, err error) *client.Error {
	t.Helper()
	e := (*client.Error)(nil)
	NewWithT(t).Expect(errors.As(err, &e)).To(BeTrue(), "%v", err)
	return e
}

func list(ctx context.Context, c *client.Client) error {
	_, err := c.ListPipelines(ctx)
	return err
}
