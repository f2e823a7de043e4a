// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

var (
	self  = Key{"team-a", "all"}
	other = Key{"team-a", "others"}
)

// things are in scope and named by their ID.
func things(ids ...string) []Thing {
	var all []Thing
	for _, id := range ids {
		all = append(all, Thing{ID: id, Name: id, InScope: true})
	}
	return all
}

// ours are objects of the discovery, named by the ID that they stand for.
func ours(ids ...string) []Object {
	var all []Object
	for _, id := range ids {
		all = append(all, Object{Name: id, Owner: self, ID: id})
	}
	return all
}

func with(o Object, change func(*Object)) Object {
	change(&o)
	return o
}

func stale(o *Object)   { o.Stale = true }
func edited(o *Object)  { o.Edited = true }
func leaving(o *Object) { o.Leaving = true }

func set(ids ...string) map[string]bool {
	all := map[string]bool{}
	for _, id := range ids {
		all[id] = true
	}
	return all
}

// ids returns n IDs in order.
func ids(n int) []string {
	all := make([]string, 0, n)
	for i := range n {
		all = append(all, fmt.Sprintf("id-%03d", i))
	}
	return all
}

func TestPlans(t *testing.T) {
	hidden := func(id string) Thing { return Thing{ID: id, Name: id} }
	for name, c := range map[string]struct {
		in   Input
		want Plan
	}{
		"nothing is nothing": {},
		"what has no object gets one": {
			Input{Things: things("b", "a")},
			Plan{Create: []Creation{{"a", "a"}, {"b", "b"}}, Observed: 2},
		},
		"what has one keeps it": {
			Input{Things: things("a"), Objects: ours("a")},
			Plan{Observed: 1, Managed: 1},
		},
		"what is not in scope gets none": {
			Input{Things: []Thing{hidden("a")}}, Plan{},
		},
		"what has left the scope keeps its object, unmarked": {
			Input{Things: []Thing{hidden("a"), hidden("b")}, Objects: []Object{ours("a")[0], with(ours("b")[0], stale)}, Delete: true},
			Plan{OutOfScope: 2, Unstale: []string{"b"}},
		},
		"what is back is marked no more": {
			Input{Things: things("a"), Objects: []Object{with(ours("a")[0], stale)}},
			Plan{Unstale: []string{"a"}, Observed: 1, Managed: 1},
		},
		"what no list shows is looked up first": {
			Input{Things: things("a"), Objects: ours("a", "b"), Delete: true},
			Plan{Confirm: []string{"b"}, Observed: 1, Managed: 1},
		},
		"what is gone is marked": {
			Input{Things: things("a"), Objects: ours("a", "b"), Gone: set("b")},
			Plan{Stale: []string{"b"}, StaleIDs: []string{"b"}, Observed: 1, Managed: 1},
		},
		"what is gone is deleted where that is asked for": {
			Input{Things: things("a"), Objects: ours("a", "b"), Gone: set("b"), Delete: true},
			Plan{Delete: []string{"b"}, Observed: 1, Managed: 1},
		},
		"what somebody edited is marked, never deleted": {
			Input{Things: things("a"), Objects: []Object{ours("a")[0], with(ours("b")[0], edited)}, Gone: set("b"), Delete: true},
			Plan{Stale: []string{"b"}, StaleIDs: []string{"b"}, Observed: 1, Managed: 1},
		},
		"what is marked already is left alone, and not looked up": {
			Input{Things: things("a"), Objects: []Object{ours("a")[0], with(ours("b")[0], stale)}},
			Plan{StaleIDs: []string{"b"}, Observed: 1, Managed: 1},
		},
		"what is marked and edited is left alone where deletion is asked for": {
			Input{Things: things("a"), Objects: []Object{ours("a")[0], with(with(ours("b")[0], stale), edited)}, Delete: true},
			Plan{StaleIDs: []string{"b"}, Observed: 1, Managed: 1},
		},
		"what is marked already is looked up again to be deleted": {
			Input{Things: things("a"), Objects: []Object{ours("a")[0], with(ours("b")[0], stale)}, Delete: true},
			Plan{Confirm: []string{"b"}, StaleIDs: []string{"b"}, Observed: 1, Managed: 1},
		},
		"an object of nobody is in the way": {
			Input{Things: things("a"), Objects: []Object{{Name: "a", ID: "z"}}},
			Plan{Conflicts: []Conflict{{"a", "a", fleetmanagementv1alpha1.ConflictNotOwned}}, Observed: 1},
		},
		"an object of another discovery is in the way": {
			Input{Things: things("a"), Objects: []Object{{Name: "a", Owner: other, ID: "a"}}},
			Plan{Conflicts: []Conflict{{"a", "a", fleetmanagementv1alpha1.ConflictOwnedByOther}}, Observed: 1},
		},
		"somebody else's object that stands for the same is in the way under any name": {
			Input{Things: things("a"), Objects: []Object{{Name: "mine", ID: "a"}}},
			Plan{Conflicts: []Conflict{{"a", "mine", fleetmanagementv1alpha1.ConflictNotOwned}}, Observed: 1},
		},
		"somebody else's objects are never touched": {
			Input{Things: things("z"), Objects: []Object{ours("z")[0], {Name: "a", Owner: other, ID: "a"}, {Name: "b", ID: "b", Stale: true}}, Gone: set("a", "b"), Delete: true},
			Plan{Observed: 1, Managed: 1},
		},
		"an object of a discovery of the same name in another namespace is somebody else's": {
			Input{Things: things("z"), Objects: []Object{ours("z")[0], {Name: "a", Owner: Key{"team-b", self.Name}, ID: "a"}}, Gone: set("a")},
			Plan{Observed: 1, Managed: 1},
		},
		"an object is known by its ID, whatever its name": {
			Input{Things: things("Edge.1"), Objects: []Object{{Name: "edge-1-1a2b3", Owner: self, ID: "Edge.1"}}},
			Plan{Observed: 1, Managed: 1},
		},
		"a name that an object of ours has for something else is extended": {
			Input{Things: []Thing{{"1", "y", true}, {"2", "x", true}}, Objects: []Object{{Name: "x", Owner: self, ID: "1", Shows: "y"}}},
			Plan{Create: []Creation{{"2", "x-" + digest("x")[:10]}}, Observed: 2, Managed: 1},
		},
		"a name that is extended and taken is extended further": {
			Input{Things: []Thing{{"1", "y", true}, {"2", "x", true}, {"3", "z", true}}, Objects: []Object{
				{Name: "x", Owner: self, ID: "1"}, {Name: "x-" + digest("x")[:10], Owner: self, ID: "3"},
			}},
			Plan{Create: []Creation{{"2", "x-" + digest("x")[:16]}}, Observed: 3, Managed: 2},
		},
		"things of one name get objects of their own": {
			Input{Things: []Thing{{"2", "x", true}, {"1", "x", true}}},
			Plan{Create: []Creation{{"1", "x"}, {"2", "x-" + digest("x")[:10]}}, Observed: 2},
		},
		"what has no name gets no object": {
			Input{Things: []Thing{{"1", " ", true}}},
			Plan{Conflicts: []Conflict{{"1", "", fleetmanagementv1alpha1.ConflictName}}, Observed: 1},
		},
		"what has no ID is nothing": {
			Input{Things: []Thing{{" ", "x", true}, {"", "y", true}}}, Plan{},
		},
		"an object that is being deleted is waited for": {
			Input{Things: things("a", "b"), Objects: []Object{with(ours("a")[0], leaving), {Name: "b", Leaving: true}}},
			Plan{Observed: 2},
		},
		"an object that is being deleted is waited for under any name": {
			Input{Things: things("a"), Objects: []Object{{Name: "old", Owner: self, ID: "a", Leaving: true}}},
			Plan{Observed: 1},
		},
		"two objects for one thing count once": {
			Input{Things: things("a"), Objects: []Object{ours("a")[0], {Name: "copy", Owner: self, ID: "a"}}},
			Plan{Observed: 1, Managed: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.Self, c.in.Empty = self, "c"
			NewWithT(t).Expect(Make(c.in)).To(Equal(c.want))
		})
	}
}

func TestWhatIsCreatedAnewUnderItsNameIsBoundAgain(t *testing.T) {
	shows := func(id, name string) Object { return Object{Name: name, Owner: self, ID: id, Shows: name} }
	for name, c := range map[string]struct {
		in   Input
		want Plan
	}{
		"once its old ID is known to be gone": {
			Input{Things: []Thing{{"2", "x", true}}, Objects: []Object{shows("1", "x")}, Gone: set("1"), Delete: true},
			Plan{Rebind: []Rebinding{{"x", "1", "2"}}, Observed: 1, Managed: 1},
		},
		"which is looked up, and nothing is created meanwhile": {
			Input{Things: []Thing{{"2", "x", true}}, Objects: []Object{shows("1", "x")}},
			Plan{Confirm: []string{"1"}, Observed: 1},
		},
		"also where it is not in scope": {
			Input{Things: []Thing{{"2", "x", false}}, Objects: []Object{shows("1", "x")}, Gone: set("1"), Delete: true},
			Plan{Rebind: []Rebinding{{"x", "1", "2"}}, OutOfScope: 1},
		},
		"also where it was marked as gone before": {
			Input{Things: []Thing{{"2", "x", true}}, Objects: []Object{with(shows("1", "x"), stale)}, Gone: set("1")},
			Plan{Rebind: []Rebinding{{"x", "1", "2"}}, Observed: 1, Managed: 1},
		},
		"also where the ID got lost": {
			Input{Things: []Thing{{"2", "x", true}}, Objects: []Object{shows("", "x")}},
			Plan{Rebind: []Rebinding{{"x", "", "2"}}, Observed: 1, Managed: 1},
		},
		"whatever the object's own name is": {
			Input{Things: []Thing{{"2", "X", true}}, Objects: []Object{{Name: "x-1a2b3", Owner: self, ID: "1", Shows: "X"}}, Gone: set("1")},
			Plan{Rebind: []Rebinding{{"x-1a2b3", "1", "2"}}, Observed: 1, Managed: 1},
		},
		"not where another object stands for it": {
			Input{Things: []Thing{{"2", "x", true}, {"3", "z", true}}, Objects: []Object{shows("1", "x"), {Name: "mine", ID: "2"}, shows("3", "z")}, Gone: set("1")},
			Plan{
				Stale: []string{"x"}, StaleIDs: []string{"1"}, Observed: 2, Managed: 1,
				Conflicts: []Conflict{{"2", "mine", fleetmanagementv1alpha1.ConflictNotOwned}},
			},
		},
		"not where the old one exists": {
			Input{Things: []Thing{{"1", "y", true}, {"2", "x", true}}, Objects: []Object{shows("1", "x")}},
			Plan{Create: []Creation{{"2", "x-" + digest("x")[:10]}}, Observed: 2, Managed: 1},
		},
		"however many there are": {
			Input{Things: []Thing{{"b1", "a", true}, {"b2", "b", true}}, Objects: []Object{shows("a1", "a"), shows("a2", "b")}, Gone: set("a1", "a2")},
			Plan{Rebind: []Rebinding{{"a", "a1", "b1"}, {"b", "a2", "b2"}}, Observed: 2, Managed: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.Self, c.in.Empty = self, "p"
			NewWithT(t).Expect(Make(c.in)).To(Equal(c.want))
		})
	}
}

func TestTooManyAtOnceAreHeldBack(t *testing.T) {
	type input struct {
		known, listed int
		// marked are how many of the rest are marked already.
		marked   int
		approval string
		approved []string
		delete   bool
	}
	word := func(from, to int) string { return Word(ids(to)[from:]) }
	for name, c := range map[string]struct {
		in                            input
		confirms, suspended, approved int
	}{
		"five of six":                                  {in: input{known: 6, listed: 1}, confirms: 5},
		"six of seven":                                 {in: input{known: 7, listed: 1}, suspended: 6},
		"a fifth of many":                              {in: input{known: 100, listed: 80}, confirms: 20},
		"more than a fifth":                            {in: input{known: 100, listed: 79}, suspended: 21},
		"half":                                         {in: input{known: 100, listed: 50, delete: true}, suspended: 50},
		"the only one, where nothing is listed":        {in: input{known: 1, listed: 0}, suspended: 1},
		"none, where nothing is listed":                {in: input{known: 3, listed: 0, marked: 3}},
		"the rest, where most are marked already":      {in: input{known: 100, listed: 10, marked: 70}, confirms: 20},
		"those that are marked, to be deleted now":     {in: input{known: 100, listed: 10, marked: 90, delete: true}, suspended: 90},
		"half with a person's word":                    {in: input{known: 100, listed: 50, approval: word(50, 100)}, confirms: 50, approved: 50},
		"everything with a person's word":              {in: input{known: 100, listed: 0, approval: word(0, 100)}, confirms: 100, approved: 100},
		"half with the word for others":                {in: input{known: 100, listed: 50, approval: word(51, 100)}, suspended: 50},
		"half, let through before":                     {in: input{known: 100, listed: 50, approved: ids(100)[50:]}, confirms: 50, approved: 50},
		"half, of which all but a few were let before": {in: input{known: 100, listed: 50, approved: ids(100)[53:]}, confirms: 50, approved: 47},
		"more, beside those that were let before":      {in: input{known: 100, listed: 20, approved: ids(100)[50:]}, suspended: 30, confirms: 50, approved: 50},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			in := Input{Self: self, Empty: "c", Things: things(ids(c.in.listed)...), Objects: ours(ids(c.in.known)...), Delete: c.in.delete, Approval: c.in.approval, Approved: set(c.in.approved...)}
			for i := range c.in.marked {
				in.Objects[c.in.listed+i].Stale = true
			}
			plan := Make(in)
			g.Expect(plan.Confirm).To(HaveLen(c.confirms))
			g.Expect(plan.Approved).To(HaveLen(c.approved))
			if c.suspended == 0 {
				g.Expect(plan.Suspended).To(BeNil())
				return
			}
			g.Expect(plan.Suspended.IDs).To(HaveLen(c.suspended))
			g.Expect(plan.Suspended.Known).To(Equal(c.in.known))
			g.Expect(plan.Suspended.Word).To(MatchRegexp("^[0-9a-f]{8}$"))
			in.Approval = plan.Suspended.Word
			g.Expect(Make(in).Suspended).To(BeNil(), "the word lets it through")
		})
	}
}

func TestAWordStandsForExactlyTheseIDs(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Word([]string{"b", "a"})).To(Equal(Word([]string{"a", "b"})))
	g.Expect(Word([]string{"a", "b"})).NotTo(Equal(Word([]string{"a"})))
	g.Expect(Word([]string{"a", "b"})).NotTo(Equal(Word([]string{"ab"})))
}
