// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/inventory"
	"github.com/candor-dev/candor/internal/lifecycle"
)

const (
	// askedSpacing is the least time between two lists of which the second was asked for.
	askedSpacing = 10 * time.Second
	// failedSpacing is how long after a list that failed the next one comes, unless the fault says so.
	failedSpacing = time.Minute
	// pingSlack is how far status.lastPing may lag behind before it alone is worth a write.
	pingSlack = 30 * time.Minute
)

// collectorPoller keeps the inventory of collectors young and wakes the Collectors that differ from what they were. Nobody else
// lists collectors, so that one list an interval serves all of them. Only the leader runs it.
type collectorPoller struct {
	CollectorConfig
	// wake has a Collector looked at now; it does not block.
	wake func(client.ObjectKey)
	// asked and recovered hold one signal at most.
	asked, recovered chan struct{}
	// owesTheUnwell says that the next list wakes all Collectors that are not synced. The goroutine of Start alone uses it.
	owesTheUnwell bool
	teller        teller

	mu sync.Mutex
	// askers wait for the next list.
	askers map[client.ObjectKey]bool
	// visitors are called after it: they are no Collectors, and want a list that is young.
	visitors map[client.ObjectKey]func()
	// failure is why the last list failed, and failedUntil when the next one comes.
	failure     error
	failedUntil time.Time
}

func newCollectorPoller(config CollectorConfig, wake func(client.ObjectKey)) *collectorPoller {
	return &collectorPoller{
		CollectorConfig: config, wake: wake, askers: map[client.ObjectKey]bool{}, visitors: map[client.ObjectKey]func(){},
		asked: make(chan struct{}, 1), recovered: make(chan struct{}, 1),
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*collectorPoller) NeedLeaderElection() bool { return true }

// ask has collectors listed soon and wakes the Collector after that: it returns lifecycle.ErrPending, or why the last list failed.
func (p *collectorPoller) ask(c client.Object) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != nil {
		return p.failed()
	}
	p.askers[client.ObjectKeyFromObject(c)] = true
	signal(p.asked)
	return lifecycle.ErrPending
}

// within returns nil when the last list is younger than age. Otherwise it returns lifecycle.ErrPending, or why the last list failed, and
// calls again once after the next one, which must not block.
func (p *collectorPoller) within(age time.Duration, visitor client.ObjectKey, again func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if listed := p.Inventory.Listed(); !listed.IsZero() && p.Clock.Since(listed) < age {
		return nil
	}
	p.visitors[visitor] = again
	if p.failure != nil {
		return p.failed()
	}
	signal(p.asked)
	return lifecycle.ErrPending
}

// failed is why the last list failed, as a fault that waits for the next one. p.mu is held.
func (p *collectorPoller) failed() error {
	f := *fault.Of(p.failure, fleetmanagementv1alpha1.ReasonSyncFailed)
	f.Kind, f.After, f.Err = fault.Wait, max(p.failedUntil.Sub(p.Clock.Now()), time.Second), p.failure
	return &f
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // one signal stands already
	}
}

// Start implements manager.Runnable.
func (p *collectorPoller) Start(ctx context.Context) error {
	for {
		err := p.poll(ctx)
		if ctx.Err() != nil {
			return nil
		}
		p.teller.tell(ctx, "collectors", err)
		if !p.rest(ctx) {
			return nil
		}
	}
}

// rest waits until it is time for the next list, and reports whether there is to be one.
func (p *collectorPoller) rest(ctx context.Context) bool {
	next := p.next()
	for {
		var alarm <-chan time.Time
		timer := p.timer(next)
		if timer != nil {
			alarm = timer.C()
		}
		again := false
		select {
		case <-ctx.Done():
		case <-alarm:
			again = true
		case <-p.recovered:
			p.owesTheUnwell, again = true, true
		case <-p.asked:
			if soon := p.Inventory.Listed().Add(askedSpacing); p.isAsked() && (next.IsZero() || soon.Before(next)) {
				next, again = soon, !soon.After(p.Clock.Now())
			}
		}
		if timer != nil {
			timer.Stop()
		}
		if again || ctx.Err() != nil {
			return ctx.Err() == nil
		}
	}
}

// isAsked reports whether somebody waits for a list. After one that failed, all wait for its time.
func (p *collectorPoller) isAsked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure == nil && len(p.askers)+len(p.visitors) > 0
}

// timer rings at the given time; nil for never.
func (p *collectorPoller) timer(at time.Time) clock.Timer {
	if at.IsZero() {
		return nil
	}
	return p.Clock.NewTimer(max(at.Sub(p.Clock.Now()), 0))
}

// next is when the next list is due; zero for never.
func (p *collectorPoller) next() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.failure != nil:
		return p.failedUntil
	case p.PollInterval <= 0:
		return time.Time{}
	default:
		return p.Clock.Now().Add(p.PollInterval)
	}
}

// poll lists once, and wakes those who asked and those who differ.
func (p *collectorPoller) poll(ctx context.Context) error {
	err := p.API.Available()
	var changes map[string]inventory.Change[fleetclient.Collector]
	if err == nil {
		changes, err = p.Inventory.Refresh(ctx)
	}
	asked, visitors := p.note(err)
	for _, again := range visitors {
		defer again()
	}
	if err != nil {
		p.owesTheUnwell = true
		p.wakeThose(ctx, func(c *fleetmanagementv1alpha1.Collector) bool { return asked[client.ObjectKeyFromObject(c)] })
		return err
	}
	p.wakeThose(ctx, func(c *fleetmanagementv1alpha1.Collector) bool {
		change, concerns := changes[c.Spec.ID]
		return asked[client.ObjectKeyFromObject(c)] || concerns && (changed(change) || lags(c, change.After)) ||
			p.owesTheUnwell && !meta.IsStatusConditionTrue(c.Status.Conditions, fleetmanagementv1alpha1.ConditionSynced)
	})
	p.owesTheUnwell = false
	return nil
}

// note remembers how a list went, and returns who asked for one, and whom to call. They may have asked when it was under way already:
// what it does not show them, the next one will.
func (p *collectorPoller) note(err error) (asked map[client.ObjectKey]bool, visitors map[client.ObjectKey]func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked, visitors = p.askers, p.visitors
	p.askers, p.visitors = map[client.ObjectKey]bool{}, map[client.ObjectKey]func(){}
	p.failure = err
	if err != nil {
		wait := failedSpacing
		if f := fault.Of(err, fleetmanagementv1alpha1.ReasonSyncFailed); f.Kind == fault.Wait && f.After > 0 {
			wait = f.After
		}
		p.failedUntil = p.Clock.Now().Add(wait)
	}
	return asked, visitors
}

// changed says that a collector is no longer what the Collector's last pass saw.
func changed(change inventory.Change[fleetclient.Collector]) bool {
	if change.Before == nil || change.After == nil {
		return true
	}
	before, after := change.Before, change.After
	return before.Name != after.Name || before.Type != after.Type || !before.MarkedInactiveAt.Equal(after.MarkedInactiveAt) ||
		!equalPointers(before.Enabled, after.Enabled) || !maps.Equal(before.LocalAttributes, after.LocalAttributes) ||
		!maps.Equal(before.RemoteAttributes, after.RemoteAttributes)
}

func equalPointers[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// lags says that status.lastPing is too old to be left alone.
func lags(c *fleetmanagementv1alpha1.Collector, live *fleetclient.Collector) bool {
	return live != nil && c.Status.Registered && pingLags(c.Status.LastPing, live.UpdatedAt)
}

func pingLags(last *metav1.Time, heard time.Time) bool {
	if last == nil {
		return !heard.IsZero()
	}
	return heard.Sub(last.Time) >= pingSlack
}

func (p *collectorPoller) wakeThose(ctx context.Context, concerned func(*fleetmanagementv1alpha1.Collector) bool) {
	var list fleetmanagementv1alpha1.CollectorList
	if err := p.Client.List(ctx, &list, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		logf.FromContext(ctx).Error(fmt.Errorf("listing Collectors: %w", err), "Cannot wake the Collectors that a list of collectors concerns")
		return
	}
	for i := range list.Items {
		c := &list.Items[i]
		if concerned(c) {
			p.wake(client.ObjectKeyFromObject(c))
		}
	}
}
