// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/bulk"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
)

// opRefusedFor is how long an operation that Fleet Management refused is not tried again.
const opRefusedFor = 30 * time.Minute

// attempt is what is being done, or was done, for a Collector and stands in no status yet.
type attempt struct {
	holder client.ObjectKey
	uid    types.UID
	// ops are those that were submitted last; none while the collector is being named.
	ops []fleetclient.Op
	// conflicts are the keys among ops that somebody else had set.
	conflicts []string
	// owners is who asks for what if all that was submitted succeeds. What may be ours counts as ours: it is let go only where our
	// value stands.
	owners map[string]fleetmanagementv1alpha1.AttributeOwner
	// changed is how many attributes were changed, and overwritten the keys of those that somebody else had set.
	changed     int
	overwritten []string
	// err is why the last thing failed. again says that the collector was not as ops expect, and relist that it takes a list to see
	// how it is.
	err           error
	again, relist bool
}

// owned is who asked for what, as the status and the attempt have it.
func (a attempt) owned(recorded []fleetmanagementv1alpha1.AttributeOwner) []fleetmanagementv1alpha1.AttributeOwner {
	if len(a.owners) == 0 {
		return recorded
	}
	all := maps.Clone(a.owners)
	for _, owner := range recorded {
		if _, newer := all[owner.Key]; !newer {
			all[owner.Key] = owner
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b fleetmanagementv1alpha1.AttributeOwner) int { return cmp.Compare(a.Key, b.Key) })
}

// refusedOp is an operation that Fleet Management refuses, and why.
type refusedOp struct {
	op     fleetclient.Op
	reason string
	until  time.Time
}

// attempts holds what goes on for each collector, by its ID, and what is remembered of each Collector. The zero value is ready.
type attempts struct {
	mu   sync.Mutex
	byID map[string]*attempt
	// waiting holds, by ID, the Collectors that wait for the attempt of another one.
	waiting map[string][]client.ObjectKey
	// asked holds the Collectors for which a list was asked for.
	asked map[types.UID]bool
	// begun holds the Collectors that this process gives their finalizer.
	begun   map[types.UID]bool
	refused map[types.UID]map[string]refusedOp
}

// of returns the attempt for a Collector, empty for none.
func (t *attempts) of(c *fleetmanagementv1alpha1.Collector) attempt {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.byID[c.Spec.ID]; a != nil && a.uid == c.UID {
		return *a
	}
	return attempt{}
}

// await reports whether the attempt is for another Collector with the same ID, and has this one woken when something came of it.
func (t *attempts) await(c *fleetmanagementv1alpha1.Collector) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.byID[c.Spec.ID]
	if a == nil || a.uid == c.UID {
		return false
	}
	if k := client.ObjectKeyFromObject(c); !slices.Contains(t.waiting[c.Spec.ID], k) {
		if t.waiting == nil {
			t.waiting = map[string][]client.ObjectKey{}
		}
		t.waiting[c.Spec.ID] = append(t.waiting[c.Spec.ID], k)
	}
	return true
}

// begin notes what is being done for a Collector. What was done and is not yet written stays.
func (t *attempts) begin(c *fleetmanagementv1alpha1.Collector, st step) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := attempt{holder: client.ObjectKeyFromObject(c), uid: c.UID, ops: st.ops, conflicts: st.Conflicts}
	next.owners = map[string]fleetmanagementv1alpha1.AttributeOwner{}
	if last := t.byID[c.Spec.ID]; last != nil && last.uid == c.UID {
		next.changed, next.overwritten = last.changed, last.overwritten
		maps.Copy(next.owners, last.owners)
	}
	for _, owner := range st.Owners {
		next.owners[owner.Key] = owner
	}
	if t.byID == nil {
		t.byID = map[string]*attempt{}
	}
	t.byID[c.Spec.ID] = &next
}

// finish notes what came of operations.
func (t *attempts) finish(id string, result bulk.Result, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.byID[id]
	if a == nil {
		return
	}
	a.err, a.again = result.Err, result.LookAgain
	a.relist = result.LookAgain && result.Live == nil && !result.Gone
	for _, op := range result.Applied {
		a.changed++
		if slices.Contains(a.conflicts, op.Key) {
			a.overwritten = append(a.overwritten, op.Key)
		}
	}
	for _, refused := range result.Refused {
		for _, op := range a.ops {
			if op.Key == refused.Key {
				t.refuse(a.uid, refusedOp{op, refused.Message, now.Add(opRefusedFor)})
			}
		}
	}
}

func (t *attempts) refuse(uid types.UID, r refusedOp) {
	if t.refused == nil {
		t.refused = map[types.UID]map[string]refusedOp{}
	}
	if t.refused[uid] == nil {
		t.refused[uid] = map[string]refusedOp{}
	}
	t.refused[uid][r.op.Key] = r
}

// concerned returns whom to wake after something was done for a collector.
func (t *attempts) concerned(id string) []client.ObjectKey {
	t.mu.Lock()
	defer t.mu.Unlock()
	wake := t.waiting[id]
	delete(t.waiting, id)
	if a := t.byID[id]; a != nil {
		wake = append(wake, a.holder)
	}
	return wake
}

// refusals returns the operations that Fleet Management refused of a Collector and that are not due again, by key.
func (t *attempts) refusals(uid types.UID, now time.Time) map[string]refusedOp {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.refused[uid], func(_ string, r refusedOp) bool { return !now.Before(r.until) })
	return maps.Clone(t.refused[uid])
}

// told forgets what went wrong, since it was told.
func (t *attempts) told(c *fleetmanagementv1alpha1.Collector) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.byID[c.Spec.ID]; a != nil && a.uid == c.UID {
		a.err, a.again, a.relist = nil, false, false
	}
}

// end forgets the attempt for a Collector, which stands in its status now.
func (t *attempts) end(id string, uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.byID[id]; a != nil && a.uid == uid {
		delete(t.byID, id)
	}
}

// forget drops all that is remembered of a Collector that is gone.
func (t *attempts) forget(id string, uid types.UID) {
	t.end(id, uid)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.asked, uid)
	delete(t.begun, uid)
	delete(t.refused, uid)
}

// beginHere notes that this process gives a Collector its finalizer.
func (t *attempts) beginHere(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun == nil {
		t.begun = map[types.UID]bool{}
	}
	t.begun[uid] = true
}

// begunHere reports whether this process gave a Collector its finalizer.
func (t *attempts) begunHere(uid types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.begun[uid]
}

// askOnce reports whether a list may be asked for, which is once for each Collector.
func (t *attempts) askOnce(uid types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asked[uid] {
		return false
	}
	if t.asked == nil {
		t.asked = map[types.UID]bool{}
	}
	t.asked[uid] = true
	return true
}
