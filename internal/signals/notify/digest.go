// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/budget"
	"github.com/candor-dev/candor/internal/signals/verify"
)

// QuietFor is how long a namespace has no new Finding before its first sync counts as done.
const QuietFor = 30 * time.Second

// Digest is what is, what changed in a window, and what it cost. Muted Findings count as muted and as nothing else.
type Digest struct {
	Since         time.Time `json:"since"`
	WindowSeconds int64     `json:"windowSeconds"`

	// StillPresent, Resolved and Recurred count the Findings by what they are now, and BySeverity those that are open.
	StillPresent int            `json:"stillPresent"`
	Resolved     int            `json:"resolved"`
	Recurred     int            `json:"recurred"`
	Stale        int            `json:"stale"`
	Muted        int            `json:"muted"`
	BySeverity   map[string]int `json:"bySeverity"`

	// Changed counts what happened in the window.
	Changed Changes `json:"changed"`
	// ResolvedHeldPercent is how many of the Findings that ended or came back in the window are still ended; absent when none
	// did either.
	ResolvedHeldPercent *int `json:"resolvedHeldPercent,omitempty"`

	// Spent is what models cost the namespace in the window.
	Spent Spent `json:"spent"`
}

// Changes counts Findings by what happened to them. One that ended and came back counts as recurred.
type Changes struct {
	Created   int `json:"created"`
	Escalated int `json:"escalated"`
	Resolved  int `json:"resolved"`
	Recurred  int `json:"recurred"`
}

// Spent is what models cost.
type Spent struct {
	Calls  int64 `json:"calls"`
	Tokens int64 `json:"tokens"`
	// CostMicros is in millionths of the currency of the prices; zero without prices.
	CostMicros int64 `json:"costMicros"`
	// Shared counts the Findings that were explained without a call.
	Shared int `json:"shared"`
}

// NewDigest counts the Findings of a namespace for a sink: those that its policy's providers saw, at or above its threshold.
// cost is what the Ledger says of the namespace in the window from since to now.
func NewDigest(findings []candorv1alpha1.Finding, to Target, since, now time.Time, cost budget.Cost) Digest {
	d := Digest{
		Since: since.UTC(), WindowSeconds: int64(max(0, now.Sub(since)) / time.Second), BySeverity: map[string]int{},
		Spent: Spent{Calls: cost.Calls, Tokens: cost.Tokens, CostMicros: cost.CostMicros},
	}
	within := func(t metav1.Time) bool { return !t.Time.Before(since) && !t.After(now) }
	for i := range findings {
		f := &findings[i]
		if e := f.Status.Enrichment; e != nil && e.SharedFrom != "" && within(e.At) {
			d.Spent.Shared++
		}
		switch {
		case !to.covers(f):
		case muted(f):
			if verify.Open(f.Status.VerificationOutcome) {
				d.Muted++
			}
		default:
			d.count(f)
			d.Changed.count(f, to.String(), within)
		}
	}
	if ended, all := d.Changed.Resolved, d.Changed.Resolved+d.Changed.Recurred; all > 0 {
		percent := int(math.Round(100 * float64(ended) / float64(all)))
		d.ResolvedHeldPercent = &percent
	}
	return d
}

func (d *Digest) count(f *candorv1alpha1.Finding) {
	switch f.Status.VerificationOutcome {
	case candorv1alpha1.OutcomeStillPresent:
		d.StillPresent++
	case candorv1alpha1.OutcomeRecurred:
		d.Recurred++
	case candorv1alpha1.OutcomeResolved, candorv1alpha1.OutcomeWorkloadGone:
		d.Resolved++
	case candorv1alpha1.OutcomeStale:
		d.Stale++
	}
	if verify.Open(f.Status.VerificationOutcome) {
		d.BySeverity[shown(&f.Status).String()]++
	}
}

func (c *Changes) count(f *candorv1alpha1.Finding, sink string, within func(metav1.Time) bool) {
	if within(f.Status.FirstSeen) {
		c.Created++
	}
	if slices.ContainsFunc(f.Status.Notified, func(n candorv1alpha1.Notification) bool {
		return n.Sink == sink && n.Event == candorv1alpha1.EventEscalated && within(n.At)
	}) {
		c.Escalated++
	}
	switch {
	case !within(f.Status.Since):
	case verify.Ended(f.Status.VerificationOutcome):
		c.Resolved++
	case f.Status.VerificationOutcome == candorv1alpha1.OutcomeRecurred:
		c.Recurred++
	}
}

// covers reports whether a sink hears of a Finding at all.
func (t Target) covers(f *candorv1alpha1.Finding) bool {
	return t.concerns(f) && shown(&f.Status) >= t.Threshold()
}

// concerns reports whether a sink would hear of a Finding if it were severe enough.
func (t Target) concerns(f *candorv1alpha1.Finding) bool {
	return f.DeletionTimestamp.IsZero() && slices.Contains(t.Policy.Spec.Providers, f.Spec.Source.Provider)
}

func muted(f *candorv1alpha1.Finding) bool {
	return meta.IsStatusConditionTrue(f.Status.Conditions, candorv1alpha1.ConditionSuppressed)
}

// Open returns the open Findings that the sink hears of, and the others that it may have been told of: they are muted as a whole,
// and have no severity, or milder than it asks for.
func (t Target) Open(findings []candorv1alpha1.Finding) (open, quiet []Event) {
	for i := range findings {
		f := &findings[i]
		covered := t.covers(f)
		heard := covered || (t.concerns(f) && t.mayHaveTold(f))
		if !heard || !verify.Open(f.Status.VerificationOutcome) {
			continue
		}
		switch e := OpenEvent(f); {
		case muted(f):
			e.Severity = ""
			quiet = append(quiet, e)
		case covered:
			open = append(open, e)
		default:
			quiet = append(quiet, e)
		}
	}
	return open, quiet
}

// mayHaveTold reports whether the sink may have been told that there is the Finding: by its first summary, or later.
func (t Target) mayHaveTold(f *candorv1alpha1.Finding) bool {
	status := t.Status()
	return SubjectOf(f).toldTo(t.String()) || (status != nil && !f.Status.FirstSeen.After(status.SummarisedAt.Time))
}

// Summary is what there is when a sink is told for the first time.
type Summary struct {
	// Open counts the Findings that are open and not muted.
	Open int `json:"open"`
	// Muted counts the open ones that are muted.
	Muted      int            `json:"muted"`
	BySeverity map[string]int `json:"bySeverity"`
}

// NewSummary counts the Findings of a namespace for a sink, as NewDigest does. upTo is when the last of all of them was first
// seen, zero when there are none: the sink hears of the creation of later ones only. A summary that counts nothing open is not
// worth sending.
func NewSummary(findings []candorv1alpha1.Finding, to Target) (s Summary, upTo time.Time) {
	s.BySeverity = map[string]int{}
	for i := range findings {
		f := &findings[i]
		if f.Status.FirstSeen.After(upTo) {
			upTo = f.Status.FirstSeen.Time
		}
		switch {
		case !to.covers(f) || !verify.Open(f.Status.VerificationOutcome):
		case muted(f):
			s.Muted++
		default:
			s.Open++
			s.BySeverity[shown(&f.Status).String()]++
		}
	}
	return s, upTo
}

// Unsettled returns how long the first sync of a namespace goes on at least: until no Finding is newer than 30 s, and all have
// been looked at. Zero says that it is done. Nothing waits for one that is more than an hour newer than now: a
// clock was ahead.
func Unsettled(findings []candorv1alpha1.Finding, now time.Time) time.Duration {
	var wait time.Duration
	for i := range findings {
		seen := findings[i].Status.FirstSeen
		if seen.IsZero() {
			return QuietFor
		}
		if left := seen.Add(QuietFor).Sub(now); left <= time.Hour+QuietFor {
			wait = max(wait, left)
		}
	}
	return min(wait, QuietFor)
}
