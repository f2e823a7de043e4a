// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
)

// guess makes an input with collisions of names, IDs and owners.
func guess(r *rand.Rand) Input {
	in := Input{Self: self, Empty: "c", Delete: r.IntN(2) == 0, Gone: map[string]bool{}}
	id := func() string { return fmt.Sprint("id-", r.IntN(12)) }
	name := func() string { return []string{"a", "A", "b", "b.", "c", " ", "é"}[r.IntN(7)] }
	seen := map[string]bool{}
	for range r.IntN(10) {
		if t := (Thing{ID: id(), Name: name(), InScope: r.IntN(4) > 0}); !seen[t.ID] {
			seen[t.ID] = true
			in.Things = append(in.Things, t)
		}
	}
	named := map[string]bool{}
	for range r.IntN(10) {
		o := Object{
			Name: slices.Collect(Names(name(), "c"))[r.IntN(3)], Owner: []Key{self, self, self, other, {}}[r.IntN(5)], ID: id(), Shows: name(),
			Stale: r.IntN(4) == 0, Edited: r.IntN(4) == 0, Leaving: r.IntN(8) == 0,
		}
		if !named[o.Name] {
			named[o.Name] = true
			in.Objects = append(in.Objects, o)
		}
	}
	for i := range 12 {
		if id := fmt.Sprint("id-", i); !seen[id] && r.IntN(3) > 0 {
			in.Gone[id] = true
		}
	}
	return in
}

// carryOut returns the objects that there are after a plan, none of which is being deleted any more.
func carryOut(in Input, plan Plan) []Object {
	var all []Object
	for _, o := range in.Objects {
		if slices.Contains(plan.Delete, o.Name) {
			continue
		}
		o.Stale = (o.Stale || slices.Contains(plan.Stale, o.Name)) && !slices.Contains(plan.Unstale, o.Name)
		for _, r := range plan.Rebind {
			if r.Name == o.Name {
				o.ID, o.Stale = r.To, false
			}
		}
		all = append(all, o)
	}
	for _, c := range plan.Create {
		i := slices.IndexFunc(in.Things, func(t Thing) bool { return t.ID == c.ID })
		all = append(all, Object{Name: c.Name, Owner: in.Self, ID: c.ID, Shows: in.Things[i].Name})
	}
	return all
}

func each(t *testing.T, property func(g *WithT, r *rand.Rand, in Input)) {
	t.Helper()
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 1))
		in := guess(r)
		func() {
			defer func() {
				if t.Failed() {
					t.Logf("seed %d: %+v", seed, in)
				}
			}()
			property(NewWithT(t), r, in)
		}()
	}
}

func TestAPlanThatIsCarriedOutLeavesNothingToDo(t *testing.T) {
	each(t, func(g *WithT, _ *rand.Rand, in Input) {
		before := Make(in)
		if len(before.Delete) > 0 { // whose names serve others then
			in.Objects = carryOut(in, before)
			before = Make(in)
		}
		in.Objects = carryOut(in, before)
		after := Make(in)
		g.Expect(after.Create).To(BeEmpty())
		g.Expect(after.Rebind).To(BeEmpty())
		g.Expect(slices.Concat(after.Unstale, after.Stale, after.Delete)).To(BeEmpty())
		g.Expect(after.Conflicts).To(Equal(before.Conflicts))
		g.Expect(after.Observed).To(Equal(before.Observed))
		g.Expect(after.Managed).To(Equal(before.Managed + len(before.Create)))
		g.Expect(after.OutOfScope).To(Equal(before.OutOfScope))
		g.Expect(after.StaleIDs).To(Equal(before.StaleIDs))
	})
}

func TestAPlanDoesNotDependOnTheOrderOfThings(t *testing.T) {
	each(t, func(g *WithT, r *rand.Rand, in Input) {
		plan := Make(in)
		r.Shuffle(len(in.Things), func(i, j int) { in.Things[i], in.Things[j] = in.Things[j], in.Things[i] })
		r.Shuffle(len(in.Objects), func(i, j int) { in.Objects[i], in.Objects[j] = in.Objects[j], in.Objects[i] })
		g.Expect(Make(in)).To(Equal(plan))
	})
}

func TestNothingIsTakenAwayThatExistsOrIsSomebodyElses(t *testing.T) {
	each(t, func(g *WithT, _ *rand.Rand, in Input) {
		plan := Make(in)
		byName := map[string]Object{}
		for _, o := range in.Objects {
			byName[o.Name] = o
		}
		listed := map[string]bool{}
		for _, thing := range in.Things {
			listed[thing.ID] = true
		}
		touched := slices.Concat(plan.Delete, plan.Stale, plan.Unstale)
		for _, r := range plan.Rebind {
			touched = append(touched, r.Name)
			g.Expect(listed).To(HaveKey(r.To))
			g.Expect(listed).NotTo(HaveKey(r.From))
		}
		for _, name := range touched {
			g.Expect(byName[name].Owner).To(Equal(self))
			g.Expect(byName[name].Leaving).To(BeFalse())
		}
		for _, name := range slices.Concat(plan.Delete, plan.Stale) {
			g.Expect(listed).NotTo(HaveKey(byName[name].ID))
			g.Expect(in.Gone).To(HaveKey(byName[name].ID), "confirmed")
		}
		for _, name := range plan.Delete {
			g.Expect(in.Delete).To(BeTrue())
			g.Expect(byName[name].Edited).To(BeFalse())
		}
		for _, c := range plan.Create {
			g.Expect(byName).NotTo(HaveKey(c.Name))
		}
		for _, id := range plan.Confirm {
			g.Expect(listed).NotTo(HaveKey(id))
			g.Expect(in.Gone).NotTo(HaveKey(id))
		}
		taken := slices.Concat(plan.Delete, plan.Stale)
		if len(in.Things) == 0 || len(taken) > grantedAtOnce {
			g.Expect(taken).To(BeEmpty(), "held back")
		}
	})
}

func TestEveryThingInScopeIsAccountedFor(t *testing.T) {
	each(t, func(g *WithT, _ *rand.Rand, in Input) {
		plan := Make(in)
		once := map[string]int{}
		for _, c := range plan.Create {
			once[c.ID]++
		}
		for _, c := range plan.Conflicts {
			once[c.ID]++
		}
		for id, n := range once {
			g.Expect(n).To(Equal(1), id)
		}
		g.Expect(len(once) + plan.Managed).To(BeNumerically("<=", plan.Observed))
	})
}
