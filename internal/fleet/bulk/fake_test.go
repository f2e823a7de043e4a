// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/attributes"
	"github.com/candor-dev/candor/internal/fleet/client"
)

var (
	errRefused  = &fault.Fault{Kind: fault.Terminal, Reason: "ValidationError", Err: errors.New("it is refused")}
	errMissing  = &fault.Fault{Kind: fault.NotFound, Reason: "SyncFailed", Err: errors.New("no such collector")}
	errMismatch = &fault.Fault{Kind: fault.Retry, Reason: "SyncFailed", Err: fmt.Errorf("another value: %w", client.ErrMismatch)}
	errBusy     = &fault.Fault{Kind: fault.Wait, Reason: "RateLimited", Unclear: true, Err: errors.New("asked to wait")}
	errDown     = &fault.Fault{Kind: fault.Retry, Reason: "SyncFailed", Err: errors.New("no answer")}
)

// call is a request to change collectors.
type call struct {
	ids []string
	ops []client.Op
}

// fakeAPI holds the remote attributes of collectors. A request changes all of its collectors, or none.
type fakeAPI struct {
	mu         sync.Mutex
	collectors map[string]map[string]string
	// refuses says which operations it does not take; before runs before each request and may answer in its stead.
	refuses func(id string, op client.Op) bool
	before  func(n int, c call) error
	calls   []call
	reads   []string
}

func newFakeAPI(ids ...string) *fakeAPI {
	api := &fakeAPI{collectors: map[string]map[string]string{}}
	for _, id := range ids {
		api.collectors[id] = map[string]string{}
	}
	return api
}

func (f *fakeAPI) BulkUpdateCollectors(_ context.Context, ids []string, ops []client.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call{slices.Clone(ids), slices.Clone(ops)})
	if f.before != nil {
		if err := f.before(len(f.calls), f.calls[len(f.calls)-1]); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if err := f.check(id, ops); err != nil {
			return err
		}
	}
	for _, id := range ids {
		f.collectors[id] = attributes.Apply(f.collectors[id], ops)
	}
	return nil
}

func (f *fakeAPI) check(id string, ops []client.Op) error {
	live, known := f.collectors[id]
	if !known {
		return errMissing
	}
	for _, op := range ops {
		value, present := live[op.Key]
		switch {
		case f.refuses != nil && f.refuses(id, op), op.Kind != client.OpAdd && !present:
			return errRefused
		case op.Old != nil && value != *op.Old, op.Kind == client.OpRemove && op.Value != "" && value != op.Value:
			return errMismatch
		}
	}
	return nil
}

func (f *fakeAPI) GetCollector(_ context.Context, id string) (client.Collector, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads = append(f.reads, id)
	live, known := f.collectors[id]
	if !known {
		return client.Collector{}, errMissing
	}
	return client.Collector{ID: id, RemoteAttributes: live}, nil
}

func (f *fakeAPI) callCount() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls)
}

// recorder keeps results.
type recorder struct {
	mu      sync.Mutex
	results map[string]Result
	times   map[string]int
}

func (r *recorder) done(id string, result Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results[id] = result
	r.times[id]++
}

func newBatcher(api API) (*Batcher, *recorder) {
	r := &recorder{results: map[string]Result{}, times: map[string]int{}}
	return New(Options{API: api, Clock: clock.RealClock{}, Done: r.done}), r
}

func numbered(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("c%05d", i)
	}
	return ids
}

func add(key, value string) client.Op { return client.Op{Kind: client.OpAdd, Key: key, Value: value} }

func replace(key, old, value string) client.Op {
	return client.Op{Kind: client.OpReplace, Key: key, Value: value, Old: &old}
}

func remove(key, value string) client.Op {
	return client.Op{Kind: client.OpRemove, Key: key, Value: value}
}

// flushed has the same operations written for all ids, and checks that each hears of it once.
func flushed(t *testing.T, api *fakeAPI, ids []string, ops ...client.Op) map[string]Result {
	t.Helper()
	g := NewWithT(t)
	b, r := newBatcher(api)
	for _, id := range ids {
		b.Submit(id, ops)
	}
	b.Flush(t.Context())
	g.Expect(r.results).To(HaveLen(len(ids)))
	for _, id := range ids {
		g.Expect(r.times[id]).To(Equal(1), id)
		g.Expect(b.Pending(id)).To(BeFalse(), id)
	}
	return r.results
}
