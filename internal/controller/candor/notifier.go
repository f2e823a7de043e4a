// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/netguard"
	"github.com/candor-dev/candor/internal/signals/notify"
)

// postTimeout bounds one request to a sink, from the dial to the end of the answer.
const postTimeout = 10 * time.Second

// Notifier tells people what stands in the outboxes of Findings and policies, beside the controllers, so that no pass waits for a
// sink, and no sink for another. It is a leader's work. The manager's end waits for the requests that run, and for what became of
// them to be stored.
type Notifier struct {
	// Client reads from the cache.
	Client  client.Client
	Secrets *Secrets
	Ledger  *LedgerStore
	Clock   clock.Clock
	Metrics *Metrics
	// HTTP sends the requests, and Guard judges addresses before.
	HTTP  *http.Client
	Guard *netguard.Guard
	// AllowSetting names where an administrator opens a network.
	AllowSetting string
	// Window is how long an event waits for others to go with it.
	Window time.Duration
	// DigestInterval is how often a digest falls due; zero never.
	DigestInterval time.Duration
	// Timeout bounds a request; zero is 10 s.
	Timeout time.Duration
	// WakeFindings and WakePolicies bring objects to their controllers; nil where there is none.
	WakeFindings, WakePolicies chan<- event.GenericEvent
	// FlushFinding and FlushPolicy run a pass when the controllers have stopped; nil where there is no such controller.
	FlushFinding, FlushPolicy func(context.Context, reconcile.Request) error

	lanes *lanes
	poke  chan struct{}
	posts sync.WaitGroup
	// over is closed when the manager ends: nothing begins, and nobody is woken any more.
	over chan struct{}
}

// Init makes the notifier ready to be used. It is called once, before anything else.
func (n *Notifier) Init() *Notifier {
	n.lanes, n.poke, n.over = newLanes(n.Window), make(chan struct{}, 1), make(chan struct{})
	if n.Timeout == 0 {
		n.Timeout = postTimeout
	}
	return n
}

// Start implements manager.Runnable.
func (n *Notifier) Start(ctx context.Context) error {
	context.AfterFunc(ctx, func() { close(n.over) })
	for {
		batches, wait := n.lanes.next(n.Clock.Now())
		for _, b := range batches {
			n.posts.Go(func() { n.send(b) })
		}
		if orphans := n.lanes.orphaned(); len(orphans) > 0 {
			n.posts.Go(func() { n.wakeAll(orphans, nil) })
		}
		if !n.pause(ctx, wait) {
			n.end()
			return nil
		}
	}
}

// pause waits until there may be something to send. It returns false when the manager ends.
func (n *Notifier) pause(ctx context.Context, wait time.Duration) bool {
	var due <-chan time.Time
	if wait > 0 {
		timer := n.Clock.NewTimer(wait)
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-ctx.Done():
		return false
	case <-n.poke:
	case <-due:
	}
	return ctx.Err() == nil
}

// send sends a batch, and has what became of it stored.
func (n *Notifier) send(b *batch) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout+notify.MaxEvents*n.Timeout)
	defer cancel()
	findings, policies := n.lanes.done(b, n.deliver(ctx, b), n.Clock.Now())
	for _, p := range b.parcels {
		if n.deleted(ctx, p) {
			n.lanes.forget(p.uid)
		}
	}
	n.nudge()
	n.wakeAll(findings, policies)
}

// deleted reports whether the Finding of an event is gone. A pass that stored its status right before may have handed the event in
// after the deletion was heard of.
func (n *Notifier) deleted(ctx context.Context, p *parcel) bool {
	var f candorv1alpha1.Finding
	name := types.NamespacedName{Namespace: p.sink.namespace, Name: p.event.Finding}
	err := n.Client.Get(ctx, name, &f, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	return apierrors.IsNotFound(err) || err == nil && f.UID != p.uid
}

// wakeAll brings Findings and policies to their controllers.
func (n *Notifier) wakeAll(findings, policies []types.NamespacedName) {
	for _, name := range policies {
		p := &candorv1alpha1.SignalPolicy{}
		p.Namespace, p.Name = name.Namespace, name.Name
		n.wake(n.WakePolicies, p)
	}
	for _, name := range findings {
		f := &candorv1alpha1.Finding{}
		f.Namespace, f.Name = name.Namespace, name.Name
		n.wake(n.WakeFindings, f)
	}
}

func (n *Notifier) wake(who chan<- event.GenericEvent, o client.Object) {
	if who == nil {
		return
	}
	select {
	case who <- event.GenericEvent{Object: o}:
	case <-n.over:
	}
}

func (n *Notifier) nudge() {
	select {
	case n.poke <- struct{}{}:
	default:
	}
}

// end waits for the requests that run, and stores what became of them: what is not stored is sent again.
func (n *Notifier) end() {
	n.posts.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	var flushes sync.WaitGroup
	findings, policies := n.lanes.unstored()
	store := func(names []types.NamespacedName, pass func(context.Context, reconcile.Request) error, left func() []types.NamespacedName) {
		for _, name := range names {
			if pass == nil {
				return
			}
			flushes.Go(func() {
				if err := flush(ctx, name, pass, left); err != nil {
					logf.Log.WithName("notify").Error(err, "What was sent is sent once more, since it cannot be stored", "object", name.String())
				}
			})
		}
	}
	store(findings, n.FlushFinding, func() []types.NamespacedName { left, _ := n.lanes.unstored(); return left })
	store(policies, n.FlushPolicy, func() []types.NamespacedName { _, left := n.lanes.unstored(); return left })
	flushes.Wait()
}

// submit makes entries all that is to be sent about a Finding.
func (n *Notifier) submit(f *candorv1alpha1.Finding, entries []candorv1alpha1.Notification) {
	now := n.Clock.Now()
	parcels := make([]*parcel, 0, len(entries))
	for _, entry := range entries {
		parcels = append(parcels, &parcel{
			sink: keyOfSink(f.Namespace, entry.Sink), uid: f.UID, kind: entry.Event, event: notify.EventOf(f, entry), since: now, attempts: entry.Attempts,
		})
	}
	n.lanes.submit(f.UID, client.ObjectKeyFromObject(f), parcels)
	if len(parcels) > 0 {
		n.nudge()
	}
}

// offer makes offerings all the sinks of a policy.
func (n *Notifier) offer(policy types.NamespacedName, offerings []offering) {
	n.lanes.offer(policy, offerings, n.Clock.Now())
	n.nudge()
}
