// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sinkserver is where people are told. It is one HTTPS server that takes what each form of sink is posted, on a path of
// its own, records it, checks it as strictly as the original would, verifies signatures, and fails on demand:
//
//	server := sinkserver.Start(sinkserver.Options{SigningKey: "secret"})
//	defer server.Close()
//	… a policy with a sink at server.URL(sinkserver.Slack) …
//	server.Queue(sinkserver.Status(503), sinkserver.Hang())
//	… three deliveries …
//	server.Requests()[2].Problems // none
//
// Without a script it takes everything that is good, and answers 400 to the rest.
package sinkserver

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
)

const maxBody = 4 << 20

// Form is how a sink is told.
type Form string

// Forms, which are the beginnings of their paths.
const (
	Webhook      Form = "webhook"
	Legacy       Form = "legacy"
	Slack        Form = "slack"
	Alertmanager Form = "alertmanager"
	CloudEvents  Form = "cloudevents"
)

// Options are what a Server insists on.
type Options struct {
	// SigningKey is the key of the signature that each request needs; empty wants none.
	SigningKey string
	// Token is what the query of each address must hold as token; empty wants none.
	Token string
}

// Event is what one request tells of one Finding, as far as its form says so.
type Event struct {
	// Key is empty for an alert.
	Key     string
	Kind    string
	Finding string
	// Firing is false for an alert that ends.
	Firing bool
}

// Request is one POST.
type Request struct {
	// Number counts from 1 in the order of arrival.
	Number int
	Form   Form
	// Path is that of the address, without what the form adds.
	Path   string
	Header http.Header
	Body   []byte
	// Kind is what the message is called; for Slack it is its title, and for alerts it is empty.
	Kind   string
	Events []Event
	// Problems are why the original would not take it; empty for a good one.
	Problems []string

	server *Server
}

// Key is that of the request.
func (r *Request) Key() string { return r.Header.Get("Idempotency-Key") }

// Server is the fake. It is safe for concurrent use.
type Server struct {
	options Options
	closed  chan struct{}
	http    *httptest.Server

	mutex    sync.Mutex
	open     map[string]int
	most     map[string]int
	requests []*Request
	queue    []Behaviour
	script   func(*Request) Behaviour
}

// Start returns a Server that listens on a port of the loopback interface until Close.
func Start(options Options) *Server {
	s := &Server{options: options, closed: make(chan struct{}), open: map[string]int{}, most: map[string]int{}}
	s.http = httptest.NewTLSServer(http.HandlerFunc(s.serve))
	return s
}

// Close ends every request that is still open, and the listener. It may be called once.
func (s *Server) Close() {
	close(s.closed)
	s.http.Close()
}

// URL is the address of a sink of a form, with the token. More parts of the path tell several sinks of a form apart.
func (s *Server) URL(form Form, path ...string) string {
	address := s.http.URL + "/" + strings.Join(append([]string{string(form)}, path...), "/")
	if s.options.Token != "" {
		address += "?token=" + s.options.Token
	}
	return address
}

// CA is the certificate by which the server is trusted, as PEM.
func (s *Server) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
}

// Queue sets how the next requests are answered, one each, before any Script.
func (s *Server) Queue(behaviours ...Behaviour) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.queue = append(s.queue, behaviours...)
}

// Script sets how requests are answered when the queue is empty. The server answers by itself where script returns nil.
func (s *Server) Script(script func(*Request) Behaviour) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.script = script
}

// Requests returns every request in the order of arrival; with forms, those of these.
func (s *Server) Requests(forms ...Form) []*Request {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.DeleteFunc(slices.Clone(s.requests), func(r *Request) bool { return len(forms) > 0 && !slices.Contains(forms, r.Form) })
}

// Most is the largest number of requests that were open at once on any one path.
func (s *Server) Most() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	most := 0
	for _, n := range s.most {
		most = max(most, n)
	}
	return most
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	request := read(r, body, s.options)
	request.server = s
	behaviour := s.arrive(request)
	defer s.leave(request)
	behaviour(w, r, request)
}

func (s *Server) arrive(r *Request) Behaviour {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.open[r.Path]++
	s.most[r.Path] = max(s.most[r.Path], s.open[r.Path])
	s.requests = append(s.requests, r)
	r.Number = len(s.requests)
	if len(s.queue) > 0 {
		first := s.queue[0]
		s.queue = s.queue[1:]
		return first
	}
	if s.script != nil {
		if behaviour := s.script(r); behaviour != nil {
			return behaviour
		}
	}
	return Good()
}

func (s *Server) leave(r *Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.open[r.Path]--
}
