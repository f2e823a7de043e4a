// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"fmt"
	"strings"

	"github.com/candor-dev/candor/internal/fleet/client"
)

// patience is how many ticks a group waits for the rest of its collectors while more of them keep coming. Without it, the ticks in
// the midst of many submissions would each cost a request that is not full.
const patience = 5

// batch is what one request writes.
type batch struct {
	ids []string
	ops []client.Op
}

// queue holds what waits, grouped by operations, in the order in which it came.
type queue struct {
	max    int
	turn   int
	ids    map[string]place
	groups map[string]*group
	order  []*group
}

// place is where an ID waits. A place in a group's line that the ID has left counts no more.
type place struct {
	group *group
	turn  int
}

// group is the collectors that want the same.
type group struct {
	key  string
	ops  []client.Op
	line []turn
	// size is how many of the line still wait.
	size  int
	ticks int
	grew  bool
	// due says that the group waits no longer for more.
	due bool
}

type turn struct {
	id   string
	turn int
}

func newQueue(limit int) queue {
	return queue{max: limit, ids: map[string]place{}, groups: map[string]*group{}}
}

func (q *queue) has(id string) bool { _, waits := q.ids[id]; return waits }

// put lets an ID wait for operations instead of those that it waited for, and reports whether that fills a request.
func (q *queue) put(id string, ops []client.Op) (full bool) {
	key := keyOf(ops)
	if was, waits := q.ids[id]; waits {
		if was.group.key == key {
			return false
		}
		q.leave(id)
	}
	if len(ops) == 0 {
		return false
	}
	g := q.groups[key]
	if g == nil {
		g = &group{key: key, ops: ops}
		q.groups[key], q.order = g, append(q.order, g)
	}
	q.turn++
	q.ids[id] = place{g, q.turn}
	g.line, g.size, g.grew = append(g.line, turn{id, q.turn}), g.size+1, true
	return g.size >= q.max
}

func (q *queue) leave(id string) {
	q.ids[id].group.size--
	delete(q.ids, id)
}

// tick lets each group wait no longer that has not grown since the last one.
func (q *queue) tick() {
	for _, g := range q.order {
		g.ticks++
		g.due = g.due || !g.grew || g.ticks >= patience
		g.grew = false
	}
}

// release lets no group wait any longer.
func (q *queue) release() {
	for _, g := range q.order {
		g.due = true
	}
}

// next takes the first request that is full, or of a group that waits no longer.
func (q *queue) next() (batch, bool) {
	for _, g := range q.order {
		if g.size >= q.max || g.due && g.size > 0 {
			taken := q.take(g)
			q.tidy()
			return taken, true
		}
	}
	q.tidy()
	return batch{}, false
}

func (q *queue) take(g *group) batch {
	taken := batch{ops: g.ops}
	for len(taken.ids) < min(q.max, len(taken.ids)+g.size) {
		first := g.line[0]
		g.line = g.line[1:]
		if q.ids[first.id] == (place{g, first.turn}) {
			q.leave(first.id)
			taken.ids = append(taken.ids, first.id)
		}
	}
	return taken
}

// tidy forgets the groups for which nobody waits.
func (q *queue) tidy() {
	waiting := q.order[:0]
	for _, g := range q.order {
		if g.size > 0 {
			waiting = append(waiting, g)
			continue
		}
		delete(q.groups, g.key)
	}
	clear(q.order[len(waiting):])
	q.order = waiting
}

// keyOf is equal for equal operations only.
func keyOf(ops []client.Op) string {
	var key strings.Builder
	for _, op := range ops {
		fmt.Fprintf(&key, "%d %q %q ", op.Kind, op.Key, op.Value)
		if op.Old != nil {
			fmt.Fprintf(&key, "%q", *op.Old)
		}
		key.WriteByte(';')
	}
	return key.String()
}
