// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package extsync

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

// fleet is n collectors, of which each has the attributes.
func fleet(n int, of attrs) Claims {
	all := Claims{}
	for i := range n {
		all[fmt.Sprintf("c-%04d", i)] = of
	}
	return all
}

func TestAT18WhatIsTooMuchAtOnce(t *testing.T) {
	two, one, other := attrs{"team": "x", "cost": "7"}, attrs{"team": "x"}, attrs{"team": "y", "cost": "8"}
	for name, test := range map[string]struct {
		before, after Claims
		percent       int
		held          bool
	}{
		"one record of 500 (B24)":                             {fleet(500, two), fleet(1, two), 25, true},
		"none of 500":                                         {fleet(500, two), Claims{}, 25, true},
		"a quarter is let through":                            {fleet(500, two), fleet(375, two), 25, false},
		"one more is not":                                     {fleet(500, two), fleet(374, two), 25, true},
		"an attribute of each":                                {fleet(500, two), fleet(500, one), 25, true},
		"other values are no loss":                            {fleet(500, two), fleet(500, other), 0, false},
		"more is no loss":                                     {fleet(500, one), fleet(600, two), 0, false},
		"nothing before, as at a cold start":                  {Claims{}, fleet(500, two), 0, false},
		"nothing before and nothing after":                    {Claims{}, Claims{}, 0, false},
		"three of four are few":                               {fleet(4, two), fleet(1, two), 25, false},
		"the last of four are not":                            {fleet(4, two), Claims{}, 25, true},
		"five of eight are enough":                            {fleet(8, two), fleet(3, two), 25, true},
		"one of 500 where nothing may go":                     {fleet(500, two), fleet(499, two), 0, true},
		"none of 500 where all may go":                        {fleet(500, two), Claims{}, 100, false},
		"as many others instead":                              {fleet(10, two), Claims{"d-1": two, "d-2": two, "d-3": two, "d-4": two, "d-5": two, "d-6": two, "d-7": two, "d-8": two, "d-9": two, "d-10": two}, 25, true},
		"a quarter of the attributes of each, of four a head": {fleet(500, attrs{"team": "", "cost": "", "a": "", "b": ""}), fleet(500, attrs{"team": "", "cost": "", "a": ""}), 25, false},
	} {
		t.Run(name, func(t *testing.T) {
			loss := Lose(test.before, test.after, noon)
			NewWithT(t).Expect(loss.TooMuch(test.percent)).To(Equal(test.held), "%+v", loss)
		})
	}
}

func TestALossIsToldInCollectorsAndAttributes(t *testing.T) {
	g := NewWithT(t)
	loss := Lose(fleet(500, attrs{"team": "x", "cost": "7"}), fleet(500, attrs{"team": "x"}), noon)
	g.Expect(loss.Attributes).To(Equal(1000))
	g.Expect(loss.LostAttributes).To(Equal(500))
	g.Expect(loss.LostCollectors).To(BeZero())
	g.Expect(loss.IDs).To(Equal([]string{"c-0000", "c-0001", "c-0002", "c-0003", "c-0004"}))
}

func TestAWordStandsForExactlyWhatWouldGo(t *testing.T) {
	g, random := NewWithT(t), rand.New(rand.NewPCG(18, 0))
	keys := []string{"a", "b", "c"}
	some := func() Claims {
		all := Claims{}
		for i := range 6 {
			of := attrs{}
			for _, key := range keys {
				if random.IntN(2) == 0 {
					of[key] = fmt.Sprint(random.IntN(2))
				}
			}
			if len(of) > 0 {
				all[fmt.Sprint("c-", i)] = of
			}
		}
		return all
	}
	words := map[string]string{}
	for range 5000 {
		before, after := some(), some()
		loss := Lose(before, after, noon)
		var gone []string
		for i := range 6 {
			for _, key := range keys {
				id := fmt.Sprint("c-", i)
				if _, had := before[id][key]; had {
					if _, has := after[id][key]; !has {
						gone = append(gone, id+" "+key)
					}
				}
			}
		}
		g.Expect(loss.LostAttributes).To(Equal(len(gone)))
		g.Expect(loss.Word).To(HaveLen(min(len(gone), 1) * wordLength))
		known, is := words[loss.Word]
		g.Expect(!is || known == fmt.Sprint(gone)).To(BeTrue(), "one word for two losses")
		words[loss.Word] = fmt.Sprint(gone)
		g.Expect(Lose(before, before, noon).TooMuch(0)).To(BeFalse())
		g.Expect(loss.TooMuch(100)).To(BeFalse())
		g.Expect(!loss.TooMuch(50) || loss.TooMuch(25)).To(BeTrue(), "what is too much for a half is for a quarter")
	}
}

func TestWhatAStatusHoldsOfClaims(t *testing.T) {
	g := NewWithT(t)
	owned, truncated := Owned(fleet(1000, attrs{"a": "b"}))
	g.Expect(truncated).To(BeFalse())
	g.Expect(owned).To(HaveLen(1000))
	g.Expect(owned[999].CollectorID).To(Equal("c-0999"), "in order")
	owned, truncated = Owned(fleet(1001, attrs{"a": "b"}))
	g.Expect(truncated).To(BeTrue())
	g.Expect(owned).To(BeEmpty())
	wide := attrs{}
	for i := range 6 {
		wide[fmt.Sprint(i)] = strings.Repeat("x", 100)
	}
	_, truncated = Owned(fleet(1000, wide))
	g.Expect(truncated).To(BeTrue(), "more than half a mebibyte")
	_, truncated = Owned(fleet(500, wide))
	g.Expect(truncated).To(BeFalse())
	for i := range 6 {
		wide[fmt.Sprint(i)] = strings.Repeat("<", 100)
	}
	_, truncated = Owned(fleet(500, wide))
	g.Expect(truncated).To(BeTrue(), "JSON has six bytes for each")
	shared := Claims{"a": {"k": "v"}}
	owned, _ = Owned(shared)
	owned[0].Attributes["k"] = "changed"
	g.Expect(shared["a"]).To(Equal(attrs{"k": "v"}), "what a status holds may be changed")
}

func TestWhatIsClaimedForACollector(t *testing.T) {
	g := NewWithT(t)
	o := &fleetmanagementv1alpha1.ExternalAttributeSync{}
	o.UID = "1"
	o.Status.OwnedKeys = []fleetmanagementv1alpha1.OwnedKeys{{CollectorID: "told", Attributes: attrs{"a": "told"}}}
	given := func() map[string]string { return attrs{"a": "given"} }
	var store Store
	g.Expect(store.Of(o, "told", given)).To(Equal(attrs{"a": "told"}), "after a restart: what the status says")
	g.Expect(store.Of(o, "other", given)).To(Equal(attrs{"a": "given"}), "or what was given, so that nothing goes")
	store.Put(o.UID, Claims{"other": {"a": "fetched"}})
	g.Expect(store.Of(o, "other", given)).To(Equal(attrs{"a": "fetched"}))
	g.Expect(store.Of(o, "told", given)).To(BeEmpty(), "what was fetched is the truth, whatever the status says")
	g.Expect(store.Released(o.UID, "told")).To(BeFalse(), "nothing was weighed yet")
	store.Settle(o.UID, Claims{"told": {"a": "told"}})
	g.Expect(store.Released(o.UID, "told")).To(BeFalse())
	g.Expect(store.Released(o.UID, "other")).To(BeTrue())
	store.Drop(o.UID)
	g.Expect(store.Released(o.UID, "other")).To(BeFalse())
	g.Expect(store.Of(o, "told", given)).To(Equal(attrs{"a": "told"}))
}
