// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

// former makes a Pipeline as the operator before this one leaves it: finalizer, ID, observedGeneration and conditions.
func (w *world) former(ctx context.Context, name, id, reason string, change ...pipelineChange) {
	GinkgoHelper()
	p := w.pipeline(name, change...)
	p.Finalizers = []string{fleetmanagementv1alpha1.PipelineFinalizer}
	w.create(ctx, p)
	p.Status.ID, p.Status.ObservedGeneration = id, p.Generation
	for _, condition := range []string{fleetmanagementv1alpha1.ConditionReady, fleetmanagementv1alpha1.ConditionSynced} {
		p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{
			Type: condition, Status: metav1.ConditionTrue, Reason: reason, Message: "as it was", LastTransitionTime: metav1.Now(), ObservedGeneration: p.Generation,
		})
	}
	Expect(cluster.Client.Status().Update(ctx, p)).To(Succeed())
}

var _ = Describe("An object of the operator before this one", func() {
	It("is taken over without a write in Fleet Management", func(ctx SpecContext) {
		w := newWorld(ctx)
		id := w.put("one")
		w.former(ctx, "one", id, "Synced")
		w.start(ctx)
		Eventually(func() string { return w.status(ctx, "one").SyncedHash }).ShouldNot(BeEmpty())
		Expect(w.ready(ctx, "one")()).To(Equal("True/Synced"))
		Expect(w.status(ctx, "one").Adopted).To(BeFalse())
		Expect(w.fleet.Count(pipelineCalls...)).To(Equal(1), "one list")
		Expect(w.writes()["update pipelines/status"]).To(Equal(1))
		w.quiet(func() { w.look("one", "one") })

		w.change(ctx, "one", `{"spec": {"enabled": false}}`)
		Eventually(func() bool { return w.fleet.Pipeline(id).GetEnabled() }).Should(BeFalse())
		Expect(stampOf(w.fleet.Pipeline(id))).To(HaveKeyWithValue("k8s.name", "one"), "the stamp comes with the next write")
		w.delete(ctx, "one")
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		Expect(w.fleet.Pipelines()).To(BeEmpty(), "it is deleted as the object's own")
	})

	It("leaves the pipeline where a discovery had adopted it (B13)", func(ctx SpecContext) {
		w := newWorld(ctx)
		id := w.put("one")
		w.former(ctx, "one", id, "Synced", annotated(fleetmanagementv1alpha1.AnnotationPipelineID, id))
		w.start(ctx)
		Eventually(func() string { return w.status(ctx, "one").SyncedHash }).ShouldNot(BeEmpty())
		w.delete(ctx, "one")
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		Expect(w.fleet.Pipelines()).To(HaveLen(1))
	})

	It("is deleted with its pipeline, though that carries no stamp", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.former(ctx, "one", w.put("one"), "Synced")
		w.delete(ctx, "one")
		w.start(ctx)
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		Expect(w.fleet.Pipelines()).To(BeEmpty())
	})

	It("keeps others from taking its pipeline over", func(ctx SpecContext) {
		w := newWorld(ctx)
		id := w.put("shared")
		w.former(ctx, "one", id, "Synced", named("shared"), func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.Paused = true })
		w.start(ctx)
		w.create(ctx, w.pipeline("two", named("shared"), adopting(fleetmanagementv1alpha1.AdoptAlways)))
		Eventually(w.ready(ctx, "two")).Should(Equal("False/DuplicateName"))
		Expect(w.fleet.Count(pipelineWrites...)).To(BeZero())
	})

	It("follows Fleet Management when it is a mirror", func(ctx SpecContext) {
		w := newWorld(ctx)
		id := w.put("theirs", says("logging {}"))
		w.former(ctx, "one", id, "ReadOnly", named("theirs"), annotated(fleetmanagementv1alpha1.AnnotationImportMode, fleetmanagementv1alpha1.ImportModeReadOnly),
			annotated(fleetmanagementv1alpha1.AnnotationPipelineID, id))
		w.start(ctx)
		Eventually(func() string { return w.get(ctx, "one").Spec.Contents }).Should(Equal("logging {}"))
		Eventually(func() string { return w.status(ctx, "one").SyncedHash }).ShouldNot(BeEmpty())
		Expect(w.fleet.Count(pipelineWrites...)).To(BeZero())
	})

	It("that a former operator gave up after refused credentials is synced", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.create(ctx, w.pipeline("one"))
		p := w.get(ctx, "one")
		p.Status.ObservedGeneration = p.Generation
		p.Status.Conditions = fleetmanagementv1alpha1.Conditions{{
			Type: "Ready", Status: metav1.ConditionFalse, Reason: "SyncFailed", LastTransitionTime: metav1.Now(), ObservedGeneration: p.Generation,
		}}
		Expect(cluster.Client.Status().Update(ctx, p)).To(Succeed())
		w.start(ctx)
		Eventually(w.ready(ctx, "one")).Should(Equal("True/Synced"))
		Expect(w.names()).To(Equal([]string{"one"}))
	})
})
