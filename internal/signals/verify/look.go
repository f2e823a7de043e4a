// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"slices"
	"time"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/policy"
)

// Look is everything that one look at an identity gathered.
type Look struct {
	// Asked is whether any policy asks for the provider, and Ask what they ask for.
	Asked bool
	Ask   policy.Ask
	// Report is the report that speaks for the identity now; nil when there is none that can be used.
	Report *signals.Report
	// Known is whether there is a Finding, Current what it says was last observed, and Shown the entries that it shows, as far
	// as NeedsShown asks for them.
	Known   bool
	Current candorv1alpha1.Observation
	Shown   []candorv1alpha1.Entry
	// OwnerGone is whether the workload was looked for and not found.
	OwnerGone bool
	// MissingFor is how long there has been no evidence, and Grace how long that changes nothing.
	MissingFor, Grace time.Duration
}

// Decide returns what a Finding should say was observed, with the evidence for Present. It returns false when there is
// nothing to say: no Finding is wanted, or the one there is stays as it is.
func Decide(l Look) (candorv1alpha1.Observation, signals.Evidence, bool) {
	if !l.Asked {
		return candorv1alpha1.ObservedExcluded, signals.Evidence{}, l.Known
	}
	if !l.Silent() {
		if evidence := l.Ask.Select(l.Report.Entries); len(evidence.Entries) > 0 {
			return candorv1alpha1.ObservedPresent, evidence, true
		}
		return l.unasked(), signals.Evidence{}, l.Known && l.Current != candorv1alpha1.ObservedOwnerGone
	}
	observed, speaks := l.missed()
	return observed, signals.Evidence{}, speaks
}

// Silent reports whether there is no evidence either way: no usable report, or one that proves nothing.
func (l Look) Silent() bool {
	return l.Report == nil || l.Ask.ProvesNothing(l.Report.Entries)
}

// Awaiting reports whether a Finding stands on evidence that has gone missing. Only then does the grace run, and only
// then is it worth looking for the workload.
func (l Look) Awaiting() bool { return l.Asked && l.Known && l.Silent() && !l.proven() }

// NeedsShown reports whether the decision depends on the entries that the Finding shows.
func (l Look) NeedsShown() bool {
	return l.Asked && l.Known && !l.Silent() && !l.proven() && !slices.ContainsFunc(l.Report.Entries, l.Ask.Wants)
}

// proven reports whether the Finding has come to an end that needs no evidence any more.
func (l Look) proven() bool {
	return l.Current == candorv1alpha1.ObservedCleared || l.Current == candorv1alpha1.ObservedOwnerGone
}

// unasked tells a Finding whose entries are gone from one whose entries are there as before, and which the policies do not
// ask for any more: a higher threshold resolves nothing.
func (l Look) unasked() candorv1alpha1.Observation {
	if l.Current == candorv1alpha1.ObservedCleared {
		return candorv1alpha1.ObservedCleared
	}
	mark := func(e candorv1alpha1.Entry) candorv1alpha1.Entry {
		return candorv1alpha1.Entry{ID: e.ID, Severity: e.Severity, Package: e.Package}
	}
	there := make(map[candorv1alpha1.Entry]bool, len(l.Report.Entries))
	for _, entry := range l.Report.Entries {
		there[mark(signals.Show(entry))] = true
	}
	for _, entry := range l.Shown {
		if there[mark(entry)] {
			return candorv1alpha1.ObservedExcluded
		}
	}
	return candorv1alpha1.ObservedCleared
}

func (l Look) missed() (candorv1alpha1.Observation, bool) {
	switch {
	case !l.Awaiting():
		return "", false
	case l.OwnerGone:
		return candorv1alpha1.ObservedOwnerGone, true
	case l.MissingFor >= l.Grace:
		return candorv1alpha1.ObservedMissing, true
	default:
		return "", false
	}
}
