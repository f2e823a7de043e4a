// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package attributes

import (
	"testing"

	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/client"
)

type owner = fleetmanagementv1alpha1.AttributeOwner

func wanted(values attrs) Merged {
	return Merge([]Layer{{Kind: collector, Name: "n/c", Attributes: values}}, DefaultLimits())
}

// owns is a record that the Collector of these tests asks for value, and that previous, if any, stood there before.
func owns(key, value string, previous ...string) owner {
	o := owner{Key: key, OwnerKind: collector, OwnerName: "n/c", Value: value}
	if len(previous) > 0 {
		o.PreviousValue = &previous[0]
	}
	return o
}

func add(key, value string) client.Op { return client.Op{Kind: client.OpAdd, Key: key, Value: value} }

func replace(key, old, value string) client.Op {
	return client.Op{Kind: client.OpReplace, Key: key, Value: value, Old: &old}
}

func remove(key, value string) client.Op {
	return client.Op{Kind: client.OpRemove, Key: key, Value: value}
}

func TestDiffChangesOnlyWhatIsOursAT15(t *testing.T) {
	const (
		skip       = fleetmanagementv1alpha1.ConflictSkip
		fail       = fleetmanagementv1alpha1.ConflictFail
		justRemove = fleetmanagementv1alpha1.ReleaseRemove
	)
	for name, test := range map[string]struct {
		want, live attrs
		owned      []owner
		policies   Policies
		plan       Plan
	}{
		"nothing anywhere": {},
		"an attribute that is not there is added": {
			want: attrs{"a": "1"},
			plan: Plan{Ops: []client.Op{add("a", "1")}, Owners: []owner{owns("a", "1")}},
		},
		"an empty value is a value": {
			want: attrs{"a": ""},
			plan: Plan{Ops: []client.Op{add("a", "")}, Owners: []owner{owns("a", "")}},
		},
		"one that stands as asked for is ours without a write, and stays when nobody asks for it any more (B20)": {
			want: attrs{"a": "1"}, live: attrs{"a": "1"},
			plan: Plan{Owners: []owner{owns("a", "1", "1")}},
		},
		"one that was given before a crash is ours alone": {
			want: attrs{"a": "1"}, live: attrs{"a": "1"}, policies: Policies{Given: true},
			plan: Plan{Owners: []owner{owns("a", "1")}},
		},
		"one that is ours is changed, and still knows what stood there first": {
			want: attrs{"a": "2"}, live: attrs{"a": "1"}, owned: []owner{owns("a", "1", "0")},
			plan: Plan{Ops: []client.Op{replace("a", "1", "2")}, Owners: []owner{owns("a", "2", "0")}},
		},
		"one that is ours and that somebody removed is added, with nothing to go back to": {
			want: attrs{"a": "1"}, owned: []owner{owns("a", "1", "0")},
			plan: Plan{Ops: []client.Op{add("a", "1")}, Owners: []owner{owns("a", "1")}},
		},
		"one that somebody else set is taken over (B20)": {
			want: attrs{"a": "1"}, live: attrs{"a": "0"},
			plan: Plan{Ops: []client.Op{replace("a", "0", "1")}, Owners: []owner{owns("a", "1", "0")}, Conflicts: []string{"a"}},
		},
		"one that is ours and that somebody changed is taken over again": {
			want: attrs{"a": "1"}, live: attrs{"a": "9"}, owned: []owner{owns("a", "1", "0")},
			plan: Plan{Ops: []client.Op{replace("a", "9", "1")}, Owners: []owner{owns("a", "1", "9")}, Conflicts: []string{"a"}},
		},
		"Skip leaves what somebody else set, and gives the rest": {
			want: attrs{"a": "1", "b": "1"}, live: attrs{"a": "0"}, policies: Policies{Conflict: skip},
			plan: Plan{Ops: []client.Op{add("b", "1")}, Owners: []owner{owns("b", "1")}, Conflicts: []string{"a"}},
		},
		"Skip lets go of what was ours and somebody changed": {
			want: attrs{"a": "1"}, live: attrs{"a": "9"}, owned: []owner{owns("a", "1", "0")}, policies: Policies{Conflict: skip},
			plan: Plan{Conflicts: []string{"a"}},
		},
		"Fail changes nothing at all": {
			want: attrs{"a": "1", "b": "1", "c": "1"}, live: attrs{"a": "0", "c": "0", "gone": "1"},
			owned: []owner{owns("gone", "1")}, policies: Policies{Conflict: fail},
			plan: Plan{Owners: []owner{owns("gone", "1")}, Conflicts: []string{"a", "c"}},
		},
		"Fail without a conflict is no different": {
			want: attrs{"a": "1"}, live: attrs{"b": "0"}, policies: Policies{Conflict: fail},
			plan: Plan{Ops: []client.Op{add("a", "1")}, Owners: []owner{owns("a", "1")}},
		},
		"one that is no longer asked for is removed, if it is still as it was asked for": {
			live: attrs{"a": "1", "b": "9", "other": "x"}, owned: []owner{owns("a", "1"), owns("b", "1")},
			plan: Plan{Ops: []client.Op{remove("a", "1")}},
		},
		"one that is no longer asked for is restored": {
			live: attrs{"a": "1"}, owned: []owner{owns("a", "1", "0")},
			plan: Plan{Ops: []client.Op{replace("a", "1", "0")}},
		},
		"an empty value is restored, too": {
			live: attrs{"a": "1"}, owned: []owner{owns("a", "1", "")},
			plan: Plan{Ops: []client.Op{replace("a", "1", "")}},
		},
		"what stood there first is what stands there": {
			live: attrs{"a": "1"}, owned: []owner{owns("a", "1", "1")},
		},
		"Remove restores nothing": {
			live: attrs{"a": "1"}, owned: []owner{owns("a", "1", "0")}, policies: Policies{Release: justRemove},
			plan: Plan{Ops: []client.Op{remove("a", "1")}},
		},
		"to delete is to want nothing: the key of Kubernetes goes, the one removed by others is not mentioned (AT-06)": {
			live:  attrs{"app.kubernetes.io/name": "web", "other~key": "x"},
			owned: []owner{owns("app.kubernetes.io/name", "web"), owns("gone/too", "1")},
			plan:  Plan{Ops: []client.Op{remove("app.kubernetes.io/name", "web")}},
		},
		"a reserved key that somebody wrote into the status is left alone (B26)": {
			live: attrs{"collector.os": "linux"}, owned: []owner{owns("collector.os", "linux", "x")},
		},
		"removals come first, then the order of keys": {
			want: attrs{"a": "1", "c": "2"}, live: attrs{"c": "1", "z": "1"}, owned: []owner{owns("c", "1"), owns("z", "1")},
			plan: Plan{Ops: []client.Op{remove("z", "1"), add("a", "1"), replace("c", "1", "2")}, Owners: []owner{owns("a", "1"), owns("c", "2")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.plan.owned = test.owned
			NewWithT(t).Expect(Diff(wanted(test.want), test.live, test.owned, test.policies)).To(Equal(test.plan))
		})
	}
}

func TestAKeyPassesFromOneOwnerToTheNextWithWhatStoodThereFirst(t *testing.T) {
	g := NewWithT(t)
	want := Merge([]Layer{{Kind: policy, Name: "n/p", Attributes: attrs{"a": "low"}}}, DefaultLimits())
	plan := Diff(want, attrs{"a": "high"}, []owner{owns("a", "high", "first")}, Policies{})
	g.Expect(plan.Ops).To(Equal([]client.Op{replace("a", "high", "low")}), "without a gap")
	first := "first"
	g.Expect(plan.Owners).To(Equal([]owner{{Key: "a", OwnerKind: policy, OwnerName: "n/p", Value: "low", PreviousValue: &first}}))
}

func TestOwnersWithoutRefusedKeysAreAsTheyWere(t *testing.T) {
	g := NewWithT(t)
	owned := []owner{owns("changed", "1", "0"), owns("gone", "1"), owns("kept", "1")}
	live := attrs{"changed": "1", "gone": "1", "kept": "1"}
	plan := Diff(wanted(attrs{"changed": "2", "kept": "1", "new": "1", "new2": "1"}), live, owned, Policies{})
	g.Expect(plan.OwnersWithout()).To(Equal(plan.Owners))
	g.Expect(plan.OwnersWithout("changed", "gone", "new")).To(Equal(
		[]owner{owns("changed", "1", "0"), owns("gone", "1"), owns("kept", "1"), owns("new2", "1")}))
	g.Expect(plan.Owners).To(HaveLen(4), "which is not changed by asking")
}

func TestFitsTellsOperationsThatWouldFail(t *testing.T) {
	live := attrs{"a": "1"}
	for name, test := range map[string]struct {
		op   client.Op
		want bool
	}{
		"adds what is not there":               {add("b", "1"), true},
		"adds what is there":                   {add("a", "1"), false},
		"replaces the value that is there":     {replace("a", "1", "2"), true},
		"replaces another value":               {replace("a", "0", "2"), false},
		"replaces any value":                   {client.Op{Kind: client.OpReplace, Key: "a"}, true},
		"replaces what is not there":           {client.Op{Kind: client.OpReplace, Key: "b"}, false},
		"removes the value that is there":      {remove("a", "1"), true},
		"removes another value":                {remove("a", "0"), false},
		"removes any value":                    {remove("a", ""), true},
		"removes what is not there, hence any": {remove("b", ""), false},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(Fits(live, []client.Op{test.op})).To(Equal(test.want)) })
	}
}
