// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

const (
	present   = candorv1alpha1.OutcomeStillPresent
	recurred  = candorv1alpha1.OutcomeRecurred
	resolved  = candorv1alpha1.OutcomeResolved
	gone      = candorv1alpha1.OutcomeWorkloadGone
	stale     = candorv1alpha1.OutcomeStale
	notAsked  = candorv1alpha1.OutcomeOutOfPolicy
	created   = candorv1alpha1.EventCreated
	escalated = candorv1alpha1.EventEscalated
	returned  = candorv1alpha1.EventRecurred
	ended     = candorv1alpha1.EventResolved
	unmuted   = candorv1alpha1.EventSuppressionEnded
)

func TestDue(t *testing.T) {
	was := func(outcome candorv1alpha1.Outcome, change ...func(*Snapshot)) Snapshot {
		s := Snapshot{Outcome: outcome, Severity: signals.High, Fingerprint: strings.Repeat("a", 64)}
		for _, c := range change {
			c(&s)
		}
		return s
	}
	muted := func(s *Snapshot) { s.Muted = true }
	other := func(s *Snapshot) { s.Fingerprint = strings.Repeat("b", 64) }
	worse := func(s *Snapshot) { s.Severity = signals.Critical }
	critical := func(s *Snapshot) { worse(s); other(s) }
	medium := func(s *Snapshot) { s.Severity = signals.Medium }
	again := func(s *Snapshot) { s.Recurred++ }
	formerly := func(o candorv1alpha1.Outcome) func(*Snapshot) { return func(s *Snapshot) { s.Former = o } }

	for name, c := range map[string]struct {
		before, after Snapshot
		event         candorv1alpha1.EventType
		raisedFrom    candorv1alpha1.Severity
	}{
		"a new Finding is created":                                              {before: Snapshot{}, after: was(present), event: created},
		"a new Finding that is muted says nothing":                              {before: Snapshot{}, after: was(present, muted)},
		"a Finding that ended before the first look says nothing":               {before: Snapshot{}, after: was(resolved)},
		"a Finding that was out of policy at the first look is created":         {before: was(notAsked), after: was(present), event: created},
		"a look that changes nothing says nothing":                              {before: was(present), after: was(present)},
		"a severity that rises escalates":                                       {before: was(present), after: was(present, critical), event: escalated, raisedFrom: "HIGH"},
		"a severity that rises while it is stale escalates on its return":       {before: was(stale), after: was(present, critical), event: escalated, raisedFrom: "HIGH"},
		"equal content that gets worse was muted in part":                       {before: was(present), after: was(present, worse), event: unmuted, raisedFrom: "HIGH"},
		"a severity that falls says nothing":                                    {before: was(present), after: was(present, medium)},
		"other content of the same severity says nothing":                       {before: was(present), after: was(present, other)},
		"evidence that goes away resolves":                                      {before: was(present), after: was(resolved), event: ended},
		"a workload that goes away resolves":                                    {before: was(recurred), after: was(gone), event: ended},
		"a stale Finding may resolve":                                           {before: was(stale), after: was(resolved), event: ended},
		"an end after an end says nothing":                                      {before: was(resolved), after: was(gone)},
		"a muted Finding ends in silence":                                       {before: was(present, muted), after: was(resolved, muted)},
		"evidence that comes back recurs":                                       {before: was(resolved), after: was(recurred, again), event: returned},
		"evidence that comes back worse recurs, and does not escalate besides":  {before: was(resolved), after: was(recurred, again, critical), event: returned},
		"a muted Finding comes back in silence":                                 {before: was(resolved, muted), after: was(recurred, again, muted)},
		"a mute that ends while it is open is told of":                          {before: was(present, muted), after: was(present), event: unmuted},
		"a mute that worse content ends tells of both in one":                   {before: was(present, muted), after: was(present, critical), event: unmuted, raisedFrom: "HIGH"},
		"a mute that ends when it ended says nothing":                           {before: was(resolved, muted), after: was(resolved)},
		"a mute that begins says nothing":                                       {before: was(present), after: was(present, muted)},
		"stale says nothing":                                                    {before: was(present), after: was(stale)},
		"a return from stale says nothing":                                      {before: was(stale), after: was(present)},
		"out of policy says nothing":                                            {before: was(present), after: was(notAsked, formerly(present))},
		"a return to the policy says nothing":                                   {before: was(notAsked, formerly(present)), after: was(present)},
		"an end while out of policy is told of on the return":                   {before: was(notAsked, formerly(present)), after: was(resolved), event: ended},
		"an end before it was out of policy is not told of twice":               {before: was(notAsked, formerly(resolved)), after: was(resolved)},
		"a return to the policy of what had ended is neither new nor recurring": {before: was(notAsked, formerly(resolved)), after: was(present, critical)},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			due, is := Due(c.before, c.after)
			if c.event == "" {
				g.Expect(is).To(BeFalse(), "but %s is due", due.Event)
				return
			}
			g.Expect(is).To(BeTrue())
			g.Expect(due).To(Equal(Occasion{
				Event: c.event, Fingerprint: c.after.Fingerprint[:16], Occurrence: c.after.Recurred, Severity: c.after.Severity.Severity(), Before: c.raisedFrom,
			}))
		})
	}
}

func TestASnapshotIsReadFromTheStatus(t *testing.T) {
	g := NewWithT(t)
	status := candorv1alpha1.FindingStatus{
		VerificationOutcome: notAsked, FormerOutcome: present, SeverityRank: 3, Fingerprint: "f", TimesRecurred: 2,
		Conditions: candorv1alpha1.Conditions{{Type: candorv1alpha1.ConditionSuppressed, Status: metav1.ConditionTrue}},
	}
	g.Expect(Of(&status)).To(Equal(Snapshot{
		Outcome: notAsked, Former: present, Severity: signals.High, Fingerprint: "f", Recurred: 2, Muted: true,
	}))
	status.SeverityRank = 77
	status.Conditions[0].Status = metav1.ConditionFalse
	g.Expect(Of(&status).Severity).To(Equal(signals.Critical), "whatever is written there")
	g.Expect(Of(&status).Muted).To(BeFalse())
}

func TestAnUnratedFindingLeavesTheSeverityOut(t *testing.T) {
	g := NewWithT(t)
	due, is := Due(Snapshot{}, Snapshot{Outcome: present})
	g.Expect(is).To(BeTrue())
	g.Expect(due.Severity).To(BeEmpty(), "the API refuses UNKNOWN")
}
