// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleetserver is a Fleet Management that runs in the process of a test. It serves PipelineService and CollectorService
// over Connect, in protobuf and JSON, and TenantService/GetLimits; it is as strict as the original where the original is
// documented, counts what it is asked, and fails on demand:
//
//	server := fleetserver.New(fleetserver.Options{Username: "123", Password: "secret"})
//	defer server.Close()
//	server.PutCollector(&collectorv1.Collector{Id: "edge-1"})
//	server.Fail(fleetserver.Rule{Procedure: "BulkUpdateCollectors", Times: 1, Respond: fleetserver.Drop()})
//	… calls …
//	server.Count("BulkUpdateCollectors") // 2
//
// What the original leaves open is settled on the side that a careless client notices: a pipeline without "enabled" is
// disabled, a REMOVE of an absent attribute fails the whole bulk, and a REPLACE needs something to replace.
package fleetserver

import (
	"context"
	"crypto/subtle"
	"encoding/pem"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"

	"connectrpc.com/connect"
	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	"github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1/collectorv1connect"
	"github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1/pipelinev1connect"
	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

// Options are what a Server insists on. The zero value lets everybody in and limits nothing.
type Options struct {
	// Username and Password are the Basic credentials that are let in; both empty lets everybody in.
	Username, Password string
	// Clock tells the times of pipelines, collectors and calls, and fills the bucket of the limiter. Nil is the clock of the machine.
	Clock clock.PassiveClock
	// RPS is how many calls a second are let in; zero is no limit.
	RPS float64
	// Burst is how many calls are let in at once; zero is one second's worth.
	Burst int
	// Limited is what a call above the limit gets. Its zero value is the resource_exhausted of Connect; the edge of the original is
	// PlainText(429, …) with Retry-After.
	Limited Response
	// DropMetadata is true for a server that forgets the metadata of the pipelines that are sent to it.
	DropMetadata bool
	// OmittedEnabledDisables is true for a server that disables a collector whose update does not say "enabled". Without it such an
	// update leaves "enabled" as it is.
	OmittedEnabledDisables bool
	// Limits is what GetLimits tells.
	Limits Limits
}

// Limits are those of a stack. GetLimits leaves out what is zero. They are told and not enforced.
type Limits struct {
	Collectors, Pipelines                            int64
	RequestsPerSecondCollector, RequestsPerSecondAPI int64
}

// Server is the fake. It is an http.Handler, and safe for concurrent use.
type Server struct {
	options  Options
	clock    clock.PassiveClock
	limiter  *rate.Limiter
	handler  *http.ServeMux
	refusals *connect.ErrorWriter
	http     *httptest.Server
	closed   chan struct{}
	close    func()

	mutex              sync.Mutex
	username, password string
	journal            []*Call
	rules              []*Rule
	pipelines          pipelines
	collectors         table[*collectorv1.Collector]
}

// New returns a Server that listens with TLS on a port of the loopback interface until Close.
func New(options Options) *Server {
	s := &Server{
		options: options, clock: options.Clock, username: options.Username, password: options.Password,
		handler: http.NewServeMux(), refusals: connect.NewErrorWriter(), closed: make(chan struct{}), pipelines: newPipelines(),
	}
	s.close = sync.OnceFunc(func() { close(s.closed) })
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if s.options.Limited.do == nil {
		s.options.Limited = ConnectError(connect.CodeResourceExhausted, "too many requests")
	}
	if options.RPS > 0 {
		burst := options.Burst
		if burst == 0 {
			burst = int(math.Ceil(options.RPS))
		}
		s.limiter = rate.NewLimiter(rate.Limit(options.RPS), burst)
	}
	script := connect.WithInterceptors(connect.UnaryInterceptorFunc(s.intercept))
	s.handler.Handle(pipelinev1connect.NewPipelineServiceHandler(pipelineService{server: s}, script))
	s.handler.Handle(collectorv1connect.NewCollectorServiceHandler(collectorService{server: s}, script))
	s.handler.Handle(getLimits, s.tenantService(script))
	s.http = httptest.NewUnstartedServer(s)
	s.http.EnableHTTP2 = true
	s.http.StartTLS()
	return s
}

// URL is the base URL of the API: https, without a path.
func (s *Server) URL() string { return s.http.URL }

// CA is the certificate, in PEM, that the server's own is to be checked with.
func (s *Server) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
}

// Close ends the calls that hang or are held back, and the listener.
func (s *Server) Close() {
	s.close()
	s.http.Close()
}

// SetCredentials replaces the credentials that are let in; both empty lets everybody in.
func (s *Server) SetCredentials(username, password string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.username, s.password = username, password
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler, pattern := s.handler.Handler(r)
	call := &Call{Procedure: path.Base(r.URL.Path), Header: r.Header.Clone(), At: s.clock.Now()}
	call.Header.Del("Authorization")
	if pattern == "" {
		call.Procedure = r.URL.Path
	}
	s.arrive(call)
	e := &exchange{ResponseWriter: w, server: s, call: call, gone: r.Context().Done()}
	if pattern == "" {
		e.instead = page(http.StatusNotFound, "<html><body><h1>404 Not Found</h1></body></html>", map[string]string{"Content-Type": "text/html"})
	} else if err := s.admit(r, e); err != nil {
		s.refuse(e, r, err)
	} else {
		handler.ServeHTTP(e, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, e)))
	}
	e.finish()
}

// admit is what stands before the services: credentials, then the limit.
func (s *Server) admit(r *http.Request, e *exchange) error {
	s.mutex.Lock()
	username, password := s.username, s.password
	s.mutex.Unlock()
	if username != "" || password != "" {
		givenName, givenPassword, _ := r.BasicAuth()
		if subtle.ConstantTimeCompare([]byte(givenName+"\x00"+givenPassword), []byte(username+"\x00"+password)) == 0 {
			return connect.NewError(connect.CodeUnauthenticated, errors.New("invalid credentials"))
		}
	}
	if s.limiter != nil && !s.limiter.AllowN(e.call.At, 1) {
		return s.options.Limited.do(r.Context(), e)
	}
	return nil
}

// refuse answers with an error of Connect. It reads the request to its end, so that a client that still sends it sees the answer.
func (s *Server) refuse(e *exchange, r *http.Request, err error) {
	_, _ = io.Copy(io.Discard, r.Body)
	if e.instead != nil {
		return
	}
	if !s.refusals.IsSupported(r) {
		r.Header.Set("Content-Type", "application/json")
	}
	_ = s.refusals.Write(e, r, err)
}

type exchangeKey struct{}

// exchange is one call and what becomes of it. Where instead is set, it answers, and what a service says is dropped.
type exchange struct {
	http.ResponseWriter
	server *Server
	call   *Call
	// gone is closed when the client gives up. The context of a call ends earlier, by the time limit that the client told.
	gone    <-chan struct{}
	status  int
	instead func(http.ResponseWriter)
}

// WriteHeader implements http.ResponseWriter.
func (e *exchange) WriteHeader(status int) {
	if e.instead != nil || e.status != 0 {
		return
	}
	e.status = status
	e.server.answered(e.call, status)
	e.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (e *exchange) Write(body []byte) (int, error) {
	if e.instead != nil {
		return len(body), nil
	}
	e.WriteHeader(http.StatusOK)
	return e.ResponseWriter.Write(body)
}

func (e *exchange) finish() {
	instead := e.instead
	if instead == nil {
		return
	}
	e.instead = nil
	clear(e.Header())
	instead(e)
}
