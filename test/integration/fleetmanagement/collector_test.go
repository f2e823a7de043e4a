// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"strings"

	"connectrpc.com/connect"
	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

const (
	synced        = "True/Synced"
	notRegistered = "False/NotRegistered"
)

var _ = Describe("A Collector", func() {
	var w *collectorWorld
	BeforeEach(func(ctx SpecContext) { w = newCollectorWorld(ctx) })

	It("gives its collector what it and the policies of its namespace ask for, says who asks, and then rests", func(ctx SpecContext) {
		w.registers("edge-1", map[string]string{"env": "prod"}, map[string]string{"rack": "7"})
		w.create(ctx,
			w.policy("team", []string{`env="prod"`}, map[string]string{"team": "a", "tier": "gold"}),
			w.policy("urgent", []string{`env=~"pro."`}, map[string]string{"tier": "platinum"}, func(p *fleetmanagementv1alpha1.RemoteAttributePolicy) { p.Spec.Priority = 5 }),
			w.policy("others", []string{`env="pro"`}, map[string]string{"never": "given"}),
			w.collector("edge", "edge-1", asks(map[string]string{"team": "b"})),
		)
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		Expect(w.remote("edge-1")()).To(Equal(map[string]string{"rack": "7", "team": "b", "tier": "platinum"}))
		Expect(w.owners(ctx, "edge")).To(Equal([]string{
			"team=b of Collector " + w.namespace + "/edge", "tier=platinum of RemoteAttributePolicy " + w.namespace + "/urgent",
		}))
		c := w.read(ctx, "edge")
		Expect(c.Status.Registered).To(BeTrue())
		Expect(c.Status.CollectorType).To(Equal("Alloy"))
		Expect(c.Status.LocalAttributes).To(Equal(map[string]string{"env": "prod"}))
		Expect(c.Status.OtherRemoteAttributes).To(Equal(map[string]string{"rack": "7"}))
		Expect(c.Status.EffectiveRemoteAttributes).To(Equal(map[string]string{"team": "b", "tier": "platinum"}))
		Expect(c.Finalizers).To(ConsistOf(fleetmanagementv1alpha1.CollectorFinalizer))
		Eventually(w.events(ctx, "AttributesUpdated")).Should(ConsistOf("Changed 2 remote attributes."))
		Eventually(w.events(ctx, "Synced")).Should(HaveLen(1))
		for _, name := range []string{"team", "urgent"} {
			Eventually(w.policySays(ctx, name)).Should(Equal(oneMatch), name)
		}
		Eventually(w.policySays(ctx, "others")).Should(Equal(noMatch))
		Expect(w.fleet.Count(listAll)).To(Equal(1))
		Expect(w.fleet.Count(bulkUpdate)).To(Equal(1))
		Expect(w.writes()).To(HaveKeyWithValue("update collectors", 1))
		Expect(w.writes()).To(HaveKeyWithValue("update collectors/status", 1))
		w.quiet(func() {
			w.look("edge")
			w.lookAtPolicy("team")
			w.lookAtPolicy("others")
		})
	})

	It("follows its policies: an edit replaces, a higher priority takes, and what nobody asks for any more goes", func(ctx SpecContext) {
		w.registers("edge-1", map[string]string{"env": "prod"}, nil)
		team := w.policy("team", []string{`env="prod"`}, map[string]string{"team": "a", "tier": "gold"})
		w.create(ctx, team, w.collector("edge", "edge-1"))
		w.start(ctx)
		settle(w, w.remote("edge-1")).Should(Equal(map[string]string{"team": "a", "tier": "gold"}))
		patch(ctx, team, `{"spec": {"attributes": {"tier": "silver", "team": null}}}`)
		settle(w, w.remote("edge-1")).Should(Equal(map[string]string{"tier": "silver"}))
		settle(w, func() []string { return w.owners(ctx, "edge") }).Should(Equal([]string{"tier=silver of RemoteAttributePolicy " + w.namespace + "/team"}))
		patch(ctx, team, `{"spec": {"selector": {"matchers": ["env=\"dev\""]}}}`)
		settle(w, w.remote("edge-1")).Should(BeEmpty())
		Eventually(w.policySays(ctx, "team")).Should(Equal(noMatch))
		patch(ctx, team, `{"spec": {"selector": {"matchers": ["env!=\"dev\""]}}}`)
		settle(w, w.remote("edge-1")).Should(Equal(map[string]string{"tier": "silver"}))
		Expect(cluster.Client.Delete(ctx, team)).To(Succeed())
		settle(w, w.remote("edge-1")).Should(BeEmpty())
	})

	It("AT-16: gives four of five attributes when the fifth is too long, and says which and why", func(ctx SpecContext) {
		w.registers("edge-1", nil, nil)
		four := map[string]string{"a": "1", "b": "2", "c": "3", "d": strings.Repeat("x", 150)}
		five := map[string]string{"long": strings.Repeat("x", 151)}
		for key, value := range four {
			five[key] = value
		}
		w.create(ctx, w.collector("edge", "edge-1", asks(five)))
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal("False/ValidationError"))
		Expect(w.remote("edge-1")()).To(Equal(four))
		Expect(w.says(ctx, "edge", fleetmanagementv1alpha1.ConditionAttributesInvalid)()).To(Equal("True/AttributesRefused"))
		Expect(messageOf(w.read(ctx, "edge").Status.Conditions, fleetmanagementv1alpha1.ConditionAttributesInvalid)).To(And(
			ContainSubstring(`"long" of Collector `), ContainSubstring("at most 150 characters")))
		Eventually(w.events(ctx, "AttributesRefused")).Should(HaveLen(1))
		Expect(w.fleet.Count(bulkUpdate)).To(Equal(1))
		w.quiet(func() { w.look("edge") })
		patch(ctx, w.collector("edge", "edge-1"), `{"spec": {"remoteAttributes": {"long": "short"}}}`)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		Expect(w.says(ctx, "edge", fleetmanagementv1alpha1.ConditionAttributesInvalid)()).To(BeEmpty())
	})

	It("gives what Fleet Management takes when it refuses one attribute, and asks for that one no more", func(ctx SpecContext) {
		w.registers("edge-1", nil, nil)
		w.fleet.Fail(fleetserver.Rule{
			Procedure: bulkUpdate, Respond: fleetserver.ConnectError(connect.CodeInvalidArgument, "not this one"),
			Match: touches("/remote_attributes/bad"),
		})
		w.create(ctx, w.collector("edge", "edge-1", asks(map[string]string{"bad": "1", "good": "2", "fine": "3"})))
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal("False/ValidationError"))
		Expect(w.remote("edge-1")()).To(Equal(map[string]string{"good": "2", "fine": "3"}))
		Expect(messageOf(w.read(ctx, "edge").Status.Conditions, fleetmanagementv1alpha1.ConditionAttributesInvalid)).To(ContainSubstring(`"bad"`))
		w.quiet(func() { w.look("edge") })
	})

	It("waits for a collector that is not registered, asks for one early list and no more, and goes on when it registers", func(ctx SpecContext) {
		w.registers("edge-1", nil, nil)
		w.create(ctx, w.collector("edge", "edge-1"))
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		w.create(ctx, w.collector("late", "edge-2", asks(map[string]string{"team": "a"})))
		settle(w, w.ready(ctx, "late")).Should(Equal(notRegistered))
		Expect(w.fleet.Count(listAll)).To(Equal(2))
		Expect(w.fleet.Count(bulkUpdate)).To(BeZero())
		Eventually(w.events(ctx, "NotRegistered")).Should(HaveLen(1))
		w.quiet(func() { w.look("late") })
		w.registers("edge-2", nil, nil)
		w.poll()
		settle(w, w.ready(ctx, "late")).Should(Equal(synced))
		Expect(w.remote("edge-2")()).To(Equal(map[string]string{"team": "a"}))
		w.fleet.DeleteCollector("edge-2")
		w.poll()
		settle(w, w.ready(ctx, "late")).Should(Equal(notRegistered))
	})

	It("names its collector and turns it off, and keeps the attributes that others set", func(ctx SpecContext) {
		w.registers("edge-1", nil, map[string]string{"rack": "7"})
		w.create(ctx, w.collector("edge", "edge-1", asks(map[string]string{"team": "a"}), func(c *fleetmanagementv1alpha1.Collector) {
			c.Spec.Name, c.Spec.Enabled = "The edge", new(bool)
		}))
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		live := w.fleet.Collector("edge-1")
		Expect(live.GetName()).To(Equal("The edge"))
		Expect(live.GetEnabled()).To(BeFalse())
		Expect(live.GetRemoteAttributes()).To(Equal(map[string]string{"rack": "7", "team": "a"}))
		Expect(w.read(ctx, "edge").Status.Name).To(Equal("The edge"))
		Expect(w.fleet.Count("UpdateCollector")).To(Equal(1))
		w.quiet(func() { w.look("edge") })
		patch(ctx, w.collector("edge", ""), `{"spec": {"name": null, "enabled": null}}`)
		w.look("edge")
		w.fleet.EditCollector("edge-1", func(c *collectorv1.Collector) { c.Name = "by hand" })
		w.poll()
		settle(w, func() string { return w.read(ctx, "edge").Status.Name }).Should(Equal("by hand"))
		Expect(w.fleet.Count("UpdateCollector")).To(Equal(1), "what is not asked for is left as it is")
	})
})
