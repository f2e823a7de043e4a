// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"net/http"

	"connectrpc.com/connect"
	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

var _ = Describe("A discovery whose list fails", func() {
	// Each kind has one object that stands for what the outage hides.
	kinds := map[string]func(SpecContext) *discovery{
		"PipelineDiscovery": func(ctx SpecContext) *discovery {
			d := newPipelineDiscovery(ctx)
			d.puts(2)
			d.discover(ctx, prune)
			return d.discovery
		},
		"CollectorDiscovery": func(ctx SpecContext) *discovery {
			d := newCollectorDiscovery(ctx)
			d.registers(several(2)...)
			d.discover(ctx, pruneCollectors)
			return d.discovery
		},
	}
	stale := map[string]string{
		"PipelineDiscovery": fleetmanagementv1alpha1.AnnotationPipelineStale, "CollectorDiscovery": fleetmanagementv1alpha1.AnnotationCollectorStale,
	}
	standing := map[string]string{"PipelineDiscovery": "True/ReadOnly", "CollectorDiscovery": "True/Synced"}
	for kind, begin := range kinds {
		for name, c := range map[string]struct {
			answer fleetserver.Response
			synced []string
		}{
			"with 500": {fleetserver.ConnectError(connect.CodeInternal, "broken"), []string{"False/ListPipelinesFailed", "False/ListCollectorsFailed"}},
			"with 429": {fleetserver.PlainText(http.StatusTooManyRequests, "slow down", map[string]string{"Retry-After": "60"}), []string{"Unknown/RateLimited"}},
			"with 401": {fleetserver.ConnectError(connect.CodeUnauthenticated, "who are you?"), []string{"False/AuthFailed"}},
		} {
			It("says so "+name+", takes nothing away, does not hammer, and goes on: "+kind, func(ctx SpecContext) {
				d := begin(ctx)
				d.start(ctx)
				Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
				objects := d.objects(ctx, stale[kind])()
				Expect(objects).To(HaveLen(2))
				lists := d.fleet.Count(d.lists)
				d.fleet.Fail(fleetserver.Rule{Procedure: d.lists, Respond: c.answer})
				d.step(agesAfter)
				d.wake()
				Eventually(d.says(ctx, fleetmanagementv1alpha1.ConditionSynced)).Should(BeElementOf(c.synced))
				Expect(d.fleet.Count(d.lists)).To(Equal(lists + 1))
				d.look() // from now on it is the pause that speaks
				writes := d.writes()
				for range 5 {
					d.look()
				}
				Expect(d.fleet.Count(d.lists)).To(Equal(lists+1), "one list for all of them")
				Expect(d.writes().Since(writes)).NotTo(Or(HaveKey("update pipelinediscoveries/status"), HaveKey("update collectordiscoveries/status")))
				Expect(d.objects(ctx, stale[kind])()).To(Equal(objects))

				d.fleet.ClearFaults()
				d.step(agesAfter)
				d.wake()
				Eventually(d.says(ctx, fleetmanagementv1alpha1.ConditionSynced)).Should(Equal("True/Synced"))
				Expect(d.objects(ctx, stale[kind])()).To(Equal(objects))
			})
		}

		It("waits without credentials, and goes on when they come: "+kind, func(ctx SpecContext) {
			d := begin(ctx)
			d.unmount()
			d.start(ctx)
			Eventually(d.ready(ctx)).Should(Equal("False/NoCredentials"))
			Expect(d.asked()).To(BeEmpty())
			d.mount()
			d.wake()
			Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		})

		It("asks for one list after a restart, and writes nothing: "+kind, func(ctx SpecContext) {
			d := begin(ctx)
			d.start(ctx)
			Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
			Eventually(d.standing(ctx)).Should(Equal(map[string]int{standing[kind]: 2}))
			writes, lists := d.writes(), d.fleet.Count(d.lists)
			d.restart(ctx)
			d.look()
			d.look()
			Expect(d.fleet.Count(d.lists)).To(Equal(lists + 1))
			Expect(d.writes().Since(writes)).To(BeEmpty())
		})
	}

	It("is told which matcher is none", func(ctx SpecContext) {
		d := newCollectorDiscovery(ctx)
		d.discover(ctx, selecting("env"))
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("False/InvalidConfig"))
		Expect(d.message(ctx)).To(HavePrefix("spec.selector cannot be used: "))
	})
})

var _ = Describe("A discovery into a namespace of a tenant", func() {
	It("makes only the Pipelines that the rules allow, and more when they allow more", func(ctx SpecContext) {
		d := newPipelineDiscovery(ctx)
		t := bind(ctx, d.world)
		d.enableOnly("pipeline", "pipeline-discovery", "tenant-policy")
		d.put("theirs", sent(`team="b"`))
		d.put("ours", sent(`team = a`, `env="prod"`))
		d.create(ctx, t.tenant("a"))
		d.discover(ctx)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		Expect(d.names(ctx)()).To(Equal([]string{"ours"}))
		Expect(d.read(ctx).observed).To(BeEquivalentTo(1))
		Expect(cluster.Client.Delete(ctx, t.tenant("a"))).To(Succeed())
		Eventually(d.names(ctx)).Should(Equal([]string{"ours", "theirs"}))
	})

	It("makes only the Collectors that the rules allow, and keeps those that they no longer do", func(ctx SpecContext) {
		d := newCollectorDiscovery(ctx)
		t := bind(ctx, d.world)
		d.enableOnly("collector", "collector-discovery", "tenant-policy")
		d.registers("ours", "theirs")
		d.fleet.EditCollector("ours", func(c *collectorv1.Collector) { c.LocalAttributes["team"] = "a" })
		d.create(ctx, t.tenant("a", allowsCollectors(`team="a"`)))
		d.discover(ctx, pruneCollectors)
		d.start(ctx)
		Eventually(d.ready(ctx)).Should(Equal("True/Synced"))
		Expect(d.names(ctx)()).To(Equal([]string{"ours"}))
		d.fleet.EditCollector("ours", func(c *collectorv1.Collector) { c.LocalAttributes["team"] = "b" })
		d.later()
		Eventually(func() int32 { return d.read(ctx).outOfScope }).Should(BeEquivalentTo(1))
		Expect(d.names(ctx)()).To(Equal([]string{"ours"}))
	})
})
