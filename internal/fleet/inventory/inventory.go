// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory holds what Fleet Management holds, as it was when it was last listed and with what this process has written
// since. One list an interval serves everybody.
package inventory

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Inventory holds things of one kind by their ID. It is safe for concurrent use.
type Inventory[T any] struct {
	// List reads all there is.
	List func(context.Context) ([]T, error)
	// ID returns the ID of a thing.
	ID func(T) string
	// Name and Owner return further keys of a thing, by which Named and OwnedBy find it; nil for none. More than one thing may have
	// a key, and nothing is found by an empty one.
	Name, Owner func(T) string
	Clock       clock.PassiveClock
	// MaxAge is how old a list may be for Ensure to be content with it.
	MaxAge time.Duration

	listing sync.Mutex // held while listing, so that one list serves all who ask

	mu     sync.RWMutex
	byID   map[string]T
	names  index
	owners index
	listed time.Time
	// written holds what this process wrote while a list may be on its way; nil while none is.
	written map[string]write[T]
	// forgotten says that Forget came while a list was on its way.
	forgotten bool
	// told is what was there as far as Refresh has told, where Ensure has listed since; nil if it has not.
	told map[string]T
}

// Change is a thing as it was and as it is; nil where it did not exist.
type Change[T any] struct{ Before, After *T }

// write is what this process did to a thing: it stands as put, or is gone where that is nil, or was changed.
type write[T any] struct {
	put    *T
	change func(T) T
}

// Ensure lists unless the last list is young enough. Those who ask at the same time share one list.
func (i *Inventory[T]) Ensure(ctx context.Context) error {
	_, err := i.EnsureWithin(ctx, i.MaxAge)
	return err
}

// EnsureWithin is Ensure for those who want a list that is younger than age. It reports whether it listed: what that changed, the
// next Refresh tells all the same.
func (i *Inventory[T]) EnsureWithin(ctx context.Context, age time.Duration) (listed bool, err error) {
	if i.isWithin(age) {
		return false, nil
	}
	i.listing.Lock()
	defer i.listing.Unlock()
	if i.isWithin(age) {
		return false, nil
	}
	_, err = i.list(ctx, false)
	return err == nil, err
}

// Refresh lists now and returns each thing as it was and as it is, by ID, for the caller to compare. As it was is as the last
// Refresh told, with what this process has written since; before any list, nothing was.
func (i *Inventory[T]) Refresh(ctx context.Context) (map[string]Change[T], error) {
	i.listing.Lock()
	defer i.listing.Unlock()
	return i.list(ctx, true)
}

func (i *Inventory[T]) list(ctx context.Context, tell bool) (map[string]Change[T], error) {
	i.mu.Lock()
	i.written, i.forgotten = map[string]write[T]{}, false
	i.mu.Unlock()
	things, err := i.List(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	written := i.written
	i.written = nil
	if err != nil {
		return nil, err
	}
	before := i.byID
	i.byID = make(map[string]T, len(things))
	for _, thing := range things {
		i.byID[i.ID(thing)] = thing
	}
	for id, w := range written {
		w.on(i.byID, id)
	}
	if !i.forgotten {
		i.listed = i.Clock.Now()
	}
	i.names, i.owners = index{}, index{}
	for id := range i.byID {
		i.index(id)
	}
	if i.told != nil {
		before = i.told
	}
	if !tell {
		i.told = before
		return nil, nil
	}
	i.told = nil
	return changes(before, i.byID), nil
}

// on does to a thing again what this process did while the list was on its way.
func (w write[T]) on(things map[string]T, id string) {
	thing, exists := things[id]
	switch {
	case w.change != nil && exists:
		things[id] = w.change(thing)
	case w.change != nil:
	case w.put != nil:
		things[id] = *w.put
	default:
		delete(things, id)
	}
}

func changes[T any](before, after map[string]T) map[string]Change[T] {
	all := make(map[string]Change[T], len(after))
	for id, thing := range after {
		change := Change[T]{After: &thing}
		if old, existed := before[id]; existed {
			change.Before = &old
		}
		all[id] = change
	}
	for id, thing := range before {
		if _, exists := after[id]; !exists {
			all[id] = Change[T]{Before: &thing}
		}
	}
	return all
}

// Listed returns when the last list came, zero for never.
func (i *Inventory[T]) Listed() time.Time {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.listed
}

// Forget makes the next Ensure list, such as after the credentials changed.
func (i *Inventory[T]) Forget() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.listed, i.forgotten = time.Time{}, true
}

// Get returns the thing of an ID. What it holds must not be changed.
func (i *Inventory[T]) Get(id string) (T, bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	thing, exists := i.byID[id]
	return thing, exists
}

// Named returns the things of a name, in the order of their IDs.
func (i *Inventory[T]) Named(name string) []T {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.get(i.names[name])
}

// OwnedBy returns the things of an owner, in the order of their IDs.
func (i *Inventory[T]) OwnedBy(owner string) []T {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.get(i.owners[owner])
}

func (i *Inventory[T]) get(ids []string) []T {
	things := make([]T, 0, len(ids))
	for _, id := range ids {
		things = append(things, i.byID[id])
	}
	return things
}

// All calls visit for each thing until it returns false, in no order. visit must not call back.
func (i *Inventory[T]) All(visit func(T) bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, thing := range i.byID {
		if !visit(thing) {
			return
		}
	}
}

// Put takes in what this process wrote, or read by itself.
func (i *Inventory[T]) Put(thing T) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.do(i.ID(thing), write[T]{put: &thing})
}

// Drop takes in that a thing is gone.
func (i *Inventory[T]) Drop(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.do(id, write[T]{})
}

// Change replaces a thing by what change makes of it, such as after a write that returns nothing. change returns a copy, and comes
// to the same if it is called again, on what a list brings that is on its way.
func (i *Inventory[T]) Change(id string, change func(T) T) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, exists := i.byID[id]; exists {
		i.do(id, write[T]{change: change})
	}
}

func (i *Inventory[T]) do(id string, w write[T]) {
	if i.byID == nil {
		i.byID, i.names, i.owners = map[string]T{}, index{}, index{}
	}
	i.unindex(id)
	w.on(i.byID, id)
	i.index(id)
	if i.told != nil {
		w.on(i.told, id)
	}
	if i.written != nil {
		i.written[id] = i.written[id].then(w)
	}
}

// then is one write after another.
func (w write[T]) then(next write[T]) write[T] {
	switch {
	case next.change == nil || w.put == nil && w.change == nil:
		return next
	case w.put != nil:
		changed := next.change(*w.put)
		return write[T]{put: &changed}
	default:
		return write[T]{change: func(thing T) T { return next.change(w.change(thing)) }}
	}
}

// index takes the thing of an ID, as it is stored, into the indexes.
func (i *Inventory[T]) index(id string) {
	if thing, exists := i.byID[id]; exists {
		i.names.add(key(i.Name, thing), id)
		i.owners.add(key(i.Owner, thing), id)
	}
}

// unindex takes the thing of an ID, as it is stored, out of the indexes.
func (i *Inventory[T]) unindex(id string) {
	if thing, exists := i.byID[id]; exists {
		i.names.remove(key(i.Name, thing), id)
		i.owners.remove(key(i.Owner, thing), id)
	}
}

func key[T any](of func(T) string, thing T) string {
	if of == nil {
		return ""
	}
	return of(thing)
}

func (i *Inventory[T]) isWithin(age time.Duration) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return !i.listed.IsZero() && i.Clock.Since(i.listed) < age
}
