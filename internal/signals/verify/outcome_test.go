// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/verify"
)

const (
	present   = candorv1alpha1.ObservedPresent
	cleared   = candorv1alpha1.ObservedCleared
	missing   = candorv1alpha1.ObservedMissing
	ownerGone = candorv1alpha1.ObservedOwnerGone
	excluded  = candorv1alpha1.ObservedExcluded

	unseen       = candorv1alpha1.Outcome("")
	stillPresent = candorv1alpha1.OutcomeStillPresent
	recurred     = candorv1alpha1.OutcomeRecurred
	resolved     = candorv1alpha1.OutcomeResolved
	workloadGone = candorv1alpha1.OutcomeWorkloadGone
	stale        = candorv1alpha1.OutcomeStale
	outOfPolicy  = candorv1alpha1.OutcomeOutOfPolicy
)

var (
	observations = []candorv1alpha1.Observation{present, cleared, missing, ownerGone, excluded}
	outcomes     = []candorv1alpha1.Outcome{unseen, stillPresent, recurred, resolved, workloadGone, stale}
)

// table is every cell of the table of outcomes but those of Excluded, in the order of the observations.
var table = map[candorv1alpha1.Outcome]map[candorv1alpha1.Observation]verify.State{
	unseen: {
		present: {Outcome: stillPresent}, cleared: {Outcome: resolved}, missing: {Outcome: stale}, ownerGone: {Outcome: workloadGone},
	},
	stillPresent: {
		present: {Outcome: stillPresent}, cleared: {Outcome: resolved}, missing: {Outcome: stale}, ownerGone: {Outcome: workloadGone},
	},
	recurred: {
		present: {Outcome: recurred}, cleared: {Outcome: resolved}, missing: {Outcome: stale}, ownerGone: {Outcome: workloadGone},
	},
	stale: {
		present: {Outcome: stillPresent}, cleared: {Outcome: resolved}, missing: {Outcome: stale}, ownerGone: {Outcome: workloadGone},
	},
	resolved: {
		present: {Outcome: recurred, Recurred: 1}, cleared: {Outcome: resolved}, missing: {Outcome: resolved}, ownerGone: {Outcome: resolved},
	},
	workloadGone: {
		present: {Outcome: recurred, Recurred: 1}, cleared: {Outcome: workloadGone}, missing: {Outcome: workloadGone}, ownerGone: {Outcome: workloadGone},
	},
}

// back is every cell of the way back from OutOfPolicy, by the outcome before it. A return never counts.
var back = map[candorv1alpha1.Outcome]map[candorv1alpha1.Observation]candorv1alpha1.Outcome{
	unseen:       {present: stillPresent, cleared: resolved, missing: stale, ownerGone: workloadGone},
	stillPresent: {present: stillPresent, cleared: resolved, missing: stale, ownerGone: workloadGone},
	recurred:     {present: recurred, cleared: resolved, missing: stale, ownerGone: workloadGone},
	stale:        {present: stillPresent, cleared: resolved, missing: stale, ownerGone: workloadGone},
	resolved:     {present: stillPresent, cleared: resolved, missing: resolved, ownerGone: resolved},
	workloadGone: {present: stillPresent, cleared: workloadGone, missing: workloadGone, ownerGone: workloadGone},
}

func named(outcome candorv1alpha1.Outcome) string {
	if outcome == unseen {
		return "a new Finding"
	}
	return string(outcome)
}

func TestEachObservationOfEachOutcomeHasItsNext(t *testing.T) {
	for _, from := range outcomes {
		for _, observed := range observations {
			if observed == excluded {
				continue
			}
			want := table[from][observed]
			t.Run(fmt.Sprintf("%s that is %s becomes %s", named(from), observed, want.Outcome), func(t *testing.T) {
				g := NewWithT(t)
				g.Expect(verify.Next(verify.State{Outcome: from}, observed)).To(Equal(want))
				want.Recurred += 6
				g.Expect(verify.Next(verify.State{Outcome: from, Recurred: 6}, observed)).To(Equal(want), "with returns before")
			})
		}
	}
}

func TestAnythingThatIsExcludedIsOutOfPolicyAndRemembersWhatItWas(t *testing.T) {
	for _, from := range outcomes {
		t.Run(named(from)+" that is Excluded becomes OutOfPolicy", func(t *testing.T) {
			g := NewWithT(t)
			out := verify.State{Outcome: outOfPolicy, Former: from, Recurred: 2}
			g.Expect(verify.Next(verify.State{Outcome: from, Recurred: 2}, excluded)).To(Equal(out))
			g.Expect(verify.Next(out, excluded)).To(Equal(out), "OutOfPolicy is not what it was before OutOfPolicy")
		})
	}
}

func TestComingBackIntoPolicyIsNoRecurrence(t *testing.T) {
	for _, former := range outcomes {
		for _, observed := range observations {
			if observed == excluded {
				continue
			}
			want := back[former][observed]
			t.Run(fmt.Sprintf("%s that was OutOfPolicy and is %s becomes %s", named(former), observed, want), func(t *testing.T) {
				from := verify.State{Outcome: outOfPolicy, Former: former, Recurred: 2}
				NewWithT(t).Expect(verify.Next(from, observed)).To(Equal(verify.State{Outcome: want, Recurred: 2}))
			})
		}
	}
}

func TestNoObservationMeansPresent(t *testing.T) {
	for _, from := range append(slices.Clone(outcomes), outOfPolicy) {
		NewWithT(t).Expect(verify.Next(verify.State{Outcome: from}, "")).To(Equal(verify.Next(verify.State{Outcome: from}, present)), named(from))
	}
}

func TestTheSameObservationTwiceChangesNothingMore(t *testing.T) {
	for _, from := range append(slices.Clone(outcomes), outOfPolicy) {
		for _, observed := range observations {
			once := verify.Next(verify.State{Outcome: from, Recurred: 1}, observed)
			NewWithT(t).Expect(verify.Next(once, observed)).To(Equal(once), "%s, %s", named(from), observed)
		}
	}
}

func TestEveryReturnAfterAnEndIsCounted(t *testing.T) {
	var state verify.State
	for _, observed := range []candorv1alpha1.Observation{present, cleared, present, present, missing, present, ownerGone, present, excluded, present, cleared, excluded, present} {
		state = verify.Next(state, observed)
	}
	NewWithT(t).Expect(state).To(Equal(verify.State{Outcome: stillPresent, Recurred: 2}))
}

func TestOutcomesAreOpenEndedOrNeither(t *testing.T) {
	g := NewWithT(t)
	for outcome, want := range map[candorv1alpha1.Outcome][2]bool{
		unseen: {false, false}, stillPresent: {true, false}, recurred: {true, false}, stale: {false, false},
		resolved: {false, true}, workloadGone: {false, true}, outOfPolicy: {false, false},
	} {
		g.Expect([2]bool{verify.Open(outcome), verify.Ended(outcome)}).To(Equal(want), named(outcome))
	}
	for observed, want := range map[candorv1alpha1.Observation]string{
		"": "open", present: "open", cleared: "ended", ownerGone: "ended", missing: "stale", excluded: "excluded",
	} {
		g.Expect(verify.Label(observed)).To(Equal(want), string(observed))
	}
}
