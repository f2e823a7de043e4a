// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"container/heap"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// grantLasts is how long a Finding may take to use its turn. One that was deleted meanwhile never does.
const grantLasts = 2 * time.Minute

// contender is a Finding that a model is to be asked about.
type contender struct {
	uid  types.UID
	name types.NamespacedName
	// rank is the severity; the highest goes first.
	rank int32
	// share is the same for Findings that may share an answer.
	share string
	// order is the arrival, which decides between equal ranks.
	order int64
	// granted is when it got its turn.
	granted time.Time
	// reserved is true once the budget has been asked for its call.
	reserved bool
}

// turns decides who is next: the worst severity first, a few at a time, and of those that may share an answer one.
type turns struct {
	mu      sync.Mutex
	limit   int
	arrived int64
	waiting line
	known   map[types.UID]*contender
	// holders are those who have their turn.
	holders map[types.UID]*contender
	shares  map[string]types.UID
}

func newTurns() *turns {
	return &turns{limit: 1, known: map[types.UID]*contender{}, holders: map[types.UID]*contender{}, shares: map[string]types.UID{}}
}

// setLimit bounds how many have their turn at once.
func (t *turns) setLimit(limit int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.limit = limit
}

// request reports whether it is this candidate's turn, and puts it in line if it is not.
func (t *turns) request(c contender) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if holder, ok := t.holders[c.uid]; ok {
		if holder.share == c.share {
			return true
		}
		t.remove(c.uid)
	}
	if old, ok := t.known[c.uid]; ok {
		if old.rank == c.rank && old.share == c.share {
			return false
		}
		t.remove(c.uid)
	}
	t.arrived++
	c.order = t.arrived
	t.known[c.uid] = &c
	heap.Push(&t.waiting, &c)
	return false
}

// leave ends the turn of a Finding, or its wait for one. It returns those who wait for its answer.
func (t *turns) leave(uid types.UID) []*contender {
	t.mu.Lock()
	defer t.mu.Unlock()
	holder := t.holders[uid]
	t.remove(uid)
	if holder == nil {
		return nil
	}
	var followers []*contender
	for _, c := range t.waiting {
		if c.share == holder.share {
			followers = append(followers, c)
		}
	}
	return followers
}

// next gives out the turns that are free and returns who has them now. A milder one waits until the budget has been asked for
// every worse one, so that it never takes the last call of a budget from it.
func (t *turns) next(now time.Time) []*contender {
	t.mu.Lock()
	defer t.mu.Unlock()
	for uid, holder := range t.holders {
		if !holder.granted.IsZero() && now.Sub(holder.granted) > grantLasts {
			t.remove(uid)
		}
	}
	var granted, behind []*contender
	for len(t.holders) < t.limit && t.waiting.Len() > 0 && t.waiting[0].rank >= t.unreserved() {
		c := heap.Pop(&t.waiting).(*contender)
		if _, held := t.shares[c.share]; held {
			behind = append(behind, c)
			continue
		}
		delete(t.known, c.uid)
		c.granted = now
		t.holders[c.uid], t.shares[c.share] = c, c.uid
		granted = append(granted, c)
	}
	for _, c := range behind {
		heap.Push(&t.waiting, c)
	}
	return granted
}

// unreserved is the worst rank of those whose call the budget has not been asked for yet; zero when there is none.
func (t *turns) unreserved() int32 {
	worst := int32(0)
	for _, holder := range t.holders {
		if !holder.reserved {
			worst = max(worst, holder.rank)
		}
	}
	return worst
}

// reserved says that the budget has been asked for a holder's call.
func (t *turns) reserved(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if holder, ok := t.holders[uid]; ok {
		holder.reserved = true
	}
}

// use says that a holder's call runs, so that its turn lasts until it leaves. It reports false when it is nobody's turn.
func (t *turns) use(uid types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	holder, ok := t.holders[uid]
	if ok {
		holder.granted = time.Time{}
	}
	return ok
}

// used reports whether a Finding has its turn and uses it.
func (t *turns) used(uid types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	holder, ok := t.holders[uid]
	return ok && holder.granted.IsZero()
}

// idle reports that it is nobody's turn.
func (t *turns) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.holders) == 0
}

// wanted reports that somebody is in line.
func (t *turns) wanted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting) > 0
}

// depth counts those in line by rank.
func (t *turns) depth() map[int32]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	ranks := map[int32]int{}
	for _, c := range t.waiting {
		ranks[c.rank]++
	}
	return ranks
}

func (t *turns) remove(uid types.UID) {
	if holder, ok := t.holders[uid]; ok {
		delete(t.holders, uid)
		delete(t.shares, holder.share)
	}
	if c, ok := t.known[uid]; ok {
		delete(t.known, uid)
		for i := range t.waiting {
			if t.waiting[i] == c {
				heap.Remove(&t.waiting, i)
				break
			}
		}
	}
}

// line is a heap of candidates, the worst first.
type line []*contender

func (l line) Len() int { return len(l) }
func (l line) Less(i, j int) bool {
	if l[i].rank != l[j].rank {
		return l[i].rank > l[j].rank
	}
	return l[i].order < l[j].order
}
func (l line) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l *line) Push(x any)   { *l = append(*l, x.(*contender)) }
func (l *line) Pop() any {
	old := *l
	last := old[len(old)-1]
	*l = old[:len(old)-1]
	return last
}
