// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Command fakefleet serves test/fakes/fleetserver to the pods of a cluster. On port 8443 it is the API, by HTTPS with tls.crt and
// tls.key of the folder /etc/fakefleet, for the Basic credentials FLEET_USERNAME and FLEET_PASSWORD. On port 8080, by plain HTTP and
// for everybody, it shows and takes in JSON what people see and do in Grafana:
//
//	GET  /pipelines, /collectors  all of them, as the API lists them
//	POST /pipelines, /collectors  puts one in the place of that of the same ID
//	POST /credentials             lets in {"username": …, "password": …} from now on, and nobody else
//	GET  /calls                   the names of the procedures of the API that were called, in the order of arrival
//	GET  /records                 what an inventory knows of collectors, for ExternalAttributeSyncs
//	POST /records                 replaces that
//	POST /told                    takes what a sink is posted
//	GET  /told                    all of that, in the order of arrival
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

func main() {
	fake := fleetserver.New(fleetserver.Options{Username: os.Getenv("FLEET_USERNAME"), Password: os.Getenv("FLEET_PASSWORD")})
	ended := make(chan error)
	go func() { ended <- http.ListenAndServe(":8080", sideDoor(fake)) }()
	go func() {
		ended <- http.ListenAndServeTLS(":8443", "/etc/fakefleet/tls.crt", "/etc/fakefleet/tls.key", fake)
	}()
	fmt.Fprintln(os.Stderr, "fakefleet:", <-ended)
	os.Exit(1)
}

// sideDoor is what the tests use, past the API.
func sideDoor(fake *fleetserver.Server) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /pipelines", show(func() ([]byte, error) {
		return protojson.Marshal(&pipelinev1.Pipelines{Pipelines: fake.Pipelines()})
	}))
	mux.Handle("GET /collectors", show(func() ([]byte, error) {
		return protojson.Marshal(&collectorv1.Collectors{Collectors: fake.Collectors()})
	}))
	mux.Handle("GET /calls", show(func() ([]byte, error) { return json.Marshal(callsOf(fake)) }))
	mux.Handle("POST /pipelines", take(func(body []byte) error {
		return put(body, &pipelinev1.Pipeline{}, func(p *pipelinev1.Pipeline) { fake.PutPipeline(p) })
	}))
	mux.Handle("POST /collectors", take(func(body []byte) error {
		return put(body, &collectorv1.Collector{}, fake.PutCollector)
	}))
	var records atomic.Value
	records.Store([]byte("[]"))
	mux.Handle("GET /records", show(func() ([]byte, error) { return records.Load().([]byte), nil }))
	mux.Handle("POST /records", take(func(body []byte) error {
		records.Store(body)
		return nil
	}))
	told := &messages{bodies: []json.RawMessage{}}
	mux.Handle("GET /told", show(told.all))
	mux.Handle("POST /told", take(told.add))
	mux.Handle("POST /credentials", take(func(body []byte) error {
		var given struct{ Username, Password string }
		if err := json.Unmarshal(body, &given); err != nil {
			return err
		}
		fake.SetCredentials(given.Username, given.Password)
		return nil
	}))
	return mux
}

// messages are what was posted. It is safe for concurrent use.
type messages struct {
	mu     sync.Mutex
	bodies []json.RawMessage
}

func (m *messages) add(body []byte) error {
	if !json.Valid(body) {
		return errors.New("no JSON")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bodies = append(m.bodies, body)
	return nil
}

func (m *messages) all() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return json.Marshal(m.bodies)
}

func callsOf(fake *fleetserver.Server) []string {
	procedures := []string{}
	for _, call := range fake.Calls() {
		procedures = append(procedures, call.Procedure)
	}
	return procedures
}

func show(content func() ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		body, err := content()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}
}

func take(accept func(body []byte) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = accept(body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}
}

func put[M proto.Message](body []byte, message M, store func(M)) error {
	if err := protojson.Unmarshal(body, message); err != nil {
		return err
	}
	store(message)
	return nil
}
