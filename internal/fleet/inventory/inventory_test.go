// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

// thing is found by its value as if that were its owner.
type thing struct{ id, name, value string }

// remote is what the lists of a test come from.
type remote struct {
	mu     sync.Mutex
	things map[string]thing
	err    error
	lists  int
	// during runs in the midst of a list, after what it returns is settled.
	during func()
}

func (r *remote) list(context.Context) ([]thing, error) {
	r.mu.Lock()
	r.lists++
	things, err, during := slices.Collect(maps.Values(r.things)), r.err, r.during
	r.mu.Unlock()
	if during != nil {
		during()
	}
	return things, err
}

func (r *remote) put(things ...thing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range things {
		r.things[t.id] = t
	}
}

func newInventory(things ...thing) (*Inventory[thing], *remote, *clocktesting.FakePassiveClock) {
	r := &remote{things: map[string]thing{}}
	r.put(things...)
	c := clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	return &Inventory[thing]{
		List: r.list, ID: func(t thing) string { return t.id }, Name: func(t thing) string { return t.name }, Owner: func(t thing) string { return t.value },
		Clock: c, MaxAge: time.Minute,
	}, r, c
}

func contents(i *Inventory[thing]) map[string]thing {
	all := map[string]thing{}
	i.All(func(t thing) bool { all[t.id] = t; return true })
	return all
}

func setValue(value string) func(thing) thing {
	return func(t thing) thing { t.value = value; return t }
}

// differences are the changes that are any, for comparison.
func differences(changes map[string]Change[thing]) map[string]string {
	show := func(t *thing) string {
		if t == nil {
			return "nothing"
		}
		return t.value
	}
	all := map[string]string{}
	for id, c := range changes {
		if c.Before == nil || c.After == nil || *c.Before != *c.After {
			all[id] = show(c.Before) + " → " + show(c.After)
		}
	}
	return all
}

func TestEnsureListsOnceAnAge(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	i, r, c := newInventory(thing{"1", "a", "x"})
	g.Expect(i.Listed()).To(BeZero())
	g.Expect(i.Ensure(ctx)).To(Succeed())
	g.Expect(i.Ensure(ctx)).To(Succeed())
	c.SetTime(c.Now().Add(time.Minute - 1))
	g.Expect(i.Ensure(ctx)).To(Succeed())
	g.Expect(r.lists).To(Equal(1))
	c.SetTime(c.Now().Add(1))
	g.Expect(i.Ensure(ctx)).To(Succeed())
	g.Expect(r.lists).To(Equal(2))
	g.Expect(i.Listed()).To(Equal(c.Now()))
	i.Forget()
	g.Expect(i.Ensure(ctx)).To(Succeed())
	g.Expect(r.lists).To(Equal(3))
}

func TestThoseWhoAskAtOnceShareAList(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	i, r, _ := newInventory()
	var asking, all sync.WaitGroup
	asking.Add(20)
	r.during = asking.Wait
	for range 20 {
		all.Go(func() {
			asking.Done()
			g.Expect(i.Ensure(ctx)).To(Succeed())
		})
	}
	all.Wait()
	g.Expect(r.lists).To(Equal(1))
}

func TestAFailedListLeavesWhatIsThere(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	i, r, c := newInventory(thing{"1", "a", "x"})
	g.Expect(i.Ensure(ctx)).To(Succeed())
	listed := i.Listed()
	r.err = errors.New("down")
	r.during = func() { i.Put(thing{"2", "b", "y"}) }
	c.SetTime(c.Now().Add(time.Hour))
	g.Expect(i.Ensure(ctx)).To(MatchError("down"))
	_, err := i.Refresh(ctx)
	g.Expect(err).To(MatchError("down"))
	g.Expect(i.Listed()).To(Equal(listed))
	g.Expect(contents(i)).To(Equal(map[string]thing{"1": {"1", "a", "x"}, "2": {"2", "b", "y"}}))
}

func TestRefreshTellsWhatWasAndWhatIs(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	i, r, _ := newInventory(thing{"1", "a", "x"}, thing{"2", "b", "x"}, thing{"3", "c", "x"}, thing{"4", "d", "x"})
	changes, err := i.Refresh(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(differences(changes)).To(HaveLen(4), "nothing was before the first list")

	r.put(thing{"2", "b", "y"}, thing{"5", "e", "new"}, thing{"4", "d", "own"})
	delete(r.things, "3")
	i.Put(thing{"4", "d", "own"})
	changes, err = i.Refresh(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(changes).To(HaveLen(5))
	g.Expect(differences(changes)).To(Equal(map[string]string{"2": "x → y", "3": "x → nothing", "5": "nothing → new"}))
}

func TestRefreshTellsWhatEnsureSaw(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	i, r, c := newInventory(thing{"1", "a", "x"}, thing{"2", "b", "x"}, thing{"3", "c", "x"})
	_, err := i.Refresh(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	for _, value := range []string{"y", "z"} {
		r.put(thing{"1", "a", value}, thing{"2", "b", value})
		c.SetTime(c.Now().Add(time.Hour))
		g.Expect(i.Ensure(ctx)).To(Succeed())
	}
	i.Put(thing{"2", "b", "own"})
	i.Change("3", setValue("own"))
	r.put(thing{"2", "b", "own"}, thing{"3", "c", "own"})
	changes, err := i.Refresh(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(differences(changes)).To(Equal(map[string]string{"1": "x → z"}))
	changes, err = i.Refresh(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(differences(changes)).To(BeEmpty(), "each change is told once")
}

func TestWhatIsWrittenWhileAListIsOnItsWayOutlivesIt(t *testing.T) {
	for name, test := range map[string]struct {
		during func(i *Inventory[thing])
		want   map[string]thing
	}{
		"created":                {func(i *Inventory[thing]) { i.Put(thing{"9", "z", "own"}) }, map[string]thing{"1": {"1", "a", "listed"}, "9": {"9", "z", "own"}}},
		"put":                    {func(i *Inventory[thing]) { i.Put(thing{"1", "a", "own"}) }, map[string]thing{"1": {"1", "a", "own"}}},
		"dropped":                {func(i *Inventory[thing]) { i.Drop("1") }, map[string]thing{}},
		"put and dropped":        {func(i *Inventory[thing]) { i.Put(thing{"1", "a", "own"}); i.Drop("1") }, map[string]thing{}},
		"dropped and put":        {func(i *Inventory[thing]) { i.Drop("1"); i.Put(thing{"1", "a", "own"}) }, map[string]thing{"1": {"1", "a", "own"}}},
		"dropped, and not there": {func(i *Inventory[thing]) { i.Drop("1"); i.Change("1", setValue("own")) }, map[string]thing{}},
		"put and changed":        {func(i *Inventory[thing]) { i.Put(thing{"1", "b", "own"}); i.Change("1", setValue("changed")) }, map[string]thing{"1": {"1", "b", "changed"}}},
		"changed":                {func(i *Inventory[thing]) { i.Change("1", func(t thing) thing { t.name = "own"; return t }) }, map[string]thing{"1": {"1", "own", "listed"}}},
		"changed twice": {func(i *Inventory[thing]) {
			i.Change("1", setValue("1"))
			i.Change("1", func(t thing) thing { t.value += "+"; return t })
		}, map[string]thing{"1": {"1", "a", "1+"}}},
		"changed, and gone since": {func(i *Inventory[thing]) { i.Change("2", setValue("own")) }, map[string]thing{"1": {"1", "a", "listed"}}},
	} {
		t.Run(name, func(t *testing.T) {
			g, ctx := NewWithT(t), t.Context()
			i, r, _ := newInventory(thing{"1", "a", "former"}, thing{"2", "b", "former"})
			g.Expect(i.Ensure(ctx)).To(Succeed())
			r.put(thing{"1", "a", "listed"})
			delete(r.things, "2")
			r.during = func() { test.during(i) }
			_, err := i.Refresh(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(contents(i)).To(Equal(test.want))
			for _, want := range test.want {
				g.Expect(i.Named(want.name)).To(Equal([]thing{want}))
			}

			r.during = nil
			_, err = i.Refresh(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(contents(i)).To(Equal(map[string]thing{"1": {"1", "a", "listed"}}), "the next list knows better")
		})
	}
}

func TestWhatIsForgottenWhileAListIsOnItsWayIsListedAgain(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	i, r, _ := newInventory(thing{"1", "a", "of other credentials"})
	r.during = i.Forget
	g.Expect(i.Ensure(ctx)).To(Succeed())
	r.during = nil
	g.Expect(i.Listed()).To(BeZero())
	g.Expect(i.Ensure(ctx)).To(Succeed())
	g.Expect(r.lists).To(Equal(2))
	g.Expect(i.Ensure(ctx)).To(Succeed())
	g.Expect(r.lists).To(Equal(2))
}

func TestThingsAreFoundByNameInOrder(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	i, _, _ := newInventory(thing{"3", "a", ""}, thing{"1", "a", ""}, thing{"2", "b", ""})
	g.Expect(i.Ensure(ctx)).To(Succeed())
	g.Expect(i.Named("a")).To(Equal([]thing{{"1", "a", ""}, {"3", "a", ""}}))
	i.Put(thing{"1", "b", "renamed"})
	g.Expect(i.Named("a")).To(Equal([]thing{{"3", "a", ""}}))
	g.Expect(i.Named("b")).To(Equal([]thing{{"1", "b", "renamed"}, {"2", "b", ""}}))
	i.Drop("2")
	i.Change("1", func(t thing) thing { t.name = "c"; return t })
	g.Expect(i.Named("b")).To(BeEmpty())
	g.Expect(i.Named("c")).To(Equal([]thing{{"1", "c", "renamed"}}))
	g.Expect(i.names).NotTo(HaveKey("b"))
}

func TestThingsAreFoundByTheirOwner(t *testing.T) {
	owned := func(id, owner string) thing { return thing{id, "name of " + id, owner} }
	for name, test := range map[string]struct {
		do   func(ctx context.Context, i *Inventory[thing], r *remote) error
		want map[string][]string // IDs by owner
	}{
		"as they are listed": {func(context.Context, *Inventory[thing], *remote) error { return nil }, map[string][]string{"x": {"1", "3"}, "y": {"2"}}},
		"after a put that makes one": {func(_ context.Context, i *Inventory[thing], _ *remote) error {
			i.Put(owned("2b", "x"))
			return nil
		}, map[string][]string{"x": {"1", "2b", "3"}, "y": {"2"}}},
		"after a put of what is there already": {func(_ context.Context, i *Inventory[thing], _ *remote) error {
			i.Put(owned("1", "x"))
			return nil
		}, map[string][]string{"x": {"1", "3"}, "y": {"2"}}},
		"after a put that gives one to another": {func(_ context.Context, i *Inventory[thing], _ *remote) error {
			i.Put(owned("2", "x"))
			return nil
		}, map[string][]string{"x": {"1", "2", "3"}}},
		"after a put that makes one nobody's": {func(_ context.Context, i *Inventory[thing], _ *remote) error {
			i.Put(owned("1", ""))
			return nil
		}, map[string][]string{"x": {"3"}, "y": {"2"}}},
		"after a drop": {func(_ context.Context, i *Inventory[thing], _ *remote) error {
			i.Drop("1")
			i.Drop("2")
			return nil
		}, map[string][]string{"x": {"3"}}},
		"after a change": {func(_ context.Context, i *Inventory[thing], _ *remote) error {
			i.Change("1", setValue("y"))
			i.Change("3", setValue(""))
			i.Change("4", setValue("z"))
			i.Change("absent", setValue("z"))
			return nil
		}, map[string][]string{"y": {"1", "2"}, "z": {"4"}}},
		"after a refresh": {func(ctx context.Context, i *Inventory[thing], r *remote) error {
			r.put(owned("2", "x"), owned("5", "z"))
			delete(r.things, "1")
			_, err := i.Refresh(ctx)
			return err
		}, map[string][]string{"x": {"2", "3"}, "z": {"5"}}},
		"after a refresh that writes overtake": {func(ctx context.Context, i *Inventory[thing], r *remote) error {
			r.during = func() {
				i.Put(owned("5", "z"))
				i.Drop("1")
				i.Change("2", setValue("x"))
			}
			_, err := i.Refresh(ctx)
			return err
		}, map[string][]string{"x": {"2", "3"}, "z": {"5"}}},
		"after what is known is forgotten, as they were": {func(_ context.Context, i *Inventory[thing], _ *remote) error {
			i.Forget()
			return nil
		}, map[string][]string{"x": {"1", "3"}, "y": {"2"}}},
		"after what is known is forgotten and listed": {func(ctx context.Context, i *Inventory[thing], r *remote) error {
			i.Forget()
			r.put(owned("1", "y"))
			return i.Ensure(ctx)
		}, map[string][]string{"x": {"3"}, "y": {"1", "2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			g, ctx := NewWithT(t), t.Context()
			i, r, _ := newInventory(owned("1", "x"), owned("2", "y"), owned("3", "x"), owned("4", ""))
			g.Expect(i.Ensure(ctx)).To(Succeed())
			g.Expect(test.do(ctx, i, r)).To(Succeed())
			g.Expect(i.owners).To(Equal(index(test.want)), "nothing else is kept")
			for owner, ids := range test.want {
				var found []string
				for _, owned := range i.OwnedBy(owner) {
					g.Expect(owned).To(Equal(contents(i)[owned.id]))
					found = append(found, owned.id)
				}
				g.Expect(found).To(Equal(ids), owner)
			}
			g.Expect(i.OwnedBy("")).To(BeEmpty(), "nobody owns what has no owner")
		})
	}
}

func TestWritesBeforeAnyListAreKept(t *testing.T) {
	g := NewWithT(t)
	i, _, _ := newInventory()
	i.Name, i.Owner = nil, nil
	i.Change("1", setValue("x"))
	i.Drop("1")
	i.Put(thing{"1", "a", "x"})
	got, exists := i.Get("1")
	g.Expect(exists).To(BeTrue())
	g.Expect(got).To(Equal(thing{"1", "a", "x"}))
	g.Expect(i.Named("a")).To(BeEmpty(), "without a second key")
	_, exists = i.Get("2")
	g.Expect(exists).To(BeFalse())
}

func TestAVisitEndsWhenItIsToldTo(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	i, _, _ := newInventory(thing{"1", "a", ""}, thing{"2", "b", ""})
	g.Expect(i.Ensure(ctx)).To(Succeed())
	visits := 0
	i.All(func(thing) bool { visits++; return false })
	g.Expect(visits).To(Equal(1))
}

// TestOwnWritesAreNeverLostToLists has writers and lists race. A writer owns its thing: what it wrote last is what it reads.
func TestOwnWritesAreNeverLostToLists(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	i, r, _ := newInventory()
	g.Expect(i.Ensure(ctx)).To(Succeed())
	var writing, listing sync.WaitGroup
	var ended atomic.Bool
	for range 2 {
		listing.Go(func() {
			for !ended.Load() {
				if _, err := i.Refresh(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for worker := range 4 {
		writing.Go(func() {
			id, random := fmt.Sprint(worker), rand.New(rand.NewPCG(uint64(worker), 0))
			for n := range 2000 {
				want := thing{id, fmt.Sprint("name", n%3), fmt.Sprint(n)}
				_, existed := i.Get(id)
				switch gone := random.IntN(4) == 0; {
				case gone:
					r.mu.Lock()
					delete(r.things, id)
					r.mu.Unlock()
					i.Drop(id)
					want = thing{}
				case existed:
					r.put(want)
					i.Change(id, func(thing) thing { return want })
				default:
					r.put(want)
					i.Put(want)
				}
				if got, _ := i.Get(id); got != want {
					t.Errorf("wrote %v and read %v", want, got)
					return
				}
				if want.id != "" && !slices.Contains(i.Named(want.name), want) {
					t.Errorf("%v is not found by its name", want)
					return
				}
				if want.id != "" && !slices.Contains(i.OwnedBy(want.value), want) {
					t.Errorf("%v is not found by its owner", want)
					return
				}
			}
		})
	}
	writing.Wait()
	ended.Store(true)
	listing.Wait()
	_, err := i.Refresh(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(contents(i)).To(Equal(r.things))
}

func TestAYoungerListIsAskedFor(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	i, r, c := newInventory(thing{"1", "a", "x"})
	_, err := i.Refresh(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	c.SetTime(c.Now().Add(30 * time.Second))
	r.put(thing{"2", "b", "y"})
	g.Expect(i.EnsureWithin(ctx, 31*time.Second)).To(BeFalse(), "it is young enough")
	g.Expect(i.EnsureWithin(ctx, 30*time.Second)).To(BeTrue())
	g.Expect(r.lists).To(Equal(2))
	g.Expect(contents(i)).To(HaveKey("2"))
	changes, err := i.Refresh(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(changes["2"].Before).To(BeNil(), "the next Refresh tells all the same")
	r.err = errors.New("broken")
	g.Expect(i.EnsureWithin(ctx, 0)).Error().To(MatchError("broken"))
}
