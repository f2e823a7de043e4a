// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"iter"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation"
)

func first(names iter.Seq[string]) string {
	for name := range names {
		return name
	}
	return ""
}

func TestAnObjectIsNamedAfterWhatItStandsFor(t *testing.T) {
	digested := func(raw string) string { return "-" + digest(raw)[:10] }
	for name, c := range map[string]struct{ raw, want string }{
		"a name that fits is kept":                   {"edge-1", "edge-1"},
		"the longest name that fits is kept":         {strings.Repeat("a", 53), strings.Repeat("a", 53)},
		"upper case is told apart from lower":        {"Edge-1", "edge-1" + digested("Edge-1")},
		"a dot is told apart from a dash":            {"edge.1", "edge-1" + digested("edge.1")},
		"a run of other characters is one dash":      {"a / b__c", "a-b-c" + digested("a / b__c")},
		"two dashes are one":                         {"a--b", "a-b" + digested("a--b")},
		"dashes at the ends go":                      {"-a-", "a" + digested("-a-")},
		"letters of other scripts are no letters":    {"größe", "gr-e" + digested("größe")},
		"what is too long is cut":                    {strings.Repeat("a", 54), strings.Repeat("a", 53) + digested(strings.Repeat("a", 54))},
		"a cut does not end with a dash":             {strings.Repeat("a", 52) + "-bb", strings.Repeat("a", 52) + digested(strings.Repeat("a", 52)+"-bb")},
		"nothing that can be kept has a stand-in":    {"日本", "c" + digested("日本")},
		"no name at all has a stand-in, too":         {"", "c" + digested("")},
		"a name that looks digested is its own":      {"a" + digested("A"), "a" + digested("A")},
		"white space at the ends is told apart":      {" a", "a" + digested(" a")},
		"an invalid text is told apart from a valid": {"a\xff", "a" + digested("a\xff")},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(first(Names(c.raw, "c"))).To(Equal(c.want)) })
	}
}

func TestADigestIsTheSameForEver(t *testing.T) {
	NewWithT(t).Expect(first(Names("Edge.1", "c"))).To(Equal("edge-1-gp2vx5eqat"))
}

func TestALabelStandsForAName(t *testing.T) {
	g := NewWithT(t)
	long := strings.Repeat("a", 51) + "." + strings.Repeat("b", 60)
	g.Expect(LabelValue("team-a")).To(Equal("team-a"))
	g.Expect(LabelValue(strings.Repeat("a", 63))).To(HaveLen(63))
	for _, name := range []string{long, strings.Repeat("c", 253)} {
		g.Expect(validation.IsValidLabelValue(LabelValue(name))).To(BeEmpty())
	}
	g.Expect(LabelValue(long)).NotTo(Equal(LabelValue(long + "b")))
}

func FuzzNames(f *testing.F) {
	for _, raw := range []string{"", "edge-1", "Edge 1", "a--b", "-", "ß", "K", "a\xffb", strings.Repeat("x", 300), strings.Repeat("ab-", 40)} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		g := NewWithT(t)
		names := slices.Collect(Names(raw, "c"))
		g.Expect(len(names)).To(BeNumerically(">=", 8))
		g.Expect(names).To(HaveLen(len(slices.Compact(slices.Sorted(slices.Values(names))))), "each once")
		for i, name := range names {
			g.Expect(validation.IsDNS1123Subdomain(name)).To(BeEmpty())
			g.Expect(len(name)).To(BeNumerically("<=", 106))
			g.Expect(i == 0 || len(name) >= 12).To(BeTrue())
		}
		if names[0] != raw {
			g.Expect(names[0]).To(HaveSuffix("-" + digest(raw)[:10]))
		}
		g.Expect(slices.Collect(Names(raw, "c"))).To(Equal(names), "the same each time")
	})
}
