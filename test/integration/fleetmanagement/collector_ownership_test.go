// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"connectrpc.com/connect"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/event"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

type change = func(*fleetmanagementv1alpha1.Collector)

func conflictPolicy(p fleetmanagementv1alpha1.ConflictPolicy) change {
	return func(c *fleetmanagementv1alpha1.Collector) { c.Spec.ConflictPolicy = p }
}

func releasePolicy(p fleetmanagementv1alpha1.ReleasePolicy) change {
	return func(c *fleetmanagementv1alpha1.Collector) { c.Spec.ReleasePolicy = p }
}

var _ = Describe("Ownership of attributes", func() {
	var w *collectorWorld
	BeforeEach(func(ctx SpecContext) { w = newCollectorWorld(ctx) })

	DescribeTable("AT-15: what stood there before is restored, or not, when the Collector goes",
		func(ctx SpecContext, left map[string]string, changes ...change) {
			w.registers("edge-1", nil, map[string]string{"rack": "7", "team": "theirs"})
			edge := w.collector("edge", "edge-1", append(changes, asks(map[string]string{"team": "ours", "tier": "gold"}))...)
			w.create(ctx, edge)
			w.start(ctx)
			settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
			Expect(w.remote("edge-1")()).To(Equal(map[string]string{"rack": "7", "team": "ours", "tier": "gold"}))
			Expect(w.owners(ctx, "edge")).To(Equal([]string{
				"team=ours of Collector " + w.namespace + "/edge, before: theirs", "tier=gold of Collector " + w.namespace + "/edge",
			}))
			Eventually(w.events(ctx, "AttributeTakenOver")).Should(ConsistOf("Overwrote what somebody else had set: team."))
			Expect(cluster.Client.Delete(ctx, edge)).To(Succeed())
			settle(w, func() any { return w.read(ctx, "edge") }).Should(BeNil())
			Expect(w.remote("edge-1")()).To(Equal(left))
			Eventually(w.events(ctx, "Deleted")).Should(HaveLen(1))
		},
		Entry("by default it is", map[string]string{"rack": "7", "team": "theirs"}),
		Entry("Remove takes it away", map[string]string{"rack": "7"}, releasePolicy(fleetmanagementv1alpha1.ReleaseRemove)),
	)

	It("AT-15: restores an attribute that is asked for no more, and leaves one that somebody else has changed since", func(ctx SpecContext) {
		w.registers("edge-1", nil, map[string]string{"team": "theirs", "tier": "iron"})
		w.create(ctx, w.collector("edge", "edge-1", asks(map[string]string{"team": "ours", "tier": "gold"})))
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		w.edit("edge-1", func(remote map[string]string) { remote["tier"] = "by hand" })
		patch(ctx, w.collector("edge", ""), `{"spec": {"remoteAttributes": null}}`)
		settle(w, func() []string { return w.owners(ctx, "edge") }).Should(BeEmpty())
		Expect(w.remote("edge-1")()).To(Equal(map[string]string{"team": "theirs", "tier": "by hand"}))
	})

	It("AT-15: keeps an attribute that stood there as it is asked for when the Collector goes", func(ctx SpecContext) {
		w.registers("edge-1", nil, map[string]string{"team": "ours"})
		edge := w.collector("edge", "edge-1", asks(map[string]string{"team": "ours", "tier": "gold"}))
		w.create(ctx, edge)
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		Expect(w.owners(ctx, "edge")).To(ContainElement("team=ours of Collector " + w.namespace + "/edge, before: ours"))
		w.stop()
		w.start(ctx)
		Expect(cluster.Client.Delete(ctx, edge)).To(Succeed())
		settle(w, func() any { return w.read(ctx, "edge") }).Should(BeNil())
		Expect(w.remote("edge-1")()).To(Equal(map[string]string{"team": "ours"}))
	})

	It("AT-15: names the policy that gives each attribute, and tells of a tie once", func(ctx SpecContext) {
		w.registers("edge-1", map[string]string{"env": "prod"}, nil)
		w.create(ctx, w.policy("a", []string{"env=prod"}, map[string]string{"one": "a", "both": "a"}),
			w.policy("b", []string{"env=prod"}, map[string]string{"two": "b", "both": "b"}), w.collector("edge", "edge-1"))
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		of := " of RemoteAttributePolicy " + w.namespace
		Expect(w.owners(ctx, "edge")).To(Equal([]string{"both=a" + of + "/a", "one=a" + of + "/a", "two=b" + of + "/b"}))
		Eventually(w.events(ctx, "PriorityTie")).Should(HaveLen(1))
		w.quiet(func() { w.look("edge") })
		Expect(w.events(ctx, "PriorityTie")()).To(HaveLen(1))
	})

	It("AT-15: changes nothing of Fleet Management's own, even where the status claims it", func(ctx SpecContext) {
		w.registers("edge-1", nil, map[string]string{"collector.os": "linux"})
		edge := w.collector("edge", "edge-1", asks(map[string]string{"team": "a"}))
		w.create(ctx, edge)
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		w.stop()
		claimed := w.read(ctx, "edge")
		claimed.Status.AttributeOwners = append(claimed.Status.AttributeOwners, fleetmanagementv1alpha1.AttributeOwner{
			Key: "collector.os", Value: "linux", OwnerKind: fleetmanagementv1alpha1.OwnerCollector, OwnerName: w.namespace + "/edge",
		})
		Expect(cluster.Client.Status().Update(ctx, claimed)).To(Succeed())
		Expect(cluster.Client.Delete(ctx, edge)).To(Succeed())
		w.start(ctx)
		settle(w, func() any { return w.read(ctx, "edge") }).Should(BeNil())
		Expect(w.remote("edge-1")()).To(Equal(map[string]string{"collector.os": "linux"}))
	})

	It("AT-15: of two Collectors with one ID the older acts, and the other takes over when it goes", func(ctx SpecContext) {
		w.registers("edge-1", nil, nil)
		w.start(ctx)
		first := w.collector("first", "edge-1", asks(map[string]string{"team": "a", "tier": "gold"}))
		w.create(ctx, first)
		settle(w, w.ready(ctx, "first")).Should(Equal(synced))
		var second *fleetmanagementv1alpha1.Collector
		Eventually(func(g Gomega) { // the API server keeps whole seconds, and of equal ones the UID decides
			second = w.collector("second", "edge-1", asks(map[string]string{"team": "b"}))
			g.Expect(cluster.Client.Create(ctx, second)).To(Succeed())
			if second.CreationTimestamp.Equal(&first.CreationTimestamp) {
				g.Expect(cluster.Client.Delete(ctx, second)).To(Succeed())
				g.Expect("the same second").To(BeEmpty())
			}
		}).WithPolling(1).Should(Succeed())
		Eventually(w.ready(ctx, "second")).Should(Equal("False/DuplicateCollectorID"))
		Expect(messageOf(w.read(ctx, "second").Status.Conditions, fleetmanagementv1alpha1.ConditionReady)).To(ContainSubstring(w.namespace + "/first"))
		Expect(w.read(ctx, "second").Finalizers).To(BeEmpty())
		Expect(w.remote("edge-1")()).To(Equal(map[string]string{"team": "a", "tier": "gold"}))
		w.quiet(func() { w.look("first", "second") })

		Expect(cluster.Client.Delete(ctx, first)).To(Succeed())
		settle(w, w.ready(ctx, "second")).Should(Equal(synced))
		Expect(w.remote("edge-1")()).To(Equal(map[string]string{"team": "b"}))
	})

	It("leaves what somebody else set when conflictPolicy is Skip, and gives the rest", func(ctx SpecContext) {
		w.registers("edge-1", nil, map[string]string{"team": "theirs"})
		w.create(ctx, w.collector("edge", "edge-1", conflictPolicy(fleetmanagementv1alpha1.ConflictSkip), asks(map[string]string{"team": "ours", "tier": "gold"})))
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		Expect(w.remote("edge-1")()).To(Equal(map[string]string{"team": "theirs", "tier": "gold"}))
		Expect(messageOf(w.read(ctx, "edge").Status.Conditions, fleetmanagementv1alpha1.ConditionReady)).To(HaveSuffix("Left as somebody else set them: team."))
	})

	It("changes nothing when conflictPolicy is Fail, and says what stands in the way", func(ctx SpecContext) {
		w.registers("edge-1", nil, map[string]string{"team": "theirs"})
		w.create(ctx, w.collector("edge", "edge-1", conflictPolicy(fleetmanagementv1alpha1.ConflictFail), asks(map[string]string{"team": "ours", "tier": "gold"}),
			func(c *fleetmanagementv1alpha1.Collector) { c.Spec.Name = "The edge" }))
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal("False/AttributeConflict"))
		Expect(w.remote("edge-1")()).To(Equal(map[string]string{"team": "theirs"}))
		Expect(w.fleet.Count("UpdateCollector", bulkUpdate)).To(BeZero())
		w.edit("edge-1", func(remote map[string]string) { delete(remote, "team") })
		w.poll()
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		Expect(w.remote("edge-1")()).To(Equal(map[string]string{"team": "ours", "tier": "gold"}))
	})

	It("goes by others' attributes where a policy says includeRemote, and not by those that it gives itself", func(ctx SpecContext) {
		w.registers("edge-1", nil, map[string]string{"ring": "canary"})
		w.registers("edge-2", nil, nil)
		w.create(ctx, w.policy("canaries", []string{"ring=canary"}, map[string]string{"ring": "first", "log": "debug"}, func(p *fleetmanagementv1alpha1.RemoteAttributePolicy) {
			p.Spec.Selector.IncludeRemote = true
		}), w.policy("rings", []string{"ring=first"}, map[string]string{"circle": "yes"}, func(p *fleetmanagementv1alpha1.RemoteAttributePolicy) {
			p.Spec.Selector.IncludeRemote = true
		}), w.collector("edge", "edge-1"), w.collector("other", "edge-2"))
		w.start(ctx)
		settle(w, w.remote("edge-1")).Should(Equal(map[string]string{"ring": "first", "log": "debug"}))
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		Eventually(w.policySays(ctx, "canaries")).Should(Equal("True/Matched True/Matched 1"))
		Eventually(w.policySays(ctx, "rings")).Should(Equal("False/NoMatch True/NoMatch 0"))
		w.quiet(func() {
			w.look("edge", "other")
			w.lookAtPolicy("canaries")
		})
		Expect(w.remote("edge-2")()).To(BeEmpty())
	})

	It("restores an attribute that was edited behind its back at the next list", func(ctx SpecContext) {
		w.registers("edge-1", nil, nil)
		w.create(ctx, w.collector("edge", "edge-1", asks(map[string]string{"team": "a", "tier": "gold"})))
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		w.edit("edge-1", func(remote map[string]string) {
			remote["team"] = "by hand"
			delete(remote, "tier")
		})
		w.poll()
		settle(w, w.remote("edge-1")).Should(Equal(map[string]string{"team": "a", "tier": "gold"}))
		Expect(w.fleet.Count(listAll)).To(Equal(2))
	})

	It("looks again when an attribute changed between the list and the write, and keeps what stood there last", func(ctx SpecContext) {
		w.registers("edge-1", nil, map[string]string{"team": "theirs"})
		w.create(ctx, w.collector("edge", "edge-1"))
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		w.edit("edge-1", func(remote map[string]string) { remote["team"] = "by hand" })
		patch(ctx, w.collector("edge", ""), `{"spec": {"remoteAttributes": {"team": "ours"}}}`)
		settle(w, w.remote("edge-1")).Should(Equal(map[string]string{"team": "ours"}))
		settle(w, func() []string { return w.owners(ctx, "edge") }).Should(Equal([]string{"team=ours of Collector " + w.namespace + "/edge, before: by hand"}))
		Expect(w.fleet.Count("GetCollector")).To(Equal(1))
		Expect(w.fleet.Count(listAll)).To(Equal(1))
	})
})

var _ = Describe("The deletion of a Collector", func() {
	var w *collectorWorld
	BeforeEach(func(ctx SpecContext) { w = newCollectorWorld(ctx) })

	It("AT-06: takes back a key with a slash though another key is gone already", func(ctx SpecContext) {
		w.registers("edge-1", nil, nil)
		edge := w.collector("edge", "edge-1", asks(map[string]string{"app.kubernetes.io/name": "a~b", "team": "a"}))
		w.create(ctx, edge)
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		Expect(w.remote("edge-1")()).To(HaveLen(2))
		w.edit("edge-1", func(remote map[string]string) { delete(remote, "team") })
		Expect(cluster.Client.Delete(ctx, edge)).To(Succeed())
		settle(w, func() any { return w.read(ctx, "edge") }).Should(BeNil())
		Expect(w.remote("edge-1")()).To(BeEmpty())
		Expect(w.fleet.Collector("edge-1")).NotTo(BeNil(), "the collector itself is not ours")
	})

	It("AT-02: goes on by itself once Fleet Management allows it, and says meanwhile why it waits", func(ctx SpecContext) {
		w.registers("edge-1", nil, nil)
		edge := w.collector("edge", "edge-1", asks(map[string]string{"team": "a"}))
		w.create(ctx, edge)
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		w.fleet.Fail(fleetserver.Rule{Procedure: bulkUpdate, Respond: fleetserver.ConnectError(connect.CodePermissionDenied, "not you")})
		Expect(cluster.Client.Delete(ctx, edge)).To(Succeed())
		settle(w, w.ready(ctx, "edge")).Should(Equal("False/DeleteFailed"))
		w.look("edge")
		Expect(w.ready(ctx, "edge")()).To(Equal("False/DeleteFailed"))
		Eventually(w.events(ctx, "DeleteFailed")).Should(HaveLen(1))
		w.fleet.ClearFaults()
		settle(w, func() any {
			select {
			case w.wakes["collector"] <- event.GenericEvent{Object: edge}:
			default:
			}
			return w.read(ctx, "edge")
		}).Should(BeNil())
		Expect(w.remote("edge-1")()).To(BeEmpty())
	})

	It("gives up an attribute that Fleet Management does not let go, and lets the rest go", func(ctx SpecContext) {
		w.registers("edge-1", nil, nil)
		edge := w.collector("edge", "edge-1", asks(map[string]string{"team": "a", "tier": "gold"}))
		w.create(ctx, edge)
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		w.fleet.Fail(fleetserver.Rule{
			Procedure: bulkUpdate, Respond: fleetserver.ConnectError(connect.CodeInvalidArgument, "not this one"), Match: touches("/remote_attributes/tier"),
		})
		Expect(cluster.Client.Delete(ctx, edge)).To(Succeed())
		settle(w, func() any { return w.read(ctx, "edge") }).Should(BeNil())
		Expect(w.remote("edge-1")()).To(Equal(map[string]string{"tier": "gold"}))
		Eventually(w.events(ctx, "DeleteFailed")).Should(ConsistOf(ContainSubstring("tier")))
	})

	It("ends at once without credentials when nothing was ever given", func(ctx SpecContext) {
		w.registers("edge-1", nil, nil)
		w.unmount()
		edge := w.collector("edge", "edge-1", asks(map[string]string{"team": "a"}))
		w.create(ctx, edge)
		w.start(ctx)
		Eventually(w.ready(ctx, "edge")).Should(Equal("False/NoCredentials"))
		Expect(w.read(ctx, "edge").Finalizers).To(BeEmpty())
		Expect(w.asked()).To(BeEmpty())
		Expect(cluster.Client.Delete(ctx, edge)).To(Succeed())
		Eventually(func() any { return w.read(ctx, "edge") }).Should(BeNil())
	})

	It("ends at once when the annotation says so, whatever stands in Fleet Management", func(ctx SpecContext) {
		w.registers("edge-1", nil, nil)
		edge := w.collector("edge", "edge-1", asks(map[string]string{"team": "a"}))
		w.create(ctx, edge)
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		w.unmount()
		Expect(cluster.Client.Delete(ctx, edge)).To(Succeed())
		Eventually(w.ready(ctx, "edge")).Should(Equal("False/DeleteFailed"))
		patch(ctx, edge, `{"metadata": {"annotations": {"`+fleetmanagementv1alpha1.AnnotationSkipRemoteDelete+`": "true"}}}`)
		Eventually(func() any { return w.read(ctx, "edge") }).Should(BeNil())
		Expect(w.remote("edge-1")()).To(Equal(map[string]string{"team": "a"}))
	})
})
