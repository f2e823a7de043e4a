// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"slices"
	"strings"
	"time"

	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

var _ = Describe("A pipeline that somebody else changes", func() {
	DescribeTable("AT-25: is corrected within an interval", func(ctx context.Context, edit func(*pipelinev1.Pipeline), field string) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		id := w.status(ctx, "one").ID
		w.clock.Step(time.Second)
		w.fleet.EditPipeline(id, edit)
		w.poll()
		Eventually(func() []string { return w.events(ctx) }).Should(ConsistOf("Normal Created", "Warning DriftCorrected"))
		live := w.fleet.Pipeline(id)
		Expect([]any{live.GetName(), live.GetContents(), live.GetMatchers(), live.GetEnabled()}).To(Equal([]any{"one", contents, []string{`env="prod"`}, true}))
		Expect(w.fleet.Count("UpdatePipeline")).To(Equal(1))
		Expect(w.status(ctx, "one").Drift.Fields).To(Equal([]string{field}))
		Expect(w.metric("fleet_pipeline_drift_total", "field", field, "action", "corrected")()).To(Equal(1.0))
		Expect(w.drifted(ctx, "one")()).To(BeEmpty())
		w.quiet(func() { w.look("one", "one") })
		w.unwritten(w.poll)
	},
		Entry("edited", says("logging {}"), "contents"),
		Entry("disabled", disabled, "enabled"),
		Entry("renamed", func(p *pipelinev1.Pipeline) { p.Name = "theirs" }, "name"),
		Entry("given other matchers", func(p *pipelinev1.Pipeline) { p.Matchers = nil }, "matchers"),
	)

	It("AT-25: is created again when it was deleted", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		former := w.status(ctx, "one").ID
		w.fleet.DeletePipeline("one")
		w.poll()
		Eventually(func() []string { return w.events(ctx) }).Should(ConsistOf("Normal Created", "Warning Recreated"))
		Expect(w.status(ctx, "one").ID).NotTo(Equal(former))
		w.quiet(func() { w.look("one", "one") })
	})

	It("is left alone where it means the same", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.fleet.EditPipeline("one", func(p *pipelinev1.Pipeline) {
			p.Contents, p.Matchers = "logging { \r\n\tlevel = \"info\"\r\n}", []string{"env=prod"}
		})
		w.unwritten(func() {
			w.poll()
			w.look("one")
		})
	})

	DescribeTable("AT-25: is only marked where the policy is to warn", func(ctx context.Context, edit func(*world), drifted, ready string) {
		w := newWorld(ctx)
		w.options.Fleet.DriftPolicy = string(fleetmanagementv1alpha1.DriftWarn)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		edit(w)
		w.unwritten(func() {
			w.poll()
			Eventually(w.drifted(ctx, "one")).Should(Equal(drifted))
			Expect(w.ready(ctx, "one")()).To(Equal(ready))
			w.quiet(func() { w.look("one", "one") })
			writes := w.writes()
			w.poll()
			w.look("one")
			Expect(w.writes().Since(writes)).To(BeEmpty())
		})
		w.change(ctx, "one", `{"spec": {"driftPolicy": "Correct"}}`)
		Eventually(w.drifted(ctx, "one")).Should(BeEmpty())
		Eventually(w.ready(ctx, "one")).Should(Equal("True/Synced"))
		Expect(w.remote("one")()).To(Equal(contents))
	},
		Entry("edited", func(w *world) { w.fleet.EditPipeline("one", says("logging {}")) }, "True/RemoteModified", "True/Synced"),
		Entry("deleted", func(w *world) { w.fleet.DeletePipeline("one") }, "True/RemoteDeleted", "False/RemoteDeleted"),
	)

	It("is left alone where the policy is to ignore", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one", drifting(fleetmanagementv1alpha1.DriftIgnore)))
		w.fleet.EditPipeline("one", says("logging {}"))
		w.unwritten(func() {
			w.poll()
			w.look("one")
		})
		Expect(w.drifted(ctx, "one")()).To(BeEmpty())
		w.change(ctx, "one", `{"spec": {"enabled": false}}`)
		Eventually(w.remote("one")).Should(Equal(contents), "a new spec is written whole")
	})

	It("AT-25: is given a rest when somebody undoes each correction", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.options.Fleet.DriftInterval = time.Minute
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		for n := range 3 {
			w.fleet.EditPipeline("one", says("logging {}"))
			w.poll()
			Eventually(func() int { return w.fleet.Count("UpdatePipeline") }).Should(Equal(n + 1))
			Eventually(func() int32 {
				if d := w.status(ctx, "one").Drift; d != nil {
					return d.Corrections
				}
				return 0
			}).Should(Equal(int32(n + 1)))
		}
		w.fleet.EditPipeline("one", says("logging {}"))
		w.unwritten(func() {
			w.poll()
			Eventually(w.drifted(ctx, "one")).Should(Equal("True/Contended"))
			Expect(w.ready(ctx, "one")()).To(Equal("False/Contended"))
			writes := w.writes()
			for range 14 {
				w.poll()
				w.look("one")
			}
			Expect(w.writes().Since(writes)).To(BeEmpty())
		})
		w.poll()
		Eventually(w.drifted(ctx, "one")).Should(BeEmpty())
		Expect(w.remote("one")()).To(Equal(contents))
		Expect(w.fleet.Count("UpdatePipeline")).To(Equal(4))
		w.fleet.EditPipeline("one", says("logging {}"))
		w.poll()
		Eventually(w.drifted(ctx, "one")).Should(Equal("True/Contended"), "one more is enough")
	})

	It("is stood for again when it was deleted and created anew under its name", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.fleet.DeletePipeline("one")
		id := w.put("one", says("logging {}"))
		w.poll()
		Eventually(func() string { return w.status(ctx, "one").ID }).Should(Equal(id))
		Eventually(func() []string { return w.events(ctx) }).Should(ConsistOf("Normal Created", "Warning Rebound"))
		Expect(w.remote("one")()).To(Equal(contents))
		Expect(stampOf(w.fleet.Pipeline(id))).To(HaveKeyWithValue("k8s.name", "one"))
		w.quiet(func() { w.look("one", "one") })
	})
})

var _ = Describe("A mirror", func() {
	readOnly := annotated(fleetmanagementv1alpha1.AnnotationImportMode, fleetmanagementv1alpha1.ImportModeReadOnly)

	It("follows Fleet Management and never changes it", func(ctx SpecContext) {
		w := newWorld(ctx)
		id := w.put("Their pipeline", says("logging {}"))
		w.start(ctx)
		w.create(ctx, w.pipeline("one", readOnly, annotated(fleetmanagementv1alpha1.AnnotationPipelineID, id)))
		Eventually(w.ready(ctx, "one")).Should(Equal("True/ReadOnly"))
		p := w.get(ctx, "one")
		Expect([]any{p.Spec.Name, p.Spec.Contents, p.Spec.Matchers, *p.Spec.Enabled}).To(Equal([]any{"Their pipeline", "logging {}", []string{`env="prod"`}, true}))
		Expect(p.Status.ID).To(Equal(id))
		w.quiet(func() { w.look("one", "one") })

		w.clock.Step(time.Second)
		w.fleet.EditPipeline(id, disabled)
		w.poll()
		Eventually(func() bool { return *w.get(ctx, "one").Spec.Enabled }).Should(BeFalse())
		Eventually(func() []string { return w.events(ctx) }).Should(ContainElement("Normal MirrorUpdated"))
		Eventually(w.ready(ctx, "one")).Should(Equal("True/ReadOnly"))
		w.look("one")
		w.quiet(func() { w.look("one", "one") })

		w.fleet.DeletePipeline(id)
		w.poll()
		Eventually(w.ready(ctx, "one")).Should(Equal("False/ReadOnly"))
		w.quiet(func() { w.look("one", "one") })
		Expect(w.fleet.Count(pipelineWrites...)).To(BeZero())
	})

	It("says so when its spec was edited, and is deleted without a trace", func(ctx SpecContext) {
		w := newWorld(ctx)
		id := w.put("theirs")
		w.start(ctx)
		w.create(ctx, w.pipeline("one", readOnly, named("theirs")))
		Eventually(w.ready(ctx, "one")).Should(Equal("True/ReadOnly"))
		Expect(w.status(ctx, "one").ID).To(Equal(id), "found by its name")
		w.change(ctx, "one", `{"spec": {"contents": "logging {}"}}`)
		Eventually(w.ready(ctx, "one")).Should(Equal("False/MirrorEdited"))
		w.quiet(func() { w.look("one", "one") })
		w.change(ctx, "one", `{"spec": {"contents": "logging {\n\tlevel = \"info\"\n}"}}`)
		Eventually(w.ready(ctx, "one")).Should(Equal("True/ReadOnly"))
		w.delete(ctx, "one")
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		Expect(w.fleet.Count(pipelineWrites...)).To(BeZero())
		Expect(w.names()).To(Equal([]string{"theirs"}))
	})

	It("shows what Grafana manages, whatever the annotation", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.put("theirs", func(p *pipelinev1.Pipeline) { p.Source = &pipelinev1.PipelineSource{Type: 3, Namespace: "ui"} })
		w.start(ctx)
		w.create(ctx, w.pipeline("one", named("theirs"), annotated(fleetmanagementv1alpha1.AnnotationImportMode, fleetmanagementv1alpha1.ImportModeAdopt),
			func(p *fleetmanagementv1alpha1.Pipeline) {
				p.Spec.Source = &fleetmanagementv1alpha1.PipelineSource{Type: fleetmanagementv1alpha1.SourceGrafana, Namespace: "ui"}
			}))
		Eventually(w.ready(ctx, "one")).Should(Equal("True/ReadOnly"))
		Expect(w.status(ctx, "one").Source.Type).To(Equal(fleetmanagementv1alpha1.SourceGrafana))
		Expect(w.fleet.Count(pipelineWrites...)).To(BeZero())
	})

	DescribeTable("of more than an object can hold says so, and is not tried again before its time", func(ctx context.Context, edit func(*pipelinev1.Pipeline), says string) {
		w := newWorld(ctx)
		id := w.put("theirs", edit)
		w.start(ctx)
		w.create(ctx, w.pipeline("one", readOnly, annotated(fleetmanagementv1alpha1.AnnotationPipelineID, id)))
		Eventually(w.ready(ctx, "one")).Should(Equal("False/ReadOnly"))
		Expect(message(w.status(ctx, "one"), "Ready")).To(And(ContainSubstring(says), ContainSubstring("change the pipeline in Grafana")))
		w.quiet(func() { w.look("one", "one") })
	},
		Entry("a long name", func(p *pipelinev1.Pipeline) { p.Name = strings.Repeat("n", 2000) }, "spec.name"),
		Entry("large contents", func(p *pipelinev1.Pipeline) { p.Contents = "// " + strings.Repeat("x", 1<<20) }, "spec.contents"),
		Entry("many matchers", func(p *pipelinev1.Pipeline) { p.Matchers = slices.Repeat([]string{"a=b"}, 101) }, "spec.matchers"),
	)

	It("shows a source of any length", func(ctx SpecContext) {
		w := newWorld(ctx)
		id := w.put("theirs", func(p *pipelinev1.Pipeline) {
			p.Source = &pipelinev1.PipelineSource{Type: 3, Namespace: strings.Repeat("ü", 600)}
		})
		w.start(ctx)
		w.create(ctx, w.pipeline("one", readOnly, annotated(fleetmanagementv1alpha1.AnnotationPipelineID, id)))
		Eventually(w.ready(ctx, "one")).Should(Equal("True/ReadOnly"))
		Expect(w.status(ctx, "one").Source.Namespace).To(Equal(strings.Repeat("ü", 512)))
		w.quiet(func() { w.look("one", "one") })
	})

	It("that was managed before it became one leaves no stamp when it goes", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.change(ctx, "one", `{"metadata": {"annotations": {"`+fleetmanagementv1alpha1.AnnotationImportMode+`": "read-only"}}}`)
		Eventually(w.ready(ctx, "one")).Should(Equal("True/ReadOnly"))
		w.quiet(func() { w.look("one", "one") })
		w.delete(ctx, "one")
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		Expect(stampOf(w.fleet.Pipeline("one"))).To(BeEmpty(), "it would look as if its object had got lost")
	})

	It("is managed once its annotation goes, and leaves the pipeline when it is deleted", func(ctx SpecContext) {
		w := newWorld(ctx)
		id := w.put("theirs")
		w.start(ctx)
		w.create(ctx, w.pipeline("one", readOnly, named("theirs")))
		Eventually(w.ready(ctx, "one")).Should(Equal("True/ReadOnly"))
		w.change(ctx, "one", `{"metadata": {"annotations": {"`+fleetmanagementv1alpha1.AnnotationImportMode+`": "adopt"}}, "spec": {"enabled": false}}`)
		Eventually(w.ready(ctx, "one")).Should(Equal("True/Synced"))
		Expect(w.fleet.Pipeline(id).GetEnabled()).To(BeFalse())
		w.delete(ctx, "one")
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		Expect(w.fleet.Pipeline(id)).NotTo(BeNil())
	})
})
