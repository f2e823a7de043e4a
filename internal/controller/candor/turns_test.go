// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func inLine(t *turns, uid string, rank int32, share string) bool {
	return t.request(contender{uid: types.UID(uid), rank: rank, share: share})
}

func names(candidates []*contender) []string {
	found := []string{}
	for _, c := range candidates {
		found = append(found, string(c.uid))
	}
	return found
}

func TestTheWorstSeverityGoesFirstAndThenWhoCameFirst(t *testing.T) {
	g, line := NewWithT(t), newTurns()
	for i, rank := range []int32{1, 3, 4, 3, 2, 4} {
		inLine(line, fmt.Sprintf("%d-%d", rank, i), rank, fmt.Sprint(i))
	}
	g.Expect(line.depth()).To(Equal(map[int32]int{1: 1, 2: 1, 3: 2, 4: 2}))
	var order []string
	for range 6 {
		granted := names(line.next(noon))
		g.Expect(granted).To(HaveLen(1))
		g.Expect(line.next(noon)).To(BeEmpty(), "one at a time")
		order = append(order, granted[0])
		line.leave(types.UID(granted[0]))
	}
	g.Expect(order).To(Equal([]string{"4-2", "4-5", "3-1", "3-3", "2-4", "1-0"}))
}

func TestOfEqualQuestionsOneIsAskedAndTheOthersAreTold(t *testing.T) {
	g, line := NewWithT(t), newTurns()
	line.setLimit(4)
	for _, uid := range []string{"a", "b", "c"} {
		inLine(line, uid, 3, "same")
	}
	inLine(line, "d", 3, "other")
	g.Expect(names(line.next(noon))).To(Equal([]string{"a", "d"}))
	g.Expect(inLine(line, "a", 3, "same")).To(BeTrue())
	g.Expect(inLine(line, "b", 3, "same")).To(BeFalse())
	g.Expect(names(line.leave("a"))).To(ConsistOf("b", "c"))
}

func TestAMilderOneWaitsUntilTheBudgetWasAskedForTheWorse(t *testing.T) {
	g, line := NewWithT(t), newTurns()
	line.setLimit(4)
	inLine(line, "a", 4, "a")
	inLine(line, "b", 3, "b")
	inLine(line, "c", 4, "c")
	g.Expect(names(line.next(noon))).To(Equal([]string{"a", "c"}))
	line.reserved("a")
	g.Expect(line.next(noon)).To(BeEmpty())
	line.leave("c")
	g.Expect(names(line.next(noon))).To(Equal([]string{"b"}))
}

func TestATurnThatNobodyUsesIsLost(t *testing.T) {
	g, line := NewWithT(t), newTurns()
	inLine(line, "deleted", 4, "x")
	inLine(line, "next", 1, "y")
	g.Expect(names(line.next(noon))).To(Equal([]string{"deleted"}))
	g.Expect(line.next(noon.Add(grantLasts))).To(BeEmpty())
	g.Expect(names(line.next(noon.Add(grantLasts + 1)))).To(Equal([]string{"next"}))
	g.Expect(line.use("deleted")).To(BeFalse())
	g.Expect(line.use("next")).To(BeTrue())
	g.Expect(line.next(noon.Add(24*time.Hour))).To(BeEmpty(), "a call that runs keeps its turn")
}

func TestAFindingThatSaysSomethingElseStandsInLineAnew(t *testing.T) {
	g, line := NewWithT(t), newTurns()
	inLine(line, "a", 1, "old")
	inLine(line, "b", 2, "b")
	inLine(line, "a", 4, "new")
	g.Expect(line.depth()).To(Equal(map[int32]int{2: 1, 4: 1}))
	g.Expect(names(line.next(noon))).To(Equal([]string{"a"}))
	g.Expect(inLine(line, "a", 4, "newer")).To(BeFalse(), "the turn was for another question")
}

func TestWhoLeavesTheLineIsNotAsked(t *testing.T) {
	g, line := NewWithT(t), newTurns()
	inLine(line, "a", 4, "a")
	inLine(line, "b", 3, "b")
	g.Expect(line.leave("a")).To(BeEmpty())
	g.Expect(names(line.next(noon))).To(Equal([]string{"b"}))
}
