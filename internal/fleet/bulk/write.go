// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/attributes"
	"github.com/candor-dev/candor/internal/fleet/client"
)

const (
	// samples is how many collectors are written one by one, once a second request is refused, to tell what concerns all from what
	// concerns a few.
	samples = 3
	// maxIsolated is how many collectors of a request are found one by one before the others have to wait for the next look; and how
	// many operations on a collector before its others count as refused.
	maxIsolated = 8
)

// writer settles one batch.
type writer struct {
	ctx     context.Context
	api     API
	results map[string]*Result
	// isolated is how many collectors were found that cannot be written as they are asked for.
	isolated int
}

func write(ctx context.Context, api API, all batch) map[string]*Result {
	w := &writer{ctx: ctx, api: api, results: make(map[string]*Result, len(all.ids))}
	for _, id := range all.ids {
		w.results[id] = &Result{}
	}
	for todo := []batch{all}; len(todo) > 0; {
		todo = append(w.settle(todo[0]), todo[1:]...)
	}
	return w.results
}

// settle writes a batch. Where operations turn out to be refused, it returns what is left to be done: for all others, what is not
// refused, and then what is.
func (w *writer) settle(b batch) []batch {
	rest := slices.DeleteFunc(slices.Clone(b.ids), w.closed)
	for sampled := false; len(rest) > 0; {
		err := w.call(rest, b.ops)
		switch {
		case err == nil:
			return nil
		case !divides(err):
			w.fail(rest, err)
			return nil
		case w.isolated >= maxIsolated:
			w.lookAgain(rest)
			return nil
		}
		var refused []client.Op
		if w.isolated > 0 && !sampled {
			sampled = true
			rest, refused = w.sample(rest, b.ops)
		} else {
			rest, refused = w.search(rest, b.ops, err)
		}
		if 0 < len(refused) && len(refused) < len(b.ops) {
			return []batch{{rest, without(b.ops, refused)}, {rest, refused}}
		}
	}
	return nil
}

// search finds one of the collectors that are refused together with err. It returns the collectors of which nothing is known yet,
// and the operations that are refused for the one that it found.
func (w *writer) search(ids []string, ops []client.Op, err error) (rest []string, refused []client.Op) {
	bad, alone, err := narrow(ids, err, func(ids []string) error { return w.call(ids, ops) })
	if !divides(err) {
		w.fail(ids[bad:], err)
		return nil, nil
	}
	return ids[bad+1:], w.isolate(ids[bad], ops, err, alone)
}

// sample writes some collectors one by one, and returns those that are left unless some operations, and not all, are refused for
// the last one. Where none of them is taken, the rest counts as like them.
func (w *writer) sample(ids []string, ops []client.Op) (rest []string, refused []client.Op) {
	some := ids
	if len(ids) > samples {
		some = make([]string, samples)
		for i := range some {
			some[i] = ids[(i+1)*len(ids)/(samples+1)]
		}
	}
	rest = slices.Clone(ids)
	taken, allRefused, err := false, true, error(nil)
	for _, id := range some {
		own := w.call([]string{id}, ops)
		if own != nil && !divides(own) {
			w.fail(rest, own)
			return nil, nil
		}
		rest = slices.DeleteFunc(rest, func(other string) bool { return other == id })
		if own == nil {
			taken = true
			continue
		}
		err, refused = own, w.isolate(id, ops, own, true)
		if 0 < len(refused) && len(refused) < len(ops) {
			return rest, refused
		}
		allRefused = allRefused && len(refused) > 0
	}
	switch {
	case taken:
		return rest, nil
	case allRefused:
		w.refuse(rest, ops, err)
	default:
		w.lookAgain(rest)
	}
	return nil, nil
}

// isolate finds out why one collector cannot be written, and returns the operations that are refused for it. alone says that err
// is the answer for that collector and no other.
func (w *writer) isolate(id string, ops []client.Op, err error, alone bool) []client.Op {
	w.isolated++
	result := w.results[id]
	live, readErr := w.api.GetCollector(w.ctx, id)
	switch {
	case readErr != nil && kind(readErr) == fault.NotFound:
		result.LookAgain, result.Gone = true, true
	case readErr != nil:
		result.Err = readErr
	case kind(err) != fault.Terminal || !attributes.Fits(live.RemoteAttributes, ops):
		result.LookAgain, result.Live = true, &live
	default:
		return w.sift(id, ops, err, alone)
	}
	return nil
}

// sift writes the operations on one collector that are not refused, and returns those that are. known says that err is the answer
// to all of them.
func (w *writer) sift(id string, ops []client.Op, err error, known bool) (refused []client.Op) {
	result := w.results[id]
	try := func(ops []client.Op) error { return w.call([]string{id}, ops) }
	for ; len(ops) > 0; known = false {
		if !known {
			err = try(ops)
		}
		if err == nil {
			return refused
		}
		bad := 0
		if kind(err) == fault.Terminal && len(refused) < maxIsolated {
			bad, _, err = narrow(ops, err, try)
		}
		if kind(err) != fault.Terminal {
			result.LookAgain = divides(err)
			if !result.LookAgain {
				result.Err = err
			}
			return refused
		}
		last := bad + 1
		if len(refused) >= maxIsolated {
			last = len(ops)
		}
		for _, op := range ops[bad:last] {
			result.Refused = append(result.Refused, Refused{op.Key, err.Error()})
		}
		refused, ops = append(refused, ops[bad:last]...), ops[last:]
	}
	return refused
}

// narrow finds the first of the items that is refused, given that all together are refused with err. try is called with parts of
// them; those before the first are taken. alone says that the error returned is the answer for that item and no other. An error
// that says nothing about items ends the search at the first item of which nothing is known.
func narrow[T any](items []T, err error, try func([]T) error) (first int, alone bool, _ error) {
	end := len(items)
	alone = end == 1
	for end-first > 1 {
		middle := first + (end-first)/2
		own := try(items[first:middle])
		switch {
		case own == nil:
			first = middle
		case divides(own):
			end, err, alone = middle, own, middle-first == 1
		default:
			return first, false, own
		}
	}
	return first, alone, err
}

// call writes, and notes what was applied.
func (w *writer) call(ids []string, ops []client.Op) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if err := w.api.BulkUpdateCollectors(w.ctx, ids, ops); err != nil {
		return err
	}
	for _, id := range ids {
		w.results[id].Applied = append(w.results[id].Applied, ops...)
	}
	return nil
}

// refuse counts operations as refused for collectors that were not tried one by one.
func (w *writer) refuse(ids []string, ops []client.Op, err error) {
	for _, id := range ids {
		for _, op := range ops {
			w.results[id].Refused = append(w.results[id].Refused,
				Refused{op.Key, fmt.Sprintf("refused for each of the collectors that were tried: %v", err)})
		}
	}
}

func (w *writer) lookAgain(ids []string) {
	for _, id := range ids {
		w.results[id].LookAgain = true
	}
}

func (w *writer) fail(ids []string, err error) {
	for _, id := range ids {
		w.results[id].Err = err
	}
}

func without(ops, refused []client.Op) []client.Op {
	return slices.DeleteFunc(slices.Clone(ops), func(op client.Op) bool { return slices.Contains(refused, op) })
}

// closed reports whether no more is to be written for a collector.
func (w *writer) closed(id string) bool { return w.results[id].Err != nil || w.results[id].LookAgain }

// divides reports whether an error is about something in a request, so that parts of it may be taken.
func divides(err error) bool {
	return kind(err) == fault.Terminal || kind(err) == fault.NotFound ||
		errors.Is(err, client.ErrMismatch) || errors.Is(err, client.ErrExists)
}

func kind(err error) fault.Kind {
	var f *fault.Fault
	if !errors.As(err, &f) {
		return fault.Retry
	}
	return f.Kind
}
