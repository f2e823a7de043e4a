// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/lifecycle"
	"github.com/candor-dev/candor/internal/signals/notify"
)

// telling is what a pass does about telling people of a Finding, beside what it writes into the outbox.
type telling struct {
	// again is when to look again by itself; zero waits for an event.
	again time.Duration
	// then runs once the status is stored.
	then func()
}

// tell writes into the outbox what became of what was sent, and what falls due by the difference to the status before. It is
// stored together with that difference, so that neither is there without the other.
func (s *FindingSyncer) tell(ctx context.Context, f *candorv1alpha1.Finding, before *candorv1alpha1.FindingStatus, own bool) (telling, error) {
	results := s.Notifier.lanes.resultsOf(f.UID)
	var list candorv1alpha1.SignalPolicyList
	if err := s.Client.List(ctx, &list, client.InNamespace(f.Namespace), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return telling{}, fmt.Errorf("listing the policies of %s: %w", f.Namespace, err)
	}
	policies, now := list.Items, s.Clock.Now()
	recorded, lost := notify.Record(f.Status.Notified, f.UID, results)
	f.Status.Notified = notify.WithoutGone(recorded, policies)
	var dropped []candorv1alpha1.Notification
	queue := func(due notify.Occasion, sinks []string) {
		queued, more := notify.Queue(f.Status.Notified, due, sinks, now)
		f.Status.Notified, dropped = queued, append(dropped, more...)
	}
	var t telling
	if own {
		if due, falls := notify.Due(notify.Of(before), notify.Of(&f.Status)); falls {
			queue(due, notify.Sinks(policies, notify.SubjectOf(f), due.Event))
		}
		due, sinks, again := notify.Unheard(policies, f, now)
		queue(due, sinks)
		t.again = again
	}
	t.again = earliest(t.again, untilAfter(notify.NextAttempt(f.Status.Notified, now), now))
	t.then = func() {
		s.Notifier.lanes.stored(f.UID, results)
		s.Notifier.submit(f, notify.Ready(f.Status.Notified, now))
		s.mourn(policies, lost, dropped)
	}
	return t, nil
}

// mourn says aloud what people are not told of any more.
func (s *FindingSyncer) mourn(policies []candorv1alpha1.SignalPolicy, lost, dropped []candorv1alpha1.Notification) {
	for _, n := range dropped {
		if target, found := notify.Find(policies, n.Sink); found {
			s.Metrics.notified(target.Sink.Type, n.Event, outcomeSuperseded)
		}
	}
	for _, n := range lost {
		if target, found := notify.Find(policies, n.Sink); found {
			s.Metrics.notified(target.Sink.Type, n.Event, outcomeLost)
			lifecycle.Announce(s.Recorder, target.Policy, corev1.EventTypeWarning, candorv1alpha1.EventNotificationLost, lostNote(target.Sink.Name, n.Event))
		}
	}
}

func lostNote(sink string, event candorv1alpha1.EventType) string {
	return fmt.Sprintf("Sink %s could not be told of an event %s for %s, and is not told any more.", sink, event, notify.Patience)
}
