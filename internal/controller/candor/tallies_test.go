// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/suppression"
	"github.com/candor-dev/candor/test/builder"
)

// crowdedFinding is one that several Suppressions mute entries of, with its entries.
func crowdedFinding(name string, n int) (*candorv1alpha1.Finding, []signals.Entry) {
	var entries []signals.Entry
	for i := range n {
		entries = append(entries, signals.Entry{ID: fmt.Sprint("CVE-", i), Package: "p", Rank: signals.High})
	}
	id := signals.Identity{Provider: "trivy", Namespace: "team-a", Kind: "Deployment", Name: name}
	f := &candorv1alpha1.Finding{Spec: signals.Spec(signals.Class{}, id, signals.Report{Name: name}, signals.Evidence{Entries: entries, Worst: signals.High})}
	f.Namespace, f.Name = id.Namespace, id.FindingName()
	f.Spec.Evidence.Muted, f.Spec.Evidence.MutedBy = 2, []string{"a", "b"}
	return f, entries
}

func TestReportsAreReadOnceForAllSuppressionsThatMuteEntriesOfAFinding(t *testing.T) {
	g := NewWithT(t)
	f, entries := crowdedFinding("web", 3)
	var all []candorv1alpha1.Suppression
	for i, name := range []string{"a", "b", "c"} {
		all = append(all, *builder.Suppression("team-a", name, "", func(s *candorv1alpha1.Suppression) {
			s.Generation, s.Spec.VulnerabilityIDs = 1, []string{"CVE-0", fmt.Sprint("CVE-", i)}
		}))
	}
	mutes, reads := NewMutes(nil), 0
	mutes.compiled["team-a"] = suppression.Compile(all, 0)
	s := &SuppressionSyncer{Mutes: mutes, Lines: func(context.Context, signals.Identity) ([]signals.Entry, bool, error) {
		reads++
		return entries, true, nil
	}}
	count := func(sup candorv1alpha1.Suppression) int32 {
		n, err := s.several(t.Context(), &sup, suppression.ScopeOf(&sup, 0), f)
		g.Expect(err).NotTo(HaveOccurred())
		return n
	}
	for range 2 {
		g.Expect([]int32{count(all[0]), count(all[1]), count(all[2])}).To(Equal([]int32{1, 2, 2}))
		g.Expect(reads).To(Equal(1))
	}

	edited := all[0]
	edited.Generation, edited.Spec.VulnerabilityIDs = 2, []string{"CVE-0", "CVE-1", "CVE-2"}
	g.Expect(count(edited)).To(BeEquivalentTo(3), "it is counted as it is, whatever was read of it")
	mutes.compiled["team-a"] = suppression.Compile(all[1:], 0)
	g.Expect(count(all[1])).To(BeEquivalentTo(2))
	g.Expect(reads).To(Equal(3), "others came or went")

	fresh, more := crowdedFinding("web", 4)
	stale := f
	entries = more
	stale.Spec.Source.Name = "web-2" // other facts
	g.Expect(count(all[2])).To(BeEquivalentTo(2))
	g.Expect(count(all[2])).To(BeEquivalentTo(2))
	g.Expect(reads).To(Equal(5), "what was counted of a Finding that is behind its reports is not remembered")
	f = fresh
	g.Expect([]int32{count(all[1]), count(all[2])}).To(Equal([]int32{2, 2}))
	g.Expect(reads).To(Equal(6))
}
