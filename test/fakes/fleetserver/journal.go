// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Call is one request.
type Call struct {
	// Procedure is the name without its service, such as "UpsertPipeline". Of a path that is none of the API it is the path.
	Procedure string
	// At is when the call arrived.
	At time.Time
	// Status is that of HTTP; zero when the call is not answered yet, or was dropped.
	Status int
	// Header is the request's, without the credentials.
	Header http.Header
	// Request is the message, for reading only. It is nil of a call that was refused before it was read, and a structpb.Struct of
	// GetLimits.
	Request proto.Message
}

// Calls returns the calls since the start or the last Reset, in the order of arrival. Procedures narrow it. It panics where a name
// is no procedure of the API.
func (s *Server) Calls(procedures ...string) []Call {
	mustKnow(procedures...)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var calls []Call
	for _, call := range s.journal {
		if len(procedures) == 0 || slices.Contains(procedures, call.Procedure) {
			calls = append(calls, *call)
		}
	}
	return calls
}

// Count returns the number of Calls.
func (s *Server) Count(procedures ...string) int { return len(s.Calls(procedures...)) }

// Reset empties the journal.
func (s *Server) Reset() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.journal = nil
}

func (s *Server) arrive(call *Call) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.journal = append(s.journal, call)
}

func (s *Server) understood(call *Call, request proto.Message) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	call.Request = request
}

func (s *Server) answered(call *Call, status int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	call.Status = status
}

var procedures = func() []string {
	names := []string{"GetLimits"}
	for _, file := range []protoreflect.FileDescriptor{pipelinev1.File_pipeline_v1_pipeline_proto, collectorv1.File_collector_v1_collector_proto} {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				names = append(names, string(methods.Get(j).Name()))
			}
		}
	}
	return names
}()

// mustKnow keeps a test from counting, or failing, what is never called for a typing error in its name.
func mustKnow(names ...string) {
	for _, name := range names {
		if !slices.Contains(procedures, name) && !strings.HasPrefix(name, "/") {
			panic(fmt.Sprintf("fleetserver: no procedure is named %q; there are %s", name, strings.Join(procedures, ", ")))
		}
	}
}
