// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mirror plans what a discovery does to the objects that stand for things of Fleet Management, pipelines or collectors. It is
// pure: it is given what Fleet Management holds and what objects there are.
//
// What the whole of Fleet Management does not hold, and a lookup of its own does not find, is gone. What the discovery does not mean
// any more is not.
package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

const (
	// grantedAtOnce is how many objects may be removed or marked stale at once whatever their share, and grantedPercent is the share
	// of a discovery's objects that may.
	grantedAtOnce  = 5
	grantedPercent = 20
	// wordLength is the length of the word that lets through what is held back.
	wordLength = 8
)

// Key is namespace and name of a discovery.
type Key struct{ Namespace, Name string }

// Thing is what Fleet Management holds, a pipeline or a collector.
type Thing struct {
	ID string
	// Name is what an object is named after. It is empty where no object can be made.
	Name string
	// InScope says that the discovery means it.
	InScope bool
}

// Object is an object of the namespace in which a discovery makes its own.
type Object struct {
	Name string
	// Owner is the discovery that made it; zero for none.
	Owner Key
	// ID is that of the thing which it stands for; empty where it tells none.
	ID string
	// Shows is the Thing.Name of that, by which it is known again after it was created anew under another ID. Empty for a kind whose
	// things have no name beside their ID.
	Shows string
	// Stale says that it is marked as one whose thing is gone.
	Stale bool
	// Edited says that it holds what a person wrote, so that it is never deleted.
	Edited bool
	// Leaving says that it is being deleted.
	Leaving bool
}

// Input is all that a plan rests on.
type Input struct {
	// Self is the discovery.
	Self Key
	// Things are all that Fleet Management holds, in scope or not.
	Things []Thing
	// Objects are all of the kind in the namespace, whosoever they are.
	Objects []Object
	// Delete says that objects whose thing is gone are deleted, and not marked.
	Delete bool
	// Empty is what a name begins with of which nothing can be kept.
	Empty string
	// Gone are the IDs that a lookup did not find.
	Gone map[string]bool
	// Approval is the word that a person set, and Approved are the IDs that an earlier plan let through for it.
	Approval string
	Approved map[string]bool
}

// Creation is an object to be made of a thing.
type Creation struct{ ID, Name string }

// Rebinding is an object that is to stand for a thing which was created anew.
type Rebinding struct {
	Name     string
	From, To string
}

// Conflict is a thing of which no object is made.
type Conflict struct {
	ID string
	// Name is that of the object which is in the way; empty where no name can be made.
	Name   string
	Reason fleetmanagementv1alpha1.ConflictReason
}

// Suspension says what is held back.
type Suspension struct {
	// IDs are those of the things whose objects would be removed or marked, in order.
	IDs []string
	// Known is how many objects the discovery has.
	Known int
	// Word lets exactly these through.
	Word string
}

// Plan is what to do. Its lists are in order: things by their ID, objects by their name.
type Plan struct {
	Create []Creation
	Rebind []Rebinding
	// Unstale, Stale and Delete are names of objects: to be marked no more, to be marked, and to be deleted.
	Unstale, Stale, Delete []string
	// Confirm are IDs to be looked up, since what becomes of their objects depends on whether they exist.
	Confirm []string
	// Conflicts are the things in scope of which no object is made.
	Conflicts []Conflict
	// Observed is how many things are in scope, and Managed how many of them have an object of the discovery before anything is created.
	Observed, Managed int
	// OutOfScope is how many objects stand for things that exist and are not in scope.
	OutOfScope int
	// StaleIDs are the IDs of the things that are gone and whose objects are kept, once the plan is carried out.
	StaleIDs []string
	// Suspended is nil when nothing is held back.
	Suspended *Suspension
	// Approved are the IDs that a word lets through, to be handed to the next plan; nil for none.
	Approved map[string]bool
}

// Make returns the plan.
func Make(in Input) Plan {
	p := newPlanner(in)
	p.sortOut()
	p.rebind()
	p.create()
	p.remove()
	slices.Sort(p.plan.Confirm)
	p.plan.Confirm = slices.Compact(p.plan.Confirm)
	slices.Sort(p.plan.Unstale)
	slices.Sort(p.plan.StaleIDs)
	p.plan.StaleIDs = slices.Compact(p.plan.StaleIDs)
	return p.plan
}

// Word returns the word that stands for these IDs, whatever their order.
func Word(ids []string) string {
	sum := sha256.Sum256([]byte(strings.Join(slices.Sorted(slices.Values(ids)), "\n")))
	return hex.EncodeToString(sum[:])[:wordLength]
}

// planner makes one plan.
type planner struct {
	Input
	plan Plan
	// things are sorted by their ID, and objects by their name.
	things  []Thing
	objects []Object
	listed  map[string]Thing
	byName  map[string]*Object
	// standing is the object that stands for an ID: one of the discovery's own, else the first by name.
	standing map[string]*Object
	// leaving are the IDs of objects that are being deleted, and awaited those of things whose former object may be bound to them.
	leaving, awaited map[string]bool
	// lost are the discovery's objects whose thing is not listed, and known is how many it has.
	lost  []*Object
	known int
}

func newPlanner(in Input) *planner {
	p := &planner{
		Input: in, things: slices.Clone(in.Things), objects: slices.Clone(in.Objects),
		listed: make(map[string]Thing, len(in.Things)), byName: make(map[string]*Object, len(in.Objects)),
		standing: make(map[string]*Object, len(in.Objects)), leaving: map[string]bool{}, awaited: map[string]bool{},
	}
	p.things = slices.DeleteFunc(p.things, func(t Thing) bool { return strings.TrimSpace(t.ID) == "" })
	slices.SortFunc(p.things, func(a, b Thing) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(p.objects, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range p.things {
		p.listed[t.ID] = t
	}
	for i := range p.objects {
		o := &p.objects[i]
		p.byName[o.Name] = o
		switch last := p.standing[o.ID]; {
		case o.ID == "":
		case o.Leaving:
			p.leaving[o.ID] = true
		case last == nil, p.isOurs(o) && !p.isOurs(last):
			p.standing[o.ID] = o
		}
	}
	return p
}

func (p *planner) isOurs(o *Object) bool { return o.Owner == p.Self }

// sortOut tells the objects whose thing exists from those whose thing is not listed.
func (p *planner) sortOut() {
	for i := range p.objects {
		o := &p.objects[i]
		if !p.isOurs(o) || o.Leaving {
			continue
		}
		p.known++
		thing, exists := p.listed[o.ID]
		if !exists {
			p.lost = append(p.lost, o)
			continue
		}
		if o.Stale {
			p.plan.Unstale = append(p.plan.Unstale, o.Name)
		}
		p.count(o, thing)
	}
}

func (p *planner) count(o *Object, t Thing) {
	switch {
	case !t.InScope:
		p.plan.OutOfScope++
	case p.standing[t.ID] == o:
		p.plan.Managed++
	}
}

// rebind finds the objects whose thing was deleted and created anew under its name.
func (p *planner) rebind() {
	named := make(map[string][]Thing, len(p.things))
	for _, t := range p.things {
		if p.standing[t.ID] == nil && !p.leaving[t.ID] {
			named[t.Name] = append(named[t.Name], t)
		}
	}
	p.lost = slices.DeleteFunc(p.lost, func(o *Object) bool {
		free := named[o.Shows]
		if o.Shows == "" || len(free) == 0 {
			return false
		}
		t := free[0]
		named[o.Shows] = free[1:]
		if o.ID != "" && !p.Gone[o.ID] {
			p.plan.Confirm = append(p.plan.Confirm, o.ID)
			p.awaited[t.ID] = true
			p.keepStale(o)
			return true
		}
		p.plan.Rebind = append(p.plan.Rebind, Rebinding{Name: o.Name, From: o.ID, To: t.ID})
		p.standing[t.ID] = o
		p.count(o, t)
		return true
	})
}

// create finds the things in scope that have no object, and what is in the way of making one.
func (p *planner) create() {
	taken := map[string]bool{}
	for _, t := range p.things {
		if !t.InScope {
			continue
		}
		p.plan.Observed++
		o := p.standing[t.ID]
		switch {
		case o != nil && p.isOurs(o), p.leaving[t.ID], p.awaited[t.ID]:
		case o != nil:
			p.conflict(t, o)
		case strings.TrimSpace(t.Name) == "":
			p.plan.Conflicts = append(p.plan.Conflicts, Conflict{ID: t.ID, Reason: fleetmanagementv1alpha1.ConflictName})
		default:
			p.name(t, taken)
		}
	}
}

// name finds a name for the object of a thing. One that another object of the discovery has stands for something else.
func (p *planner) name(t Thing, taken map[string]bool) {
	last := ""
	for name := range Names(t.Name, p.Empty) {
		o := p.byName[name]
		switch {
		case o != nil && o.Leaving:
			return
		case o != nil && !p.isOurs(o):
			p.conflict(t, o)
			return
		case o == nil && !taken[name]:
			taken[name] = true
			p.plan.Create = append(p.plan.Create, Creation{ID: t.ID, Name: name})
			return
		}
		last = name
	}
	p.plan.Conflicts = append(p.plan.Conflicts, Conflict{ID: t.ID, Name: last, Reason: fleetmanagementv1alpha1.ConflictName})
}

// conflict notes that somebody else's object is in the way.
func (p *planner) conflict(t Thing, o *Object) {
	reason := fleetmanagementv1alpha1.ConflictOwnedByOther
	if o.Owner == (Key{}) {
		reason = fleetmanagementv1alpha1.ConflictNotOwned
	}
	p.plan.Conflicts = append(p.plan.Conflicts, Conflict{ID: t.ID, Name: o.Name, Reason: reason})
}

// remove decides about the objects whose thing is not listed. Too many at once need a person's word.
func (p *planner) remove() {
	var due []*Object
	asked := map[string]bool{}
	for _, o := range p.lost {
		if o.ID != "" && (p.deletes(o) || !o.Stale) {
			due = append(due, o)
			asked[o.ID] = !p.Approved[o.ID]
		} else {
			p.keepStale(o)
		}
	}
	maps.DeleteFunc(asked, func(_ string, open bool) bool { return !open })
	ids := slices.Sorted(maps.Keys(asked))
	approved := p.Approval != "" && p.Approval == Word(ids)
	held := p.tooMany(len(ids)) && !approved
	if held {
		p.plan.Suspended = &Suspension{IDs: ids, Known: p.known, Word: Word(ids)}
	}
	for _, o := range due {
		if held && asked[o.ID] {
			p.keepStale(o)
			continue
		}
		if !asked[o.ID] || approved {
			p.plan.approve(o.ID)
		}
		p.removeOne(o)
	}
}

// tooMany reports whether so many are more than what is taken for granted. Where nothing is listed at all, one is.
func (p *planner) tooMany(n int) bool {
	return len(p.things) == 0 && n > 0 || n > grantedAtOnce && n*100 > p.known*grantedPercent
}

func (p *planner) removeOne(o *Object) {
	switch {
	case !p.Gone[o.ID]:
		p.plan.Confirm = append(p.plan.Confirm, o.ID)
		p.keepStale(o)
	case p.deletes(o):
		p.plan.Delete = append(p.plan.Delete, o.Name)
	default:
		p.plan.Stale = append(p.plan.Stale, o.Name)
		p.plan.StaleIDs = append(p.plan.StaleIDs, o.ID)
	}
}

func (p *planner) deletes(o *Object) bool { return p.Delete && !o.Edited }

// keepStale notes an object that stays as it is.
func (p *planner) keepStale(o *Object) {
	if o.Stale && o.ID != "" {
		p.plan.StaleIDs = append(p.plan.StaleIDs, o.ID)
	}
}

func (p *Plan) approve(id string) {
	if p.Approved == nil {
		p.Approved = map[string]bool{}
	}
	p.Approved[id] = true
}
