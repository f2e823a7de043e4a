// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bulk writes the remote attributes of many collectors in few requests. A request changes all of its collectors alike, or
// none: so those that want the same are put together, and a request that is refused is divided until it is known what was wrong.
package bulk

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/candor-dev/candor/internal/fleet/client"
)

// API is what the Batcher needs of Fleet Management.
type API interface {
	BulkUpdateCollectors(ctx context.Context, ids []string, ops []client.Op) error
	GetCollector(ctx context.Context, id string) (client.Collector, error)
}

// Options make a Batcher.
type Options struct {
	API   API
	Clock clock.WithTicker
	// Every is how long a group of collectors that want the same must not have grown before it is written, one second if zero. One
	// that keeps growing is written after five times that.
	Every time.Duration
	// Max is how many collectors one request changes, 500 if zero. That many are written without waiting.
	Max int
	// Done takes what became of the operations that were submitted last for an ID, while the ID is still pending. It must not block.
	Done func(id string, result Result)
	// Wake is called after Done, once the ID is no longer pending for that; nil for nobody to wake. It must not block.
	Wake func(id string)
}

// Result is what became of the operations on one collector. One that is neither in Applied nor in Refused was not applied, or it is
// unknown whether it was; then Err or LookAgain is set.
type Result struct {
	// Err is why Fleet Management could not be asked, nil if it could.
	Err error
	// Applied are the operations that were applied.
	Applied []client.Op
	// Refused are those that Fleet Management does not take, whatever stands there.
	Refused []Refused
	// LookAgain says that the collector is not as the operations expect, so that they have to be made anew.
	LookAgain bool
	// Live is the collector as it is, if it was read since. Where it is nil though LookAgain is set, and Gone is not, the collectors
	// have to be listed again.
	Live *client.Collector
	// Gone says that Fleet Management does not know the collector.
	Gone bool
}

// Refused is an operation that Fleet Management does not take.
type Refused struct {
	Key     string
	Message string
}

// Batcher collects operations and writes them. It is safe for concurrent use.
type Batcher struct {
	options  Options
	writing  sync.Mutex // held while writing, so that one request is under way at a time
	full     chan struct{}
	mu       sync.Mutex
	queue    queue
	inFlight map[string]bool
}

// New makes a Batcher. Nothing is written before Start or Flush.
func New(options Options) *Batcher {
	if options.Every == 0 {
		options.Every = time.Second
	}
	if options.Max == 0 {
		options.Max = 500
	}
	return &Batcher{options: options, full: make(chan struct{}, 1), queue: newQueue(options.Max), inFlight: map[string]bool{}}
}

// Submit has operations written for a collector soon. They replace those that were submitted before and are not under way yet; none
// call these off. Of operations that are replaced or called off, Done hears nothing.
func (b *Batcher) Submit(id string, ops []client.Op) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queue.put(id, ops) {
		select {
		case b.full <- struct{}{}:
		default:
		}
	}
}

// Pending reports whether operations for a collector wait, or are under way.
func (b *Batcher) Pending(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inFlight[id] || b.queue.has(id)
}

// Start writes what is submitted until ctx ends. Nothing is written after that: what is still pending is lost with the process, and
// submitted again by the next one.
func (b *Batcher) Start(ctx context.Context) error {
	ticker := b.options.Clock.NewTicker(b.options.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			b.change((*queue).tick)
		case <-b.full:
		}
		b.drain(ctx)
	}
}

// Flush writes all that is pending, without waiting for more.
func (b *Batcher) Flush(ctx context.Context) {
	b.change((*queue).release)
	b.drain(ctx)
}

func (b *Batcher) change(change func(*queue)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.queue)
}

// drain writes the groups that wait no longer, one request after the other.
func (b *Batcher) drain(ctx context.Context) {
	b.writing.Lock()
	defer b.writing.Unlock()
	for ctx.Err() == nil {
		next, found := b.next()
		if !found {
			return
		}
		results := write(ctx, b.options.API, next)
		for _, id := range next.ids {
			b.settle(id, *results[id])
		}
	}
}

func (b *Batcher) next() (batch, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next, found := b.queue.next()
	for _, id := range next.ids {
		b.inFlight[id] = true
	}
	return next, found
}

func (b *Batcher) settle(id string, result Result) {
	b.options.Done(id, result)
	b.mu.Lock()
	delete(b.inFlight, id)
	b.mu.Unlock()
	if b.options.Wake != nil {
		b.options.Wake(id)
	}
}
