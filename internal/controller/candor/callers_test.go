// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// desk runs Callers in the time of a bubble. A bubble whose goroutines do not all end fails its test.
type desk struct {
	*Callers
	woken chan event.GenericEvent
	// stop ends the manager, and returns a channel that is closed when the Callers have ended too.
	stop func() <-chan struct{}
}

func openDesk(t *testing.T) *desk {
	t.Helper()
	woken := make(chan event.GenericEvent)
	d := &desk{Callers: NewCallers(clocktesting.NewFakePassiveClock(noon), woken), woken: woken}
	d.Flush = func(_ context.Context, request reconcile.Request) error {
		d.stored(types.UID(request.Name))
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = d.Start(ctx)
	}()
	d.stop = func() <-chan struct{} {
		cancel()
		synctest.Wait()
		return ended
	}
	return d
}

func contend(uid, share string) contender {
	return contender{uid: types.UID(uid), name: types.NamespacedName{Namespace: "team-a", Name: uid}, rank: 3, share: share}
}

// take waits until a Finding is woken, and returns its name.
func (d *desk) take() string { return (<-d.woken).Object.GetName() }

// call lets a Finding have its turn and use it.
func (d *desk) call(uid string, call func(context.Context) *result) {
	who := contend(uid, uid)
	if !d.turn(who) {
		d.take()
		d.turn(who)
	}
	d.begin(who.uid, who.name, call)
}

func answered(context.Context) *result { return &result{model: "m"} }

func TestAnAnswerIsKeptUntilItIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, d := NewWithT(t), openDesk(t)
		release := make(chan struct{})
		d.call("a", func(ctx context.Context) *result { <-release; return answered(ctx) })
		g.Expect(d.busy("a")).To(BeTrue())
		g.Expect(d.result("a")).To(BeNil())
		close(release)
		g.Expect(d.take()).To(Equal("a"))
		g.Expect(d.busy("a")).To(BeFalse())
		for range 2 {
			g.Expect(d.result("a")).NotTo(BeNil())
		}
		d.stored("a")
		g.Expect(d.result("a")).To(BeNil())
		g.Expect(d.stop()).To(BeClosed())
	})
}

func TestTheAnswerOfADeletedFindingIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, d := NewWithT(t), openDesk(t)
		release := make(chan struct{})
		d.call("a", func(ctx context.Context) *result { <-release; return answered(ctx) })
		d.leave("a")
		close(release)
		g.Expect(d.take()).To(Equal("a"))
		g.Expect(d.result("a")).To(BeNil())
		g.Expect(d.stop()).To(BeClosed())
	})
}

func TestThoseWhoWaitForAnAnswerAreWokenWhenItIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, d := NewWithT(t), openDesk(t)
		g.Expect(d.turn(contend("a", "same"))).To(BeFalse())
		g.Expect(d.turn(contend("b", "same"))).To(BeFalse())
		g.Expect(d.take()).To(Equal("a"))
		d.leave("a")
		g.Expect([]string{d.take(), d.take()}).To(Equal([]string{"b", "b"}), "once for the answer, and once for its turn")
		g.Expect(d.stop()).To(BeClosed())
	})
}

func TestTheEndOfTheManagerWaitsForTheCallAndForItsAnswerToBeStored(t *testing.T) {
	for name, failures := range map[string][]error{
		"at the first try": nil,
		"after conflicts that last for as long as a cache may lag behind": make([]error, 20),
		"after errors of the API server":                                  {errors.New("etcd is not well"), errors.New("etcd is not well")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, d := NewWithT(t), openDesk(t)
				release := make(chan struct{})
				store := d.Flush
				d.Flush = func(ctx context.Context, request reconcile.Request) error {
					if len(failures) == 0 {
						return store(ctx, request)
					}
					err := failures[0]
					failures = failures[1:]
					return err // nil is a conflict, which asks for another pass
				}
				d.call("a", func(ctx context.Context) *result { <-release; return answered(ctx) })
				ended := d.stop()
				time.Sleep(4 * time.Minute)
				g.Expect(ended).NotTo(BeClosed(), "the call runs")
				close(release)
				<-ended
				g.Expect(d.result("a")).To(BeNil(), "it is stored")
			})
		})
	}
}

func TestAnAnswerThatCannotBeStoredHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, d := NewWithT(t), openDesk(t)
		d.turns.setLimit(2)
		store := d.Flush
		d.Flush = func(ctx context.Context, request reconcile.Request) error {
			if request.Name == "a" {
				<-ctx.Done()
				return ctx.Err()
			}
			return store(ctx, request)
		}
		for _, uid := range []string{"a", "b"} {
			d.call(uid, answered)
			g.Expect(d.take()).To(Equal(uid))
		}
		began := time.Now()
		<-d.stop()
		g.Expect(time.Since(began)).To(Equal(flushTimeout))
		g.Expect(d.result("a")).NotTo(BeNil())
		g.Expect(d.result("b")).To(BeNil())
	})
}

func TestTheEndOfTheManagerIsNotHeldUpByAFindingThatNobodyWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, d := NewWithT(t), openDesk(t)
		d.turn(contend("a", "a"))
		time.Sleep(gatherFor)
		synctest.Wait() // it is being woken
		g.Expect(d.stop()).To(BeClosed())
	})
}

func TestNothingIsBegunAfterTheEndOfTheManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, d := NewWithT(t), openDesk(t)
		who := contend("a", "a")
		d.turn(who)
		g.Expect(d.take()).To(Equal("a"))
		g.Expect(d.turn(who)).To(BeTrue())
		g.Expect(d.stop()).To(BeClosed())
		g.Expect(d.turn(who)).To(BeFalse())
		d.begin(who.uid, who.name, func(context.Context) *result {
			t.Error("a call began")
			return nil
		})
		synctest.Wait()
	})
}
