// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

const year = 365 * day

// A clock that was a year ahead left times behind that are a year off.

func TestAnAttemptThatIsAYearOffIsMadeNow(t *testing.T) {
	g := NewWithT(t)
	n := entry("p/a", created, 0, waiting)
	n.Attempts, n.NextAttempt = 1, metav1.NewTime(start.Add(year))
	outbox := []candorv1alpha1.Notification{n}
	g.Expect(Ready(outbox, start)).To(HaveLen(1))
	g.Expect(NextAttempt(outbox, start)).To(BeZero())
	outbox[0].NextAttempt = metav1.NewTime(start.Add(maxBackoff))
	g.Expect(Ready(outbox, start)).To(BeEmpty(), "the longest wait that there is, is one")
	g.Expect(NextAttempt(outbox, start)).To(BeTemporally("==", start.Add(maxBackoff)))
}

func TestAFindingOfTheFutureHoldsUpNoFirstSync(t *testing.T) {
	g := NewWithT(t)
	ahead := []candorv1alpha1.Finding{aFinding("HIGH", present, year)}
	g.Expect(Unsettled(ahead, start)).To(BeZero())
	g.Expect(Unsettled(append(ahead, aFinding("HIGH", present, -10*time.Second)), start)).To(Equal(20*time.Second), "others still do")
	g.Expect(Unsettled([]candorv1alpha1.Finding{aFinding("HIGH", present, time.Second)}, start)).To(Equal(QuietFor), "clocks differ a little")
}

func TestAFindingOfTheFutureIsNoNews(t *testing.T) {
	g := NewWithT(t)
	f := aFinding("HIGH", present, year)
	_, sinks, again := Unheard([]candorv1alpha1.SignalPolicy{aPolicy("p", 1, aSink("a"))}, &f, start)
	g.Expect(sinks).To(BeEmpty())
	g.Expect(again).To(BeZero())
}

func TestAFindingIsLookedAtAgainWhereASinkSummedUpTheFuture(t *testing.T) {
	g := NewWithT(t)
	p := aPolicy("p", 1, aSink("a"))
	p.Status.Sinks[0].SummarisedAt = metav1.NewTime(start.Add(year))
	f := aFinding("HIGH", present, 0)
	_, sinks, again := Unheard([]candorv1alpha1.SignalPolicy{p}, &f, start)
	g.Expect(sinks).To(BeEmpty())
	g.Expect(again).To(Equal(2 * QuietFor))
}
