// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

var _ = Describe("In a namespace that a TenantPolicy selects, a Pipeline", func() {
	var w *tenantWorld
	BeforeEach(func(ctx SpecContext) { w = newTenantWorld(ctx) })

	It("that is forbidden is not written, and says why; one that is allowed is", func(ctx SpecContext) {
		w.create(ctx, w.tenant("p"), w.pipeline("mine", matching(`env="prod"`, "team = a")), w.pipeline("theirs", matching(`team="b"`)))
		w.start(ctx)
		Eventually(w.pipelineReady(ctx, "mine")).Should(Equal("True/Synced"))
		Eventually(w.pipelineReady(ctx, "theirs")).Should(Equal(tenantForbidden))
		Expect(message(w.status(ctx, "theirs"), "Ready")).To(Equal("TenantPolicy " + w.tenant("p").Name + `: one of the matchers has to be team="a"`))
		Expect(w.get(ctx, "theirs").Finalizers).To(BeEmpty(), "it leaves nothing behind")
		Expect(w.status(ctx, "theirs").ObservedGeneration).To(Equal(int64(1)))
		Expect(w.names()).To(Equal([]string{"mine"}))
		w.quiet(func() { w.lookAt("pipeline", w.pipeline("theirs"), w.pipeline("mine")) })

		w.change(ctx, "theirs", `{"spec": {"matchers": ["team=a"]}}`)
		Eventually(w.pipelineReady(ctx, "theirs")).Should(Equal("True/Synced"))
	})

	It("that becomes forbidden stays as it is in Fleet Management, and its deletion works", func(ctx SpecContext) {
		w.start(ctx)
		w.synced(ctx, w.pipeline("a"), w.pipeline("b"))
		policy := w.tenant("p")
		w.unwritten(func() {
			w.create(ctx, policy)
			Eventually(w.pipelineReady(ctx, "a")).Should(Equal(tenantForbidden))
			Eventually(w.pipelineReady(ctx, "b")).Should(Equal(tenantForbidden))
			w.change(ctx, "a", `{"spec": {"contents": "logging { }\n"}}`)
			Eventually(func() int64 { return w.status(ctx, "a").ObservedGeneration }).Should(Equal(int64(2)))
			w.world.poll()
		})
		Expect(w.world.remote("a")()).To(Equal(contents))
		Expect(w.status(ctx, "a").ID).NotTo(BeEmpty(), "what it stands for is known")

		w.delete(ctx, "b")
		Eventually(w.gone(ctx, "b")).Should(BeTrue())
		Expect(w.names()).To(Equal([]string{"a"}))

		Expect(cluster.Client.Delete(ctx, policy)).To(Succeed())
		Eventually(w.pipelineReady(ctx, "a")).Should(Equal("True/Synced"))
		Expect(w.world.remote("a")()).To(Equal("logging { }\n"))
	})

	It("that mirrors another is judged by what it would show", func(ctx SpecContext) {
		mirrors := func(id string) pipelineChange {
			return func(p *fleetmanagementv1alpha1.Pipeline) {
				annotated(fleetmanagementv1alpha1.AnnotationImportMode, fleetmanagementv1alpha1.ImportModeReadOnly)(p)
				annotated(fleetmanagementv1alpha1.AnnotationPipelineID, id)(p)
				p.Spec.Contents, p.Spec.Matchers = "// nothing\n", []string{"team=a"}
			}
		}
		w.create(ctx, w.tenant("p"), w.pipeline("theirs", mirrors(w.put("theirs"))), w.pipeline("ours", mirrors(w.put("ours", sent("team=a")))))
		w.start(ctx)
		Eventually(w.pipelineReady(ctx, "ours")).Should(Equal("True/ReadOnly"))
		Eventually(w.pipelineReady(ctx, "theirs")).Should(Equal(tenantForbidden))
		Expect(w.get(ctx, "ours").Spec.Contents).To(Equal(contents))
		Expect(w.get(ctx, "theirs").Spec.Contents).To(Equal("// nothing\n"))
	})
})

var _ = Describe("In a namespace that a TenantPolicy selects, a collector", func() {
	var w *tenantWorld
	BeforeEach(func(ctx SpecContext) {
		w = newTenantWorld(ctx)
		w.registers("edge-1", map[string]string{"os": "linux", "site": "berlin"}, map[string]string{"by": "hand"})
	})
	by := func(given map[string]string) map[string]string {
		given["by"] = "hand"
		return given
	}

	It("AT-23: is not given a forbidden attribute by a Collector, a RemoteAttributePolicy or an ExternalAttributeSync, and is given the others", func(ctx SpecContext) {
		w.create(ctx,
			w.tenant("p", requires("os=linux"), allows("tier", "gold|silver"), allows("rack", ""), allows("owner", "a.*")),
			w.collector("edge", "edge-1", asks(map[string]string{"tier": "gold", "team": "payments"})),
			w.policy("keys", []string{"os=linux"}, map[string]string{"owner": "anna", "env": "prod"}),
			w.policy("values", []string{`os="linux"`}, map[string]string{"tier": "platinum", "owner": "bob"}),
		)
		w.fetched(ctx, "inventory", []string{"os = linux"}, "edge-1", map[string]string{"rack": "7", "cost": "42"})
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal("False/ValidationError"))
		Expect(w.remote("edge-1")()).To(Equal(by(map[string]string{"tier": "gold", "owner": "anna", "rack": "7"})))
		policy, keys := "TenantPolicy "+w.tenant("p").Name+": ", "only these attributes may be set: owner, rack, tier"
		Expect(w.collectorMessage(ctx, "edge", fleetmanagementv1alpha1.ConditionAttributesInvalid)).To(Equal("Not given: " +
			`"cost" of ExternalAttributeSync ` + w.namespace + "/inventory: " + policy + keys + ", " +
			`"team" of Collector ` + w.namespace + "/edge: " + policy + keys + ", " +
			`"env" of RemoteAttributePolicy ` + w.namespace + "/keys: " + policy + keys + ", " +
			`"owner" of RemoteAttributePolicy ` + w.namespace + "/values: " + policy + "its value has to match a.*, " +
			`"tier" of RemoteAttributePolicy ` + w.namespace + "/values: " + policy + "its value has to match gold|silver."))
		Eventually(w.policySays(ctx, "keys")).Should(Equal(oneMatch))
		Eventually(w.policySays(ctx, "values")).Should(Equal(oneMatch))
		w.quiet(func() { w.look("edge") })
	})

	It("is given nothing by a RemoteAttributePolicy or an ExternalAttributeSync whose selector is forbidden", func(ctx SpecContext) {
		w.create(ctx,
			w.tenant("p", requires("site=berlin")),
			w.collector("edge", "edge-1", asks(map[string]string{"own": "yes"})),
			w.policy("allowed", []string{`os="linux"`, `site="berlin"`}, map[string]string{"allowed": "yes"}),
			w.policy("matchers", []string{"os=linux"}, map[string]string{"matchers": "yes"}),
			w.policy("names", []string{"site=berlin"}, map[string]string{"names": "yes"}, func(p *fleetmanagementv1alpha1.RemoteAttributePolicy) {
				p.Spec.Selector.CollectorIDs = []string{"edge-1"}
			}),
		)
		w.fetched(ctx, "inventory", []string{"os=linux"}, "edge-1", map[string]string{"rack": "7"})
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		Expect(w.remote("edge-1")()).To(Equal(by(map[string]string{"own": "yes", "allowed": "yes"})))
		Eventually(w.policySays(ctx, "allowed")).Should(Equal(oneMatch))
		for _, name := range []string{"matchers", "names"} {
			Eventually(w.policySays(ctx, name)).Should(Equal(tenantForbidden + " " + tenantForbidden + " 1"))
		}
		w.quiet(func() {
			w.lookAtPolicy("matchers")
			w.lookAtPolicy("names")
			w.look("edge")
		})
	})

	It("that is not allowed is given nothing by anybody, not even a name, and what it was given goes", func(ctx SpecContext) {
		w.registers("edge-2", map[string]string{"site": "rome"}, nil)
		named := func(c *fleetmanagementv1alpha1.Collector) { c.Spec.Name = "taken" }
		w.create(ctx,
			w.collector("edge", "edge-1", asks(map[string]string{"own": "yes"})), w.collector("other", "edge-2", asks(map[string]string{"own": "yes"})),
			w.policy("all", []string{`site!=""`}, map[string]string{"all": "yes"}))
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		settle(w, w.ready(ctx, "other")).Should(Equal(synced))

		w.create(ctx, w.tenant("p", requires(`site!=""`), allowsCollectors("site=berlin", `collector.ID=~"edge-.*"`)))
		settle(w, w.ready(ctx, "other")).Should(Equal(tenantForbidden))
		Expect(w.collectorMessage(ctx, "other", "Ready")).To(Equal(
			"Nothing is given. TenantPolicy " + w.tenant("p").Name + `: the collector has to match site="berlin" and collector.ID=~"edge-.*"`))
		Expect(w.remote("edge-2")()).To(BeEmpty())
		Expect(w.remote("edge-1")()).To(Equal(by(map[string]string{"own": "yes", "all": "yes"})))
		Expect(w.ready(ctx, "edge")()).To(Equal(synced))

		patch(ctx, w.collector("other", "", named), `{"spec": {"name": "taken"}}`)
		Eventually(func() int64 { return w.read(ctx, "other").Status.ObservedGeneration }).Should(Equal(int64(2)))
		Expect(w.fleet.Collector("edge-2").GetName()).To(BeEmpty())
		w.quiet(func() { w.look("other") })

		Expect(cluster.Client.Delete(ctx, w.collector("other", ""))).To(Succeed())
		Eventually(func() any { return w.read(ctx, "other") }).Should(BeNil())
	})

	It("cannot be made an allowed one by what it is given", func(ctx SpecContext) {
		w.create(ctx, w.collector("edge", "edge-1", asks(map[string]string{"team": "a"})), w.tenant("p", allowsCollectors("team=a")))
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(tenantForbidden))
		Expect(w.remote("edge-1")()).To(Equal(by(map[string]string{})))

		w.edit("edge-1", func(remote map[string]string) { remote["team"] = "a" })
		w.poll()
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		w.quiet(func() { w.look("edge") })
	})

	It("keeps what it was given while a policy cannot be read, is given nothing new, and lets go what it has when its Collector goes", func(ctx SpecContext) {
		w.create(ctx, w.collector("edge", "edge-1", asks(map[string]string{"own": "yes"})))
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		bad := w.tenant("bad", requires("team=="))
		w.create(ctx, bad)
		Eventually(w.ready(ctx, "edge")).Should(Equal(tenantForbidden))
		Expect(w.collectorMessage(ctx, "edge", "Ready")).To(HavePrefix("TenantPolicy " + bad.Name + " cannot be read: spec.requiredMatchers[0]: "))
		patch(ctx, w.collector("edge", ""), `{"spec": {"remoteAttributes": {"own": "no"}}}`)
		Eventually(func() int64 { return w.read(ctx, "edge").Status.ObservedGeneration }).Should(Equal(int64(2)))
		Expect(w.remote("edge-1")()).To(Equal(by(map[string]string{"own": "yes"})))

		Expect(cluster.Client.Delete(ctx, w.collector("edge", ""))).To(Succeed())
		settle(w, func() any { return w.read(ctx, "edge") }).Should(BeNil())
		Expect(w.remote("edge-1")()).To(Equal(by(map[string]string{})))
	})
})
