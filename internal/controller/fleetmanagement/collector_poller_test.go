// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/candor-dev/candor/internal/fault"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/inventory"
	"github.com/candor-dev/candor/internal/lifecycle"
)

func fleetLive(id string, local, remote map[string]string) fleetclient.Collector {
	return fleetclient.Collector{ID: id, LocalAttributes: local, RemoteAttributes: remote}
}

func TestWhatAListMakesCollectorsBeLookedAtFor(t *testing.T) {
	edit := func(change func(*fleetclient.Collector)) inventory.Change[fleetclient.Collector] {
		before, after := fleetLive("edge", map[string]string{"a": "1"}, map[string]string{"b": "2"}), fleetLive("edge", map[string]string{"a": "1"}, map[string]string{"b": "2"})
		change(&after)
		return inventory.Change[fleetclient.Collector]{Before: &before, After: &after}
	}
	live := fleetLive("edge", nil, nil)
	for name, c := range map[string]struct {
		change inventory.Change[fleetclient.Collector]
		wakes  bool
	}{
		"nothing":                  {change: edit(func(*fleetclient.Collector) {})},
		"a ping":                   {change: edit(func(c *fleetclient.Collector) { c.UpdatedAt = c.UpdatedAt.AddDate(2026, 0, 0) })},
		"an attribute of its own":  {change: edit(func(c *fleetclient.Collector) { c.LocalAttributes["a"] = "2" }), wakes: true},
		"a remote attribute":       {change: edit(func(c *fleetclient.Collector) { c.RemoteAttributes = nil }), wakes: true},
		"its name":                 {change: edit(func(c *fleetclient.Collector) { c.Name = "new" }), wakes: true},
		"that it was turned on":    {change: edit(func(c *fleetclient.Collector) { c.Enabled = new(bool) }), wakes: true},
		"that it became inactive":  {change: edit(func(c *fleetclient.Collector) { c.MarkedInactiveAt = c.MarkedInactiveAt.AddDate(2026, 0, 0) }), wakes: true},
		"that it registered":       {change: inventory.Change[fleetclient.Collector]{After: &live}, wakes: true},
		"that it is not there now": {change: inventory.Change[fleetclient.Collector]{Before: &live}, wakes: true},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(changed(c.change)).To(Equal(c.wakes))
		})
	}
}

// shownList is a Fleet Management that answers each list with an error, if it has one.
type shownList struct {
	CollectorAPI
	lists atomic.Int32
	fails atomic.Pointer[fault.Fault]
}

func (*shownList) Available() error { return nil }

func (s *shownList) list(context.Context, ...string) ([]fleetclient.Collector, error) {
	s.lists.Add(1)
	if f := s.fails.Load(); f != nil {
		return nil, f
	}
	return nil, nil
}

func TestAVisitorGetsAYoungListAndNoListOfItsOwn(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(10 * time.Second)
	c, api := clocktesting.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)), &shownList{}
	p := newCollectorPoller(CollectorConfig{
		Client: newReplica(t).cache.objects, API: api, Clock: c, Inventory: NewCollectorInventory(api.list, c), PollInterval: time.Hour,
	}, func(client.ObjectKey) {})
	called := make(chan string, 10)
	within := func(visitor string) error {
		return p.within(5*time.Minute, client.ObjectKey{Name: visitor}, func() { called <- visitor })
	}
	g.Expect(within("early")).To(MatchError(lifecycle.ErrPending), "before any list")
	go func() { _ = p.Start(t.Context()) }()
	g.Eventually(called).Should(Receive(Equal("early")))
	g.Expect(within("early")).To(Succeed())

	c.Step(5 * time.Minute)
	g.Expect(within("a")).To(MatchError(lifecycle.ErrPending))
	g.Expect(within("a")).To(MatchError(lifecycle.ErrPending))
	g.Expect(within("b")).To(Or(MatchError(lifecycle.ErrPending), Succeed()))
	g.Eventually(called).Should(Receive(Equal("a")))
	g.Expect(within("a")).To(Succeed())
	g.Eventually(api.lists.Load).Should(BeEquivalentTo(2))

	api.fails.Store(&fault.Fault{Kind: fault.Retry, Reason: "SyncFailed", Err: errors.New("broken")})
	c.Step(5 * time.Minute)
	for len(called) > 0 {
		<-called
	}
	g.Expect(within("a")).To(MatchError(lifecycle.ErrPending))
	g.Eventually(called).Should(Receive(Equal("a")))
	var f *fault.Fault
	g.Expect(errors.As(within("a"), &f)).To(BeTrue())
	g.Expect([]any{f.Kind, f.After}).To(Equal([]any{fault.Wait, time.Minute}), "why it failed, and when the next one comes")
	g.Consistently(api.lists.Load, "50ms").Should(BeEquivalentTo(3), "nobody has it list sooner")
	api.fails.Store(nil)
	g.Eventually(c.HasWaiters).Should(BeTrue())
	c.Step(time.Minute)
	g.Eventually(called).Should(Receive(Equal("a")), "who came during the outage is told when it is over")
	g.Expect(within("a")).To(Succeed())
}
