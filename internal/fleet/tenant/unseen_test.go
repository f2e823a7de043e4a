// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestWhatIsNotKnownYetIsRefusedUnlessAPolicyThatSpeaksOfItIsAskedAgain(t *testing.T) {
	everywhere := selects(nil)
	byID, bySite := collectors("collector.ID=~edge-.*"), collectors("site=berlin")
	for name, test := range map[string]struct {
		policies []change
		// other is a second policy, which has a namespaceSelector; nil for none.
		other change
		// pipeline, collectors, collector and value say whether each is let through.
		pipeline, collectors, collector, value bool
	}{
		"a policy that is asked again":                   {[]change{bySite, gives("tier", "gold")}, nil, true, true, true, true},
		"a policy that is not":                           {[]change{everywhere, bySite, gives("tier", "gold")}, nil, false, false, false, false},
		"an ID that is enough":                           {[]change{everywhere, byID, gives("tier", "gold")}, nil, false, false, true, false},
		"a policy that leaves collectors and values":     {[]change{everywhere, gives("tier", "")}, nil, false, true, true, true},
		"a policy that leaves attributes":                {[]change{everywhere}, nil, false, true, true, true},
		"another that speaks of nothing":                 {[]change{everywhere, bySite, gives("tier", "gold")}, gives(), true, false, false, false},
		"another that speaks of collectors":              {[]change{everywhere, bySite, gives("tier", "gold")}, bySite, true, true, true, false},
		"another that speaks of attributes":              {[]change{everywhere, bySite, gives("tier", "gold")}, gives("tier", "silver"), true, false, false, true},
		"a policy that cannot be read allows none of it": {[]change{bySite, gives("tier", "gold"), unreadable}, nil, false, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			all := compiled(aPolicy("p", test.policies...))
			if test.other != nil {
				all = append(all, compiled(aPolicy("q", test.other))...)
			}
			r := ForUser(all, jane, ofPayments)
			pipeline, collectors := r.CheckUnseenPipeline() == nil, r.CheckUnseenCollectors() == nil
			collector, value := r.CheckUnseenCollector("edge-1") == "", r.CheckUnseenValue("tier") == ""
			g.Expect([]bool{pipeline, collectors, collector, value}).To(Equal([]bool{test.pipeline, test.collectors, test.collector, test.value}))
		})
	}
	g := NewWithT(t)
	var free Rules
	g.Expect(free.CheckUnseenPipeline()).To(Succeed())
	g.Expect(free.CheckUnseenCollectors()).To(Succeed())
	g.Expect(free.CheckUnseenCollector("any")).To(BeEmpty())
	g.Expect(free.CheckUnseenValue("any")).To(BeEmpty())
	g.Expect(ForUser(compiled(aPolicy("p", everywhere, gives("tier", "gold"))), jane, nil).CheckUnseenValue("team")).To(ContainSubstring("only these attributes may be set: tier"))
	g.Expect(ForUser(compiled(aPolicy("p", everywhere, byID)), jane, nil).CheckUnseenCollector("core-1")).To(ContainSubstring("the collector has to match"))
}
