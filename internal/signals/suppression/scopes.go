// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package suppression

import (
	"cmp"
	"slices"
	"time"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

const (
	// MaxNames is how many Suppressions a Finding names at most.
	MaxNames = 5
	// nameBytes bounds those names together, so that a Finding stays under 16 KiB.
	nameBytes = 512
)

// Scopes are the Suppressions of one namespace, read once. They may be used at the same time from several places.
type Scopes struct {
	all []*Scope
	// prints and workloads hold those that mute whole Findings, by fingerprint or else by workload.
	prints    map[string][]*Scope
	workloads map[candorv1alpha1.WorkloadScope][]*Scope
	// inner are those that mute entries, by name, and byEntry finds them by what they name.
	inner   []*Scope
	byEntry index
}

// Compile reads the Suppressions of one namespace, in any order. One that is being deleted mutes nothing. Each mutes for longest
// at most; zero sets no bound.
func Compile(suppressions []candorv1alpha1.Suppression, longest time.Duration) *Scopes {
	c := &Scopes{prints: map[string][]*Scope{}, workloads: map[candorv1alpha1.WorkloadScope][]*Scope{}}
	for i := range suppressions {
		s := &suppressions[i]
		if !s.DeletionTimestamp.IsZero() {
			continue
		}
		scope := ScopeOf(s, longest)
		c.all = append(c.all, scope)
		switch {
		case !Whole(s):
			c.inner = append(c.inner, scope)
		case scope.fingerprint != "":
			c.prints[scope.fingerprint] = append(c.prints[scope.fingerprint], scope)
		case scope.workload != nil:
			c.workloads[*scope.workload] = append(c.workloads[*scope.workload], scope)
		}
	}
	byName := func(a, b *Scope) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(c.all, byName)
	slices.SortFunc(c.inner, byName)
	c.byEntry = indexOf(c.inner)
	return c
}

// Named returns the Suppression of a name, nil when there is none.
func (c *Scopes) Named(name string) *Scope {
	i, found := slices.BinarySearchFunc(c.all, name, func(s *Scope, name string) int { return cmp.Compare(s.Name, name) })
	if !found {
		return nil
	}
	return c.all[i]
}

// Hold reports whether a Suppression was read, as it is.
func (c *Scopes) Hold(s *candorv1alpha1.Suppression) bool {
	scope := c.Named(s.Name)
	return scope != nil && scope.uid == s.UID && scope.generation == s.Generation
}

// Whole returns what mutes a Finding as a whole at the time now, nil when nothing does: of several Suppressions, the one that
// lasts longest, then the first by name.
func (c *Scopes) Whole(f Facts, now time.Time) *Scope {
	var whole *Scope
	for _, scope := range c.wholes(f) {
		if !ended(scope.End, now) && (whole == nil || scope.outlasts(whole)) {
			whole = scope
		}
	}
	return whole
}

// Concerning returns the names of all Suppressions that may mute a Finding or entries of it, those that have ended among them.
// named are those that the Finding says mute entries.
func (c *Scopes) Concerning(f Facts, named []string) []string {
	names := slices.Clone(named)
	for _, scope := range c.wholes(f) {
		names = append(names, scope.Name)
	}
	if Crowded(named) {
		for _, scope := range c.inner {
			names = append(names, scope.Name)
		}
	}
	return names
}

func (c *Scopes) wholes(f Facts) []*Scope {
	var all []*Scope
	for _, scope := range c.prints[f.Fingerprint] {
		if scope.Concerns(f) {
			all = append(all, scope)
		}
	}
	return append(all, c.workloads[candorv1alpha1.WorkloadScope{Kind: f.Kind, Name: f.Name}]...)
}

// Verdict is what is muted inside one Finding at one moment.
type Verdict struct {
	// Muted counts the entries that are muted, and Left holds those that are not, in their order. Left is nil when nobody saw
	// the entries.
	Muted int
	Left  []signals.Entry
	// By are the names of Suppressions that mute one of them at least, in order: as many as a Finding may name.
	By []string
	// Next is when the verdict may change by itself; zero when it never does.
	Next time.Time
}

// Judge returns which entries of a Finding are muted at the time now. Suppressions of whole Findings do not count.
func (c *Scopes) Judge(f Facts, entries []signals.Entry, now time.Time) Verdict {
	at := c.at(f, now)
	if !slices.Contains(at, true) {
		return Verdict{Left: entries}
	}
	verdict, used := Verdict{}, make([]bool, len(at))
	for _, entry := range entries {
		muted, names := false, namesIn(entry)
		for i := range c.byEntry.of(names) {
			if at[i] && c.inner[i].covers(names) {
				muted, used[i] = true, true
			}
		}
		if muted {
			verdict.Muted++
		} else {
			verdict.Left = append(verdict.Left, entry)
		}
	}
	for i, scope := range c.inner {
		if used[i] {
			verdict.add(scope)
		}
	}
	return verdict
}

// Counts returns how many entries of a Finding each Suppression mutes, by its name, whether it has ended or not. Those of whole
// Findings, and those that mute none, are not in it.
func (c *Scopes) Counts(f Facts, entries []signals.Entry) map[string]int {
	counts, concerned, last := map[string]int{}, make([]bool, len(c.inner)), make([]int, len(c.inner))
	for i, scope := range c.inner {
		concerned[i] = scope.Concerns(f)
	}
	for n, entry := range entries {
		names := namesIn(entry)
		for i := range c.byEntry.of(names) {
			if concerned[i] && last[i] <= n && c.inner[i].covers(names) {
				last[i] = n + 1 // it is found by each name that it has of the entry
				counts[c.inner[i].Name]++
			}
		}
	}
	return counts
}

// Keep returns what to say of a Finding whose entries nobody sees now, and which said last. Suppressions of a whole image decide
// without them. What else was muted stays so for as long as each Suppression that is named stands; a new one waits for the entries.
func (c *Scopes) Keep(f Facts, last *candorv1alpha1.Evidence, now time.Time) Verdict {
	at := c.at(f, now)
	var all, stood Verdict
	for i, scope := range c.inner {
		if !at[i] {
			continue
		}
		if scope.all() {
			all.Muted = int(last.Total)
			all.add(scope)
		}
		if slices.Contains(last.MutedBy, scope.Name) {
			stood.Muted = int(last.Muted)
			stood.add(scope)
		}
	}
	standing := slices.Equal(stood.By, last.MutedBy)
	switch {
	case standing && (last.Muted >= last.Total || len(all.By) == 0):
		return stood
	case len(all.By) > 0:
		return all
	default:
		return Verdict{}
	}
}

// at tells which of those that mute entries may do so in a Finding at the time now.
func (c *Scopes) at(f Facts, now time.Time) []bool {
	at := make([]bool, len(c.inner))
	for i, scope := range c.inner {
		at[i] = !ended(scope.End, now) && scope.Concerns(f)
	}
	return at
}

func (v *Verdict) add(scope *Scope) {
	v.Next = earlier(v.Next, scope.End)
	room := nameBytes - len(scope.Name)
	for _, name := range v.By {
		room -= len(name)
	}
	if len(v.By) < MaxNames && room >= 0 {
		v.By = append(v.By, scope.Name)
	}
}

// Crowded reports whether names may lack one for want of room, so that others mute the same Finding.
func Crowded(names []string) bool {
	room := nameBytes - signals.MaxName
	for _, name := range names {
		room -= len(name)
	}
	return len(names) >= MaxNames || room < 0
}
