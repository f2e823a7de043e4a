// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package suppression

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

// cases is how many random namespaces each property is held to.
const cases = 500

// some returns each of the values with even odds, and at least one.
func some(r *rand.Rand, prefix string, n int) []string {
	var values []string
	for i := range n {
		if r.IntN(n) == 0 {
			values = append(values, fmt.Sprint(prefix, i))
		}
	}
	if len(values) == 0 {
		values = []string{fmt.Sprint(prefix, r.IntN(n))}
	}
	return values
}

func randomSuppressions(r *rand.Rand) []candorv1alpha1.Suppression {
	var all []candorv1alpha1.Suppression
	for i := range r.IntN(9) {
		s := mute(fmt.Sprint("s", i), "", created(-time.Duration(r.IntN(100))*time.Hour))
		for _, c := range []change{
			ids(some(r, "CVE-", 4)...), packages(some(r, "p", 4)...), repositories(some(r, "base/i", 2)...),
			workload("Deployment", fmt.Sprint("w", r.IntN(2))), content(fmt.Sprint("print", r.IntN(2))), until(time.Duration(r.IntN(5)-2) * time.Hour), deleted,
		} {
			if r.IntN(4) == 0 {
				c(&s)
			}
		}
		all = append(all, s)
	}
	return all
}

func randomFinding(r *rand.Rand) (Facts, []signals.Entry) {
	facts := Facts{
		Kind: "Deployment", Name: fmt.Sprint("w", r.IntN(2)), Fingerprint: fmt.Sprint("print", r.IntN(2)),
		Artifact: candorv1alpha1.Artifact{Registry: "quay.io", Repository: fmt.Sprint("base/i", r.IntN(2))},
	}
	var entries []signals.Entry
	for range 1 + r.IntN(12) {
		e := entry(fmt.Sprint("CVE-", r.IntN(4)), fmt.Sprint("p", r.IntN(4)), "1")
		e.Rank = signals.Rank(r.IntN(5))
		entries = append(entries, e)
	}
	return facts, entries
}

func TestTheOrderOfSuppressionsDoesNotMatter(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	for i := range cases {
		suppressions, longest := randomSuppressions(r), time.Duration(r.IntN(3))*2*day
		facts, entries := randomFinding(r)
		want := Compile(suppressions, longest)
		r.Shuffle(len(suppressions), func(a, b int) { suppressions[a], suppressions[b] = suppressions[b], suppressions[a] })
		got := Compile(suppressions, longest)
		g := NewWithT(t)
		g.Expect(got.Judge(facts, entries, now)).To(Equal(want.Judge(facts, entries, now)), "case %d", i)
		g.Expect(got.Whole(facts, now)).To(Equal(want.Whole(facts, now)), "case %d", i)
	}
}

// TestAnEntryIsMutedByOneSuppressionAtLeast compares with the words of the API, one entry and one Suppression at a time.
func TestAnEntryIsMutedByOneSuppressionAtLeast(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 2))
	for i := range cases {
		suppressions, longest := randomSuppressions(r), time.Duration(r.IntN(3))*2*day
		facts, entries := randomFinding(r)
		var left []signals.Entry
		for _, e := range entries {
			if !slices.ContainsFunc(suppressions, func(s candorv1alpha1.Suppression) bool { return says(s, facts, e, longest) }) {
				left = append(left, e)
			}
		}
		got := Compile(suppressions, longest).Judge(facts, entries, now)
		g := NewWithT(t)
		g.Expect(got.Muted).To(Equal(len(entries)-len(left)), "case %d", i)
		if len(left) == 0 {
			g.Expect(got.Left).To(BeEmpty(), "case %d", i)
		} else {
			g.Expect(got.Left).To(Equal(left), "case %d", i)
		}
		g.Expect(got.By != nil).To(Equal(got.Muted > 0), "case %d", i)
		g.Expect(got.Next.IsZero() || got.Next.After(now)).To(BeTrue(), "case %d", i)
	}
}

func says(s candorv1alpha1.Suppression, f Facts, e signals.Entry, longest time.Duration) bool {
	within := func(names []string, name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	w, end := s.Spec.Workload, End(&s, longest)
	return !Whole(&s) && s.DeletionTimestamp == nil && (end.IsZero() || end.After(now)) &&
		within(s.Spec.VulnerabilityIDs, e.ID) && within(s.Spec.Packages, e.Package) && within(s.Spec.ImageRepositories, f.Artifact.Repository) &&
		(w == nil || *w == candorv1alpha1.WorkloadScope{Kind: f.Kind, Name: f.Name}) && (s.Spec.Fingerprint == "" || s.Spec.Fingerprint == f.Fingerprint)
}

func TestAVerdictHoldsUntilItSaysSo(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 3))
	for i := range cases {
		scopes := Compile(randomSuppressions(r), 0)
		facts, entries := randomFinding(r)
		first := scopes.Judge(facts, entries, now)
		later := now.Add(time.Duration(r.IntN(600)) * time.Minute)
		if !first.Next.IsZero() && !later.Before(first.Next) {
			later = first.Next.Add(-time.Nanosecond)
		}
		NewWithT(t).Expect(scopes.Judge(facts, entries, later)).To(Equal(first), "case %d", i)
	}
}

// TestSuppressionsAreCountedTogetherAsEachByItself also has names that are written as a Finding shows them.
func TestSuppressionsAreCountedTogetherAsEachByItself(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 5))
	for i := range cases {
		suppressions := randomSuppressions(r)
		facts, entries := randomFinding(r)
		long := entry("CVE-"+strings.Repeat("9", 100), strings.Repeat("p", 200), strings.Repeat("1", 100))
		shown := signals.Show(long)
		entries = append(entries, long)
		suppressions = append(suppressions, mute("long", "", ids(long.ID, shown.ID), packages(long.Package, shown.Package, shown.Package+"@"+shown.Installed)))
		got := Compile(suppressions, 0).Counts(facts, entries)
		for _, s := range suppressions {
			want := ScopeOf(&s, 0).Count(facts, entries)
			if Whole(&s) || s.DeletionTimestamp != nil {
				want = 0
			}
			NewWithT(t).Expect(got[s.Name]).To(Equal(want), "case %d, %s", i, s.Name)
		}
	}
}
