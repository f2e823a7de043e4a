// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetserver

import (
	"cmp"
	"slices"
)

// table holds messages that never change: a write puts another in the place of one. So what was read needs no copy.
type table[M any] struct {
	rows map[string]row[M]
	// last is the number of the newest row.
	last int
	// ordered is what list returned last; nil after a write.
	ordered []M
}

type row[M any] struct {
	number  int
	message M
}

func (t *table[M]) get(id string) (message M, found bool) {
	r, found := t.rows[id]
	return r.message, found
}

func (t *table[M]) put(id string, message M) {
	if t.rows == nil {
		t.rows = map[string]row[M]{}
	}
	number := t.rows[id].number
	if number == 0 {
		t.last++
		number = t.last
	}
	t.rows[id] = row[M]{number: number, message: message}
	t.ordered = nil
}

func (t *table[M]) remove(id string) {
	delete(t.rows, id)
	t.ordered = nil
}

// list returns the messages in the order of their creation. The caller must not change the slice.
func (t *table[M]) list() []M {
	if t.ordered != nil {
		return t.ordered
	}
	rows := make([]row[M], 0, len(t.rows))
	for _, r := range t.rows {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b row[M]) int { return cmp.Compare(a.number, b.number) })
	t.ordered = make([]M, len(rows))
	for i, r := range rows {
		t.ordered[i] = r.message
	}
	return t.ordered
}
