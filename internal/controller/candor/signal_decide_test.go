// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/receiver"
	"github.com/candor-dev/candor/test/builder"
)

// posted is a signal about a full disk, of severity HIGH, at noon.
func posted(change ...func(*posting)) posting {
	p := posting{
		id:     signals.PostedTo("team-a", "default", "disk", "Deployment", "web", ""),
		signal: receiver.Signal{Severity: candorv1alpha1.SeverityHigh, ID: "disk", Kind: "Deployment", Name: "web", Summary: "The disk is full.", At: noon},
		policy: builder.Policy("team-a", "default", []string{"webhook"}, func(p *candorv1alpha1.SignalPolicy) {
			p.Spec.WebhookReceiver = &candorv1alpha1.WebhookReceiver{StaleAfter: &metav1.Duration{Duration: 8 * time.Hour}}
		}),
		now: noon,
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

// after is of a signal that was signed, and came, so much later.
func after(wait time.Duration) func(*posting) {
	return func(p *posting) { p.now, p.signal.At = p.now.Add(wait), p.signal.At.Add(wait) }
}

// unsigned is of a signal without a time.
func unsigned(p *posting) { p.signal.At = time.Time{} }

// heard has a Finding say when it heard of its signal.
func heard(f *candorv1alpha1.Finding, at time.Time) *candorv1alpha1.Finding {
	metav1.SetMetaDataAnnotation(&f.ObjectMeta, candorv1alpha1.AnnotationSignalledAt, at.Format(time.RFC3339))
	return f
}

func rated(severity candorv1alpha1.Severity) func(*posting) {
	return func(p *posting) { p.signal.Severity = severity }
}

func over(p *posting) { p.signal.Resolved = true }

func worded(summary string) func(*posting) { return func(p *posting) { p.signal.Summary = summary } }

// onlyCritical is of a policy that asks for nothing else.
func onlyCritical(p *posting) { p.policy.Spec.MinSeverity = candorv1alpha1.SeverityCritical }

// standing is the Finding that posted made, as something else observed it since.
func standing(observed candorv1alpha1.Observation) *candorv1alpha1.Finding {
	f := posted().decide(nil).after
	observe(f, observed)
	return f
}

func TestWhatBecomesOfASignal(t *testing.T) {
	present, cleared := candorv1alpha1.ObservedPresent, candorv1alpha1.ObservedCleared
	missing, gone, excluded := candorv1alpha1.ObservedMissing, candorv1alpha1.ObservedOwnerGone, candorv1alpha1.ObservedExcluded
	const keeps = candorv1alpha1.Observation("keeps")
	for name, test := range map[string]struct {
		finding *candorv1alpha1.Finding
		posting posting
		want    receiver.Result
		// observed is what the Finding says then; keeps where nothing is written.
		observed candorv1alpha1.Observation
		opens    bool
	}{
		"of which nothing is known makes a Finding":              {nil, posted(), receiver.Created, present, true},
		"of which nothing is known, and that is over":            {nil, posted(over), receiver.Unchanged, keeps, false},
		"that is milder than the policy asks for":                {nil, posted(onlyCritical), receiver.Filtered, keeps, false},
		"that says the same":                                     {standing(present), posted(after(time.Minute)), receiver.Unchanged, keeps, false},
		"that says the same after an eighth of the time is kept": {standing(present), posted(after(time.Hour + time.Second)), receiver.Unchanged, present, false},
		"of the same second":                                     {standing(present), posted(rated("CRITICAL")), receiver.Updated, present, false},
		"that is worse":                                          {standing(present), posted(after(time.Second), rated("CRITICAL")), receiver.Updated, present, false},
		"in other words":                                         {standing(present), posted(after(time.Second), worded("It is fuller.")), receiver.Updated, present, false},
		"that was signed before the last":                        {standing(present), posted(after(-time.Second), rated("CRITICAL")), receiver.Late, keeps, false},
		"that is over, and was signed before the last":           {standing(present), posted(after(-time.Second), over), receiver.Late, keeps, false},
		"that is over":                                           {standing(present), posted(over), receiver.Resolved, cleared, false},
		"that is over, of a Finding that is stale":               {standing(missing), posted(over), receiver.Resolved, cleared, false},
		"that is over, of a Finding that nobody asks for":        {standing(excluded), posted(over), receiver.Resolved, cleared, false},
		"that is over, and was before":                           {standing(cleared), posted(over), receiver.Unchanged, keeps, false},
		"that is over, of a workload that is gone":               {standing(gone), posted(over), receiver.Unchanged, keeps, false},
		"that comes back":                                        {standing(cleared), posted(), receiver.Updated, present, true},
		"of a workload that comes back":                          {standing(gone), posted(), receiver.Updated, present, true},
		"that is heard of again":                                 {standing(missing), posted(), receiver.Updated, present, false},
		"that becomes milder than the policy asks for":           {standing(present), posted(rated("LOW")), receiver.Resolved, cleared, false},
		"that stays as it is while the policy asks for worse":    {standing(present), posted(onlyCritical), receiver.Filtered, keeps, false},
		"that is excluded and becomes milder":                    {standing(excluded), posted(onlyCritical, rated("MEDIUM")), receiver.Resolved, cleared, false},
		"that is mild and had ended":                             {standing(cleared), posted(rated("LOW")), receiver.Filtered, keeps, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before := test.finding.DeepCopy()
			d := test.posting.decide(test.finding)
			g.Expect(d.result).To(Equal(test.want))
			g.Expect(d.opens).To(Equal(test.opens))
			g.Expect(test.finding).To(Equal(before), "what was read is changed")
			if test.observed == keeps {
				g.Expect(d.after).To(BeNil())
				return
			}
			g.Expect(d.after.Spec.Observed).To(Equal(test.observed))
			g.Expect(signalledAt(d.after, test.posting.now)).To(BeTemporally("==", test.posting.at(test.finding)))
			g.Expect(signals.IdentityOf(d.after)).To(Equal(test.posting.id))
			g.Expect(test.posting.decide(d.after).after).To(BeNil(), "the second time something is written")
		})
	}
}

func TestAFindingThatDoesNotSayWhenTakesWhatComes(t *testing.T) {
	for name, said := range map[string]string{"nothing": "", "something else": "yesterday"} {
		t.Run(name, func(t *testing.T) {
			f := standing(candorv1alpha1.ObservedPresent)
			f.Annotations[candorv1alpha1.AnnotationSignalledAt] = said
			d := posted(over, after(-time.Hour)).decide(f)
			NewWithT(t).Expect(d.result).To(Equal(receiver.Resolved))
		})
	}
}

func TestAPolicyIsFullByWhatStandsAndByWhatIsKept(t *testing.T) {
	p := builder.Policy("team-a", "default", []string{"webhook"}, func(p *candorv1alpha1.SignalPolicy) {
		p.Spec.WebhookReceiver = &candorv1alpha1.WebhookReceiver{MaxFindings: 2}
	})
	other := standing(candorv1alpha1.ObservedPresent)
	other.Spec.Source.RefKind = "WebhookEvent/other"
	report := standing(candorv1alpha1.ObservedPresent)
	report.Spec.Source.Provider = "trivy"
	strangers := []candorv1alpha1.Finding{*other, *other, *report, *report}
	for name, test := range map[string]struct {
		standing, ended int
		want            bool
	}{
		"empty": {0, 0, false}, "nearly": {1, 18, false}, "of what stands": {2, 0, true}, "of what is kept": {1, 19, true},
	} {
		t.Run(name, func(t *testing.T) {
			findings := strangers
			for range test.standing {
				findings = append(findings, *standing(candorv1alpha1.ObservedExcluded))
			}
			for range test.ended {
				findings = append(findings, *standing(candorv1alpha1.ObservedCleared))
			}
			NewWithT(t).Expect(crowd(findings, p).full(p)).To(Equal(test.want))
		})
	}
}

func TestASignalWithoutATimeIsNeverLate(t *testing.T) {
	g := NewWithT(t)
	ahead := noon.Add(time.Minute) // by the clock of the replica that heard of it
	d := posted(unsigned, over).decide(heard(standing(candorv1alpha1.ObservedPresent), ahead))
	g.Expect(d.result).To(Equal(receiver.Resolved))
	g.Expect(signalledAt(d.after, noon)).To(BeTemporally("==", ahead), "what was signed before stays late")
}

func TestAClockThatWasWrongMakesNothingLate(t *testing.T) {
	year := 365 * 24 * time.Hour
	for name, p := range map[string]posting{"with a time": posted(over), "without a time": posted(over, unsigned)} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := p.decide(heard(standing(candorv1alpha1.ObservedPresent), noon.Add(year)))
			g.Expect(d.result).To(Equal(receiver.Resolved))
			g.Expect(signalledAt(d.after, noon)).To(BeTemporally("==", noon))
		})
	}
	repeated := posted().decide(heard(standing(candorv1alpha1.ObservedPresent), noon.Add(year)))
	NewWithT(t).Expect(signalledAt(repeated.after, noon)).To(BeTemporally("==", noon), "and is written over")
}
