// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/lifecycle"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/notify"
)

// keepAlive is how often an Alertmanager is told of open Findings where there are no digests: it forgets an alert that nobody
// repeats.
const keepAlive = 24 * time.Hour

// maxSinkMessage bounds what a status says of a sink.
const maxSinkMessage = 512

// tell writes how telling people goes, sink by sink, and the messages about the whole policy that fall due. exhausted says that
// the budget has just begun to hold back calls.
func (s *SignalPolicySyncer) tell(p *candorv1alpha1.SignalPolicy, findings []candorv1alpha1.Finding, exhausted bool) telling {
	var (
		t         telling
		now       = s.Clock.Now()
		name      = client.ObjectKeyFromObject(p)
		results   = s.Notifier.lanes.messageResults(name)
		offerings []offering
		statuses  []candorv1alpha1.SinkStatus
		lost      []func()
	)
	for _, target := range notify.Targets(p) {
		st := candorv1alpha1.SinkStatus{Name: target.Sink.Name}
		if last := target.Status(); last != nil {
			st = *last.DeepCopy()
		}
		st.Type = target.Sink.Type
		pending, failed := notify.RecordMessages(st.Pending, results[st.Name])
		st.Pending = pending
		for _, m := range failed {
			lost = append(lost, func() { s.mourn(p, target, m.Event) })
		}
		t.again = earliest(t.again, s.schedule(&st, target, findings, exhausted, now))
		s.judgeSink(&st, name.Namespace, p.Name)
		statuses = append(statuses, st)
		offerings = append(offerings, offering{sink: target.Sink, messages: readyMessages(st.Pending, now)})
		t.again = earliest(t.again, nextMessage(st.Pending, now))
	}
	p.Status.Sinks = statuses
	changed := s.showNotifying(p, now)
	t.then = func() {
		s.Notifier.lanes.messagesStored(name, results)
		s.Notifier.offer(name, offerings)
		if changed != "" {
			c := meta.FindStatusCondition(p.Status.Conditions, candorv1alpha1.ConditionNotifying)
			lifecycle.Announce(s.Recorder, p, changed, c.Reason, c.Message)
		}
		for _, say := range lost {
			say()
		}
	}
	return t
}

// schedule queues the messages about the whole policy that fall due for one sink, and returns how long to wait for the next.
func (s *SignalPolicySyncer) schedule(
	st *candorv1alpha1.SinkStatus, target notify.Target, findings []candorv1alpha1.Finding, exhausted bool, now time.Time,
) time.Duration {
	queue := func(event candorv1alpha1.EventType, since time.Time) {
		st.Pending = notify.QueueMessage(st.Pending, target.Policy.UID, target.String(), event, since, now)
	}
	if st.SummarisedAt.IsZero() {
		wait, settled := s.firstSync(target, findings, now)
		if !settled {
			return wait
		}
		summary, upTo := notify.NewSummary(findings, target)
		if upTo.IsZero() {
			// A Finding may have come that the cache does not show yet.
			upTo = now.Add(-notify.QuietFor)
		}
		st.SummarisedAt = metav1.NewTime(upTo.UTC().Truncate(time.Second))
		if summary.Open > 0 && target.Wants(candorv1alpha1.EventCreated) {
			queue(candorv1alpha1.EventCreated, time.Time{})
		}
	}
	if st.SummarisedAt.After(now) {
		// A clock was ahead. What comes until it is that time again is news all the same.
		st.SummarisedAt = metav1.NewTime(now.Add(-notify.QuietFor).UTC().Truncate(time.Second))
	}
	if exhausted && target.Wants(candorv1alpha1.EventBudgetExhausted) {
		queue(candorv1alpha1.EventBudgetExhausted, now)
	}
	every := s.digestEvery(target)
	if every == 0 {
		st.LastDigest = metav1.Time{}
		return 0
	}
	if st.LastDigest.IsZero() || st.LastDigest.After(now) {
		st.LastDigest = metav1.NewTime(now.UTC().Truncate(time.Second))
	} else if !now.Before(st.LastDigest.Add(every)) {
		queue(candorv1alpha1.EventDigest, st.LastDigest.Time)
		st.LastDigest = metav1.NewTime(now.UTC().Truncate(time.Second))
	}
	return untilAfter(st.LastDigest.Add(every), now)
}

// firstSync reports whether there is nothing more to come of what there was before the sink, and else how long to wait at least;
// zero waits for an event.
func (s *SignalPolicySyncer) firstSync(target notify.Target, findings []candorv1alpha1.Finding, now time.Time) (wait time.Duration, settled bool) {
	p := target.Policy
	reading, undecided := s.reading(p)
	if undecided || !reading && len(findings) == 0 {
		return 0, false
	}
	_, known := s.Notifier.lanes.of(sinkKey{p.Namespace, p.Name, target.Sink.Name})
	if known.IsZero() {
		return notify.QuietFor, false
	}
	wait = max(notify.Unsettled(findings, now), known.Add(notify.QuietFor).Sub(now))
	return wait, wait <= 0
}

// reading reports whether the reports of any provider of a policy are being read, and whether that is not yet known of one. Who
// reads those of a provider that is not in the table is not this controller's to know.
func (s *SignalPolicySyncer) reading(p *candorv1alpha1.SignalPolicy) (reading, undecided bool) {
	for _, provider := range p.Spec.Providers {
		class, known := s.Providers.Classes.ByProvider(provider)
		if !known {
			reading = true
			continue
		}
		a := s.judge(class)
		reading = reading || a.order == 0
		undecided = undecided || a.undecided
	}
	return reading, undecided
}

// digestEvery returns how often a sink gets a digest; zero for never.
func (s *SignalPolicySyncer) digestEvery(target notify.Target) time.Duration {
	alerts := target.Sink.Type == candorv1alpha1.SinkAlertmanager && target.Wants(candorv1alpha1.EventCreated)
	switch {
	case s.DigestInterval > 0 && (alerts || target.Wants(candorv1alpha1.EventDigest)):
		return s.DigestInterval
	case alerts:
		return keepAlive
	default:
		return 0
	}
}

// judgeSink writes how a sink does. What was stored stays until something is known here.
func (s *SignalPolicySyncer) judgeSink(st *candorv1alpha1.SinkStatus, namespace, policy string) {
	now, _ := s.Notifier.lanes.of(sinkKey{namespace, policy, st.Name})
	good := candorv1alpha1.SinkActive
	if st.SummarisedAt.IsZero() {
		good = candorv1alpha1.SinkWaiting
	}
	switch {
	case now.state == candorv1alpha1.SinkMisconfigured, now.state == candorv1alpha1.SinkFailing:
		st.State, st.Message = now.state, signals.Clean(now.message, maxSinkMessage)
	case now.state == candorv1alpha1.SinkActive,
		st.State == candorv1alpha1.SinkMisconfigured && now.sound,
		st.State != candorv1alpha1.SinkMisconfigured && st.State != candorv1alpha1.SinkFailing:
		st.State, st.Message = good, ""
	}
}

func readyMessages(pending []candorv1alpha1.PolicyMessage, now time.Time) []candorv1alpha1.PolicyMessage {
	return slices.DeleteFunc(slices.Clone(pending), func(m candorv1alpha1.PolicyMessage) bool { return notify.Waits(m.NextAttempt, now) })
}

func nextMessage(pending []candorv1alpha1.PolicyMessage, now time.Time) (wait time.Duration) {
	for _, m := range pending {
		if notify.Waits(m.NextAttempt, now) {
			wait = earliest(wait, untilAfter(m.NextAttempt.Time, now))
		}
	}
	return wait
}

// notifying puts the state of sinks into a condition, the worst first.
var notifying = []struct {
	state  candorv1alpha1.SinkState
	status metav1.ConditionStatus
	reason string
}{
	{candorv1alpha1.SinkMisconfigured, metav1.ConditionFalse, candorv1alpha1.ReasonSinkMisconfigured},
	{candorv1alpha1.SinkFailing, metav1.ConditionFalse, candorv1alpha1.ReasonSinkFailing},
	{candorv1alpha1.SinkWaiting, metav1.ConditionUnknown, candorv1alpha1.ReasonFirstSync},
	{candorv1alpha1.SinkActive, metav1.ConditionTrue, candorv1alpha1.ReasonDelivering},
}

// showNotifying writes the condition Notifying, and returns the type of the event that its change is worth; empty for none.
func (s *SignalPolicySyncer) showNotifying(p *candorv1alpha1.SignalPolicy, now time.Time) string {
	if len(p.Status.Sinks) == 0 {
		lifecycle.RemoveCondition(p, candorv1alpha1.ConditionNotifying)
		return ""
	}
	c, was := metav1.Condition{Type: candorv1alpha1.ConditionNotifying}, metav1.ConditionUnknown
	if old := meta.FindStatusCondition(p.Status.Conditions, c.Type); old != nil {
		was = old.Status
	}
	var sentences []string
	for _, n := range notifying {
		for _, st := range p.Status.Sinks {
			if st.State != n.state {
				continue
			}
			if c.Reason == "" {
				c.Status, c.Reason = n.status, n.reason
			}
			sentences = append(sentences, sinkSentence(st))
		}
	}
	c.Message = strings.Join(sentences, " ")
	changed := lifecycle.SetCondition(p, now, c)
	switch {
	case changed && c.Status == metav1.ConditionFalse:
		return corev1.EventTypeWarning
	case changed && was == metav1.ConditionFalse:
		return corev1.EventTypeNormal
	default:
		return ""
	}
}

func sinkSentence(st candorv1alpha1.SinkStatus) string {
	switch st.State {
	case candorv1alpha1.SinkMisconfigured:
		return fmt.Sprintf("Sink %s cannot be told anything. %s", st.Name, st.Message)
	case candorv1alpha1.SinkFailing:
		return fmt.Sprintf("Sink %s does not take what it is sent, which is tried again. %s", st.Name, st.Message)
	case candorv1alpha1.SinkWaiting:
		return fmt.Sprintf("Sink %s is told in one message what there is, as soon as the first sync is done.", st.Name)
	default:
		return fmt.Sprintf("Sink %s is told.", st.Name)
	}
}

// mourn says aloud what people are not told of any more.
func (s *SignalPolicySyncer) mourn(p *candorv1alpha1.SignalPolicy, target notify.Target, event candorv1alpha1.EventType) {
	s.Notifier.Metrics.notified(target.Sink.Type, event, outcomeLost)
	lifecycle.Announce(s.Recorder, p, corev1.EventTypeWarning, candorv1alpha1.EventNotificationLost, lostNote(target.Sink.Name, event))
}
