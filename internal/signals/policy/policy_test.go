// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/builder"
)

func asking(change func(*candorv1alpha1.SignalPolicySpec), providers ...string) candorv1alpha1.SignalPolicy {
	p := builder.Policy("team-a", "default", providers)
	change(&p.Spec)
	return *p
}

func severity(s candorv1alpha1.Severity) func(*candorv1alpha1.SignalPolicySpec) {
	return func(spec *candorv1alpha1.SignalPolicySpec) { spec.MinSeverity = s }
}

func unknown(u candorv1alpha1.UnknownSeverity) func(*candorv1alpha1.SignalPolicySpec) {
	return func(spec *candorv1alpha1.SignalPolicySpec) { spec.UnknownSeverity = u }
}

func fixable(spec *candorv1alpha1.SignalPolicySpec) { spec.OnlyFixable = true }

func nothing(*candorv1alpha1.SignalPolicySpec) {}

func TestPoliciesOfANamespaceAddUp(t *testing.T) {
	ended := asking(severity(candorv1alpha1.SeverityLow), "trivy")
	ended.DeletionTimestamp = &metav1.Time{Time: metav1.Unix(1, 0).Time}
	for name, test := range map[string]struct {
		policies []candorv1alpha1.SignalPolicy
		want     Ask
		asked    bool
	}{
		"no policy asks for nothing":                        {nil, Ask{MinRank: signals.Critical, OnlyFixable: true}, false},
		"a policy of another provider asks for nothing":     {[]candorv1alpha1.SignalPolicy{asking(nothing, "trivy/config", "falco")}, Ask{MinRank: signals.Critical, OnlyFixable: true}, false},
		"a policy that is being deleted asks for nothing":   {[]candorv1alpha1.SignalPolicy{ended}, Ask{MinRank: signals.Critical, OnlyFixable: true}, false},
		"a policy that says nothing asks for HIGH":          {[]candorv1alpha1.SignalPolicy{asking(nothing, "falco", "trivy")}, Ask{MinRank: signals.High}, true},
		"a policy that says a word nobody knows means HIGH": {[]candorv1alpha1.SignalPolicy{asking(severity("BAD"), "trivy")}, Ask{MinRank: signals.High}, true},
		"the lowest threshold counts": {
			[]candorv1alpha1.SignalPolicy{asking(severity(candorv1alpha1.SeverityCritical), "trivy"), asking(severity(candorv1alpha1.SeverityMedium), "trivy")},
			Ask{MinRank: signals.Medium},
			true,
		},
		"the threshold of a policy that is being deleted does not count": {
			[]candorv1alpha1.SignalPolicy{ended, asking(severity(candorv1alpha1.SeverityCritical), "trivy")}, Ask{MinRank: signals.Critical}, true,
		},
		"the threshold for another provider does not count": {
			[]candorv1alpha1.SignalPolicy{asking(severity(candorv1alpha1.SeverityLow), "trivy/rbac"), asking(severity(candorv1alpha1.SeverityCritical), "trivy")},
			Ask{MinRank: signals.Critical},
			true,
		},
		"only what is fixable, when every policy says so": {
			[]candorv1alpha1.SignalPolicy{asking(fixable, "trivy"), asking(fixable, "trivy")}, Ask{MinRank: signals.High, OnlyFixable: true}, true,
		},
		"everything, when one policy says so": {
			[]candorv1alpha1.SignalPolicy{asking(fixable, "trivy"), asking(nothing, "trivy")}, Ask{MinRank: signals.High}, true,
		},
		"unrated entries count as the worst that a policy says": {
			[]candorv1alpha1.SignalPolicy{
				asking(unknown(candorv1alpha1.UnknownLow), "trivy"), asking(unknown(candorv1alpha1.UnknownHigh), "trivy"), asking(unknown(candorv1alpha1.UnknownIgnore), "trivy"),
			},
			Ask{MinRank: signals.High, Unknown: signals.High},
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ask, asked := For(test.policies, "trivy")
			NewWithT(t).Expect(ask).To(BeComparableTo(test.want))
			NewWithT(t).Expect(asked).To(Equal(test.asked))
		})
	}
}

func TestTheOrderOfPoliciesMeansNothing(t *testing.T) {
	a, b := asking(severity(candorv1alpha1.SeverityLow), "trivy"), asking(fixable, "trivy")
	ab, _ := For([]candorv1alpha1.SignalPolicy{a, b}, "trivy")
	ba, _ := For([]candorv1alpha1.SignalPolicy{b, a}, "trivy")
	NewWithT(t).Expect(ab).To(Equal(ba))
}

func TestSelectTakesWhatIsAskedFor(t *testing.T) {
	critical := signals.Entry{Rank: signals.Critical, ID: "critical", Package: "p"}
	high := signals.Entry{Rank: signals.High, ID: "high", Package: "p", Fixed: "2"}
	low := signals.Entry{Rank: signals.Low, ID: "low", Package: "p"}
	unrated := signals.Entry{ID: "unrated", Package: "p"}
	check := signals.Entry{Rank: signals.High, ID: "check", Message: "a check has no package and no fixed version"}
	for name, test := range map[string]struct {
		ask  Ask
		from []signals.Entry
		want signals.Evidence
	}{
		"nothing from nothing":                   {Ask{MinRank: signals.Low}, nil, signals.Evidence{}},
		"entries at the threshold":               {Ask{MinRank: signals.High}, []signals.Entry{critical, high, low}, signals.Evidence{Entries: []signals.Entry{critical, high}, Worst: signals.Critical}},
		"nothing below the threshold":            {Ask{MinRank: signals.High}, []signals.Entry{low}, signals.Evidence{}},
		"what is fixable":                        {Ask{MinRank: signals.Low, OnlyFixable: true}, []signals.Entry{critical, high, low}, signals.Evidence{Entries: []signals.Entry{high}, Worst: signals.High}},
		"checks, which are fixable always":       {Ask{MinRank: signals.Low, OnlyFixable: true}, []signals.Entry{check}, signals.Evidence{Entries: []signals.Entry{check}, Worst: signals.High}},
		"no unrated entry when they are ignored": {Ask{MinRank: signals.Low}, []signals.Entry{high, unrated}, signals.Evidence{Entries: []signals.Entry{high}, Worst: signals.High}},
		"unrated entries at the severity that they count as": {
			Ask{MinRank: signals.High, Unknown: signals.High}, []signals.Entry{unrated}, signals.Evidence{Entries: []signals.Entry{unrated}, Worst: signals.High},
		},
		"no unrated entry that counts as too mild": {Ask{MinRank: signals.Medium, Unknown: signals.Low}, []signals.Entry{unrated}, signals.Evidence{}},
		"no unrated entry without a fix":           {Ask{MinRank: signals.Low, Unknown: signals.High, OnlyFixable: true}, []signals.Entry{unrated}, signals.Evidence{}},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(test.ask.Select(test.from)).To(BeComparableTo(test.want)) })
	}
}

func TestUnratedEntriesAloneAreNoProofOfClean(t *testing.T) {
	unrated, low := signals.Entry{ID: "unrated"}, signals.Entry{Rank: signals.Low, ID: "low"}
	for name, test := range map[string]struct {
		ask     Ask
		entries []signals.Entry
		want    bool
	}{
		"unknown-only: unrated entries that are ignored prove nothing": {Ask{MinRank: signals.High}, []signals.Entry{unrated, unrated}, true},
		"unknown-only: unrated entries that count as mild are proof":   {Ask{MinRank: signals.High, Unknown: signals.Low}, []signals.Entry{unrated}, false},
		"an unrated entry beside a rated one changes nothing":          {Ask{MinRank: signals.High}, []signals.Entry{low, unrated}, false},
		"a report without entries is proof":                            {Ask{MinRank: signals.High}, nil, false},
		"a report of entries below the threshold is proof":             {Ask{MinRank: signals.High}, []signals.Entry{low}, false},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(test.ask.ProvesNothing(test.entries)).To(Equal(test.want)) })
	}
}
