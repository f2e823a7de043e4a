// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/notify"
)

var at = time.Date(2026, time.March, 1, 12, 0, 30, 0, time.UTC)

// forms are all the ways in which people are told.
var forms = map[string]struct {
	sink candorv1alpha1.SinkType
	name string
}{
	"legacy":       {candorv1alpha1.SinkWebhook, notify.LegacySink},
	"webhook":      {candorv1alpha1.SinkWebhook, "hooks"},
	"slack":        {candorv1alpha1.SinkSlack, "channel"},
	"alertmanager": {candorv1alpha1.SinkAlertmanager, "alerts"},
	"cloudevents":  {candorv1alpha1.SinkCloudEvents, "broker"},
}

// finding is the Finding of an nginx image in the Deployment storefront.
func finding(change ...func(*candorv1alpha1.Finding)) *candorv1alpha1.Finding {
	f := &candorv1alpha1.Finding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "trivy-fa8dd5a24c3a3453cefb", UID: "6f4c1a52-0000-4000-8000-000000000001"},
		Spec: candorv1alpha1.FindingSpec{
			Source:   candorv1alpha1.Source{Provider: "trivy", Kind: "Deployment", Name: "storefront", Container: "proxy"},
			Severity: candorv1alpha1.SeverityCritical,
			Summary:  "1 CRITICAL, 2 HIGH vulnerabilities in library/nginx (container proxy), 2 fixable: CVE-2023-45853, CVE-2024-2961, CVE-2024-33599 [evidence 4c0f4c0f4c0f4c0f]",
			Evidence: &candorv1alpha1.Evidence{Total: 3, BySeverity: candorv1alpha1.SeverityCounts{Critical: 1, High: 2}},
		},
		Status: candorv1alpha1.FindingStatus{
			SeverityRank: 4, Fingerprint: "18a01a3c883280e4e3cec7f4695794bade1265ba83ec3bf5f5ceffaed03a947d",
			VerificationOutcome: candorv1alpha1.OutcomeStillPresent, Since: metav1.NewTime(at.Add(-48 * time.Hour)),
			Hypotheses: []candorv1alpha1.Hypothesis{{Cause: "WRITTEN-BY-A-MODEL", Rationale: "WRITTEN-BY-A-MODEL"}},
		},
	}
	for _, c := range change {
		c(f)
	}
	return f
}

// event is one of the Finding, half a minute before the message.
func event(f *candorv1alpha1.Finding, event candorv1alpha1.EventType, change ...func(*candorv1alpha1.Notification)) notify.Event {
	n := candorv1alpha1.Notification{
		Sink: "default/hooks", Event: event, Fingerprint: "18a01a3c883280e4", Severity: candorv1alpha1.SeverityCritical, At: metav1.NewTime(at.Add(-30 * time.Second)),
	}
	for _, c := range change {
		c(&n)
	}
	return notify.EventOf(f, n)
}

func raised(n *candorv1alpha1.Notification) { n.Before = candorv1alpha1.SeverityMedium }

func again(n *candorv1alpha1.Notification) { n.Occurrence = 1 }

func became(o candorv1alpha1.Outcome) func(*candorv1alpha1.Finding) {
	return func(f *candorv1alpha1.Finding) { f.Status.VerificationOutcome = o }
}

// messages returns one message of each kind, with all there is to say about a Finding.
func messages(f func(...func(*candorv1alpha1.Finding)) *candorv1alpha1.Finding) map[string]notify.Message {
	held := 88
	head := notify.Message{Namespace: "team-a", Policy: "default", Key: "0f1e2d3c4b5a69788796a5b4c3d2e1f0", At: at}
	with := func(kind notify.Kind, change func(*notify.Message)) notify.Message {
		m := head
		m.Kind = kind
		change(&m)
		return m
	}
	open := []notify.Event{notify.OpenEvent(f()), notify.OpenEvent(f(func(f *candorv1alpha1.Finding) { f.Name += "-2"; f.Status.SeverityRank = 3 }))}
	return map[string]notify.Message{
		"one": with(notify.KindEvents, func(m *notify.Message) { m.Events = []notify.Event{event(f(), candorv1alpha1.EventCreated)} }),
		"several": with(notify.KindEvents, func(m *notify.Message) {
			m.Events = []notify.Event{
				event(f(), candorv1alpha1.EventEscalated, raised),
				event(f(became(candorv1alpha1.OutcomeResolved)), candorv1alpha1.EventResolved),
				event(f(became(candorv1alpha1.OutcomeRecurred)), candorv1alpha1.EventRecurred, again),
				event(f(became(candorv1alpha1.OutcomeWorkloadGone)), candorv1alpha1.EventResolved, again),
				event(f(), candorv1alpha1.EventSuppressionEnded),
			}
		}),
		"digest": with(notify.KindDigest, func(m *notify.Message) {
			m.Open = open
			m.Digest = &notify.Digest{
				Since: at.Add(-24 * time.Hour), WindowSeconds: 86400, StillPresent: 16, Resolved: 9, Recurred: 1, Stale: 2, Muted: 3,
				BySeverity:          map[string]int{"CRITICAL": 5, "HIGH": 12},
				Changed:             notify.Changes{Created: 4, Escalated: 1, Resolved: 7, Recurred: 1},
				ResolvedHeldPercent: &held, Spent: notify.Spent{Calls: 12, Tokens: 48_211, CostMicros: 1_234_567, Shared: 31},
			}
		}),
		"summary": with(notify.KindSummary, func(m *notify.Message) {
			m.Open = open
			m.Summary = &notify.Summary{Open: 41, Muted: 2, BySeverity: map[string]int{"CRITICAL": 3, "HIGH": 38}}
		}),
		"budget": with(notify.KindBudget, func(m *notify.Message) {
			free := metav1.NewTime(at.Add(2 * time.Hour))
			m.Budget = &candorv1alpha1.BudgetStatus{Calls: 100, Tokens: 400_000, NextFree: &free}
		}),
	}
}

// many are so many events that no form tells of them at once.
func many(n int) notify.Message {
	m := notify.Message{Kind: notify.KindEvents, Namespace: "team-a", Policy: "default", At: at}
	for i := range n {
		f := finding(func(f *candorv1alpha1.Finding) { f.UID += "-" + "x"; f.Name = fmt.Sprintf("trivy-%d", i) })
		m.Events = append(m.Events, event(f, candorv1alpha1.EventEscalated, raised, func(n *candorv1alpha1.Notification) { n.Occurrence = int32(i) }))
	}
	return m
}
