// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/policy"
	"github.com/candor-dev/candor/internal/signals/verify"
)

const grace = 2 * time.Hour

var (
	high    = signals.Entry{Rank: signals.High, ID: "CVE-1", Package: "p"}
	fixable = signals.Entry{Rank: signals.High, ID: "CVE-2", Package: "p", Fixed: "2"}
	low     = signals.Entry{Rank: signals.Low, ID: "CVE-3", Package: "p"}
	unrated = signals.Entry{ID: "CVE-4", Package: "p"}

	askHigh = policy.Ask{MinRank: signals.High}
)

func report(entries ...signals.Entry) *signals.Report { return &signals.Report{Entries: entries} }

func evidence(entries ...signals.Entry) signals.Evidence {
	return signals.Evidence{Entries: entries, Worst: signals.High}
}

type decision struct {
	Observed candorv1alpha1.Observation
	Evidence signals.Evidence
	Speaks   bool
}

// silence is the decision that nothing is written.
var silence = decision{}

func says(observed candorv1alpha1.Observation) decision {
	return decision{Observed: observed, Speaks: true}
}

func decide(l verify.Look) decision {
	l.Grace = grace
	observed, found, speaks := verify.Decide(l)
	if !speaks {
		return silence
	}
	return decision{observed, found, speaks}
}

func TestAReportDecides(t *testing.T) {
	for name, test := range map[string]struct {
		look verify.Look
		want decision
	}{
		"entries that are asked for are Present": {
			verify.Look{Asked: true, Ask: askHigh, Report: report(high, low)}, decision{present, evidence(high), true},
		},
		"entries that are asked for are Present again after any end": {
			verify.Look{Asked: true, Ask: askHigh, Report: report(high), Known: true, Current: ownerGone}, decision{present, evidence(high), true},
		},
		"a report without entries clears a Finding": {
			verify.Look{Asked: true, Ask: askHigh, Report: report(), Known: true, Current: present}, says(cleared),
		},
		"a report of milder entries clears a Finding": {
			verify.Look{Asked: true, Ask: askHigh, Report: report(low), Known: true, Current: present}, says(cleared),
		},
		"a report that is clean clears a stale Finding": {
			verify.Look{Asked: true, Ask: askHigh, Report: report(), Known: true, Current: missing}, says(cleared),
		},
		"a report that is clean and nobody's makes no Finding": {
			verify.Look{Asked: true, Ask: askHigh, Report: report()}, silence,
		},
		"a clean report of a workload that is gone changes nothing": {
			verify.Look{Asked: true, Ask: askHigh, Report: report(), Known: true, Current: ownerGone}, silence,
		},
		"a report settles it, however long there was none": {
			verify.Look{Asked: true, Ask: askHigh, Report: report(high), Known: true, Current: missing, MissingFor: 9 * grace}, decision{present, evidence(high), true},
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(decide(test.look)).To(BeComparableTo(test.want)) })
	}
}

func TestPoliciesDecideWhatIsAskedFor(t *testing.T) {
	known := func(ask policy.Ask, r *signals.Report) verify.Look {
		return verify.Look{Asked: true, Ask: ask, Report: r, Known: true, Current: present}
	}
	for name, test := range map[string]struct {
		look verify.Look
		want decision
	}{
		"nobody asks and there is no Finding":                 {verify.Look{Report: report(high)}, silence},
		"nobody asks any more":                                {verify.Look{Report: report(high), Known: true, Current: present}, says(excluded)},
		"nobody asks any more, and there is no report either": {verify.Look{Known: true, Current: present, MissingFor: grace}, says(excluded)},
		"somebody asks again": {
			verify.Look{Asked: true, Ask: askHigh, Report: report(high), Known: true, Current: excluded}, decision{present, evidence(high), true},
		},
		"a raised threshold leaves nothing": {known(policy.Ask{MinRank: signals.Critical}, report(high)), says(cleared)},
		"a lowered threshold takes in more": {
			known(policy.Ask{MinRank: signals.Low}, report(high, low)), decision{present, evidence(high, low), true},
		},
		"only what is fixable":                   {known(policy.Ask{MinRank: signals.High, OnlyFixable: true}, report(high, fixable)), decision{present, evidence(fixable), true}},
		"only what is fixable, and nothing is":   {known(policy.Ask{MinRank: signals.High, OnlyFixable: true}, report(high)), says(cleared)},
		"unrated entries that count as HIGH":     {known(policy.Ask{MinRank: signals.High, Unknown: signals.High}, report(unrated)), decision{present, evidence(unrated), true}},
		"unrated entries that count as too mild": {known(policy.Ask{MinRank: signals.High, Unknown: signals.Low}, report(unrated)), says(cleared)},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(decide(test.look)).To(BeComparableTo(test.want)) })
	}
}

func TestUnratedEntriesAloneAreNoEvidence(t *testing.T) {
	known := func(missingFor time.Duration, entries ...signals.Entry) verify.Look {
		return verify.Look{Asked: true, Ask: askHigh, Report: report(entries...), Known: true, Current: present, MissingFor: missingFor}
	}
	for name, test := range map[string]struct {
		look verify.Look
		want decision
	}{
		"unknown-only: within the grace nothing changes":     {known(grace-1, unrated, unrated), silence},
		"unknown-only: after the grace it is Missing":        {known(grace, unrated), says(missing)},
		"unknown-only: never proof that it is clean":         {known(100*grace, unrated), says(missing)},
		"unknown-only: no Finding is made of it":             {verify.Look{Asked: true, Ask: askHigh, Report: report(unrated), MissingFor: grace}, silence},
		"unrated entries beside milder ones change nothing":  {known(0, low, unrated), says(cleared)},
		"unrated entries beside those asked for do not show": {known(0, high, unrated), decision{present, evidence(high), true}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(decide(test.look)).To(BeComparableTo(test.want)) })
	}
}

func TestAMissingReportChangesNothingBeforeTheGraceEnds(t *testing.T) {
	known := func(current candorv1alpha1.Observation, missingFor time.Duration, gone bool) verify.Look {
		return verify.Look{Asked: true, Ask: askHigh, Known: true, Current: current, MissingFor: missingFor, OwnerGone: gone}
	}
	for name, test := range map[string]struct {
		look     verify.Look
		want     decision
		awaiting bool
	}{
		"a first miss": {known(present, 0, false), silence, true},
		"a miss just before the end of the grace":   {known(present, grace-time.Nanosecond, false), silence, true},
		"a miss at the end of the grace":            {known(present, grace, false), says(missing), true},
		"a miss long after the grace":               {known(missing, 9*grace, false), says(missing), true},
		"a Finding of no observation yet":           {known("", grace, false), says(missing), true},
		"a workload that is gone needs no grace":    {known(present, 0, true), says(ownerGone), true},
		"a stale Finding whose workload is gone":    {known(missing, grace, true), says(ownerGone), true},
		"a cleared Finding awaits nothing":          {known(cleared, 9*grace, true), silence, false},
		"a Finding without a workload awaits none":  {known(ownerGone, 9*grace, true), silence, false},
		"one that is asked for again waits anew":    {known(excluded, 0, false), silence, true},
		"one that is asked for again and not there": {known(excluded, grace, false), says(missing), true},
		"no Finding awaits nothing":                 {verify.Look{Asked: true, Ask: askHigh, MissingFor: 9 * grace, OwnerGone: true}, silence, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(decide(test.look)).To(BeComparableTo(test.want))
			g.Expect(test.look.Awaiting()).To(Equal(test.awaiting))
			g.Expect(test.look.Silent()).To(BeTrue())
		})
	}
}

func TestWhatIsReportedAsBeforeAndNotAskedForAnyMoreIsOutOfPolicy(t *testing.T) {
	shown := []candorv1alpha1.Entry{signals.Show(high)}
	milder := high
	milder.Rank = signals.Medium
	for name, test := range map[string]struct {
		look verify.Look
		want candorv1alpha1.Observation
	}{
		"the threshold rose above what is there": {
			verify.Look{Asked: true, Ask: policy.Ask{MinRank: signals.Critical}, Report: report(high), Known: true, Shown: shown},
			candorv1alpha1.ObservedExcluded,
		},
		"only fixable ones are asked for now": {
			verify.Look{Asked: true, Ask: policy.Ask{MinRank: signals.High, OnlyFixable: true}, Report: report(high), Known: true, Shown: shown},
			candorv1alpha1.ObservedExcluded,
		},
		"a fix shipped, and something milder is left": {
			verify.Look{Asked: true, Ask: askHigh, Report: report(low), Known: true, Shown: shown},
			candorv1alpha1.ObservedCleared,
		},
		"the scanner rates the same vulnerability milder now": {
			verify.Look{Asked: true, Ask: askHigh, Report: report(milder), Known: true, Shown: shown},
			candorv1alpha1.ObservedCleared,
		},
		"what was proven gone before stays so": {
			verify.Look{Asked: true, Ask: policy.Ask{MinRank: signals.Critical}, Report: report(high), Known: true, Current: candorv1alpha1.ObservedCleared, Shown: shown},
			candorv1alpha1.ObservedCleared,
		},
		"a fix ships for what was out of policy": {
			verify.Look{Asked: true, Ask: policy.Ask{MinRank: signals.Critical}, Report: report(), Known: true, Current: candorv1alpha1.ObservedExcluded, Shown: shown},
			candorv1alpha1.ObservedCleared,
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(decide(test.look)).To(Equal(says(test.want)))
		})
	}
}
