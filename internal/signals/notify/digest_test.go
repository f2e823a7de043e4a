// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/budget"
)

// aFinding was first seen, and became what it is, a time after the start.
func aFinding(severity candorv1alpha1.Severity, outcome candorv1alpha1.Outcome, after time.Duration, change ...func(*candorv1alpha1.Finding)) candorv1alpha1.Finding {
	at := metav1.NewTime(start.Add(after))
	f := candorv1alpha1.Finding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "trivy-fa8dd5a24c3a3453cefb", UID: uid},
		Spec:       candorv1alpha1.FindingSpec{Source: candorv1alpha1.Source{Provider: "trivy", Kind: "Deployment", Name: "web", Container: "nginx"}, Severity: severity},
		Status: candorv1alpha1.FindingStatus{
			SeverityRank: int32(signals.RankOf(string(severity))), VerificationOutcome: outcome, FirstSeen: at, Since: at, Fingerprint: "0123456789abcdef0123",
		},
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

func mute(f *candorv1alpha1.Finding) {
	f.Status.Conditions = candorv1alpha1.Conditions{{Type: candorv1alpha1.ConditionSuppressed, Status: metav1.ConditionTrue}}
}

const day = 24 * time.Hour

func since(after time.Duration) func(*candorv1alpha1.Finding) {
	return func(f *candorv1alpha1.Finding) { f.Status.Since = metav1.NewTime(start.Add(after)) }
}

func TestADigestCountsWhatIsAndWhatChanged(t *testing.T) {
	g := NewWithT(t)
	another := func(f *candorv1alpha1.Finding) { f.Spec.Source.Provider = "trivy/config" }
	explained := func(after time.Duration, from string) func(*candorv1alpha1.Finding) {
		return func(f *candorv1alpha1.Finding) {
			f.Status.Enrichment = &candorv1alpha1.Enrichment{SharedFrom: from, At: metav1.NewTime(start.Add(after))}
		}
	}
	raised := func(minute int, sink string) func(*candorv1alpha1.Finding) {
		return func(f *candorv1alpha1.Finding) {
			f.Status.Notified = append(f.Status.Notified, entry(sink, escalated, minute, sent))
		}
	}
	findings := []candorv1alpha1.Finding{
		aFinding("CRITICAL", present, -9*day, raised(60, "p/a"), raised(120, "p/a")),
		aFinding("CRITICAL", present, time.Hour, explained(2*time.Hour, "team-b/trivy-0")),
		aFinding("HIGH", present, -9*day, explained(-time.Hour, "team-b/trivy-0"), raised(60, "p/b"), raised(-60, "p/a")),
		aFinding("HIGH", recurred, -9*day, since(time.Hour)),
		aFinding("HIGH", recurred, -9*day, since(-time.Hour)),
		aFinding("HIGH", resolved, -9*day, since(time.Hour)),
		aFinding("HIGH", gone, time.Hour, since(2*time.Hour)),
		aFinding("HIGH", resolved, -9*day),
		aFinding("HIGH", stale, -9*day, since(time.Hour)),
		aFinding("HIGH", notAsked, -9*day, since(time.Hour)),
		aFinding("CRITICAL", present, time.Hour, mute),
		aFinding("CRITICAL", resolved, time.Hour, mute),
		aFinding("MEDIUM", present, time.Hour),
		aFinding("CRITICAL", present, time.Hour, another, explained(time.Hour, "")),
		aFinding("CRITICAL", present, day+time.Hour, func(f *candorv1alpha1.Finding) { f.DeletionTimestamp = &metav1.Time{Time: start} }),
	}
	p := aPolicy("p", 1, aSink("a"))
	d := NewDigest(findings, Targets(&p)[0], start, start.Add(day), budget.Cost{Calls: 3, Tokens: 9000, CostMicros: 120_000})
	held := 67
	g.Expect(d).To(Equal(Digest{
		Since: start, WindowSeconds: 86400,
		StillPresent: 3, Resolved: 3, Recurred: 2, Stale: 1, Muted: 1, BySeverity: map[string]int{"CRITICAL": 2, "HIGH": 3},
		Changed: Changes{Created: 2, Escalated: 1, Resolved: 2, Recurred: 1}, ResolvedHeldPercent: &held,
		Spent: Spent{Calls: 3, Tokens: 9000, CostMicros: 120_000, Shared: 1},
	}))
}

func TestADigestOfNothingSaysSo(t *testing.T) {
	g := NewWithT(t)
	p := aPolicy("p", 1, aSink("a"))
	g.Expect(NewDigest(nil, Targets(&p)[0], start.Add(day), start, budget.Cost{})).To(Equal(Digest{
		Since: start.Add(day), BySeverity: map[string]int{},
	}), "also where the clock ran backwards")
}

func TestASummaryCountsWhatIsOpen(t *testing.T) {
	g := NewWithT(t)
	p := aPolicy("p", 1, aSink("a", func(s *candorv1alpha1.Sink) { s.MinSeverity = "CRITICAL" }))
	findings := []candorv1alpha1.Finding{
		aFinding("CRITICAL", present, -time.Hour), aFinding("CRITICAL", recurred, -time.Minute), aFinding("CRITICAL", present, 0, mute),
		aFinding("CRITICAL", resolved, 0), aFinding("HIGH", present, time.Minute),
	}
	s, upTo := NewSummary(findings, Targets(&p)[0])
	g.Expect(s).To(Equal(Summary{Open: 2, Muted: 1, BySeverity: map[string]int{"CRITICAL": 2}}))
	g.Expect(upTo).To(BeTemporally("==", start.Add(time.Minute)), "the newest of all, or a sink with a milder threshold would hear of it later")
	open, quiet := Targets(&p)[0].Open(findings)
	g.Expect(open).To(HaveLen(2))
	g.Expect(quiet).To(HaveExactElements(HaveField("Severity", BeEmpty())), "what is muted")

	_, upTo = NewSummary(nil, Targets(&p)[0])
	g.Expect(upTo).To(BeZero())
}

func TestASinkMayHaveBeenToldOfWhatIsMilderNow(t *testing.T) {
	g := NewWithT(t)
	p := aPolicy("p", 1, aSink("a", func(s *candorv1alpha1.Sink) { s.MinSeverity = "CRITICAL" }))
	p.Status.Sinks = []candorv1alpha1.SinkStatus{{Name: "a", SummarisedAt: metav1.NewTime(start)}}
	named := func(name string, first time.Duration, change ...func(*candorv1alpha1.Finding)) candorv1alpha1.Finding {
		f := aFinding("HIGH", present, first, change...)
		f.Name = name
		return f
	}
	told := func(f *candorv1alpha1.Finding) { f.Status.Notified = []candorv1alpha1.Notification{{Sink: "p/a"}} }
	others := func(f *candorv1alpha1.Finding) { f.Spec.Source.Provider = "falco"; told(f) }
	open, quiet := Targets(&p)[0].Open([]candorv1alpha1.Finding{
		named("in-the-summary", -time.Hour), named("told", time.Hour, told), named("new", time.Hour), named("of-another-policy", -time.Hour, others),
	})
	g.Expect(open).To(BeEmpty())
	var names []string
	for _, e := range quiet {
		names = append(names, e.Finding)
	}
	g.Expect(names).To(Equal([]string{"in-the-summary", "told"}))
}

func TestTheFirstSyncIsOverWhenItIsQuiet(t *testing.T) {
	for name, c := range map[string]struct {
		findings []candorv1alpha1.Finding
		wait     time.Duration
	}{
		"without Findings":                              {nil, 0},
		"when the newest is half a minute old":          {[]candorv1alpha1.Finding{aFinding("HIGH", present, -time.Hour), aFinding("HIGH", present, -QuietFor)}, 0},
		"not when one is newer":                         {[]candorv1alpha1.Finding{aFinding("HIGH", present, -10*time.Second), aFinding("HIGH", present, -time.Hour)}, 20 * time.Second},
		"not while one was not looked at":               {[]candorv1alpha1.Finding{aFinding("HIGH", present, -time.Hour), {}}, QuietFor},
		"in half a minute where one is from the future": {[]candorv1alpha1.Finding{aFinding("HIGH", present, time.Hour)}, QuietFor},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(Unsettled(c.findings, start)).To(Equal(c.wait)) })
	}
}

func TestMessagesAboutAPolicy(t *testing.T) {
	g := NewWithT(t)
	digest, exhausted := candorv1alpha1.EventDigest, candorv1alpha1.EventBudgetExhausted
	at := func(hours int) time.Time { return start.Add(time.Duration(hours) * time.Hour) }

	waits := QueueMessage(nil, "u", "a", digest, at(-24), at(0))
	waits = QueueMessage(waits, "u", "a", exhausted, at(0), at(0))
	g.Expect(waits).To(HaveLen(2))
	g.Expect(waits[0].Key).To(Equal(PolicyKey("u", digest, at(0), "a")))
	g.Expect(waits[0].Key).NotTo(Equal(waits[1].Key))
	g.Expect(QueueMessage(waits, "u", "a", digest, at(-24), at(0))).To(Equal(waits), "once is once")

	waits, failed := RecordMessages(waits, []Result{{Key: waits[0].Key, At: at(1)}, {Key: waits[1].Key, At: at(1), Delivered: true}, {Key: "another"}})
	g.Expect(failed).To(BeEmpty())
	g.Expect(waits).To(HaveLen(1))
	g.Expect(waits[0].Attempts).To(Equal(int32(1)))
	g.Expect(waits[0].NextAttempt.Time).To(BeTemporally("==", at(1).Add(30*time.Second)))

	next := QueueMessage(waits, "u", "a", digest, at(0), at(24))
	g.Expect(next).To(HaveLen(1), "the digest that nobody had is part of the next one")
	g.Expect(next[0].Since.Time).To(BeTemporally("==", at(-24)))
	g.Expect(next[0].At.Time).To(BeTemporally("==", at(24)))
	g.Expect(next[0].Key).NotTo(Equal(waits[0].Key), "which is another message")

	waits, failed = RecordMessages(waits, []Result{{Key: waits[0].Key, At: at(24)}})
	g.Expect(waits).To(BeEmpty())
	g.Expect(failed).To(HaveLen(1))
}

func TestASummaryIsSentHoweverLate(t *testing.T) {
	g := NewWithT(t)
	at := func(hours int) time.Time { return start.Add(time.Duration(hours) * time.Hour) }
	waits := QueueMessage(nil, "policy", "default/hook", created, at(0), at(0))
	waits = QueueMessage(waits, "policy", "default/hook", candorv1alpha1.EventBudgetExhausted, at(0), at(0))
	waits, failed := RecordMessages(waits, []Result{{Key: waits[0].Key, At: at(72)}, {Key: waits[1].Key, At: at(72)}})
	g.Expect(failed).To(HaveExactElements(HaveField("Event", candorv1alpha1.EventBudgetExhausted)))
	g.Expect(waits).To(HaveExactElements(And(HaveField("Event", created), HaveField("NextAttempt.Time", at(72).Add(firstBackoff)))))
}
