// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

var _ = Describe("In a namespace that a TenantPolicy selects, a tenant", func() {
	It("does not take over by name, or by an ID, what he must not make, nor does it go with his object", func(ctx SpecContext) {
		w := newTenantWorld(ctx)
		id := w.put("theirs", sent("team=b"))
		w.put("ours", sent("team=a"))
		w.create(ctx, w.tenant("p"))
		w.start(ctx)
		w.unwritten(func() {
			w.create(ctx,
				w.pipeline("by-name", named("theirs"), matching("team=a"), adopting(fleetmanagementv1alpha1.AdoptAlways), func(p *fleetmanagementv1alpha1.Pipeline) {
					p.Spec.DeletionPolicy = fleetmanagementv1alpha1.DeletionDelete
				}))
			Eventually(w.pipelineReady(ctx, "by-name")).Should(Equal(tenantForbidden))
			Expect(message(w.status(ctx, "by-name"), "Ready")).To(Equal(`the pipeline "theirs" of Fleet Management is not taken over: choose another spec.name: ` +
				"TenantPolicy " + w.tenant("p").Name + `: one of the matchers has to be team="a"`))
			w.delete(ctx, "by-name")
			Eventually(w.gone(ctx, "by-name")).Should(BeTrue())

			w.create(ctx, w.pipeline("by-id", named("theirs"), matching("team=a"), annotated(fleetmanagementv1alpha1.AnnotationPipelineID, id), func(p *fleetmanagementv1alpha1.Pipeline) {
				p.Spec.Contents = "logging { }\n"
			}))
			Eventually(w.pipelineReady(ctx, "by-id")).Should(Equal(tenantForbidden))
			w.delete(ctx, "by-id")
			Eventually(w.gone(ctx, "by-id")).Should(BeTrue())
		})
		Expect(w.world.remote("theirs")()).To(Equal(contents))

		w.create(ctx, w.pipeline("ours", matching("team = a"), adopting(fleetmanagementv1alpha1.AdoptAlways)))
		Eventually(w.pipelineReady(ctx, "ours")).Should(Equal("True/Synced"))
	})

	It("gives nothing by what is on its way out, whatever he writes into it", func(ctx SpecContext) {
		w := newTenantWorld(ctx)
		w.registers("edge-1", map[string]string{"os": "linux"}, nil)
		held := w.policy("held", []string{"os=linux"}, map[string]string{"tier": "gold"})
		held.Finalizers = []string{"example.com/held"}
		w.create(ctx, w.collector("edge", "edge-1"), held)
		w.start(ctx)
		settle(w, w.remote("edge-1")).Should(Equal(map[string]string{"tier": "gold"}))

		Expect(cluster.Client.Delete(ctx, held)).To(Succeed())
		settle(w, w.remote("edge-1")).Should(BeEmpty())
		patch(ctx, held, `{"spec": {"attributes": {"team": "b"}}}`)
		w.look("edge")
		Expect(w.remote("edge-1")()).To(BeEmpty())
		patch(ctx, held, `{"metadata": {"finalizers": null}}`)
		Expect(client.IgnoreNotFound(cluster.Client.Get(ctx, client.ObjectKeyFromObject(held), held))).To(Succeed())
	})

	It("takes nothing from a collector by a Collector that looks as if it had given it", func(ctx SpecContext) {
		w := newTenantWorld(ctx)
		w.registers("edge-1", map[string]string{"site": "rome"}, map[string]string{"team": "b"})
		claims := w.collector("claims", "edge-1", asks(map[string]string{"team": "b"}))
		claims.Finalizers = []string{fleetmanagementv1alpha1.CollectorFinalizer}
		w.create(ctx, w.tenant("p", allowsCollectors("site=berlin")), claims)
		Expect(cluster.Client.Delete(ctx, claims)).To(Succeed())
		w.start(ctx)
		settle(w, func() any { return w.read(ctx, "claims") }).Should(BeNil())
		Expect(w.remote("edge-1")()).To(Equal(map[string]string{"team": "b"}))
	})

	It("keeps no other namespace from its collector by an older Collector that must not have it", func(ctx SpecContext) {
		w := newTenantWorld(ctx)
		w.registers("edge-1", map[string]string{"site": "rome"}, map[string]string{"by": "hand"})
		free := w.elsewhere(ctx)
		squats := w.collector("squats", "edge-1", asks(map[string]string{"team": "a"}))
		w.create(ctx, w.tenant("p", allowsCollectors("site=berlin")), squats)
		w.start(ctx)
		settle(w, w.ready(ctx, "squats")).Should(Equal(tenantForbidden))
		rightful := w.collector("rightful", "edge-1", asks(map[string]string{"team": "b"}))
		rightful.Namespace = free
		Eventually(time.Now).Should(BeTemporally(">=", squats.CreationTimestamp.Add(time.Second)), "ages have whole seconds")
		w.create(ctx, rightful)
		settle(w, w.remote("edge-1")).Should(Equal(map[string]string{"by": "hand", "team": "b"}))
		ready := func() string {
			Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(rightful), rightful)).To(Succeed())
			return verdictOf(rightful.Status.Conditions, fleetmanagementv1alpha1.ConditionReady)
		}
		settle(w, ready).Should(Equal(synced))
		w.look("squats") // which shows what the other one gives
		w.quiet(func() {
			w.look("squats")
			w.lookAt("collector", rightful)
		})

		Expect(cluster.Client.Delete(ctx, w.collector("squats", ""))).To(Succeed())
		Eventually(func() any { return w.read(ctx, "squats") }).Should(BeNil())
		Expect(w.remote("edge-1")()).To(Equal(map[string]string{"by": "hand", "team": "b"}))
	})

	It("has no discovery fill another namespace with what must not be in his own", func(ctx SpecContext) {
		d := newPipelineDiscovery(ctx)
		w := bind(ctx, d.world)
		free := w.elsewhere(ctx)
		d.put("ours", sent("team=a"))
		d.put("theirs", sent("team=b"))
		policy := w.tenant("p")
		w.create(ctx, policy)
		d.discover(ctx, func(d *fleetmanagementv1alpha1.PipelineDiscovery) { d.Spec.TargetNamespace = free })
		w.start(ctx)
		Eventually(d.ready(ctx)).Should(HavePrefix("True/"))
		made := func() (names []string) {
			var list fleetmanagementv1alpha1.PipelineList
			Expect(cluster.Client.List(ctx, &list, client.InNamespace(free))).To(Succeed())
			for _, p := range list.Items {
				names = append(names, p.Name)
			}
			return names
		}
		Expect(made()).To(Equal([]string{"ours"}))

		Expect(cluster.Client.Delete(ctx, policy)).To(Succeed())
		Eventually(made).Should(Equal([]string{"ours", "theirs"}))
	})
})
