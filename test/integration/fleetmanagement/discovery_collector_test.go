// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"
	"strings"
	"time"

	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

func (d *collectorDiscovery) get(ctx context.Context, name string) *fleetmanagementv1alpha1.Collector {
	GinkgoHelper()
	var c fleetmanagementv1alpha1.Collector
	Expect(cluster.Client.Get(ctx, client.ObjectKey{Namespace: d.namespace, Name: name}, &c)).To(Succeed())
	return &c
}

// marksInactive has Fleet Management take a collector for gone.
func (d *collectorDiscovery) marksInactive(id string) {
	d.fleet.EditCollector(id, func(c *collectorv1.Collector) { c.MarkedInactiveAt = timestamppb.New(d.clock.Now()) })
}

// collectorNamed makes a Collector of the namespace.
func (d *collectorDiscovery) collectorNamed(name, id string, change ...func(*fleetmanagementv1alpha1.Collector)) *fleetmanagementv1alpha1.Collector {
	c := &fleetmanagementv1alpha1.Collector{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: name}, Spec: fleetmanagementv1alpha1.CollectorSpec{ID: id},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

// several returns IDs c00, c01, …
func several(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("c%02d", i))
	}
	return all
}

var _ = Describe("A CollectorDiscovery", func() {
	It("makes Collectors, and the next passes cost nothing", func(ctx SpecContext) {
		d := newCollectorDiscovery(ctx)
		d.registers("edge-1", "Edge.2")
		d.discover(ctx)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		name := d.names(ctx)()[1]
		Expect(d.names(ctx)()).To(Equal([]string{"edge-1", name}))
		Expect(name).To(MatchRegexp("^edge-2-[a-z2-7]{10}$"))
		c := d.get(ctx, name)
		Expect(c.Spec).To(Equal(fleetmanagementv1alpha1.CollectorSpec{
			ID: "Edge.2", ConflictPolicy: fleetmanagementv1alpha1.ConflictOverwrite, ReleasePolicy: fleetmanagementv1alpha1.ReleaseRestore,
		}))
		Expect(c.Labels).To(Equal(map[string]string{
			fleetmanagementv1alpha1.LabelCollectorDiscoveryName: "all", fleetmanagementv1alpha1.LabelCollectorDiscoveryNamespace: d.namespace,
		}))
		Expect(c.Annotations).To(Equal(map[string]string{
			fleetmanagementv1alpha1.AnnotationCollectorID: "Edge.2", fleetmanagementv1alpha1.AnnotationCollectorDiscoveredBy: d.namespace + "/all",
		}))
		for _, name := range d.names(ctx)() {
			Eventually(func() bool { return d.get(ctx, name).Status.Registered }).Should(BeTrue())
		}
		Expect(d.asked()).To(HaveLen(1), "one list for all")
		d.quiet(func() { d.look(); d.look() })
		Expect(d.metric("fleet_discovery_list_collectors_result_size")()).To(Equal(2.0))

		d.registers("edge-3")
		d.later()
		Eventually(d.names(ctx)).Should(ContainElement("edge-3"))
		Eventually(func() bool { return d.get(ctx, "edge-3").Status.Registered }).Should(BeTrue())
		Expect(d.asked()).To(HaveLen(2), "one list an interval")
	})

	It("means collectors by their attributes, or by their IDs (B17)", func(ctx SpecContext) {
		d := newCollectorDiscovery(ctx)
		d.registers("local", "named", "neither")
		d.fleet.EditCollector("named", func(c *collectorv1.Collector) { c.LocalAttributes["env"] = "test" })
		d.fleet.EditCollector("neither", func(c *collectorv1.Collector) { c.LocalAttributes["env"] = "test" })
		d.fleet.PutCollector(&collectorv1.Collector{Id: "remote", RemoteAttributes: map[string]string{"env": "prod"}})
		d.discover(ctx, selecting(`env="prod"`), func(o *fleetmanagementv1alpha1.CollectorDiscovery) { o.Spec.Selector.CollectorIDs = []string{"named"} })
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		Expect(d.names(ctx)()).To(Equal([]string{"local", "named", "remote"}))
	})

	It("keeps the Collector of a collector that is inactive, and makes none of another one (AT-14)", func(ctx SpecContext) {
		d := newCollectorDiscovery(ctx)
		d.registers(several(3)...)
		d.discover(ctx, pruneCollectors)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		d.registers("late")
		for _, id := range append(several(3), "late") {
			d.marksInactive(id)
		}
		d.later()
		Eventually(func() int32 { return d.read(ctx).outOfScope }).Should(BeEquivalentTo(3))
		Expect(d.names(ctx)()).To(Equal(several(3)))
		Expect(d.ready(ctx)()).To(Equal("True/Synced"))
		Expect(d.fleet.Count("GetCollector", bulkUpdate)).To(BeZero())
		d.edit(ctx, `{"includeInactive": true}`)
		Eventually(d.names(ctx)).Should(Equal(append(several(3), "late")))
	})

	It("keeps the Collector of a collector that an edited selector no longer means (AT-13)", func(ctx SpecContext) {
		d := newCollectorDiscovery(ctx)
		d.registers(several(3)...)
		d.discover(ctx, pruneCollectors)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		d.edit(ctx, `{"selector": {"matchers": ["env=\"test\""]}}`)
		Eventually(func() int32 { return d.read(ctx).outOfScope }).Should(BeEquivalentTo(3))
		Expect(d.names(ctx)()).To(Equal(several(3)))
	})

	It("deletes the Collector of a collector that is gone, but never one that somebody edited (B15)", func(ctx SpecContext) {
		d := newCollectorDiscovery(ctx)
		d.registers(several(5)...)
		d.discover(ctx, pruneCollectors)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		patch(ctx, d.collectorNamed("c03", ""), `{"spec": {"remoteAttributes": {"team": "a"}}}`)
		patch(ctx, d.collectorNamed("c04", ""), `{"metadata": {"labels": {"mine": "yes"}, "annotations": {"mine": "yes"}}}`)
		Eventually(func() map[string]string {
			d.clock.Step(time.Second) // writes are gathered
			return d.fleet.Collector("c03").GetRemoteAttributes()
		}).Should(HaveKeyWithValue("team", "a"), "or what writes it would look up c03, too")
		for _, id := range []string{"c02", "c03", "c04"} {
			d.fleet.DeleteCollector(id)
		}
		d.later()
		Eventually(d.names(ctx)).Should(Equal([]string{"c00", "c01", "c03!"}))
		Eventually(func() []string { return d.read(ctx).stale }).Should(Equal([]string{"c03"}))
		Expect(d.get(ctx, "c03").Spec.RemoteAttributes).To(Equal(map[string]string{"team": "a"}))
		Expect(d.fleet.Count("GetCollector")).To(Equal(3))
		d.later()
		Expect(d.fleet.Count("GetCollector")).To(Equal(3), "what is marked is not looked up again")
		Eventually(func() string { return strings.Join(cluster.EventNotes(ctx, d.namespace, "Pruned"), " ") }).Should(And(ContainSubstring("c02"), ContainSubstring("c04")))
	})

	It("keeps the Collector of a collector that only its list lacks, which is told that it is there", func(ctx SpecContext) {
		d := newCollectorDiscovery(ctx)
		d.registers(several(3)...)
		d.discover(ctx, pruneCollectors)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		Eventually(d.standing(ctx)).Should(Equal(map[string]int{"True/Synced": 3}))
		d.fleet.DeleteCollector("c02")
		release := make(chan struct{})
		d.fleet.Fail(fleetserver.Rule{Procedure: "GetCollector", Times: 1, Respond: fleetserver.Hold(release)})
		d.clock.Step(agesAfter)
		d.wake()
		Eventually(func() int { return d.fleet.Count("GetCollector") }).Should(Equal(1))
		Eventually(func() bool { return d.get(ctx, "c02").Status.Registered }).Should(BeFalse())
		d.registers("c02")
		close(release)
		Eventually(func() bool { return d.get(ctx, "c02").Status.Registered }).Should(BeTrue())
		d.look()
		Expect(d.names(ctx)()).To(Equal(several(3)))
		Expect(d.fleet.Count("GetCollector")).To(Equal(1))
	})

	It("holds back where nothing, or half, is listed (AT-13)", func(ctx SpecContext) {
		d := newCollectorDiscovery(ctx)
		d.registers(several(20)...)
		d.discover(ctx)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		Eventually(d.standing(ctx)).Should(Equal(map[string]int{"True/Synced": 20}))
		for _, id := range several(20)[10:] {
			d.fleet.DeleteCollector(id)
		}
		d.later()
		Eventually(d.ready(ctx)).Should(Equal("False/RemovalSuspended"))
		for _, id := range several(10) {
			d.fleet.DeleteCollector(id)
		}
		d.later()
		Eventually(func() string { return d.message(ctx) }).Should(ContainSubstring("no longer lists 20 of the collectors of this discovery's 20 Collectors"))
		Expect(d.names(ctx)()).To(Equal(several(20)))
		Expect(d.fleet.Count("GetCollector")).To(BeZero())
		Eventually(d.standing(ctx)).Should(Equal(map[string]int{"False/NotRegistered": 20}))
		d.quiet(func() { d.look() })
		d.registers(several(20)...)
		d.later()
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		Expect(d.names(ctx)()).To(Equal(several(20)))
	})

	It("looks up as many as were agreed to, pass by pass", func(ctx SpecContext) {
		d := newCollectorDiscovery(ctx)
		ids := several(90)
		d.registers(ids...)
		d.discover(ctx, pruneCollectors)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		for _, id := range ids[:80] {
			d.fleet.DeleteCollector(id)
		}
		d.later()
		Eventually(d.ready(ctx)).Should(Equal("False/RemovalSuspended"))
		d.approve(ctx)
		Eventually(d.names(ctx)).Should(Equal(ids[80:]))
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		Expect(d.fleet.Count("GetCollector")).To(Equal(80))
	})

	It("tells of 150 conflicts in bounds", func(ctx SpecContext) {
		d := newCollectorDiscovery(ctx)
		d.enableOnly("collector", "collector-discovery")
		for i := range 150 {
			id := fmt.Sprintf("c%03d", i)
			d.registers(id)
			d.create(ctx, d.collectorNamed("mine-"+id, id))
		}
		d.discover(ctx)
		d.start(ctx)
		Eventually(d.says(ctx, fleetmanagementv1alpha1.ConditionTruncatedConflicts)).Should(Equal("True/ConflictsTruncated"))
		state := d.read(ctx)
		Expect(state.conflicts).To(BeEquivalentTo(150))
		Expect(state.conflictIDs).To(HaveLen(100))
		Expect(state.conflictIDs[99]).To(Equal("c099"))
		Expect(state.reasons).To(HaveEach(fleetmanagementv1alpha1.ConflictNotOwned))
		Expect(d.ready(ctx)()).To(Equal("True/Synced"))
		Eventually(func() []string { return cluster.EventNotes(ctx, d.namespace, "Conflict") }).Should(HaveLen(10))
		d.look()
		Consistently(func() []string { return cluster.EventNotes(ctx, d.namespace, "Conflict") }, "500ms").Should(HaveLen(10))
		Expect(d.metric("fleet_discovery_objects", "kind", "CollectorDiscovery", "state", "conflict")()).To(Equal(150.0))
	})

	It("leaves to another discovery what that one made", func(ctx SpecContext) {
		d := newCollectorDiscovery(ctx)
		d.registers(several(3)...)
		d.discover(ctx)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		second := &fleetmanagementv1alpha1.CollectorDiscovery{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "second"}}
		second.Spec.Policy.OnCollectorRemoved = fleetmanagementv1alpha1.RemovalDelete
		d.create(ctx, second)
		Eventually(func() int32 {
			Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(second), second)).To(Succeed())
			return second.Status.ConflictsTotal
		}).Should(BeEquivalentTo(3))
		Expect(second.Status.Conflicts[0]).To(Equal(fleetmanagementv1alpha1.CollectorConflict{CollectorID: "c00", CRName: "c00", Reason: "OwnedByOtherDiscovery"}))
		d.fleet.DeleteCollector("c02")
		d.later()
		d.lookAt(d.row, second)
		Eventually(d.names(ctx)).Should(Equal([]string{"c00", "c01", "c02!"}), "the first one's policy counts")
	})

	It("takes over objects of the existing operator without a write in Fleet Management and without a second object", func(ctx SpecContext) {
		d := newCollectorDiscovery(ctx)
		d.registers("Edge.1", "edge-2")
		for name, id := range map[string]string{"edge-1-1a2b3": "Edge.1", "edge-2": "edge-2"} {
			d.create(ctx, d.collectorNamed(name, id, func(c *fleetmanagementv1alpha1.Collector) {
				c.Finalizers = []string{fleetmanagementv1alpha1.CollectorFinalizer}
				c.Labels = map[string]string{fleetmanagementv1alpha1.LabelCollectorDiscoveryName: "all"}
				c.Annotations = map[string]string{
					fleetmanagementv1alpha1.AnnotationCollectorDiscoveredBy: d.namespace + "/all", fleetmanagementv1alpha1.AnnotationCollectorID: id,
				}
			}))
		}
		d.discover(ctx, pruneCollectors)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		Expect(d.read(ctx).managed).To(BeEquivalentTo(2))
		Expect(d.names(ctx)()).To(Equal([]string{"edge-1-1a2b3", "edge-2"}))
		Expect(d.asked()).To(HaveLen(1), "the list")
	})

	It("says that its target namespace does not exist, and goes on when it does", func(ctx SpecContext) {
		d := newCollectorDiscovery(ctx)
		d.registers("edge-1")
		target := d.namespace + "-target"
		d.discover(ctx, func(o *fleetmanagementv1alpha1.CollectorDiscovery) { o.Spec.TargetNamespace = target })
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("False/UpsertFailed"))
		Expect(d.message(ctx)).To(HavePrefix(fmt.Sprintf("the namespace %q does not exist: create it", target)))
		cluster.CreateNamespace(ctx, target)
		DeferCleanup(func(ctx SpecContext) {
			d.stop() // first, since what it looks after goes
			cluster.DeleteAll(ctx, target, kinds()...)
		})
		d.wake()
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		Expect(cluster.Client.Get(ctx, client.ObjectKey{Namespace: target, Name: "edge-1"}, &fleetmanagementv1alpha1.Collector{})).To(Succeed())
	})

	It("does not let what the API server refuses keep the others from being made", func(ctx SpecContext) {
		d := newCollectorDiscovery(ctx)
		d.registers(strings.Repeat("x", 600), "edge-1", "edge-2")
		d.discover(ctx)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("False/UpsertFailed"))
		Expect(d.message(ctx)).To(HavePrefix("1 Collector cannot be created; that of collector xxx"))
		Expect(d.names(ctx)()).To(Equal([]string{"edge-1", "edge-2"}))
		for _, name := range []string{"edge-1", "edge-2"} {
			Eventually(func() bool { return d.get(ctx, name).Status.Registered }).Should(BeTrue())
		}
		d.quiet(func() { d.look(); d.look() })
	})

	It("makes 2,000 Collectors by several passes, and then costs nothing", func(ctx SpecContext) {
		d := newCollectorDiscovery(ctx)
		const many = 2000
		d.fleet.PutCollectors(many, func(i int) *collectorv1.Collector { return &collectorv1.Collector{Id: fmt.Sprintf("edge-%04d", i)} })
		d.discover(ctx)
		d.start(ctx)
		Eventually(d.ready(ctx)).WithTimeout(5 * time.Minute).Should(Equal("True/Synced"))
		Expect(d.read(ctx).managed).To(BeEquivalentTo(many))
		writes := d.writes()
		Expect(writes["create collectors"]).To(Equal(many))
		Expect(writes["update collectordiscoveries/status"]).To(Equal(1))
		Eventually(d.standing(ctx)).WithTimeout(5 * time.Minute).Should(Equal(map[string]int{"True/Synced": many}))
		Expect(d.asked()).To(HaveLen(1))
		d.quiet(func() { d.look() })
	})
})
