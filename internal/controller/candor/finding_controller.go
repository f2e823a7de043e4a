// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/lifecycle"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/verify"
)

// +kubebuilder:rbac:groups=candor.dev,resources=findings/status,verbs=update
// +kubebuilder:rbac:groups=candor.dev,resources=suppressions,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// undecidedWait is how long a pass waits that could not decide whether a model is asked.
const undecidedWait = 15 * time.Second

// FindingSyncer says what a Finding means. It alone writes the status of Findings, and reads nothing but the Finding, and the
// Suppressions and the policies beside it.
type FindingSyncer struct {
	Client   client.Client
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Retention is how long a Finding outlives its end; zero keeps it.
	Retention time.Duration
	Metrics   *Metrics
	// Mutes are the Suppressions.
	Mutes *Mutes
	// Explainer has a model asked.
	Explainer *Explainer
	// Notifier tells people.
	Notifier *Notifier
}

// Settled implements lifecycle.Settler: a Suppression or the time may have changed what an unchanged Finding means.
func (s *FindingSyncer) Settled(*candorv1alpha1.Finding) (time.Duration, bool) { return 0, false }

// Sync implements lifecycle.Syncer.
func (s *FindingSyncer) Sync(ctx context.Context, f *candorv1alpha1.Finding) (lifecycle.Outcome, error) {
	before, now := f.Status.DeepCopy(), s.Clock.Now()
	describe(f)
	own := signals.IdentityOf(f).FindingName() == f.Name
	s.verify(f, own)
	mute, err := s.mute(ctx, f)
	if err != nil {
		return lifecycle.Outcome{}, err
	}
	left, ended := s.retained(f)
	if ended && left <= 0 {
		return s.remove(ctx, f)
	}
	muteChanged := s.show(f, mute)
	telling, err := s.tell(ctx, f, before, own)
	if err != nil {
		return lifecycle.Outcome{}, err
	}
	explanation := s.explain(ctx, f, mute.muted())
	if !equality.Semantic.DeepEqual(before, &f.Status) {
		f.Status.LastSeen = metav1.NewTime(now)
	}
	outcome := conclude(f, own, before.VerificationOutcome)
	outcome.PollAfter = earliest(earliest(left, untilAfter(mute.again, now)), earliest(explanation.again, telling.again))
	outcome.Then = s.then(f, before.VerificationOutcome, muteChanged, telling.then, explanation.then)
	return outcome, nil
}

// describe writes what a listing shows and what the content hashes to.
func describe(f *candorv1alpha1.Finding) {
	f.Status.Resource = f.Spec.Source.Kind + "/" + f.Spec.Source.Name
	f.Status.Brief = signals.Brief(f.Spec.Evidence)
	f.Status.ShownSeverity = shownSeverity(f)
	f.Status.SeverityRank = int32(signals.RankOf(string(f.Spec.Severity)))
	f.Status.Fingerprint = signals.Fingerprint(signals.Of(f))
}

// verify writes the outcome. A Finding that does not have the name of its identity has nobody who keeps it up to date.
func (s *FindingSyncer) verify(f *candorv1alpha1.Finding, own bool) {
	st, now := &f.Status, metav1.NewTime(s.Clock.Now())
	observed := f.Spec.Observed
	if !own {
		observed = candorv1alpha1.ObservedMissing
	}
	next := verify.Next(verify.State{Outcome: st.VerificationOutcome, Former: st.FormerOutcome, Recurred: st.TimesRecurred}, observed)
	if next.Outcome != st.VerificationOutcome || st.Since.IsZero() {
		st.Since = now
	}
	st.VerificationOutcome, st.FormerOutcome, st.TimesRecurred = next.Outcome, next.Former, next.Recurred
	if st.FirstSeen.IsZero() {
		st.FirstSeen = now
	}
}

// explain does what there is to do about an explanation. Whatever keeps it from being decided on is no reason to keep the rest
// from being told.
func (s *FindingSyncer) explain(ctx context.Context, f *candorv1alpha1.Finding, muted bool) explanation {
	does, err := s.Explainer.Explain(ctx, f, muted)
	if err != nil {
		logf.FromContext(ctx).Error(err, "Cannot decide on an explanation; trying again", "after", undecidedWait)
		return explanation{again: undecidedWait}
	}
	return does
}

// retained returns how long an ended Finding is kept yet, and whether it is to be deleted then.
func (s *FindingSyncer) retained(f *candorv1alpha1.Finding) (time.Duration, bool) {
	if s.Retention == 0 || verify.Open(f.Status.VerificationOutcome) {
		return 0, false
	}
	return f.Status.Since.Add(s.Retention).Sub(s.Clock.Now()), true
}

// remove deletes this very Finding as it was read. One that somebody has just changed is looked at again.
func (s *FindingSyncer) remove(ctx context.Context, f *candorv1alpha1.Finding) (lifecycle.Outcome, error) {
	err := s.Client.Delete(ctx, f, client.Preconditions{UID: &f.UID, ResourceVersion: &f.ResourceVersion})
	switch {
	case apierrors.IsConflict(err):
		return lifecycle.Outcome{Gone: true, PollAfter: time.Second}, nil
	case client.IgnoreNotFound(err) != nil:
		return lifecycle.Outcome{}, fmt.Errorf("deleting the ended Finding %s/%s: %w", f.Namespace, f.Name, err)
	default:
		return lifecycle.Outcome{Gone: true}, nil
	}
}

// then says aloud, once the status is stored, what changed in it.
func (s *FindingSyncer) then(f *candorv1alpha1.Finding, before candorv1alpha1.Outcome, muteChanged bool, tell, explain func()) func() {
	return func() {
		tell()
		if explain != nil {
			explain()
		}
		if before != "" && before != f.Status.VerificationOutcome {
			s.Metrics.transition(f)
		}
		if muteChanged {
			c := meta.FindStatusCondition(f.Status.Conditions, candorv1alpha1.ConditionSuppressed)
			lifecycle.Announce(s.Recorder, f, corev1.EventTypeNormal, c.Reason, c.Message)
		}
	}
}

// conclude puts the outcome into words. The first look at a Finding is no event, since its creation says as much, and
// neither is a change of what the policies ask for.
func conclude(f *candorv1alpha1.Finding, own bool, before candorv1alpha1.Outcome) lifecycle.Outcome {
	now := f.Status.VerificationOutcome
	o := lifecycle.Outcome{
		Reason: string(now),
		Silent: before == "" || now == candorv1alpha1.OutcomeOutOfPolicy || before == candorv1alpha1.OutcomeOutOfPolicy,
	}
	if !verify.Open(now) && !verify.Ended(now) {
		o.Status = metav1.ConditionFalse
	}
	o.Message = spoken(f)
	if !own {
		o.Reason, o.Silent = candorv1alpha1.ReasonForeign, true
		o.Message = fmt.Sprintf("Nothing keeps this Finding up to date, since it does not have the name of its identity, %s: delete it.", signals.IdentityOf(f).FindingName())
	}
	return o
}

// spoken says what the outcome of a Finding means.
func spoken(f *candorv1alpha1.Finding) string {
	source, posted := f.Spec.Source, f.Spec.Source.Provider == signals.Posted
	switch f.Status.VerificationOutcome {
	case candorv1alpha1.OutcomeStillPresent:
		if posted {
			return "The last signal says so."
		}
		return "The last report shows it."
	case candorv1alpha1.OutcomeRecurred:
		if posted {
			return fmt.Sprintf("There is a signal again after it had ended (return number %d).", f.Status.TimesRecurred)
		}
		return fmt.Sprintf("There are entries again after it had ended (return number %d).", f.Status.TimesRecurred)
	case candorv1alpha1.OutcomeResolved:
		if posted {
			return "A later signal says that it is over, or milder than the SignalPolicy asks for."
		}
		return "A later report does not show it any more."
	case candorv1alpha1.OutcomeWorkloadGone:
		return fmt.Sprintf("%s %s does not exist any more.", source.Kind, source.Name)
	case candorv1alpha1.OutcomeOutOfPolicy:
		if posted {
			return fmt.Sprintf("SignalPolicy %s does not ask for it any more: it is gone, takes no signals, or asks for worse ones.", signals.IdentityOf(f).Policy())
		}
		return fmt.Sprintf("No SignalPolicy of this namespace asks for it any more: none names the provider %s, or what it shows is below "+
			"their minSeverity or left out by onlyFixable.", source.Provider)
	default:
		if posted {
			return "No signal has repeated it for longer than spec.webhookReceiver.staleAfter of the SignalPolicy: see whether the sender still works."
		}
		return fmt.Sprintf("There has been no usable %s for longer than the evidence grace: see whether the scanner still scans %s %s.",
			source.RefKind, source.Kind, source.Name)
	}
}

func until(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " until " + at.UTC().Format(time.RFC3339)
}

// untilAfter returns the wait until a moment that is to have passed, zero when there is none.
func untilAfter(at, now time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(now), time.Millisecond)
}
