// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// left stores an object as the operator before this one leaves it: its finalizer, and a status that says that all is well.
func left(ctx context.Context, o lifecycle.Object, finalizer string, status func(), conditions ...string) {
	GinkgoHelper()
	if finalizer != "" {
		o.SetFinalizers([]string{finalizer})
	}
	Expect(cluster.Client.Create(ctx, o)).To(Succeed())
	status()
	*o.ObservedGeneration() = o.GetGeneration()
	for _, condition := range conditions {
		*o.StatusConditions() = append(*o.StatusConditions(), metav1.Condition{
			Type: condition, Status: metav1.ConditionTrue, Reason: "Synced", Message: "as it was", LastTransitionTime: metav1.Now(), ObservedGeneration: o.GetGeneration(),
		})
	}
	Expect(cluster.Client.Status().Update(ctx, o)).To(Succeed())
}

var _ = Describe("The seven-kind migration", func() {
	It("takes over objects of the existing operator, with its finalizers and statuses, without a remote write that changes anything", func(ctx SpecContext) {
		w := newSyncWorld(ctx)
		w.enableOnly("pipeline", "collector", "policy", "pipeline-discovery", "collector-discovery", "external-sync", "tenant-policy")
		mine, found := w.put("mine"), w.put("Found by it")
		given := map[string]string{"team": "payments", "floor": "3", "region": "eu", "theirs": "kept"}
		w.registers(edge(0), map[string]string{"env": "dev"}, given)
		was := metav1.NewTime(w.clock.Now().Add(-time.Minute))
		meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: w.namespace, Name: name} }
		well := []string{"Ready", "Synced"}

		managed := w.pipeline("mine")
		left(ctx, managed, fleetmanagementv1alpha1.PipelineFinalizer, func() { managed.Status.ID = mine }, well...)
		adopted := w.pipeline("found-by-it-0a1b2", named("Found by it"), annotated(fleetmanagementv1alpha1.AnnotationPipelineID, found),
			annotated(fleetmanagementv1alpha1.AnnotationPipelineDiscoveredBy, w.namespace+"/all"))
		adopted.Labels = map[string]string{
			fleetmanagementv1alpha1.LabelPipelineDiscoveryName: "all", fleetmanagementv1alpha1.LabelPipelineDiscoveryNamespace: w.namespace,
		}
		left(ctx, adopted, fleetmanagementv1alpha1.PipelineFinalizer, func() { adopted.Status.ID = found }, well...)
		pipelines := &fleetmanagementv1alpha1.PipelineDiscovery{ObjectMeta: meta("all")}
		pipelines.Spec.ImportMode = fleetmanagementv1alpha1.ImportAdopt
		left(ctx, pipelines, "", func() {
			pipelines.Status.PipelinesObserved, pipelines.Status.PipelinesManaged, pipelines.Status.LastSyncTime = 2, 1, &was
			pipelines.Status.Conflicts = []fleetmanagementv1alpha1.PipelineConflict{{PipelineID: "mine", CRName: "mine", Reason: fleetmanagementv1alpha1.ConflictNotOwned}}
		}, well...)

		collector := w.collector("edge", edge(0), asks(map[string]string{"floor": "3"}))
		collector.Labels = map[string]string{
			fleetmanagementv1alpha1.LabelCollectorDiscoveryName: "all", fleetmanagementv1alpha1.LabelCollectorDiscoveryNamespace: w.namespace,
		}
		collector.Annotations = map[string]string{
			fleetmanagementv1alpha1.AnnotationCollectorID: edge(0), fleetmanagementv1alpha1.AnnotationCollectorDiscoveredBy: w.namespace + "/all",
		}
		left(ctx, collector, fleetmanagementv1alpha1.CollectorFinalizer, func() {
			collector.Status.Registered, collector.Status.LocalAttributes = true, map[string]string{"env": "dev"}
			collector.Status.AttributeOwners = []fleetmanagementv1alpha1.AttributeOwner{
				{Key: "floor", OwnerKind: fleetmanagementv1alpha1.OwnerCollector, OwnerName: w.namespace + "/edge", Value: "3"},
				{Key: "region", OwnerKind: fleetmanagementv1alpha1.OwnerRemoteAttributePolicy, OwnerName: w.namespace + "/region", Value: "eu"},
				{Key: "team", OwnerKind: fleetmanagementv1alpha1.OwnerExternalAttributeSync, OwnerName: w.namespace + "/cmdb", Value: "payments"},
			}
		}, well...)
		collectors := &fleetmanagementv1alpha1.CollectorDiscovery{ObjectMeta: meta("all")}
		left(ctx, collectors, "", func() {
			collectors.Status.CollectorsObserved, collectors.Status.CollectorsManaged, collectors.Status.LastSyncTime = 1, 1, &was
		}, well...)
		policy := w.policy("region", []string{"env=dev"}, map[string]string{"region": "eu"})
		left(ctx, policy, "", func() { policy.Status.MatchedCollectorIDs, policy.Status.MatchedCount = []string{edge(0)}, 1 }, well...)
		sync := w.sync("cmdb")
		left(ctx, sync, "", func() {
			sync.Status.LastSyncTime, sync.Status.LastSuccessTime, sync.Status.RecordsSeen, sync.Status.RecordsApplied = &was, &was, 7, 1
			sync.Status.OwnedKeys = []fleetmanagementv1alpha1.OwnedKeys{{CollectorID: edge(0), Attributes: map[string]string{"team": "payments"}}}
		}, well...)
		tenants := &fleetmanagementv1alpha1.TenantPolicy{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
		tenants.Spec.Subjects, tenants.Spec.RequiredMatchers = []rbacv1.Subject{{Kind: "Group", Name: "team-a"}}, []string{"team=a"}
		left(ctx, tenants, "", func() { tenants.Status.BoundSubjectCount = 1 }, "Ready", "Valid")
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(cluster.Client.Delete(ctx, tenants))).To(Succeed())
		})

		w.start(ctx)
		for _, o := range []lifecycle.Object{managed, adopted, pipelines, collector, collectors, policy, sync, tenants} {
			taken := fmt.Sprintf("%T %s is taken over", o, o.GetName())
			Eventually(func(g Gomega) {
				g.Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
				g.Expect(verdictOf(*o.StatusConditions(), "Ready")).To(HavePrefix("True/"))
				g.Expect(messageOf(*o.StatusConditions(), "Ready")).NotTo(Equal("as it was"))
			}).Should(Succeed(), taken)
		}
		for _, call := range w.asked() {
			Expect(call.Procedure).To(Or(HavePrefix("List"), HavePrefix("Get")), "nothing is written")
		}
		Expect(w.remote(edge(0))()).To(Equal(given))
		Expect(w.fetches()).To(BeZero(), "the schedule goes on where it was")
		Expect(w.world.names()).To(ConsistOf("mine", "Found by it"))
		Expect(collector.Status.AttributeOwners).To(HaveLen(3))
		var all fleetmanagementv1alpha1.PipelineList
		Expect(cluster.Client.List(ctx, &all, client.InNamespace(w.namespace))).To(Succeed())
		Expect(all.Items).To(HaveLen(2), "no second object")
	})
})
