// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
)

func TestAMatcherThatLooksLikeTheRequiredOneIsNone(t *testing.T) {
	r := rules(aPolicy("p", requires(`team="billing"`, `"collector.id"=~"a|b"`, `site=""`, `café="é"`)))
	for text, want := range map[string]bool{
		`team=billing`: true, ` team = "billing" `: true, `"team"="billing"`: true, `"team" = "bill\u0069ng"`: true, "\u00a0team=billing\u2003": true,
		`collector.ID=~"a|b"`: true, `collector.id=~a|b`: true, `site = ""`: true, `"caf\u00e9"=é`: true,
		`team=~"billing"`: false, `team=~"billing|.*"`: false, `team!="billing"`: false, `Team=billing`: false, `team=Billing`: false,
		`team="billing "`: false, `team="billing\n"`: false, `team="billing\u200b"`: false, "te\u200bam=billing": false, "team=billing\u200b": false,
		`tеam=billing`: false /* with a Cyrillic е */, `team="b\u0131lling"`: false, "cafe\u0301=é": false, "café=e\u0301": false,
		`Collector.ID=~"a|b"`: false, `collector.Id=~"a|b"`: false, `collector.ID=~"b|a"`: false, `collector.ID=~"(a|b)"`: false, `collector.ID="a|b"`: false,
		`site=~""`: false, `site=`: false, `site!=""`: false, `{team="billing"}`: false, `team="billing",env="x"`: false, `team='billing'`: false,
		"team=`billing`": false, `team=="billing"`: false, `team=billing # `: false, "": false, "team=\"billing\"\x00": false, "team=billing\xff": false,
	} {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			if want {
				g.Expect(r.CheckMatchers([]string{text})).To(Succeed())
			} else {
				g.Expect(r.CheckMatchers([]string{text})).NotTo(Succeed())
			}
		})
	}
}

func TestHundredsOfPoliciesDoNotMakeAnAnswerCostly(t *testing.T) {
	var all []Policy
	for i := range 500 {
		var keys []string
		for j := range 100 {
			keys = append(keys, fmt.Sprintf("k-%d-%d", i, j), "a|b")
		}
		all = append(all, compiled(aPolicy(fmt.Sprintf("p-%03d", i), gives(keys...)))...)
	}
	r := ForNamespace(all, ofPayments)
	g := NewWithT(t)
	g.Expect(r.CheckAttribute("k-499-1", "a")).To(BeEmpty())
	g.Expect(testing.AllocsPerRun(10, func() { r.CheckAttribute("k-499-1", "a") })).To(BeNumerically("<", 10), "each Collector asks for each of its attributes")
}
