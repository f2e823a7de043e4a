// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"slices"

	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/types/known/structpb"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

// stampedBy marks a pipeline as that of an object.
func stampedBy(cluster, namespace, name, uid string) func(*pipelinev1.Pipeline) {
	return func(p *pipelinev1.Pipeline) {
		metadata, err := structpb.NewStruct(map[string]any{
			"k8s.managed-by": "candor", "k8s.cluster": cluster, "k8s.namespace": namespace, "k8s.name": name, "k8s.uid": uid,
		})
		Expect(err).NotTo(HaveOccurred())
		p.Metadata = metadata
	}
}

var _ = Describe("The ownership of a pipeline", func() {
	It("AT-11: is that of the older of two objects with one name; deleting the other leaves it", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one", named("shared")))
		w.create(ctx, w.pipeline("two", named("shared")))
		Eventually(w.ready(ctx, "two")).Should(Equal("False/DuplicateName"))
		Expect(w.get(ctx, "two").Finalizers).To(BeEmpty())
		Expect(message(w.status(ctx, "two"), "Ready")).To(ContainSubstring(w.namespace + "/one"))
		w.quiet(func() { w.look("two", "two") })
		Expect(w.fleet.Count(pipelineWrites...)).To(Equal(1))
		w.delete(ctx, "two")
		Eventually(w.gone(ctx, "two")).Should(BeTrue())
		Expect(w.names()).To(Equal([]string{"shared"}))
		Expect(w.fleet.Count(pipelineWrites...)).To(Equal(1))
	})

	It("is not that of a copy which a discovery made and somebody adopted, and it says what to do", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one", named("shared")))
		w.create(ctx, w.pipeline("copy", named("shared"), annotated(fleetmanagementv1alpha1.AnnotationPipelineID, w.status(ctx, "one").ID),
			annotated(fleetmanagementv1alpha1.AnnotationImportMode, fleetmanagementv1alpha1.ImportModeAdopt)))
		Eventually(w.ready(ctx, "copy")).Should(Equal("False/DuplicateName"))
		Expect(message(w.status(ctx, "copy"), "Ready")).To(HaveSuffix("that one manages the pipeline, so set the annotation " +
			"fleetmanagement.grafana.com/import-mode of this one to read-only, or delete one of the two"))
		w.change(ctx, "copy", `{"metadata": {"annotations": {"fleetmanagement.grafana.com/import-mode": "read-only"}}}`)
		Eventually(w.ready(ctx, "copy")).Should(Equal("True/ReadOnly"))
	})

	It("passes to the other object of the name when the first one goes", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one", named("shared")))
		w.create(ctx, w.pipeline("two", named("shared")))
		Eventually(w.ready(ctx, "two")).Should(HavePrefix("False/"))
		w.delete(ctx, "one")
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		Eventually(w.ready(ctx, "two")).Should(Equal("True/Synced"))
		Expect(w.names()).To(Equal([]string{"shared"}))
	})

	It("AT-11: is never taken from another cluster, whatever the adoption policy", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.put("one", stampedBy("elsewhere", "team-z", "theirs", "uid-z"))
		w.start(ctx)
		w.create(ctx, w.pipeline("one", adopting(fleetmanagementv1alpha1.AdoptAlways)))
		Eventually(w.ready(ctx, "one")).Should(Equal("False/OwnedByOther"))
		Expect(message(w.status(ctx, "one"), "Ready")).To(And(ContainSubstring("elsewhere"), ContainSubstring("team-z/theirs")))
		w.quiet(func() { w.look("one", "one") })
		w.delete(ctx, "one")
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		Expect(w.fleet.Count(pipelineWrites...)).To(BeZero())
		Expect(w.names()).To(Equal([]string{"one"}))
	})

	DescribeTable("follows the adoption policy where nobody stamped the pipeline",
		func(ctx context.Context, policy fleetmanagementv1alpha1.AdoptionPolicy, text, ready string, writes int) {
			w := newWorld(ctx)
			id := w.put("one", says(text))
			w.start(ctx)
			w.create(ctx, w.pipeline("one", adopting(policy)))
			Eventually(w.ready(ctx, "one")).Should(Equal(ready))
			Expect(w.fleet.Count(pipelineWrites...)).To(Equal(writes))
			w.quiet(func() { w.look("one", "one") })
			adopted := writes == 1
			Expect(w.status(ctx, "one").Adopted).To(Equal(adopted))
			if adopted {
				Expect(stampOf(w.fleet.Pipeline(id))).To(HaveKeyWithValue("k8s.name", "one"))
			}
			w.delete(ctx, "one")
			Eventually(w.gone(ctx, "one")).Should(BeTrue())
			Expect(w.fleet.Pipeline(id)).NotTo(BeNil(), "it was there before the object")
			Expect(stampOf(w.fleet.Pipeline(id))).To(BeEmpty(), "and is nobody's again")
		},
		Entry("Never", fleetmanagementv1alpha1.AdoptNever, contents, "False/NameInUse", 0),
		Entry("IfUnmanaged and equal", fleetmanagementv1alpha1.AdoptIfUnmanaged, contents, "True/Synced", 1),
		Entry("IfUnmanaged and different", fleetmanagementv1alpha1.AdoptIfUnmanaged, "logging {}", "False/NameInUse", 0),
		Entry("Always", fleetmanagementv1alpha1.AdoptAlways, "logging {}", "True/Synced", 1),
	)

	DescribeTable("ends as the deletion policy says", func(ctx context.Context, existed bool, policy fleetmanagementv1alpha1.DeletionPolicy, event string, stays bool) {
		w := newWorld(ctx)
		if existed {
			w.put("one")
		}
		w.start(ctx)
		w.synced(ctx, w.pipeline("one", func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.DeletionPolicy = policy }))
		w.delete(ctx, "one")
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		Expect(w.fleet.Pipeline("one") != nil).To(Equal(stays))
		if stays {
			Expect(stampOf(w.fleet.Pipeline("one"))).To(BeEmpty())
		}
		Eventually(func() []string { return w.events(ctx) }).Should(ContainElement("Normal " + event))
	},
		Entry("created, by default", false, fleetmanagementv1alpha1.DeletionPolicy(""), "Deleted", false),
		Entry("created, Orphan", false, fleetmanagementv1alpha1.DeletionOrphan, "Orphaned", true),
		Entry("adopted, by default", true, fleetmanagementv1alpha1.DeletionPolicy(""), "Orphaned", true),
		Entry("adopted, Delete", true, fleetmanagementv1alpha1.DeletionDelete, "Deleted", false),
	)

	It("stays with whoever took the pipeline over when the object is deleted", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.fleet.EditPipeline("one", stampedBy("elsewhere", "team-z", "theirs", "uid-z"))
		w.poll()
		Eventually(w.ready(ctx, "one")).Should(Equal("False/OwnedByOther"))
		w.unwritten(func() {
			w.delete(ctx, "one")
			Eventually(w.gone(ctx, "one")).Should(BeTrue())
		})
		Eventually(func() []string { return w.events(ctx) }).Should(ContainElement("Normal RemoteNotOwned"))
	})

	It("ends without a call under skip-remote-delete", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.unwritten(func() {
			w.change(ctx, "one", `{"metadata": {"annotations": {"`+fleetmanagementv1alpha1.AnnotationSkipRemoteDelete+`": "true"}}}`)
			w.delete(ctx, "one")
			Eventually(w.gone(ctx, "one")).Should(BeTrue())
		})
		Expect(w.names()).To(Equal([]string{"one"}))
	})

	It("AT-12: is kept by a rename in place: the same ID, one pipeline at each instant", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		id := w.status(ctx, "one").ID
		w.change(ctx, "one", `{"spec": {"name": "new"}}`)
		Eventually(func() string { return w.status(ctx, "one").SyncedName }).Should(Equal("new"))
		Expect(w.fleet.Pipeline("new").GetId()).To(Equal(id))
		Expect(w.names()).To(Equal([]string{"new"}))
		Expect(w.fleet.Count(pipelineWrites...)).To(Equal(2), "one creation, one update")
		for _, revision := range w.fleet.Revisions() {
			Expect(revision.GetSnapshot().GetId()).To(Equal(id))
			Expect(revision.GetOperation()).NotTo(Equal(pipelinev1.PipelineRevision_DELETE))
		}
		w.quiet(func() { w.look("one") })
	})

	DescribeTable("moves into a name scope by renaming", func(ctx context.Context, scope string) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"), w.pipeline("two", annotated(fleetmanagementv1alpha1.AnnotationNameScope, fleetmanagementv1alpha1.NameScopeNone)))
		id := w.status(ctx, "one").ID
		w.stop()
		w.options.Fleet.NameScope, w.options.Fleet.ClusterID = scope, w.fleet.Pipeline("one").GetMetadata().AsMap()["k8s.cluster"].(string)
		w.start(ctx)
		want := w.namespace + ".one"
		if scope == fleetmanagementv1alpha1.NameScopeCluster {
			want = w.options.Fleet.ClusterID + "." + w.namespace + ".one"
		}
		Eventually(func() string { return w.fleet.Pipeline(id).GetName() }).Should(Equal(want))
		Eventually(func() []string { return w.events(ctx) }).Should(ContainElement("Normal Renamed"))
		Expect(w.names()).To(ConsistOf(want, "two"))
		w.change(ctx, "two", `{"metadata": {"annotations": {"`+fleetmanagementv1alpha1.AnnotationNameScope+`": "namespace"}}}`)
		Eventually(w.names).Should(ConsistOf(want, w.namespace+".two"))
		Expect(w.fleet.Count(pipelineWrites...)).To(Equal(4), "two creations, two renames")
	},
		Entry("of the namespace", fleetmanagementv1alpha1.NameScopeNamespace),
		Entry("of the cluster", fleetmanagementv1alpha1.NameScopeCluster),
	)

	It("lets two objects swap their names", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one", named("x")), w.pipeline("two", named("y")))
		first, second := w.status(ctx, "one").ID, w.status(ctx, "two").ID
		w.change(ctx, "one", `{"spec": {"name": "y"}}`)
		w.change(ctx, "two", `{"spec": {"name": "x"}}`)
		for _, name := range []string{"one", "two"} {
			Eventually(func() bool {
				p := w.get(ctx, name)
				return p.Status.SyncedName == p.Spec.Name && w.ready(ctx, name)() == "True/Synced"
			}).Should(BeTrue(), name)
		}
		Expect(w.fleet.Pipeline("y").GetId()).To(Equal(first))
		Expect(w.fleet.Pipeline("x").GetId()).To(Equal(second))
		Expect(w.fleet.Count("CreatePipeline")).To(Equal(2))
		Expect(w.fleet.Count("DeletePipeline")).To(BeZero())
		Expect(w.fleet.Count("UpdatePipeline")).To(BeNumerically("<=", 4), "three are enough; a swap in two steps may take one more")
		w.quiet(func() { w.look("one", "two") })
	})

	Describe("whose object is gone", func() {
		orphan := func(ctx context.Context, gc bool) *world {
			w := newWorld(ctx)
			w.options.Fleet.GCOrphans = gc
			w.start(ctx)
			w.synced(ctx, w.pipeline("one"), w.pipeline("two"))
			// Somebody takes the finalizer away.
			w.stop()
			p := w.get(ctx, "two")
			w.change(ctx, "two", `{"metadata": {"finalizers": null}}`)
			w.delete(ctx, p.Name)
			w.start(ctx)
			return w
		}

		It("is counted, and stays", func(ctx SpecContext) {
			w := orphan(ctx, false)
			Eventually(w.metric("fleet_pipelines_orphaned")).Should(Equal(1.0))
			w.unwritten(func() { w.poll(); w.poll(); w.poll() })
			Expect(w.names()).To(Equal([]string{"one", "two"}))
		})

		It("is deleted after two polls where that is asked for", func(ctx SpecContext) {
			w := orphan(ctx, true)
			Eventually(w.metric("fleet_pipelines_orphaned")).Should(Equal(1.0))
			Expect(w.names()).To(Equal([]string{"one", "two"}), "after one poll")
			w.poll()
			Eventually(w.names).Should(Equal([]string{"one"}))
			w.poll()
			Eventually(w.metric("fleet_pipelines_orphaned")).Should(BeZero())
		})

		It("is no orphan while the cluster has no object at all", func(ctx SpecContext) {
			w := newWorld(ctx)
			w.options.Fleet.GCOrphans = true
			w.start(ctx)
			w.synced(ctx, w.pipeline("one"))
			w.stop()
			w.change(ctx, "one", `{"metadata": {"finalizers": null}}`)
			w.delete(ctx, "one")
			w.start(ctx)
			w.unwritten(func() { w.poll(); w.poll(); w.poll() })
			Expect(w.metric("fleet_pipelines_orphaned")()).To(BeZero())
			Expect(w.names()).To(Equal([]string{"one"}))
		})

		It("is taken over by an object that is created anew", func(ctx SpecContext) {
			w := newWorld(ctx)
			w.options.Fleet.GCOrphans = true
			w.start(ctx)
			w.synced(ctx, w.pipeline("one"), w.pipeline("two"))
			id := w.status(ctx, "two").ID
			w.stop()
			w.change(ctx, "two", `{"metadata": {"finalizers": null}}`)
			w.delete(ctx, "two")
			w.create(ctx, w.pipeline("two"))
			w.start(ctx)
			Eventually(w.ready(ctx, "two")).Should(Equal("True/Synced"))
			Expect(w.status(ctx, "two").ID).To(Equal(id))
			Expect(w.status(ctx, "two").Adopted).To(BeFalse(), "it was the object's own in its former life")
			w.poll()
			w.poll()
			Expect(slices.Sorted(slices.Values(w.names()))).To(Equal([]string{"one", "two"}))
		})
	})
})
