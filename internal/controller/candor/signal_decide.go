// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/policy"
	"github.com/candor-dev/candor/internal/signals/receiver"
	"github.com/candor-dev/candor/internal/signals/verify"
)

// refreshes is how often, in the time after which a signal is stale, a repetition of it is written down.
const refreshes = 8

// posting is a signal that is to be kept.
type posting struct {
	id     signals.Identity
	signal receiver.Signal
	policy *candorv1alpha1.SignalPolicy
	// now is when it came.
	now time.Time
}

// at returns when the signal was signed, in whole seconds. One that was not signed at a time has no order but that of its arrival:
// it comes after everything that its Finding has heard, also where another replica's clock is ahead.
func (p posting) at(f *candorv1alpha1.Finding) time.Time {
	if !p.signal.At.IsZero() {
		return p.signal.At
	}
	now := p.now.Truncate(time.Second)
	if last := signalledAt(f, p.now); last.After(now) {
		return last
	}
	return now
}

// decision is what becomes of a signal.
type decision struct {
	result receiver.Result
	// after is what the Finding is to be; nil leaves it as it is.
	after *candorv1alpha1.Finding
	// evidence is what a Finding that opens or changes stands on; else it is empty.
	evidence signals.Evidence
	// opens means that one Finding more will be there that has not ended.
	opens bool
}

// decide returns what becomes of a signal; f is the Finding of its identity, nil when there is none.
func (p posting) decide(f *candorv1alpha1.Finding) decision {
	asked := p.rank() >= policy.Threshold(p.policy)
	switch {
	case p.at(f).Before(signalledAt(f, p.now)):
		return decision{result: receiver.Late}
	case p.signal.Resolved || !asked && f != nil && p.milder(f):
		return p.end(f)
	case !asked:
		return decision{result: receiver.Filtered}
	case f == nil:
		return p.fire(&candorv1alpha1.Finding{ObjectMeta: metav1.ObjectMeta{Namespace: p.id.Namespace, Name: p.id.FindingName()}}, receiver.Created)
	case !p.says(f):
		return p.fire(f.DeepCopy(), receiver.Updated)
	case p.at(f).Sub(signalledAt(f, p.now)) > policy.StaleAfter(p.policy)/refreshes:
		return decision{result: receiver.Unchanged, after: p.marked(f.DeepCopy())}
	default:
		return decision{result: receiver.Unchanged}
	}
}

func (p posting) rank() signals.Rank { return signals.RankOf(string(p.signal.Severity)) }

// milder reports whether the signal was worse when a Finding that has not ended last heard of it. One that is as bad as before, and
// which the policy does not ask for any more, proves no end.
func (p posting) milder(f *candorv1alpha1.Finding) bool {
	return !finished(f) && p.rank() < signals.RankOf(string(f.Spec.Severity))
}

// end has a Finding say that what it stood on is gone.
func (p posting) end(f *candorv1alpha1.Finding) decision {
	if f == nil || finished(f) {
		return decision{result: receiver.Unchanged}
	}
	after := p.marked(f.DeepCopy())
	observe(after, candorv1alpha1.ObservedCleared)
	return decision{result: receiver.Resolved, after: after}
}

// fire has a Finding say what the signal says.
func (p posting) fire(f *candorv1alpha1.Finding, result receiver.Result) decision {
	d := decision{result: result, after: p.marked(f), opens: result == receiver.Created || finished(f)}
	f.Spec, d.evidence = signals.PostedSpec(p.id, p.rank(), p.signal.Summary)
	observe(f, candorv1alpha1.ObservedPresent)
	return d
}

// says reports whether a Finding says what the signal does. What is muted in it is another's matter.
func (p posting) says(f *candorv1alpha1.Finding) bool {
	spec, _ := signals.PostedSpec(p.id, p.rank(), p.signal.Summary)
	return verify.Label(f.Spec.Observed) == verify.Label(candorv1alpha1.ObservedPresent) && f.Spec.Severity == spec.Severity && f.Spec.Summary == spec.Summary
}

// marked notes in a Finding when its signal was last heard of.
func (p posting) marked(f *candorv1alpha1.Finding) *candorv1alpha1.Finding {
	metav1.SetMetaDataAnnotation(&f.ObjectMeta, candorv1alpha1.AnnotationSignalledAt, p.at(f).UTC().Format(time.RFC3339))
	return f
}

// aheadMost is how far the time of a signal that was taken may be from now: that of a signature, and of the clock of another
// replica.
const aheadMost = 2 * receiver.ClockWindow

// signalledAt returns when a Finding last heard of its signal; zero where it does not say, or where a clock said it that was wrong:
// a time in the future would make every signal late until then.
func signalledAt(f *candorv1alpha1.Finding, now time.Time) time.Time {
	if f == nil {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, f.Annotations[candorv1alpha1.AnnotationSignalledAt])
	if err != nil || at.After(now.Add(aheadMost)) {
		return time.Time{}
	}
	return at
}

// observe has a Finding say what was observed.
func observe(f *candorv1alpha1.Finding, observed candorv1alpha1.Observation) {
	f.Spec.Observed = observed
	metav1.SetMetaDataLabel(&f.ObjectMeta, candorv1alpha1.LabelOutcome, verify.Label(observed))
}

// finished reports whether a Finding has come to an end that nothing but its evidence can undo.
func finished(f *candorv1alpha1.Finding) bool {
	return verify.Label(f.Spec.Observed) == verify.Label(candorv1alpha1.ObservedCleared)
}
