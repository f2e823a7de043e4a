// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"sync"

	"k8s.io/client-go/util/workqueue"

	"github.com/candor-dev/candor/internal/fault"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
)

// naming is what a Collector's spec says of the collector itself.
type naming struct {
	// name is empty, and enabled nil, where it is left as it is.
	name    string
	enabled *bool
}

func (n naming) standsIn(live fleetclient.Collector) bool {
	return (n.name == "" || n.name == live.Name) && (n.enabled == nil || live.Enabled != nil && *n.enabled == *live.Enabled)
}

func (n naming) equal(other naming) bool {
	return n.name == other.name && equalPointers(n.enabled, other.enabled)
}

func (n naming) apply(live fleetclient.Collector) fleetclient.Collector {
	if n.name != "" {
		live.Name = n.name
	}
	if n.enabled != nil {
		live.Enabled = n.enabled
	}
	return live
}

// collectorNamer names collectors, and turns them on and off, one after another. Fleet Management takes no such change for many
// collectors at once, and a worker that waited for each would keep the attributes of all others waiting. Only the leader runs it.
type collectorNamer struct {
	CollectorConfig
	// done takes what came of a collector, once that is no longer pending.
	done  func(id string, wanted naming, err error)
	queue workqueue.TypedInterface[string]

	mu sync.Mutex
	// wanted holds what is to be done or under way, by ID.
	wanted map[string]naming
}

func newCollectorNamer(config CollectorConfig, done func(id string, wanted naming, err error)) *collectorNamer {
	return &collectorNamer{CollectorConfig: config, done: done, queue: workqueue.NewTyped[string](), wanted: map[string]naming{}}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*collectorNamer) NeedLeaderElection() bool { return true }

// submit has a collector named.
func (n *collectorNamer) submit(id string, wanted naming) {
	n.mu.Lock()
	n.wanted[id] = wanted
	n.mu.Unlock()
	n.queue.Add(id)
}

// pending reports whether a collector is to be named, or is being named.
func (n *collectorNamer) pending(id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, is := n.wanted[id]
	return is
}

// Start implements manager.Runnable.
func (n *collectorNamer) Start(ctx context.Context) error {
	defer context.AfterFunc(ctx, n.queue.ShutDown)()
	for {
		id, ends := n.queue.Get()
		if ends || ctx.Err() != nil {
			return nil
		}
		n.mu.Lock()
		wanted := n.wanted[id]
		n.mu.Unlock()
		err := n.give(ctx, id, wanted)
		n.mu.Lock()
		delete(n.wanted, id)
		n.mu.Unlock()
		n.queue.Done(id)
		n.done(id, wanted, err)
	}
}

// give reads, changes and writes a collector: an update replaces its remote attributes, so that those of a moment ago go with it.
func (n *collectorNamer) give(ctx context.Context, id string, wanted naming) error {
	live, err := n.API.GetCollector(ctx, id)
	switch {
	case err != nil && fault.IgnoreNotFound(err) == nil:
		n.Inventory.Drop(id)
		return nil
	case err != nil:
		return err
	}
	if !wanted.standsIn(live) {
		live = wanted.apply(live)
		if err := n.API.UpdateCollector(ctx, live); err != nil {
			return err
		}
	}
	n.Inventory.Put(live)
	return nil
}
