// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verify answers whether what was found is still true.
package verify

import candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"

// State is what a Finding remembers of its own past.
type State struct {
	// Outcome is empty for a Finding that nobody has looked at yet.
	Outcome candorv1alpha1.Outcome
	// Former is the outcome to return to from OutOfPolicy.
	Former candorv1alpha1.Outcome
	// Recurred counts the returns after an end.
	Recurred int32
}

// Next returns the state after an observation. Coming back from OutOfPolicy never counts as a recurrence.
func Next(from State, observed candorv1alpha1.Observation) State {
	if observed == candorv1alpha1.ObservedExcluded {
		if from.Outcome != candorv1alpha1.OutcomeOutOfPolicy {
			from.Outcome, from.Former = candorv1alpha1.OutcomeOutOfPolicy, from.Outcome
		}
		return from
	}
	returning := from.Outcome == candorv1alpha1.OutcomeOutOfPolicy
	if returning {
		from.Outcome, from.Former = from.Former, ""
	}
	if present(observed) {
		return seen(from, returning)
	}
	if !Ended(from.Outcome) {
		from.Outcome = ends[observed]
	}
	return from
}

// ends maps each bad or good end of an open Finding to its outcome.
var ends = map[candorv1alpha1.Observation]candorv1alpha1.Outcome{
	candorv1alpha1.ObservedCleared:   candorv1alpha1.OutcomeResolved,
	candorv1alpha1.ObservedOwnerGone: candorv1alpha1.OutcomeWorkloadGone,
	candorv1alpha1.ObservedMissing:   candorv1alpha1.OutcomeStale,
}

func seen(from State, returning bool) State {
	switch {
	case Ended(from.Outcome) && !returning:
		from.Outcome = candorv1alpha1.OutcomeRecurred
		from.Recurred++
	case from.Outcome != candorv1alpha1.OutcomeRecurred:
		from.Outcome = candorv1alpha1.OutcomeStillPresent
	}
	return from
}

// Ended reports whether an outcome is a proven end. Stale is not: the evidence may come back, or be proven gone.
func Ended(outcome candorv1alpha1.Outcome) bool {
	return outcome == candorv1alpha1.OutcomeResolved || outcome == candorv1alpha1.OutcomeWorkloadGone
}

// Open reports whether the thing found is there now.
func Open(outcome candorv1alpha1.Outcome) bool {
	return outcome == candorv1alpha1.OutcomeStillPresent || outcome == candorv1alpha1.OutcomeRecurred
}

func present(observed candorv1alpha1.Observation) bool {
	return observed == candorv1alpha1.ObservedPresent || observed == ""
}

// Label returns the value of the label candor.dev/outcome for an observation.
func Label(observed candorv1alpha1.Observation) string {
	switch observed {
	case candorv1alpha1.ObservedMissing:
		return "stale"
	case candorv1alpha1.ObservedExcluded:
		return "excluded"
	case candorv1alpha1.ObservedCleared, candorv1alpha1.ObservedOwnerGone:
		return "ended"
	default:
		return "open"
	}
}
