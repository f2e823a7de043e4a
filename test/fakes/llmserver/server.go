// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package llmserver is a language model that costs nothing. It speaks the Messages API of Anthropic and the Chat Completions
// API of OpenAI on their real paths, refuses what the originals refuse in the words of the originals, counts what it is
// asked, and fails on demand:
//
//	server := llmserver.Start(llmserver.Options{Key: "secret"})
//	defer server.Close()
//	backend := anthropic.New(llm.Options{BaseURL: server.AnthropicURL(), …})
//	server.Queue(llmserver.Overloaded(), llmserver.Refusal())
//	… two calls …
//	server.Stats().Calls // 2
//
// Without a script it answers well: one to three hypotheses that follow from the body of the request. Nothing in it sleeps:
// a Gate says when a call has arrived, and holds its answer back until it is opened.
package llmserver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

const maxBody = 4 << 20

// Options are what a Server insists on.
type Options struct {
	// Key is the only key that is let in. Empty lets every key in, and on OpenAI's path none as well.
	Key string
	// Models are the models that exist. Empty means that each name is one.
	Models []string
}

// Protocol is an API that the server speaks.
type Protocol string

const (
	// Anthropic is the Messages API.
	Anthropic Protocol = "anthropic"
	// OpenAI is the Chat Completions API.
	OpenAI Protocol = "openai"
)

// Call is one request.
type Call struct {
	// Number counts from 1 in the order of arrival.
	Number   int
	Protocol Protocol
	// Key is the SHA-256 of the body, in hexadecimal.
	Key  string
	Body []byte
	// Header is the request's, with the credentials.
	Header http.Header
	// Refused is why the request is not one of the protocol; empty for a good one.
	Refused string
	// Model, System, User and MaxTokens are read from the body of a good request.
	Model, System, User string
	// MaxTokens is the longest answer; zero when the request does not say.
	MaxTokens int64

	dialect dialect
	server  *Server
}

// Stats are what a Server has counted since it began.
type Stats struct {
	// Calls counts every request on one of the two paths, whatever became of it.
	Calls int
	// Refused counts those that were no request of the protocol, among them those without a valid key.
	Refused int
	// ByKey counts calls by the SHA-256 of their body.
	ByKey map[string]int
	// InputTokens and OutputTokens are what the answers reported as usage.
	InputTokens, OutputTokens int64
	// MaxConcurrent is the largest number of calls that were open at once.
	MaxConcurrent int
}

// Server is the fake. It is an http.Handler, and safe for concurrent use.
type Server struct {
	options Options
	closed  chan struct{}
	http    *httptest.Server

	mutex   sync.Mutex
	open    int
	stats   Stats
	journal []*Call
	queue   []Behaviour
	script  func(*Call) Behaviour
}

// New returns a handler to be served by the caller. Close releases what hangs.
func New(options Options) *Server {
	return &Server{options: options, closed: make(chan struct{}), stats: Stats{ByKey: map[string]int{}}}
}

// Start returns a Server that listens on a port of the loopback interface until Close.
func Start(options Options) *Server {
	s := New(options)
	s.http = httptest.NewServer(s)
	return s
}

// Close ends every call that is still open, and the listener of Start. It may be called once.
func (s *Server) Close() {
	close(s.closed)
	if s.http != nil {
		s.http.Close()
	}
}

// AnthropicURL is the base URL for a client of the Messages API.
func (s *Server) AnthropicURL() string { return s.http.URL }

// OpenAIURL is the base URL for a client of the Chat Completions API.
func (s *Server) OpenAIURL() string { return s.http.URL + "/v1" }

// Queue sets how the next good requests are answered, one each, before any Script.
func (s *Server) Queue(behaviours ...Behaviour) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.queue = append(s.queue, behaviours...)
}

// Script sets how good requests are answered when the queue is empty. The server answers by itself where script returns nil.
func (s *Server) Script(script func(*Call) Behaviour) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.script = script
}

// Stats returns what was counted so far.
func (s *Server) Stats() Stats {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	stats := s.stats
	stats.ByKey = maps.Clone(s.stats.ByKey)
	return stats
}

// Journal returns every call in the order of arrival.
func (s *Server) Journal() []*Call {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return append([]*Call(nil), s.journal...)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	speaks := dialectOf(r.URL.Path)
	if speaks == nil {
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		speaks.fail(w, &refusal{status: http.StatusRequestEntityTooLarge, kind: "request_too_large", message: "Request exceeds the maximum size"}, "")
		return
	}
	call := s.arrive(speaks, r, body)
	defer s.leave()
	w.Header().Set(speaks.requestIDHeader(), call.requestID())
	refused := s.admit(call, r)
	if refused != nil {
		speaks.fail(w, refused, call.requestID())
		return
	}
	s.next(call)(w, r, call)
}

func (s *Server) arrive(speaks dialect, r *http.Request, body []byte) *Call {
	sum := sha256.Sum256(body)
	call := &Call{Protocol: speaks.protocol(), Key: hex.EncodeToString(sum[:]), Body: body, Header: r.Header.Clone(), dialect: speaks, server: s}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.open++
	s.stats.MaxConcurrent = max(s.stats.MaxConcurrent, s.open)
	s.stats.Calls++
	s.stats.ByKey[call.Key]++
	call.Number = s.stats.Calls
	s.journal = append(s.journal, call)
	return call
}

func (s *Server) leave() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.open--
}

// admit reads a request as strictly as the original does.
func (s *Server) admit(call *Call, r *http.Request) *refusal {
	refused := call.dialect.authorize(r, s.options.Key)
	if refused == nil {
		refused = s.read(call, r)
	}
	if refused != nil {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		call.Refused = refused.message
		s.stats.Refused++
	}
	return refused
}

func (s *Server) read(call *Call, r *http.Request) *refusal {
	if r.Method != http.MethodPost {
		return &refusal{status: http.StatusMethodNotAllowed, kind: invalidRequest, message: "Method Not Allowed"}
	}
	if media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(media) != "application/json" {
		return &refusal{status: http.StatusBadRequest, kind: invalidRequest, message: "The Content-Type header must be application/json"}
	}
	var request object
	if err := json.Unmarshal(call.Body, &request); err != nil {
		return &refusal{status: http.StatusBadRequest, kind: invalidRequest, message: "The request body is not valid JSON: " + err.Error()}
	}
	if refused := call.dialect.check(r.Header, request); refused != nil {
		return refused
	}
	call.Model, _ = request["model"].(string)
	call.System, call.User = call.dialect.prompt(request)
	call.MaxTokens = call.dialect.limit(request)
	if len(s.options.Models) > 0 && !contains(s.options.Models, call.Model) {
		return call.dialect.unknownModel(call.Model)
	}
	return nil
}

func (s *Server) next(call *Call) Behaviour {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.queue) > 0 {
		first := s.queue[0]
		s.queue = s.queue[1:]
		return first
	}
	if s.script != nil {
		if behaviour := s.script(call); behaviour != nil {
			return behaviour
		}
	}
	return Good()
}

func (s *Server) bill(input, output int64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.stats.InputTokens += input
	s.stats.OutputTokens += output
}

func (c *Call) requestID() string { return fmt.Sprintf("req_%06d%s", c.Number, c.Key[:18]) }
