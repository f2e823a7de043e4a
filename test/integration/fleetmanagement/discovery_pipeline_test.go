// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"time"

	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

var _ = Describe("A PipelineDiscovery", func() {
	It("makes mirrors, which then follow Fleet Management, and the next passes cost nothing", func(ctx SpecContext) {
		d := newPipelineDiscovery(ctx)
		d.put("one")
		id := d.put("Two words", disabled)
		d.discover(ctx)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		Eventually(d.names(ctx)).Should(Equal([]string{"one", "two-words-mi6jadqj4x"}))
		p := d.get(ctx, "two-words-mi6jadqj4x")
		Expect(p.Labels).To(Equal(map[string]string{
			fleetmanagementv1alpha1.LabelPipelineDiscoveryName: "all", fleetmanagementv1alpha1.LabelPipelineDiscoveryNamespace: d.namespace,
		}))
		Expect(p.Annotations).To(Equal(map[string]string{
			fleetmanagementv1alpha1.AnnotationImportMode: "read-only", fleetmanagementv1alpha1.AnnotationPipelineID: id,
			fleetmanagementv1alpha1.AnnotationPipelineDiscoveredBy: d.namespace + "/all",
		}))
		Expect(p.Spec.Name).To(Equal("Two words"))
		Expect(*p.Spec.Enabled).To(BeFalse())
		Expect(p.OwnerReferences).To(BeEmpty())
		for _, name := range []string{"one", "two-words-mi6jadqj4x"} {
			Eventually(d.world.ready(ctx, name)).Should(Equal("True/ReadOnly"))
		}
		Expect(d.read(ctx).observed).To(BeEquivalentTo(2))
		Expect(d.read(ctx).managed).To(BeEquivalentTo(2))
		Expect(d.message(ctx)).To(Equal("2 of 2 pipelines in scope have a Pipeline of this discovery."))
		Expect(cluster.EventNotes(ctx, d.namespace, "PipelineDiscovered")).To(Equal([]string{
			"2 Pipelines were created, in " + d.namespace + ": one, two-words-mi6jadqj4x.",
		}))
		Expect(d.asked()).To(HaveLen(1), "one list for all")
		d.quiet(func() { d.look(); d.look() })

		d.fleet.EditPipeline(id, says("logging {}"))
		d.later()
		Eventually(func() string { return d.get(ctx, "two-words-mi6jadqj4x").Spec.Contents }).Should(Equal("logging {}"), "the list came for the discovery, and mirrors see it")
		Expect(d.fleet.Count(pipelineWrites...)).To(BeZero())
		Expect(d.asked()).To(HaveLen(2), "one list an interval")
		Expect(d.metric("fleet_discovery_objects", "kind", "PipelineDiscovery", "state", "managed")()).To(Equal(2.0))
		Expect(d.metric("fleet_discovery_changes_total", "kind", "PipelineDiscovery", "change", "created")()).To(Equal(2.0))
	})

	It("writes the time of its last look every half hour, and nothing else", func(ctx SpecContext) {
		d := newPipelineDiscovery(ctx)
		d.put("one")
		d.discover(ctx)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		Eventually(d.world.ready(ctx, "one")).Should(Equal("True/ReadOnly"))
		first, writes := d.read(ctx).lastSync, d.writes()
		for range 4 {
			d.later()
		}
		Expect(d.writes().Since(writes)).To(BeEmpty())
		d.later()
		Expect(d.writes().Since(writes)).To(HaveLen(1))
		Expect(d.read(ctx).lastSync.Sub(first.Time)).To(Equal(5 * agesAfter))
	})

	It("adopts without a write in Fleet Management, and what it adopted stays when everything is deleted", func(ctx SpecContext) {
		d := newPipelineDiscovery(ctx)
		id := d.put("one")
		d.discover(ctx, adopt)
		d.start(ctx)
		Eventually(d.world.ready(ctx, "one")).Should(Equal("True/Synced"))
		p := d.get(ctx, "one")
		Expect(p.Spec.AdoptionPolicy).To(Equal(fleetmanagementv1alpha1.AdoptAlways))
		Expect(p.Spec.DeletionPolicy).To(Equal(fleetmanagementv1alpha1.DeletionOrphan))
		Expect(p.Status.ID).To(Equal(id))
		Expect(p.Status.Adopted).To(BeTrue())
		d.quiet(func() { d.world.look("one") })
		Expect(d.fleet.Count(pipelineWrites...)).To(BeZero())

		d.change(ctx, "one", `{"spec": {"contents": "logging {}"}}`)
		Eventually(d.remote(id)).Should(Equal("logging {}"), "it manages the pipeline from then on")
		Expect(cluster.Client.DeleteAllOf(ctx, d.object(), inNamespace(d.namespace))).To(Succeed())
		d.delete(ctx, "one")
		Eventually(d.gone(ctx, "one")).Should(BeTrue())
		Expect(d.fleet.Count("DeletePipeline")).To(BeZero())
		Expect(d.fleet.Pipeline(id)).NotTo(BeNil())
	})

	It("deletes an adopted pipeline where a person writes so", func(ctx SpecContext) {
		d := newPipelineDiscovery(ctx)
		d.put("one")
		d.discover(ctx, adopt)
		d.start(ctx)
		Eventually(d.world.ready(ctx, "one")).Should(Equal("True/Synced"))
		Expect(cluster.Client.DeleteAllOf(ctx, d.object(), inNamespace(d.namespace))).To(Succeed())
		d.change(ctx, "one", `{"spec": {"deletionPolicy": "Delete"}}`)
		d.delete(ctx, "one")
		Eventually(d.gone(ctx, "one")).Should(BeTrue())
		Expect(d.fleet.Pipelines()).To(BeEmpty())
	})

	It("adopts what stands there now, not what an older list told", func(ctx SpecContext) {
		d := newPipelineDiscovery(ctx)
		id := d.put("one")
		d.start(ctx)
		Eventually(d.metric("fleet_stack_objects", "kind", "pipelines")).Should(Equal(1.0))
		d.step(2 * time.Minute)
		d.fleet.EditPipeline(id, says("logging {}"))
		d.discover(ctx, adopt)
		Eventually(d.world.ready(ctx, "one")).Should(Equal("True/Synced"))
		Expect(d.get(ctx, "one").Spec.Contents).To(Equal("logging {}"))
		Expect(d.fleet.Count(pipelineWrites...)).To(BeZero())
	})

	It("keeps a pipeline of Grafana a mirror, whatever the import mode", func(ctx SpecContext) {
		d := newPipelineDiscovery(ctx)
		d.put("one", func(p *pipelinev1.Pipeline) { p.Source = &pipelinev1.PipelineSource{Type: 3, Namespace: "apps"} })
		d.discover(ctx, adopt)
		d.start(ctx)
		Eventually(d.world.ready(ctx, "one")).Should(Equal("True/ReadOnly"))
		Expect(d.get(ctx, "one").Spec.Source.Type).To(Equal(fleetmanagementv1alpha1.SourceGrafana))
		Expect(d.fleet.Count(pipelineWrites...)).To(BeZero())
	})

	It("binds an object again whose pipeline was created anew under its name (B14)", func(ctx SpecContext) {
		d := newPipelineDiscovery(ctx)
		d.put("other")
		old := d.put("one")
		d.discover(ctx, prune)
		d.start(ctx)
		Eventually(d.world.ready(ctx, "one")).Should(Equal("True/ReadOnly"))
		d.fleet.DeletePipeline(old)
		id := d.put("one", says("logging {}"))
		Expect(id).NotTo(Equal(old))
		d.later()
		Eventually(func() string { return d.get(ctx, "one").Annotations[fleetmanagementv1alpha1.AnnotationPipelineID] }).Should(Equal(id))
		Eventually(func() string { return d.get(ctx, "one").Spec.Contents }).Should(Equal("logging {}"))
		Eventually(d.world.ready(ctx, "one")).Should(Equal("True/ReadOnly"))
		Expect(d.names(ctx)()).To(Equal([]string{"one", "other"}))
		Expect(d.read(ctx).conflicts).To(BeZero())
		Expect(cluster.EventNotes(ctx, d.namespace, "PipelineRebound")).To(HaveLen(1))
		Expect(d.fleet.Count("GetPipeline")).To(Equal(1), "the lookup that confirms it")
		Expect(d.fleet.Count(pipelineWrites...)).To(BeZero())
	})

	It("takes over objects of the existing operator without a write in Fleet Management and without a second object", func(ctx SpecContext) {
		d := newPipelineDiscovery(ctx)
		one, two := d.put("Edge One"), d.put("two")
		by := func(id string, namespace bool) []pipelineChange {
			all := []pipelineChange{
				annotated(fleetmanagementv1alpha1.AnnotationPipelineID, id), annotated(fleetmanagementv1alpha1.AnnotationPipelineDiscoveredBy, d.namespace+"/all"),
				func(p *fleetmanagementv1alpha1.Pipeline) {
					p.Labels = map[string]string{fleetmanagementv1alpha1.LabelPipelineDiscoveryName: "all"}
					if namespace {
						p.Labels[fleetmanagementv1alpha1.LabelPipelineDiscoveryNamespace] = d.namespace
					}
				},
			}
			return all
		}
		d.former(ctx, "edge-one-1a2b3", one, "Synced", append(by(one, true), named("Edge One"))...)
		d.former(ctx, "two", two, "Synced", append(by(two, false), named("two"))...)
		d.discover(ctx, adopt)
		former := &fleetmanagementv1alpha1.PipelineDiscovery{}
		Expect(cluster.Client.Get(ctx, key(d.namespace, "all"), former)).To(Succeed())
		former.Status.ObservedGeneration, former.Status.PipelinesObserved = former.Generation, 2
		former.Status.StalePipelines = []string{"Some name"}
		former.Status.Conflicts = []fleetmanagementv1alpha1.PipelineConflict{{PipelineID: "Some name", CRName: "some-name", Reason: "NameSanitizationFailed"}}
		Expect(cluster.Client.Status().Update(ctx, former)).To(Succeed())
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		for _, name := range []string{"edge-one-1a2b3", "two"} {
			Eventually(func() string { return d.status(ctx, name).SyncedHash }).ShouldNot(BeEmpty())
		}
		Expect(d.names(ctx)()).To(Equal([]string{"edge-one-1a2b3", "two"}))
		state := d.read(ctx)
		Expect([]any{state.managed, state.stale, state.conflictIDs}).To(Equal([]any{int32(2), []string(nil), []string(nil)}))
		Expect(d.fleet.Count(pipelineWrites...)).To(BeZero())
	})

	It("leaves what is in the way alone, and tells so in bounds", func(ctx SpecContext) {
		d := newPipelineDiscovery(ctx)
		var mine []string
		for _, name := range d.puts(3) {
			d.create(ctx, d.pipeline(name, func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.Paused = true }))
			mine = append(mine, name)
		}
		d.put("free")
		d.discover(ctx)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		Expect(d.names(ctx)()).To(Equal(append([]string{"free"}, mine...)))
		Expect(d.read(ctx).reasons).To(HaveEach(fleetmanagementv1alpha1.ConflictNotOwned))
		Expect(d.read(ctx).conflicts).To(BeEquivalentTo(3))
		Expect(d.message(ctx)).To(Equal("1 of 4 pipelines in scope have a Pipeline of this discovery. See status.conflicts for 3 conflicts."))
		Expect(d.says(ctx, fleetmanagementv1alpha1.ConditionTruncatedConflicts)()).To(Equal("False/NoConflictsTruncated"))
		Eventually(func() int { return len(cluster.EventNotes(ctx, d.namespace, "PipelineConflict")) }).Should(Equal(3))
		Expect(d.get(ctx, "p00").Labels).To(BeEmpty())
		d.quiet(func() { d.look() })
	})

	It("leaves its objects when it is deleted", func(ctx SpecContext) {
		d := newPipelineDiscovery(ctx)
		names := d.puts(2)
		d.discover(ctx, prune)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		Expect(cluster.Client.DeleteAllOf(ctx, d.object(), inNamespace(d.namespace))).To(Succeed())
		Eventually(d.metric("fleet_discovery_objects", "kind", "PipelineDiscovery")).Should(BeZero())
		Consistently(d.names(ctx), "300ms").Should(Equal(names))
	})
})
