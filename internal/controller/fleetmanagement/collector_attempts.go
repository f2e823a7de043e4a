// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
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
	// given is, by key, who asks for what if what was submitted succeeds, the last one last. Whether it did may be unknown: each of
	// these values counts as ours where it stands.
	given map[string][]fleetmanagementv1alpha1.AttributeOwner
	// changed is how many attributes were changed, and overwritten the keys of those that somebody else had set.
	changed     int
	overwritten []string
	// err is why the last thing failed. again says that the collector was not as ops expect, and relist that it takes a list to see
	// how it is.
	err           error
	again, relist bool
}

// owned is who asked for what, as the status and the attempt have it. Of what they say about a key, what stands there counts.
func (a attempt) owned(recorded []fleetmanagementv1alpha1.AttributeOwner, live map[string]string) []fleetmanagementv1alpha1.AttributeOwner {
	if len(a.given) == 0 {
		return recorded
	}
	said := make(map[string][]fleetmanagementv1alpha1.AttributeOwner, len(a.given))
	for _, owner := range recorded {
		said[owner.Key] = append(said[owner.Key], owner)
	}
	for key, given := range a.given {
		said[key] = append(said[key], given...)
	}
	all := make(map[string]fleetmanagementv1alpha1.AttributeOwner, len(said))
	for key, owners := range said {
		all[key] = owners[len(owners)-1]
		for _, owner := range owners {
			if value, stands := live[key]; stands && value == owner.Value {
				all[key] = owner
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b fleetmanagementv1alpha1.AttributeOwner) int { return cmp.Compare(a.Key, b.Key) })
}

// showGiven writes into the status, beside what is there, what was given so far. A pass that fails has it stored with the failure, so
// that a process that ends before the next success leaves no attribute of which nobody knows that it is ours.
func (a attempt) showGiven(c *fleetmanagementv1alpha1.Collector, live fleetclient.Collector) {
	var all []fleetmanagementv1alpha1.AttributeOwner
	for _, owner := range a.owned(c.Status.AttributeOwners, live.RemoteAttributes) {
		value, stands := live.RemoteAttributes[owner.Key]
		recorded := slices.IndexFunc(c.Status.AttributeOwners, func(o fleetmanagementv1alpha1.AttributeOwner) bool { return o.Key == owner.Key })
		switch {
		case stands && value == owner.Value:
			all = append(all, owner)
		case recorded >= 0:
			all = append(all, c.Status.AttributeOwners[recorded])
		}
	}
	if len(all) <= maxAttributes {
		c.Status.AttributeOwners = all
	}
}

// refusedOp is an operation that Fleet Management refuses, and why.
type refusedOp struct {
	op     fleetclient.Op
	reason string
	until  time.Time
}

// refusedNaming is a name, or an enabled, that Fleet Management refuses, and why.
type refusedNaming struct {
	naming naming
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
	// unnamed holds the names that Fleet Management refuses.
	unnamed map[types.UID]refusedNaming
	// missed is, for Collectors that are being deleted, when the first list came that did not show their collector.
	missed map[types.UID]time.Time
}

// of returns the attempt for a Collector, empty for none. One that lives on in the place of another has what that one gave.
func (t *attempts) of(c *fleetmanagementv1alpha1.Collector) attempt {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch a := t.byID[c.Spec.ID]; {
	case a == nil:
		return attempt{}
	case a.uid == c.UID:
		return *a
	case c.DeletionTimestamp.IsZero():
		return attempt{given: a.given}
	default:
		return attempt{}
	}
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
	next.given = map[string][]fleetmanagementv1alpha1.AttributeOwner{}
	if last := t.byID[c.Spec.ID]; last != nil {
		maps.Copy(next.given, last.given)
		if last.uid == c.UID {
			next.changed, next.overwritten = last.changed, last.overwritten
		}
	}
	for _, owner := range st.Owners {
		others := slices.Clone(next.given[owner.Key])
		others = slices.DeleteFunc(others, func(o fleetmanagementv1alpha1.AttributeOwner) bool { return o.Value == owner.Value })
		next.given[owner.Key] = append(others, owner)
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
	delete(t.unnamed, uid)
	delete(t.missed, uid)
}

// missedTwice reports whether a list does not show the collector of a Collector that is being deleted, and an earlier one neither.
func (t *attempts) missedTwice(uid types.UID, listed time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, missed := t.missed[uid]
	if !missed {
		if t.missed == nil {
			t.missed = map[types.UID]time.Time{}
		}
		t.missed[uid] = listed
	}
	return missed && listed.After(first)
}

// named notes what came of naming a collector.
func (t *attempts) named(id string, wanted naming, err error, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.byID[id]
	if a == nil {
		return
	}
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.Terminal {
		a.err, a.again, a.relist = err, false, false
		return
	}
	a.err, a.again, a.relist = nil, false, false
	if t.unnamed == nil {
		t.unnamed = map[types.UID]refusedNaming{}
	}
	t.unnamed[a.uid] = refusedNaming{wanted, err.Error(), now.Add(opRefusedFor)}
}

// misnamed returns why Fleet Management refused a name a while ago, nil if it did not.
func (t *attempts) misnamed(uid types.UID, wanted naming, now time.Time) *refusedNaming {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, is := t.unnamed[uid]
	if !is || !r.naming.equal(wanted) || !now.Before(r.until) {
		delete(t.unnamed, uid)
		return nil
	}
	return &r
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
