// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

const (
	// gatherFor is how long the first candidates are collected after an idle time, so that the worst of them goes first.
	gatherFor = 2 * time.Second
	// flushTimeout is how long storing one answer may take while the manager ends, and flushEvery how often it is tried.
	flushTimeout = 15 * time.Second
	flushEvery   = 100 * time.Millisecond
)

// Callers runs the calls of models beside the controller, so that no pass waits for one. It is a leader's work. The manager's
// end waits for the calls that run, and for their answers to be stored.
type Callers struct {
	Clock clock.PassiveClock
	// Gather is how long candidates are collected; zero is gatherFor.
	Gather time.Duration
	// Wake brings Findings to the controller.
	Wake chan<- event.GenericEvent
	// Flush runs a pass over a Finding when the controller has stopped.
	Flush func(context.Context, reconcile.Request) error

	turns *turns
	poke  chan struct{}
	calls sync.WaitGroup
	// over is closed when the manager ends: nothing begins, and nobody is woken any more.
	over chan struct{}
	// leads is true once this manager is the leader.
	leads atomic.Bool

	mu      sync.Mutex
	results map[types.UID]*result
	names   map[types.UID]types.NamespacedName
}

// NewCallers returns callers that wake Findings by a channel.
func NewCallers(c clock.PassiveClock, wake chan<- event.GenericEvent) *Callers {
	return &Callers{
		Clock: c, Wake: wake, turns: newTurns(), poke: make(chan struct{}, 1), over: make(chan struct{}),
		results: map[types.UID]*result{}, names: map[types.UID]types.NamespacedName{},
	}
}

// Start implements manager.Runnable.
func (c *Callers) Start(ctx context.Context) error {
	c.leads.Store(true)
	context.AfterFunc(ctx, c.close)
	gather := c.Gather
	if gather == 0 {
		gather = gatherFor
	}
	lost := time.NewTicker(grantLasts)
	defer lost.Stop()
	for {
		select {
		case <-ctx.Done():
			c.end()
			return nil
		case <-c.poke:
		case <-lost.C:
		}
		if !c.turns.wanted() {
			continue
		}
		if c.turns.idle() {
			select {
			case <-ctx.Done():
				continue
			case <-time.NewTimer(gather).C:
			}
		}
		for _, granted := range c.turns.next(c.Clock.Now()) {
			c.wake(granted.name)
		}
	}
}

// turn reports whether a Finding may begin its call now. If not, it is woken when it may.
func (c *Callers) turn(who contender) bool {
	if c.turns.request(who) {
		return !c.isOver()
	}
	c.nudge()
	return false
}

// leave gives a Finding's turn back, or takes it out of the line. Those who waited for its answer are woken.
func (c *Callers) leave(uid types.UID) {
	followers := c.turns.leave(uid)
	if len(followers) > 0 {
		go func() {
			for _, follower := range followers {
				c.wake(follower.name)
			}
		}()
	}
	c.nudge()
}

// begin runs a call for a Finding whose turn it is, once its attempt is stored.
func (c *Callers) begin(uid types.UID, name types.NamespacedName, call func(context.Context) *result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isOver() || !c.turns.use(uid) {
		return
	}
	c.calls.Go(func() {
		r := call(context.Background())
		c.mu.Lock()
		if c.turns.used(uid) { // else the Finding was deleted meanwhile
			c.results[uid], c.names[uid] = r, name
		}
		c.mu.Unlock()
		c.wake(name)
	})
}

// reserved lets milder Findings have their turn beside one that the budget has been asked for.
func (c *Callers) reserved(uid types.UID) {
	c.turns.reserved(uid)
	c.nudge()
}

// result returns what the call of a Finding came to, until it is stored.
func (c *Callers) result(uid types.UID) *result {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.results[uid]
}

// stored forgets a result that stands in the Finding's status now.
func (c *Callers) stored(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.results, uid)
	delete(c.names, uid)
}

// busy reports whether a call for a Finding runs here.
func (c *Callers) busy(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.results[uid] == nil && c.turns.used(uid)
}

// calling reports whether a call for a Finding runs here, or what it came to is not stored yet.
func (c *Callers) calling(uid types.UID) bool { return c.turns.used(uid) }

// close lets nothing begin from now on. What began before is waited for.
func (c *Callers) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.over)
}

// end waits for the calls that run, and stores what they came to: it is paid for.
func (c *Callers) end() {
	<-c.over
	c.calls.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	var flushes sync.WaitGroup
	for _, name := range c.unstored() {
		flushes.Go(func() { c.flush(ctx, name) })
	}
	flushes.Wait()
}

// flush stores what the call of a Finding came to.
func (c *Callers) flush(ctx context.Context, name types.NamespacedName) {
	if err := flush(ctx, name, c.Flush, c.unstored); err != nil {
		logf.Log.WithName("explain").Error(err, "An answer is lost, since it cannot be stored", "finding", name.String())
	}
}

// flush runs passes over an object until it is not among those left. There is no queue any more, so whatever goes wrong is tried
// again here.
func flush(
	ctx context.Context, name types.NamespacedName, pass func(context.Context, reconcile.Request) error, left func() []types.NamespacedName,
) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, flushEvery, true, func(ctx context.Context) (bool, error) {
		last = pass(ctx, reconcile.Request{NamespacedName: name})
		return last == nil && !slices.Contains(left(), name), nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

// unstored returns the Findings whose calls came to something that is not stored.
func (c *Callers) unstored() []types.NamespacedName {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.names))
}

func (c *Callers) isOver() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

func (c *Callers) wake(name types.NamespacedName) {
	f := &candorv1alpha1.Finding{}
	f.Namespace, f.Name = name.Namespace, name.Name
	select {
	case c.Wake <- event.GenericEvent{Object: f}:
	case <-c.over:
	}
}

func (c *Callers) nudge() {
	select {
	case c.poke <- struct{}{}:
	default:
	}
}
