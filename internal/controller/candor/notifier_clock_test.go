// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/notify"
)

const year = 365 * 24 * time.Hour

// A clock that was a year ahead left times in statuses that are a year off.

func TestADigestThatFellDueInTheFutureBeginsAgain(t *testing.T) {
	g := NewWithT(t)
	ahead := metav1.NewTime(noon.Add(year))
	st := candorv1alpha1.SinkStatus{Name: slack.sink, SummarisedAt: metav1.NewTime(noon.Add(-year)), LastDigest: ahead}
	s := &SignalPolicySyncer{DigestInterval: 24 * time.Hour}
	to := tuned(candorv1alpha1.Sink{Name: slack.sink, Type: candorv1alpha1.SinkSlack}, st)
	g.Expect(s.schedule(&st, to, nil, false, noon)).To(Equal(24 * time.Hour))
	g.Expect(st.LastDigest.Time).To(BeTemporally("==", noon))
	g.Expect(st.Pending).To(BeEmpty())
	s.schedule(&st, to, nil, false, noon.Add(24*time.Hour))
	g.Expect(st.Pending).To(HaveLen(1))
}

func TestASummaryOfTheFutureSilencesNothing(t *testing.T) {
	g := NewWithT(t)
	s := &SignalPolicySyncer{Notifier: (&Notifier{}).Init(), Providers: &Providers{}}
	sink := candorv1alpha1.Sink{Name: slack.sink, Type: candorv1alpha1.SinkSlack}
	s.Notifier.lanes.offer(slack.policyName(), []offering{{sink: sink}}, noon.Add(-time.Hour))
	old := candorv1alpha1.Finding{Spec: candorv1alpha1.FindingSpec{Source: candorv1alpha1.Source{Provider: "trivy"}}}
	old.Status.FirstSeen, old.Status.SeverityRank = metav1.NewTime(noon.Add(year)), 4
	old.Status.VerificationOutcome = candorv1alpha1.OutcomeStillPresent
	for name, stored := range map[string]metav1.Time{"one that is yet to come": {}, "one that was sent": metav1.NewTime(noon.Add(year))} {
		st := candorv1alpha1.SinkStatus{Name: slack.sink, SummarisedAt: stored}
		to := tuned(sink, st)
		s.schedule(&st, to, []candorv1alpha1.Finding{old}, false, noon)
		g.Expect(st.SummarisedAt.Time).To(BeTemporally("==", noon.Add(-notify.QuietFor)), name)
		to.Policy.Status.Sinks = []candorv1alpha1.SinkStatus{st}
		policies := []candorv1alpha1.SignalPolicy{*to.Policy}
		_, sinks, _ := notify.Unheard(policies, &old, noon)
		g.Expect(sinks).To(BeEmpty(), "%s: what it counted is no news", name)
		fresh := old.DeepCopy()
		fresh.Status.FirstSeen = metav1.NewTime(noon)
		_, sinks, _ = notify.Unheard(policies, fresh, noon)
		g.Expect(sinks).To(Equal([]string{"default/slack"}), name)
	}
}

func TestAMessageOfTheFutureIsSentNow(t *testing.T) {
	g := NewWithT(t)
	l := newLanes(window)
	ahead := message(candorv1alpha1.EventCreated, "summary")
	ahead.At = metav1.NewTime(noon.Add(year))
	l.offer(slack.policyName(), []offering{{sink: candorv1alpha1.Sink{Name: slack.sink}, messages: []candorv1alpha1.PolicyMessage{ahead}}}, noon)
	batches, _ := l.next(noon)
	l.done(batches[0], report{trouble: down}, noon)
	l.bySink[slack].results = map[string]notify.Result{}
	ahead.Attempts, ahead.NextAttempt = 1, metav1.NewTime(noon.Add(year))
	pending := []candorv1alpha1.PolicyMessage{ahead}
	g.Expect(readyMessages(pending, noon)).To(HaveLen(1))
	g.Expect(nextMessage(pending, noon)).To(BeZero())
	l.offer(slack.policyName(), []offering{{sink: candorv1alpha1.Sink{Name: slack.sink}, messages: readyMessages(pending, noon)}}, noon)
	g.Expect(l.keysAt(noon.Add(window))).To(Equal([]string{"summary"}))
}
