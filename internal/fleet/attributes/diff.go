// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package attributes

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/client"
)

// Policies say what becomes of attributes that others set, and of those that nobody asks for any more. Empty is Overwrite and
// Restore.
type Policies struct {
	Conflict fleetmanagementv1alpha1.ConflictPolicy
	Release  fleetmanagementv1alpha1.ReleasePolicy
	// Given says that what stands as it is asked for, and is not recorded, was given before and is ours. Otherwise somebody else had
	// set it.
	Given bool
	// Unsure reports whether an object asks for what it gave before since it is not known what it asks for now; nil for none. Where
	// something else stands, that stays, and so does what is recorded: it may be what was given last.
	Unsure func(kind fleetmanagementv1alpha1.OwnerKind, name string) bool
}

// Plan leads from what a collector has to what it is to have.
type Plan struct {
	// Ops are the operations, what they remove first and then by key. Each applies only while what it changes is as it was.
	Ops []client.Op
	// Owners is who asks for what once Ops are applied, by key, with what stood there before.
	Owners []fleetmanagementv1alpha1.AttributeOwner
	// Conflicts are the keys, in order, that somebody else set to another value than is asked for. They are overwritten, left as
	// they are, or the reason why Ops is empty, as the conflict policy says.
	Conflicts []string

	owned []fleetmanagementv1alpha1.AttributeOwner
}

// Diff plans how a collector whose remote attributes are live gets those that are wanted. owned is who asked for what when the
// last plan was applied. What is neither wanted nor owned is not touched. An attribute that is owned and no longer wanted is
// restored or removed, as the release policy says, if it still has the value that was asked for. To let everything go, want
// nothing.
func Diff(want Merged, live map[string]string, owned []fleetmanagementv1alpha1.AttributeOwner, policies Policies) Plan {
	plan := Plan{owned: owned}
	records := make(map[string]fleetmanagementv1alpha1.AttributeOwner, len(owned))
	for _, record := range owned {
		records[record.Key] = record
	}
	for _, key := range sortedKeys(want.Attributes) {
		value, present := live[key]
		record, recorded := records[key]
		plan.give(key, want.Attributes[key], place{value, present}, record, recorded, policies)
	}
	if policies.Conflict == fleetmanagementv1alpha1.ConflictFail && len(plan.Conflicts) > 0 {
		return Plan{Owners: owned, Conflicts: plan.Conflicts, owned: owned}
	}
	for _, record := range owned {
		if _, wanted := want.Attributes[record.Key]; !wanted {
			plan.release(record, live, policies.Release)
		}
	}
	slices.SortStableFunc(plan.Ops, func(a, b client.Op) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Key, b.Key))
	})
	return plan
}

// place is what stands at a key.
type place struct {
	value   string
	present bool
}

func (p *Plan) give(key string, claim Claim, live place, record fleetmanagementv1alpha1.AttributeOwner, recorded bool,
	policies Policies,
) {
	owner := fleetmanagementv1alpha1.AttributeOwner{
		Key: key, OwnerKind: claim.Kind, OwnerName: claim.Name, Value: claim.Value, PreviousValue: record.PreviousValue,
	}
	switch {
	case recorded && (!live.present || live.value != record.Value) && policies.Unsure != nil && policies.Unsure(claim.Kind, claim.Name):
		owner = record
	case !live.present:
		owner.PreviousValue = nil
		p.Ops = append(p.Ops, client.Op{Kind: client.OpAdd, Key: key, Value: claim.Value})
	case live.value == claim.Value:
		if !recorded && !policies.Given {
			owner.PreviousValue = &live.value
		}
	case recorded && live.value == record.Value:
		p.Ops = append(p.Ops, client.Op{Kind: client.OpReplace, Key: key, Value: claim.Value, Old: &live.value})
	default:
		p.Conflicts = append(p.Conflicts, key)
		if policies.Conflict == fleetmanagementv1alpha1.ConflictSkip {
			return
		}
		p.Ops = append(p.Ops, client.Op{Kind: client.OpReplace, Key: key, Value: claim.Value, Old: &live.value})
		owner.PreviousValue = &live.value
	}
	p.Owners = append(p.Owners, owner)
}

// release lets an attribute go. A reserved one was never ours, whatever the record says.
func (p *Plan) release(record fleetmanagementv1alpha1.AttributeOwner, live map[string]string, policy fleetmanagementv1alpha1.ReleasePolicy) {
	value, present := live[record.Key]
	if !present || value != record.Value || strings.HasPrefix(record.Key, ReservedPrefix) {
		return
	}
	previous := record.PreviousValue
	switch {
	case previous == nil || policy == fleetmanagementv1alpha1.ReleaseRemove:
		p.Ops = append(p.Ops, client.Op{Kind: client.OpRemove, Key: record.Key, Value: value})
	case *previous != value:
		p.Ops = append(p.Ops, client.Op{Kind: client.OpReplace, Key: record.Key, Value: *previous, Old: &value})
	}
}

// OwnersWithout is Owners where the operations on some keys were refused: what was owned of those before is still owned.
func (p Plan) OwnersWithout(refused ...string) []fleetmanagementv1alpha1.AttributeOwner {
	if len(refused) == 0 {
		return p.Owners
	}
	isRefused := func(o fleetmanagementv1alpha1.AttributeOwner) bool { return slices.Contains(refused, o.Key) }
	owners := slices.DeleteFunc(slices.Clone(p.Owners), isRefused)
	for _, record := range p.owned {
		if isRefused(record) {
			owners = append(owners, record)
		}
	}
	slices.SortFunc(owners, func(a, b fleetmanagementv1alpha1.AttributeOwner) int { return cmp.Compare(a.Key, b.Key) })
	return owners
}

// Apply returns what remote attributes become by operations that Fleet Management has applied.
func Apply(live map[string]string, ops []client.Op) map[string]string {
	after := make(map[string]string, len(live)+len(ops))
	maps.Copy(after, live)
	for _, op := range ops {
		if op.Kind == client.OpRemove {
			delete(after, op.Key)
			continue
		}
		after[op.Key] = op.Value
	}
	return after
}

// Fits reports whether operations find what they expect: a key to replace or remove that is there with the value that they
// expect, if any, and a key to add that is not.
func Fits(live map[string]string, ops []client.Op) bool {
	for _, op := range ops {
		value, present := live[op.Key]
		switch op.Kind {
		case client.OpAdd:
			if present {
				return false
			}
		case client.OpReplace:
			if !present || op.Old != nil && value != *op.Old {
				return false
			}
		case client.OpRemove:
			if !present || op.Value != "" && value != op.Value {
				return false
			}
		}
	}
	return true
}

func rank(op client.Op) int {
	if op.Kind == client.OpRemove {
		return 0
	}
	return 1
}
