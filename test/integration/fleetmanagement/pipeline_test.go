// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"fmt"
	"strings"

	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
	"github.com/candor-dev/candor/test/kube"
)

var _ = Describe("A Pipeline", func() {
	It("is created once, stamped, and costs nothing afterwards", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		p, live := w.get(ctx, "one"), w.fleet.Pipeline("one")
		var system corev1.Namespace
		Expect(cluster.Client.Get(ctx, client.ObjectKey{Name: "kube-system"}, &system)).To(Succeed())
		Expect(stampOf(live)).To(Equal(map[string]any{
			"k8s.managed-by": "candor", "k8s.cluster": string(system.UID), "k8s.namespace": w.namespace, "k8s.name": "one",
			"k8s.uid": string(p.UID), "k8s.spec-hash": p.Status.SyncedHash,
		}))
		Expect(p.Status.ID).To(Equal(live.GetId()))
		Expect(p.Status.SyncedName).To(Equal("one"))
		Expect(p.Status.ObservedGeneration).To(Equal(p.Generation))
		Expect(p.Finalizers).To(Equal([]string{fleetmanagementv1alpha1.PipelineFinalizer}))
		Expect(w.fleet.Count(pipelineCalls...)).To(Equal(2), "one list and one creation")
		Expect(w.writes()).To(Equal(kube.Counts{"update pipelines": 1, "update pipelines/status": 1}))
		w.quiet(func() { w.look("one", "one") })
		w.poll()
		w.quiet(func() { w.look("one") })
		Expect(w.fleet.Count(pipelineCalls...)).To(Equal(3), "one more list an interval")
	})

	It("AT-03: sends one Event through events.k8s.io under the manager's rights", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		Eventually(func() []string { return w.events(ctx) }).Should(Equal([]string{"Normal Created"}))
		w.look("one", "one")
		w.stop()
		Expect(w.events(ctx)).To(Equal([]string{"Normal Created"}))
	})

	It("is updated by its ID when its spec changes, and keeps what others wrote into the metadata", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		id := w.status(ctx, "one").ID
		w.fleet.EditPipeline("one", func(p *pipelinev1.Pipeline) { p.Metadata.Fields["team"] = p.Metadata.Fields["k8s.name"] })
		w.poll()
		w.change(ctx, "one", `{"spec": {"enabled": false}}`)
		Eventually(func() bool { return w.fleet.Pipeline(id).GetEnabled() }).Should(BeFalse())
		Expect(stampOf(w.fleet.Pipeline(id))).To(HaveKeyWithValue("team", "one"))
		Expect(w.fleet.Count("UpdatePipeline")).To(Equal(1))
		Eventually(func() bool { p := w.get(ctx, "one"); return p.Status.ObservedGeneration == p.Generation }).Should(BeTrue())
		w.quiet(func() { w.look("one") })
	})

	It("writes nothing when the spec changes in white space only", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.unwritten(func() {
			w.change(ctx, "one", `{"spec": {"contents": "logging {\r\n\tlevel = \"info\"\r\n}\r\n\r\n"}}`)
			Eventually(func() int64 { return w.status(ctx, "one").ObservedGeneration }).Should(Equal(int64(2)))
		})
	})

	It("is deleted in Fleet Management with the object", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.delete(ctx, "one")
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		Expect(w.fleet.Pipelines()).To(BeEmpty())
		Eventually(func() []string { return w.events(ctx) }).Should(ConsistOf("Normal Created", "Normal Deleted"))
	})

	It("takes contents of 1 MB", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		big := contents + "// " + strings.Repeat("x", 1_000_000) + "\n"
		w.synced(ctx, w.pipeline("one", func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.Contents = big }))
		Expect(w.remote("one")()).To(HaveLen(len(big)))
		w.quiet(func() { w.look("one") })
	})

	It("waits without a finalizer for credentials, and goes without them", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.unmount()
		w.start(ctx)
		w.create(ctx, w.pipeline("one"), w.pipeline("two"))
		for _, name := range []string{"one", "two"} {
			Eventually(w.ready(ctx, name)).Should(Equal("False/NoCredentials"))
			Expect(w.get(ctx, name).Finalizers).To(BeEmpty())
		}
		w.quiet(func() { w.look("one", "two") })
		w.delete(ctx, "two")
		Eventually(w.gone(ctx, "two")).Should(BeTrue())
		Expect(w.fleet.Count(pipelineCalls...)).To(BeZero())
		w.mount()
		w.look("one")
		Eventually(w.ready(ctx, "one")).Should(Equal("True/Synced"))
	})

	It("goes without credentials when it was never synced, finalizer or not", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.unmount()
		w.create(ctx, w.pipeline("one", func(p *fleetmanagementv1alpha1.Pipeline) {
			p.Finalizers = []string{fleetmanagementv1alpha1.PipelineFinalizer}
		}))
		w.start(ctx)
		Eventually(w.ready(ctx, "one")).Should(Equal("False/NoCredentials"))
		w.delete(ctx, "one")
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
	})

	It("holds still while it is paused, and is deleted all the same", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.unwritten(func() {
			w.change(ctx, "one", `{"spec": {"paused": true}}`)
			Eventually(w.says(ctx, "one", "Paused")).Should(Equal("True/Paused"))
			Expect(w.ready(ctx, "one")()).To(Equal("True/Synced"), "what was applied still stands")
			w.change(ctx, "one", `{"spec": {"enabled": false}}`)
			Eventually(w.ready(ctx, "one")).Should(Equal("False/Paused"))
			w.quiet(func() { w.look("one", "one") })
		})
		w.change(ctx, "one", `{"spec": {"paused": false}}`)
		Eventually(w.ready(ctx, "one")).Should(Equal("True/Synced"))
		Expect(w.says(ctx, "one", "Paused")()).To(BeEmpty())
		Eventually(func() []string { return w.events(ctx) }).Should(ConsistOf("Normal Created", "Normal Paused", "Normal Resumed", "Normal Updated"))

		w.change(ctx, "one", `{"spec": {"paused": true}}`)
		Eventually(w.says(ctx, "one", "Paused")).Should(Equal("True/Paused"))
		w.delete(ctx, "one")
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		Expect(w.fleet.Pipelines()).To(BeEmpty())
	})

	It("is checked and not applied in a dry run", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.create(ctx, w.pipeline("one", annotated(fleetmanagementv1alpha1.AnnotationDryRun, "true")))
		Eventually(w.says(ctx, "one", "Validated")).Should(Equal("True/Valid"))
		Expect(w.ready(ctx, "one")()).To(Equal("False/DryRun"))
		w.quiet(func() { w.look("one", "one") })
		w.change(ctx, "one", `{"spec": {"contents": "invalid {{{"}}`)
		Eventually(w.says(ctx, "one", "Validated")).Should(Equal("False/ValidationError"))
		Expect(w.fleet.Pipelines()).To(BeEmpty())
		Expect(w.fleet.Count("UpsertPipeline")).To(Equal(2))
		w.change(ctx, "one", `{"spec": {"contents": "logging {}"}, "metadata": {"annotations": null}}`)
		Eventually(w.ready(ctx, "one")).Should(Equal("True/Synced"))
		Expect(w.says(ctx, "one", "Validated")()).To(BeEmpty())
		Expect(w.names()).To(Equal([]string{"one"}))
	})

	DescribeTable("is not written while an annotation that may be there to prevent it means nothing", func(ctx SpecContext, key, value, means string) {
		w := newWorld(ctx)
		w.start(ctx)
		w.create(ctx, w.pipeline("one", annotated(key, value)))
		Eventually(w.ready(ctx, "one")).Should(Equal("False/ValidationError"))
		Expect(message(w.status(ctx, "one"), "Ready")).To(Equal(fmt.Sprintf("nothing is sent, since metadata.annotations[%s] is %q: it can be %s; write one of these, or remove it",
			key, value, means)))
		Expect(w.fleet.Pipelines()).To(BeEmpty())
		w.change(ctx, "one", `{"metadata": {"annotations": null}}`)
		Eventually(w.ready(ctx, "one")).Should(Equal("True/Synced"))
		w.unwritten(func() {
			w.change(ctx, "one", fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}, "spec": {"contents": "logging { }"}}`, key, value))
			Eventually(w.ready(ctx, "one")).Should(Equal("False/ValidationError"))
			w.look("one")
		})
	},
		Entry("a dry run", fleetmanagementv1alpha1.AnnotationDryRun, "True", "true or false"),
		Entry("a mirror", fleetmanagementv1alpha1.AnnotationImportMode, "ReadOnly", "read-only or adopt"),
	)

	DescribeTable("leaves the pipeline behind when it goes with an annotation that may ask for it and means nothing", func(ctx SpecContext, key string) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.change(ctx, "one", fmt.Sprintf(`{"metadata": {"annotations": {%q: "Yes"}}}`, key))
		w.delete(ctx, "one")
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		Expect(w.names()).To(Equal([]string{"one"}))
	},
		Entry("of a mirror", fleetmanagementv1alpha1.AnnotationImportMode),
		Entry("of an object that is to be let go", fleetmanagementv1alpha1.AnnotationSkipRemoteDelete),
	)

	It("is known by its ID where Fleet Management drops metadata", func(ctx SpecContext) {
		w := newWorld(ctx, func(o *fleetserver.Options) { o.DropMetadata = true })
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		Expect(message(w.status(ctx, "one"), "Ready")).To(ContainSubstring("known by its ID"))
		w.quiet(func() { w.look("one", "one") })
		w.restart(ctx)
		w.look("one")
		w.change(ctx, "one", `{"spec": {"name": "other"}}`)
		Eventually(w.names).Should(Equal([]string{"other"}))
		w.delete(ctx, "one")
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		Expect(w.fleet.Pipelines()).To(BeEmpty())
		Expect(w.fleet.Count(pipelineWrites...)).To(Equal(3), "created, renamed, deleted")
	})
})
