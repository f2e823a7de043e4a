// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

func TestAT18LittleOfMuchIsHeldBackUntilAPersonAgrees(t *testing.T) {
	g := NewWithT(t)
	b := newSyncBench(t, 500, aSync())
	b.records = hosts(500, "x")
	o, _ := b.pass(t)
	g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
	g.Expect(toldBy(o)).To(Equal("500 attributes for 500 collectors, from 500 records."))
	g.Expect(b.woken).To(HaveLen(500))
	g.Expect(saysOf(o, "Stalled")).To(BeEmpty())

	b.records, b.woken = hosts(1, "x"), nil
	b.step(11 * time.Minute)
	o, _ = b.pass(t)
	for condition, want := range map[string]string{"Ready": "False/Stalled", "Synced": "False/Stalled", "Stalled": "True/Stalled", "Truncated": "False/NotTruncated"} {
		g.Expect(saysOf(o, condition)).To(Equal(want), condition)
	}
	g.Expect(b.woken).To(BeEmpty())
	g.Expect(o.Status.OwnedKeys).To(HaveLen(500), "nothing is taken away")
	g.Expect([]int32{o.Status.RecordsSeen, o.Status.RecordsApplied}).To(Equal([]int32{1, 500}))
	g.Expect(toldBy(o)).To(HavePrefix("Held back, since 499 of 500 collectors would lose all attributes, and 499 of 500 attributes would go, such as of " +
		`["edge-0001" "edge-0002" "edge-0003" "edge-0004" "edge-0005"]: spec.maxShrinkPercent is 25. What was given stays. If that is right, set the annotation`))
	word := wordIn(t, o)
	writes, fetches := b.writes, b.fetches

	b.edit(t, annotate(fleetmanagementv1alpha1.AnnotationApproveRemoval, "deadbeef"))
	o, _ = b.pass(t)
	g.Expect(saysOf(o, "Ready")).To(Equal("False/Stalled"))
	g.Expect(toldBy(o)).To(ContainSubstring(`approve-removal holds another word, "deadbeef", which is not for this loss. If that is right, set the annotation`))
	g.Expect(wordIn(t, o)).To(Equal(word))
	writes++
	g.Expect(b.writes).To(Equal(writes))
	b.restart()
	o, _ = b.pass(t)
	g.Expect(saysOf(o, "Stalled")).To(Equal("True/Stalled"), "a restart changes nothing")
	g.Expect([]int{b.writes, b.fetches}).To(Equal([]int{writes, fetches}))

	b.edit(t, annotate(fleetmanagementv1alpha1.AnnotationApproveRemoval, word))
	o, _ = b.pass(t)
	g.Expect(b.fetches).To(Equal(fetches+1), "the process that was told of them is gone")
	g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
	g.Expect(saysOf(o, "Stalled")).To(BeEmpty())
	g.Expect(o.Status.OwnedKeys).To(HaveLen(1))
	g.Expect(b.woken).To(HaveLen(499))
}

func TestWhatIsHeldBackIsGivenWithoutAnotherFetchOnceAPersonAgrees(t *testing.T) {
	g := NewWithT(t)
	b := newSyncBench(t, 10, aSync())
	b.records = hosts(10, "x")
	b.pass(t)
	b.records = nil
	b.step(11 * time.Minute)
	o, _ := b.pass(t)
	g.Expect(saysOf(o, "Ready")).To(Equal("False/Stalled"))
	b.edit(t, annotate(fleetmanagementv1alpha1.AnnotationApproveRemoval, wordIn(t, o)))
	o, _ = b.pass(t)
	g.Expect(b.fetches).To(Equal(2))
	g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
	g.Expect(o.Status.OwnedKeys).To(BeEmpty())
}

func TestACollectorThatHasLeftIsNoLoss(t *testing.T) {
	g := NewWithT(t)
	b := newSyncBench(t, 10, aSync())
	b.records = hosts(10, "x")
	b.pass(t)
	b.records, b.registered = hosts(2, "x"), b.registered[:2]
	b.list(t)
	b.step(11 * time.Minute)
	o, _ := b.pass(t)
	g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
	g.Expect(o.Status.RecordsApplied).To(Equal(int32(2)))
}

func TestAT18AColdStartTakesNothingAway(t *testing.T) {
	g := NewWithT(t)
	b := newSyncBench(t, 500, aSync())
	b.records = hosts(500, "x")
	b.pass(t)
	b.records = hosts(1, "x")
	b.step(11 * time.Minute)
	b.config.Inventory.Forget()
	b.restart()
	o, result := b.pass(t)
	g.Expect(b.fetches).To(Equal(2))
	g.Expect(o.Status.OwnedKeys).To(HaveLen(500), "nobody knows yet which collectors there are")
	g.Expect(saysOf(o, "Stalled")).To(BeEmpty())
	g.Expect(result.RequeueAfter).To(Equal(listedRecheck))
	b.list(t)
	o, _ = b.pass(t)
	g.Expect(b.fetches).To(Equal(2))
	g.Expect(o.Status.OwnedKeys).To(HaveLen(500))
	g.Expect(saysOf(o, "Stalled")).To(Equal("True/Stalled"))
}

func TestAT18FifteenHundredCollectorsAreGivenWhatTheyAreTo(t *testing.T) {
	g := NewWithT(t)
	b := newSyncBench(t, 1500, aSync())
	b.records = hosts(1500, "x")
	o, _ := b.pass(t)
	g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
	g.Expect(saysOf(o, "Truncated")).To(Equal("True/OwnedKeysTruncated"))
	g.Expect(o.Status.OwnedKeys).To(BeEmpty())
	g.Expect(o.Status.RecordsApplied).To(Equal(int32(1500)))
	g.Expect(b.woken).To(HaveLen(1500))
	none := func() map[string]string { return nil }
	g.Expect(b.config.Claims.Of(o, "edge-1499", none)).To(Equal(map[string]string{"team": "x"}))
}

func TestNothingIsFetchedUnlessItIsDue(t *testing.T) {
	b := newSyncBench(t, 10, aSync())
	b.records, b.version = hosts(10, "x"), "v1"
	b.pass(t)
	for _, test := range []struct {
		name   string
		do     func(t *testing.T)
		fetch  bool
		writes int
	}{
		{"another pass", func(*testing.T) {}, false, 0},
		{"a restart", func(*testing.T) { b.restart() }, false, 0},
		{"a restart soon before the next fetch", func(*testing.T) { b.step(8 * time.Minute); b.restart() }, false, 0},
		{"when it is due", func(*testing.T) { b.step(3 * time.Minute) }, true, 1},
		{"right after that", func(*testing.T) {}, false, 0},
		{"a collector leaves", func(t *testing.T) { b.registered = b.registered[:9]; b.list(t) }, false, 1},
		{"and another one right after it", func(t *testing.T) { b.registered = b.registered[:8]; b.list(t) }, false, 0},
		{"which is told a minute later", func(*testing.T) { b.step(time.Minute) }, false, 1},
		{"the schedule changes", func(t *testing.T) {
			b.edit(t, func(o *fleetmanagementv1alpha1.ExternalAttributeSync) { o.Spec.Schedule, o.Generation = "1h", 2 })
		}, false, 1},
		{"the selector changes", func(t *testing.T) {
			b.edit(t, func(o *fleetmanagementv1alpha1.ExternalAttributeSync) {
				o.Spec.Selector.CollectorIDs, o.Generation = []string{"x"}, 3
			})
		}, false, 1},
		{"the mapping changes", func(t *testing.T) {
			b.edit(t, func(o *fleetmanagementv1alpha1.ExternalAttributeSync) {
				o.Spec.Mapping.RequiredKeys, o.Generation = []string{"host"}, 4
			})
		}, true, 1},
		{"somebody asks for it", func(t *testing.T) { b.edit(t, annotate(fleetmanagementv1alpha1.AnnotationFetchNow, "1")) }, true, 1},
		{"once", func(*testing.T) {}, false, 0},
		{"even after a restart", func(*testing.T) { b.restart() }, false, 0},
		{"and once more", func(t *testing.T) { b.edit(t, annotate(fleetmanagementv1alpha1.AnnotationFetchNow, "2")) }, true, 1},
		{"it is suspended", func(t *testing.T) {
			b.edit(t, func(o *fleetmanagementv1alpha1.ExternalAttributeSync) { o.Spec.Suspend, o.Generation = true, 5 })
		}, false, 1},
		{"while it is, nothing is due", func(*testing.T) { b.step(24 * time.Hour) }, false, 0},
		{"nor asked for", func(t *testing.T) { b.edit(t, annotate(fleetmanagementv1alpha1.AnnotationFetchNow, "3")) }, false, 0},
		{"nor after a restart", func(*testing.T) { b.restart() }, false, 0},
		{"it is not suspended any more", func(t *testing.T) {
			b.edit(t, func(o *fleetmanagementv1alpha1.ExternalAttributeSync) { o.Spec.Suspend, o.Generation = false, 6 })
		}, true, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			b.step(time.Second)
			fetches, writes := b.fetches, b.writes
			test.do(t)
			o, result := b.pass(t)
			g.Expect(b.fetches > fetches).To(Equal(test.fetch), "fetches")
			g.Expect(b.writes-writes).To(Equal(test.writes), "writes of the status")
			if o.Spec.Suspend {
				g.Expect(saysOf(o, "Ready")).To(Equal("True/Suspended"))
				g.Expect(o.Status.NextSyncTime).To(BeNil())
				g.Expect(o.Status.OwnedKeys).To(HaveLen(8), "what was given stays")
			} else {
				g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
				g.Expect(o.Status.NextSyncTime.Time).To(BeTemporally(">", b.clock.Now()))
				g.Expect(result.RequeueAfter).To(BeNumerically(">", 0))
			}
		})
	}
}

func TestASourceIsAskedWhetherAnythingChanged(t *testing.T) {
	g := NewWithT(t)
	b := newSyncBench(t, 10, aSync())
	b.records, b.version = hosts(10, "x"), "v1"
	b.pass(t)
	b.step(11 * time.Minute)
	o, _ := b.pass(t)
	g.Expect(b.known).To(Equal("v1"))
	g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
	g.Expect(o.Status.LastSuccessTime.Time).To(Equal(b.clock.Now().Local()))
	g.Expect([]int32{o.Status.RecordsSeen, o.Status.RecordsApplied}).To(Equal([]int32{10, 10}))
	b.edit(t, func(o *fleetmanagementv1alpha1.ExternalAttributeSync) {
		o.Spec.OnDuplicate, o.Generation = fleetmanagementv1alpha1.DuplicateFirst, 2
	})
	b.pass(t)
	g.Expect(b.known).To(BeEmpty(), "what the records come to is another thing now")
}
