// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/policy"
	"github.com/candor-dev/candor/internal/signals/suppression"
	"github.com/candor-dev/candor/test/builder"
)

// judged is a Finding that was just made of a report, and what a look at it gathered.
func judged(r *rand.Rand) (*pass, signals.Evidence, *candorv1alpha1.Finding) {
	p := &pass{id: signals.Identity{Provider: "trivy", Namespace: "team-a", Kind: "Deployment", Name: "web", Container: "nginx"}}
	p.look.Ask = policy.Ask{MinRank: signals.Low, Unknown: signals.Low}
	p.look.Report = &signals.Report{Name: "web", Artifact: candorv1alpha1.Artifact{Registry: "quay.io", Repository: "base/java"}}
	for i := range 1 + r.IntN(40) {
		p.look.Report.Entries = append(p.look.Report.Entries, signals.Entry{
			ID: fmt.Sprint("CVE-", r.IntN(6)), Package: fmt.Sprint("p", i), Installed: "1", Rank: signals.Rank(r.IntN(5)),
		})
	}
	evidence := p.look.Ask.Select(p.look.Report.Entries)
	f := &candorv1alpha1.Finding{Spec: signals.Spec(p.class, p.id, *p.look.Report, evidence)}
	f.Namespace = p.id.Namespace
	return p, evidence, f
}

func randomScopes(r *rand.Rand, fingerprint string) *suppression.Scopes {
	var all []candorv1alpha1.Suppression
	for i := range r.IntN(8) {
		all = append(all, *builder.Suppression("team-a", fmt.Sprint("s", i), "", func(s *candorv1alpha1.Suppression) {
			s.Spec.VulnerabilityIDs = []string{fmt.Sprint("CVE-", r.IntN(6))}
			switch r.IntN(4) {
			case 0:
				s.Spec.VulnerabilityIDs, s.Spec.ImageRepositories = nil, []string{"base/*"}
			case 1:
				s.Spec.Fingerprint = fingerprint
			case 2:
				s.Spec.Packages = []string{fmt.Sprint("p", r.IntN(5))}
			}
		}))
	}
	return suppression.Compile(all, 0)
}

func TestMutingAndLiftingLeavesTheSpecAsItWas(t *testing.T) {
	r, muted := rand.New(rand.NewPCG(7, 4)), 0
	for i := range 500 {
		g := NewWithT(t)
		p, evidence, f := judged(r)
		before, fingerprint := f.Spec.DeepCopy(), signals.Fingerprint(signals.Of(f))
		mutes := NewMutes(nil)
		c := &ReportReconciler{Mutes: mutes, Clock: clocktesting.NewFakeClock(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))}
		for range 3 {
			mutes.compiled["team-a"] = randomScopes(r, fingerprint)
			g.Expect(c.mute(t.Context(), p, f, evidence)).To(Succeed())
			said := f.Spec.Evidence.DeepCopy()
			g.Expect(said.Muted <= said.Total).To(BeTrue(), "case %d", i)
			if said.Muted == 0 || said.Muted == said.Total {
				g.Expect(said.WorstUnmuted).To(BeEmpty(), "case %d", i)
			} else {
				g.Expect(said.WorstUnmuted).NotTo(BeEmpty(), "case %d", i)
			}
			g.Expect(len(said.MutedBy)).To(BeNumerically("<=", said.Muted*suppression.MaxNames), "case %d", i)
			g.Expect(signals.Fingerprint(signals.Of(f))).To(Equal(fingerprint), "case %d", i)
			g.Expect(c.mute(t.Context(), p, f, signals.Evidence{})).To(Succeed())
			g.Expect(f.Spec.Evidence).To(Equal(said), "case %d: what nobody sees stays as it was", i)
			muted += int(said.Muted)
		}
		mutes.compiled["team-a"] = suppression.Compile(nil, 0)
		g.Expect(c.mute(t.Context(), p, f, evidence)).To(Succeed())
		g.Expect(&f.Spec).To(Equal(before), "case %d", i)
	}
	NewWithT(t).Expect(muted).To(BeNumerically(">", 1000), "the cases mute something")
}

func TestTheMutesOfTenThousandEntriesTakeLittleRoom(t *testing.T) {
	g := NewWithT(t)
	p, _, _ := judged(rand.New(rand.NewPCG(7, 5)))
	var all []candorv1alpha1.Suppression
	for i := range 7 {
		all = append(all, *builder.Suppression("team-a", fmt.Sprint(i, strings.Repeat("n", signals.MaxName-1)), "", func(s *candorv1alpha1.Suppression) {
			s.Spec.ImageRepositories = []string{"base/java"}
		}))
	}
	p.look.Report.Entries = nil
	for i := range 10000 {
		p.look.Report.Entries = append(p.look.Report.Entries, signals.Entry{
			ID: fmt.Sprint("CVE-", i), Package: strings.Repeat("<", 200), Installed: "1", Rank: signals.High,
		})
	}
	evidence := p.look.Ask.Select(p.look.Report.Entries)
	f := &candorv1alpha1.Finding{Spec: signals.Spec(p.class, p.id, *p.look.Report, evidence)}
	f.Namespace = p.id.Namespace
	before, err := json.Marshal(f.Spec)
	g.Expect(err).NotTo(HaveOccurred())
	c := &ReportReconciler{Mutes: NewMutes(nil), Clock: clocktesting.NewFakeClock(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))}
	c.Mutes.compiled["team-a"] = suppression.Compile(all, 0)
	g.Expect(c.mute(t.Context(), p, f, evidence)).To(Succeed())
	g.Expect(f.Spec.Evidence.Muted).To(BeEquivalentTo(10000))
	after, err := json.Marshal(f.Spec)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(after)-len(before)).To(BeNumerically("<", 600), "of %d bytes", len(after))
	g.Expect(len(after)).To(BeNumerically("<", 9<<10+256))
}

func TestWhatWasReadBeforeAChangeIsNotKept(t *testing.T) {
	g := NewWithT(t)
	m := NewMutes(nil)
	for _, namespace := range []string{"team-a", "team-b"} {
		m.compiled[namespace] = suppression.Compile(nil, 0)
	}
	m.Forget("team-a")
	g.Expect(m.compiled).To(And(HaveLen(1), HaveKey("team-b")))
	m.ForgetAll()
	g.Expect(m.compiled).To(BeEmpty())
	g.Expect(m.forgotten).To(BeEquivalentTo(2))
}
