// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package pipelines

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

// history decides about a drift at each of these minutes and returns what was done, with the Drifted condition kept as the
// controller keeps it.
func history(poll time.Duration, minutes ...int) string {
	in := input(shelf{live("1", by(us), saying("theirs {}"))}, synced("1"))
	in.Poll = poll
	done := ""
	for _, minute := range minutes {
		in.Now = now.Add(time.Duration(minute) * time.Minute)
		d := Decide(in)
		in.Status.Drift, in.Status.Conditions = d.Drift, nil
		if d.Action == Update {
			done += "c"
			continue
		}
		done += "."
		in.Status.Conditions = fleetmanagementv1alpha1.Conditions{{Type: "Drifted", Status: metav1.ConditionTrue, Reason: d.Reason}}
	}
	return done
}

func TestCorrectionsThatSomebodyUndoesWait(t *testing.T) {
	for name, test := range map[string]struct {
		poll    time.Duration
		minutes []int
		want    string
	}{
		"three in ten minutes make the next one wait for fifteen": {time.Minute, []int{0, 1, 2, 3, 10, 17, 18}, "ccc...c"},
		"after that wait, one more is enough to wait again":       {time.Minute, []int{0, 1, 2, 3, 18, 19, 33, 34}, "ccc.c..c"},
		"once it is quiet for a while, three are let through":     {time.Minute, []int{0, 1, 2, 3, 18, 60, 61, 62, 63}, "ccc.cccc."},
		"two in ten minutes are fine":                             {time.Minute, []int{0, 9, 11, 20, 22}, "ccccc"},
		"a clock that is set back does not make the wait longer":  {time.Minute, []int{0, 1, 2, 3, -1000, -999}, "ccc.c."},
		"three polls in a row count where polls are rare":         {5 * time.Minute, []int{0, 5, 10, 12}, "ccc."},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(history(test.poll, test.minutes...)).To(Equal(test.want))
		})
	}
}

func TestADriftThatStaysIsNotedOnce(t *testing.T) {
	g := NewWithT(t)
	in := input(shelf{live("1", by(us), saying("theirs {}"))}, synced("1"), drift("Warn"))
	first := Decide(in)
	g.Expect(first.Drift).To(Equal(&fleetmanagementv1alpha1.PipelineDrift{Fields: []string{"contents"}, SeenAt: at(now)}))
	in.Status.Drift = first.Drift
	in.Status.Conditions = fleetmanagementv1alpha1.Conditions{{Type: "Drifted", Status: metav1.ConditionTrue, Reason: first.Reason}}
	in.Now = now.Add(time.Hour)
	g.Expect(Decide(in)).To(Equal(first))
}

func TestContentionTellsWhenTheNextCorrectionIsDue(t *testing.T) {
	g := NewWithT(t)
	in := input(shelf{live("1", by(us), saying("theirs {}"))}, synced("1"))
	in.Status.Drift = &fleetmanagementv1alpha1.PipelineDrift{Corrections: 3, WindowStart: at(now.Add(-time.Minute)), SeenAt: at(now.Add(-time.Second))}
	first := Decide(in)
	g.Expect(first.After).To(Equal(15 * time.Minute))
	g.Expect(first.Message).To(ContainSubstring("contents"))
	g.Expect(first.Message).To(ContainSubstring("12:15:00Z"))
	in.Status.Drift = first.Drift
	in.Status.Conditions = fleetmanagementv1alpha1.Conditions{{Type: "Drifted", Status: metav1.ConditionTrue, Reason: first.Reason}}
	in.Now = now.Add(5 * time.Minute)
	second := Decide(in)
	g.Expect(second.After).To(Equal(10 * time.Minute))
	second.After = first.After
	g.Expect(second).To(Equal(first), "nothing but the wait changes, so that nothing is written")
}
