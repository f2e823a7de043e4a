// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"maps"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/candor-dev/candor/test/kube"
)

var _ = Describe("The tenancy of a namespace", func() {
	var w *tenantWorld
	BeforeEach(func(ctx SpecContext) { w = newTenantWorld(ctx) })

	It("wakes, when a policy comes, changes or goes or a namespace is relabelled, exactly what it concerns", func(ctx SpecContext) {
		free := w.elsewhere(ctx)
		w.registers("edge-1", nil, nil)
		w.registers("edge-2", nil, nil)
		collector := w.collector("edge", "edge-2")
		policy := w.policy("gives", []string{"team=b"}, map[string]string{"a": "b"})
		collector.Namespace, policy.Namespace = free, free
		w.create(ctx,
			w.pipeline("bound"), w.collector("edge", "edge-1"), w.policy("gives", []string{"team=b"}, map[string]string{"a": "b"}),
			w.pipeline("free", in(free)), w.pipeline("free-too", in(free)), collector, policy)
		w.start(ctx)
		passes := func() map[string]float64 {
			return map[string]float64{
				"Pipeline": w.passes("Pipeline"), "Collector": w.passes("Collector"), "RemoteAttributePolicy": w.passes("RemoteAttributePolicy"),
			}
		}
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		for _, name := range []string{"free", "free-too"} {
			Eventually(func() string { return readyOf(ctx, w.pipeline(name, in(free))) }).Should(Equal("True/Synced"))
		}
		Eventually(w.pipelineReady(ctx, "bound")).Should(Equal("True/Synced"))
		Eventually(w.policySays(ctx, "gives")).Should(Equal(noMatch))

		// adds asserts how many passes do leads to: of Pipelines, and of each of the other two kinds.
		adds := func(what string, pipelines, others float64, do func()) {
			GinkgoHelper()
			want := passes()
			Eventually(func() bool {
				before := want
				want = passes()
				return maps.Equal(before, want)
			}).WithPolling(time.Second).Should(BeTrue())
			want["Pipeline"] += pipelines
			want["Collector"] += others
			want["RemoteAttributePolicy"] += others
			do()
			Eventually(passes).Should(Equal(want), what)
			Consistently(passes, "500ms").Should(Equal(want), what)
		}
		p := w.tenant("p")
		adds("a policy comes", 1, 1, func() { w.create(ctx, p) })
		Expect(w.pipelineReady(ctx, "bound")()).To(Equal(tenantForbidden))
		adds("a policy changes", 1, 1, func() { patch(ctx, p, `{"spec": {"requiredMatchers": ["team=c"]}}`) })
		adds("a policy without a selector comes", 0, 0, func() { w.create(ctx, w.tenant("users", selects(nil))) })
		adds("a namespace is given to a team", 2, 1, func() { relabel(ctx, free, w.namespace) })
		Expect(readyOf(ctx, w.pipeline("free", in(free)))).To(Equal(tenantForbidden))
		adds("a label of it that nobody selects by changes", 0, 0, func() { patch(ctx, namespaceCalled(free), `{"metadata": {"labels": {"other": "label"}}}`) })
		adds("it is taken from the team", 2, 1, func() { relabel(ctx, free, "") })
		adds("a policy goes", 1, 1, func() { Expect(cluster.Client.Delete(ctx, p)).To(Succeed()) })
		Expect(w.pipelineReady(ctx, "bound")()).To(Equal("True/Synced"))
	})

	It("changes nothing while it is not enforced", func(ctx SpecContext) {
		w.options.Fleet.EnforceTenantPolicies = false
		w.enableOnly("pipeline", "collector", "policy")
		w.registers("edge-1", map[string]string{"os": "linux"}, nil)
		w.create(ctx, w.tenant("p", allows("none", ""), allowsCollectors("os=windows")), w.tenant("bad", requires("team==")),
			w.pipeline("a"), w.collector("edge", "edge-1", asks(map[string]string{"tier": "gold"})), w.policy("gives", []string{"os=linux"}, map[string]string{"a": "b"}))
		w.start(ctx)
		Eventually(w.pipelineReady(ctx, "a")).Should(Equal("True/Synced"))
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		Expect(w.remote("edge-1")()).To(Equal(map[string]string{"tier": "gold", "a": "b"}))
		Eventually(w.policySays(ctx, "gives")).Should(Equal(oneMatch))
		Expect(w.counter.Reads()).NotTo(Or(HaveKey("list namespaces"), HaveKey("list tenantpolicies")), "nobody needs them")
	})

	It("is written into statuses once, and that write causes no other one", func(ctx SpecContext) {
		w.registers("edge-1", nil, nil)
		w.create(ctx, w.tenant("p", allowsCollectors("os=windows")), w.pipeline("a"), w.collector("edge", "edge-1"),
			w.policy("gives", []string{"os=linux"}, map[string]string{"a": "b"}))
		w.start(ctx)
		Eventually(w.pipelineReady(ctx, "a")).Should(Equal(tenantForbidden))
		settle(w, w.ready(ctx, "edge")).Should(Equal(tenantForbidden))
		Eventually(w.policySays(ctx, "gives")).Should(HavePrefix(tenantForbidden))
		Eventually(w.tenantSays(ctx, "p")).Should(HavePrefix(validPolicy))
		for range 2 {
			w.lookAt("pipeline", w.pipeline("a"))
			w.look("edge")
			w.lookAtPolicy("gives")
			w.lookAt("tenant-policy", w.tenant("p"))
		}
		Expect(w.writes()).To(Equal(kube.Counts{
			"update pipelines/status": 1, "update collectors": 1, "update collectors/status": 1, "update remoteattributepolicies/status": 1,
			"update tenantpolicies/status": 1,
		}))
		Expect(w.fleet.Count(append(pipelineWrites, bulkUpdate)...)).To(BeZero())
	})

	It("is asked again after a restart, and nothing is written for it", func(ctx SpecContext) {
		w.create(ctx, w.tenant("p"), w.pipeline("a"))
		w.start(ctx)
		Eventually(w.pipelineReady(ctx, "a")).Should(Equal(tenantForbidden))
		Eventually(w.tenantSays(ctx, "p")).Should(HavePrefix(validPolicy))
		writes := w.writes()
		w.restart(ctx)
		w.lookAt("pipeline", w.pipeline("a"))
		w.lookAt("tenant-policy", w.tenant("p"))
		Expect(w.writes().Since(writes)).To(BeEmpty())
		Expect(client.IgnoreNotFound(cluster.Client.Delete(ctx, w.pipeline("a")))).To(Succeed())
		Eventually(w.gone(ctx, "a")).Should(BeTrue())
	})
})
