// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/lifecycle"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/gate"
)

// asking is the message while a call runs.
const asking = gate.Asking

// unaskedWait is how long a question waits that could not be put after all, for a reason that no event may tell of.
const unaskedWait = 15 * time.Second

// explanation is what a pass does about the explanation of a Finding.
type explanation struct {
	// again is when to look again by itself; zero waits for an event.
	again time.Duration
	// then runs once the status is stored.
	then func()
}

// Explain writes into the status whether and why a model is asked, what the last call came to, and the attempt before the
// next one.
func (e *Explainer) Explain(ctx context.Context, f *candorv1alpha1.Finding, muted bool) (explanation, error) {
	finished := e.Callers.result(f.UID)
	if finished != nil {
		finished.record(f, e.Clock.Now())
	}
	s, err := e.look(ctx, f, muted)
	if err != nil {
		return explanation{}, err
	}
	if s.idle() && finished == nil {
		return explanation{}, nil
	}
	withdraw(f, s.sharing)
	e.unmark(f)
	d, err := e.decide(ctx, s)
	if err != nil {
		return explanation{}, err
	}
	if finished != nil && finished.unasked && d.Action == gate.Call {
		d = gate.Decision{Action: gate.Stop, Reason: candorv1alpha1.ReasonWaiting, Message: d.Message, Again: e.Clock.Now().Add(unaskedWait)}
	}
	var does explanation
	if !d.Again.IsZero() {
		does.again = untilAfter(d.Again, e.Clock.Now())
	}
	begin := e.apply(f, s, &d)
	does.then = e.afterwards(f, d, finished, begin, e.show(f, s, d))
	return does, nil
}

// apply does what the gate decided, and returns the call to begin once the status is stored.
func (e *Explainer) apply(f *candorv1alpha1.Finding, s *situation, d *gate.Decision) func() {
	switch {
	case d.Action == gate.Share:
		takeOver(f, s, e.Clock.Now())
	case d.Action != gate.Call:
	case e.Callers.turn(contender{
		uid: f.UID, name: client.ObjectKeyFromObject(f), rank: f.Status.SeverityRank, share: shareKey(f, s.facts.Key, s.sharing),
	}):
		d.Message = asking
		return e.attempt(f, s)
	}
	return nil
}

// attempt marks the call that is about to be made.
func (e *Explainer) attempt(f *candorv1alpha1.Finding, s *situation) func() {
	last := gate.Attempt(f, s.facts.Key)
	if f.Status.Enrichment == nil {
		f.Status.Enrichment = &candorv1alpha1.Enrichment{}
	}
	f.Status.Enrichment.Attempt = &candorv1alpha1.Attempt{
		Key: s.facts.Key, Fingerprint: f.Status.Fingerprint, Count: last.Count + 1, At: metav1.NewTime(e.Clock.Now()), By: e.Process, Running: true,
	}
	q := question{
		name: client.ObjectKeyFromObject(f), uid: f.UID, fingerprint: f.Status.Fingerprint, key: s.facts.Key, sharing: s.sharing,
	}
	return func() {
		e.Callers.begin(q.uid, q.name, func(ctx context.Context) *result { return e.ask(ctx, q) })
	}
}

// unmark takes back an attempt of this process that no call followed: its mark was stored, and the answer to that write was lost.
func (e *Explainer) unmark(f *candorv1alpha1.Finding) {
	if f.Status.Enrichment == nil || f.Status.Enrichment.Attempt == nil {
		return
	}
	if a := f.Status.Enrichment.Attempt; a.Running && a.By == e.Process && !e.Callers.calling(f.UID) {
		a.Running, a.Count = false, max(a.Count-1, 0)
	}
}

// takeOver writes the answer to an equal question into the status.
func takeOver(f *candorv1alpha1.Finding, s *situation, now time.Time) {
	from := s.facts.Equal
	f.Status.Hypotheses = append([]candorv1alpha1.Hypothesis(nil), from.Status.Hypotheses...)
	f.Status.EnrichedFingerprint = f.Status.Fingerprint
	name := from.Name
	if from.Namespace != f.Namespace {
		name = "" // one tenant is not told of another's workloads
	}
	f.Status.Enrichment = &candorv1alpha1.Enrichment{
		Model: from.Status.Enrichment.Model, PromptVersion: from.Status.Enrichment.PromptVersion, Key: s.facts.Key, Sharing: s.sharing,
		At: metav1.NewTime(now), Shared: true, SharedFrom: name,
	}
}

// withdraw keeps an answer from others where the policy shares less now than when the answer came.
func withdraw(f *candorv1alpha1.Finding, sharing candorv1alpha1.Sharing) {
	e := f.Status.Enrichment
	if e == nil || e.Sharing == "" {
		return
	}
	if sharing == candorv1alpha1.SharingNone || sharing == candorv1alpha1.SharingNamespace && e.Sharing == candorv1alpha1.SharingCluster {
		e.Sharing = sharing
	}
}

// show writes the condition and the word for the listing, and reports whether the condition changed.
func (e *Explainer) show(f *candorv1alpha1.Finding, s *situation, d gate.Decision) bool {
	c := condition(f, s, d)
	if c == nil {
		return false
	}
	if f.Status.Explained != candorv1alpha1.ExplainedMuted {
		f.Status.Explained = explained(*c)
	}
	return lifecycle.SetCondition(f, e.Clock.Now(), *c)
}

// condition puts the decision into words. It is nil where nothing is to be said: no model is asked, and none ever was.
func condition(f *candorv1alpha1.Finding, s *situation, d gate.Decision) *metav1.Condition {
	c := &metav1.Condition{Type: candorv1alpha1.ConditionEnriched, Status: metav1.ConditionFalse, Reason: d.Reason, Message: d.Message}
	last := meta.FindStatusCondition(f.Status.Conditions, candorv1alpha1.ConditionEnriched)
	switch {
	case !signals.NeedsEnrichment(f) && f.Status.Enrichment != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, candorv1alpha1.ReasonEnriched, "A model has explained this content. It is an opinion and not a fact."
		if f.Status.Enrichment.Shared {
			c.Reason, c.Message = candorv1alpha1.ReasonSharedResult, "The answer to an equal question was taken over; it cost nothing. It is an opinion and not a fact."
		}
	case d.Reason == candorv1alpha1.ReasonBackendPaused:
		c.Reason, c.Message = candorv1alpha1.ReasonWaiting, "A model is asked when its server may be asked again; the OperatingPolicy and the log say why it may not."
		if a := gate.Attempt(f, s.facts.Key); a.Failure != "" {
			c.Reason, c.Message = a.Failure, a.Message
		}
	case d.Action == gate.Call && last != nil && waits(last.Reason) && d.Message != asking:
		// Its turn may not come for a long time yet: what held it back stays told, so that a freed budget is not a write for
		// each Finding that waits for it.
		c.Reason, c.Message = last.Reason, last.Message
	case quiet(d.Reason) && last == nil:
		return nil
	}
	return c
}

// waits are the reasons that end by themselves.
func waits(reason string) bool {
	switch reason {
	case candorv1alpha1.ReasonBudgetExhausted, candorv1alpha1.ReasonRateLimited, candorv1alpha1.ReasonUnavailable,
		candorv1alpha1.ReasonUnreachable, candorv1alpha1.ReasonAuthFailed, candorv1alpha1.ReasonModelNotFound, candorv1alpha1.ReasonQuotaExhausted:
		return true
	default:
		return false
	}
}

// quiet are the reasons for which nobody expects an explanation.
func quiet(reason string) bool {
	switch reason {
	case candorv1alpha1.ReasonPolicyMissing, candorv1alpha1.ReasonDisabled, candorv1alpha1.ReasonNotOpen, candorv1alpha1.ReasonSuppressed,
		candorv1alpha1.ReasonNoModel, candorv1alpha1.ReasonNotNeeded:
		return true
	default:
		return false
	}
}

func explained(c metav1.Condition) candorv1alpha1.Explained {
	switch {
	case c.Status == metav1.ConditionTrue:
		return candorv1alpha1.ExplainedTrue
	case c.Reason == candorv1alpha1.ReasonBudgetExhausted:
		return candorv1alpha1.ExplainedBudget
	case c.Reason == candorv1alpha1.ReasonEnrichmentFailed:
		return candorv1alpha1.ExplainedFailed
	case c.Reason == candorv1alpha1.ReasonWaiting, waits(c.Reason):
		return candorv1alpha1.ExplainedWaiting
	default:
		return candorv1alpha1.ExplainedOff
	}
}

// afterwards says aloud what is stored now, lets go of what it holds, and begins the call.
func (e *Explainer) afterwards(f *candorv1alpha1.Finding, d gate.Decision, finished *result, begin func(), changed bool) func() {
	uid := f.UID
	return func() {
		if finished != nil {
			e.Callers.stored(uid)
		}
		switch {
		case begin != nil:
			begin()
		case d.Action != gate.Call && (finished != nil || !e.Callers.calling(uid)):
			e.Callers.leave(uid)
		}
		if d.Action == gate.Share {
			e.Metrics.shared()
		}
		if changed {
			e.announce(f, d)
		}
	}
}

// announce counts a new reason, and makes an event of an answer and of its final failure.
func (e *Explainer) announce(f *candorv1alpha1.Finding, d gate.Decision) {
	if d.Action == gate.Stop && d.Reason != candorv1alpha1.ReasonNotNeeded {
		e.Metrics.skipped(d.Reason)
	}
	c := meta.FindStatusCondition(f.Status.Conditions, candorv1alpha1.ConditionEnriched)
	switch c.Reason {
	case candorv1alpha1.ReasonEnriched:
		lifecycle.Announce(e.Recorder, f, corev1.EventTypeNormal, c.Reason, fmt.Sprintf("%s says: %s", f.Status.Enrichment.Model, f.Status.Hypotheses[0].Cause))
	case candorv1alpha1.ReasonEnrichmentFailed:
		lifecycle.Announce(e.Recorder, f, corev1.EventTypeWarning, c.Reason, c.Message)
	}
}

// Forget lets go of a Finding that is deleted.
func (e *Explainer) Forget(uid types.UID) {
	e.Callers.leave(uid)
	e.Callers.stored(uid)
}
