// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

var _ = Describe("A Collector of which it is unsure what it was given", func() {
	var w *collectorWorld
	BeforeEach(func(ctx SpecContext) { w = newCollectorWorld(ctx) })

	deleted := func(ctx context.Context, c *fleetmanagementv1alpha1.Collector) {
		GinkgoHelper()
		Expect(cluster.Client.Delete(ctx, c)).To(Succeed())
		settle(w, func() any { return w.read(ctx, c.Name) }).Should(BeNil())
	}

	DescribeTable("AT-15: takes none of its own values for somebody else's when a change fails",
		func(ctx SpecContext, applied bool, policy fleetmanagementv1alpha1.ConflictPolicy) {
			w.registers("edge-1", nil, map[string]string{"rack": "7"})
			edge := w.collector("edge", "edge-1", conflictPolicy(policy), asks(map[string]string{"team": "a"}))
			w.create(ctx, edge)
			w.start(ctx)
			settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
			w.fleet.Fail(fleetserver.Rule{Procedure: bulkUpdate, AfterApplying: applied, Respond: fleetserver.PlainText(http.StatusBadGateway, "bad gateway", nil)})
			patch(ctx, w.collector("edge", ""), `{"spec": {"remoteAttributes": {"team": "b"}}}`)
			settle(w, w.ready(ctx, "edge")).Should(Equal("False/SyncFailed"))
			w.fleet.ClearFaults()
			settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
			Expect(w.remote("edge-1")()).To(Equal(map[string]string{"rack": "7", "team": "b"}))
			Expect(w.owners(ctx, "edge")).To(Equal([]string{"team=b of Collector " + w.namespace + "/edge"}))
			Expect(w.events(ctx, "AttributeTakenOver")()).To(BeEmpty())
			deleted(ctx, edge)
			Expect(w.remote("edge-1")()).To(Equal(map[string]string{"rack": "7"}))
		},
		Entry("before it is applied", false, fleetmanagementv1alpha1.ConflictOverwrite),
		Entry("after it was applied", true, fleetmanagementv1alpha1.ConflictOverwrite),
		Entry("before it is applied, and others' values are left", false, fleetmanagementv1alpha1.ConflictSkip),
		Entry("before it is applied, and others' values end it", false, fleetmanagementv1alpha1.ConflictFail),
	)

	It("AT-15: takes none of its own values for somebody else's when the spec changes while one is written", func(ctx SpecContext) {
		w.registers("edge-1", nil, nil)
		edge := w.collector("edge", "edge-1", asks(map[string]string{"team": "a"}))
		w.create(ctx, edge)
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		written, held := w.fleet.Count(bulkUpdate), make(chan struct{})
		w.fleet.Fail(fleetserver.Rule{Procedure: bulkUpdate, Times: 1, Respond: fleetserver.Hold(held)})
		patch(ctx, edge, `{"spec": {"remoteAttributes": {"team": "b"}}}`)
		settle(w, func() int { return w.fleet.Count(bulkUpdate) }).Should(Equal(written + 1))
		patch(ctx, edge, `{"spec": {"remoteAttributes": {"team": "c"}}}`)
		w.look()
		close(held)
		settle(w, w.remote("edge-1")).Should(Equal(map[string]string{"team": "c"}))
		settle(w, func() []string { return w.owners(ctx, "edge") }).Should(Equal([]string{"team=c of Collector " + w.namespace + "/edge"}))
		deleted(ctx, edge)
		Expect(w.remote("edge-1")()).To(BeEmpty())
	})

	It("AT-15: says what it was given though its name fails, so that the next manager can take it back", func(ctx SpecContext) {
		w.registers("edge-1", nil, nil)
		edge := w.collector("edge", "edge-1", asks(map[string]string{"team": "a"}), func(c *fleetmanagementv1alpha1.Collector) { c.Spec.Name = "The edge" })
		w.create(ctx, edge)
		w.fleet.Fail(fleetserver.Rule{Procedure: "UpdateCollector", Respond: fleetserver.PlainText(http.StatusBadGateway, "bad gateway", nil)})
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal("False/SyncFailed"))
		Expect(w.owners(ctx, "edge")).To(Equal([]string{"team=a of Collector " + w.namespace + "/edge"}))
		w.stop()
		w.start(ctx)
		deleted(ctx, edge)
		Expect(w.remote("edge-1")()).To(BeEmpty())
	})

	It("rests when Fleet Management refuses its name, and says so", func(ctx SpecContext) {
		w.registers("edge-1", nil, nil)
		w.fleet.Fail(fleetserver.Rule{Procedure: "UpdateCollector", Respond: fleetserver.ConnectError(connect.CodeInvalidArgument, "not this name")})
		w.create(ctx, w.collector("edge", "edge-1", asks(map[string]string{"team": "a"}), func(c *fleetmanagementv1alpha1.Collector) { c.Spec.Name = "bad" }))
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal("False/ValidationError"))
		c := w.read(ctx, "edge")
		Expect(c.Status.Registered).To(BeTrue())
		Expect(c.Status.EffectiveRemoteAttributes).To(Equal(map[string]string{"team": "a"}))
		Expect(messageOf(c.Status.Conditions, fleetmanagementv1alpha1.ConditionReady)).To(And(ContainSubstring("spec.name"), ContainSubstring("not this name")))
		w.quiet(func() { w.look("edge") })
		w.fleet.ClearFaults()
		patch(ctx, w.collector("edge", ""), `{"spec": {"name": "good"}}`)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		Expect(w.fleet.Collector("edge-1").GetName()).To(Equal("good"))
	})

	It("AT-15: takes back what it was given though one list lacks the collector when it is deleted", func(ctx SpecContext) {
		w.registers("edge-1", nil, map[string]string{"team": "theirs"})
		edge := w.collector("edge", "edge-1", asks(map[string]string{"team": "ours"}))
		w.create(ctx, edge)
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		missing := w.fleet.Collector("edge-1")
		w.fleet.DeleteCollector("edge-1")
		w.poll()
		settle(w, w.ready(ctx, "edge")).Should(Equal(notRegistered))
		w.fleet.PutCollector(missing)
		deleted(ctx, edge)
		Expect(w.remote("edge-1")()).To(Equal(map[string]string{"team": "theirs"}))
	})

	It("is deleted when two lists lack the collector", func(ctx SpecContext) {
		w.registers("edge-1", nil, nil)
		edge := w.collector("edge", "edge-1", asks(map[string]string{"team": "ours"}))
		w.create(ctx, edge)
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		w.fleet.DeleteCollector("edge-1")
		w.poll()
		settle(w, w.ready(ctx, "edge")).Should(Equal(notRegistered))
		listed := w.fleet.Count(listAll)
		deleted(ctx, edge)
		Expect(w.fleet.Count(listAll)).To(Equal(listed + 1))
	})

	DescribeTable("AT-15: of two Collectors of the same second, the one that comes first by its UID goes on where the other began",
		func(ctx SpecContext, end func(ctx context.Context, first, second *fleetmanagementv1alpha1.Collector)) {
			w.registers("edge-1", nil, map[string]string{"rack": "7"})
			w.start(ctx)
			var first, second *fleetmanagementv1alpha1.Collector
			Eventually(func() bool {
				first = w.collector("first", "edge-1", asks(map[string]string{"team": "a", "tier": "gold"}))
				w.create(ctx, first)
				settle(w, w.ready(ctx, "first")).Should(Equal(synced))
				second = w.collector("second", "edge-1", asks(map[string]string{"team": "b"}))
				w.create(ctx, second)
				if second.CreationTimestamp.Equal(&first.CreationTimestamp) && second.UID < first.UID {
					return true
				}
				deleted(ctx, second)
				deleted(ctx, first)
				return false
			}).WithTimeout(time.Minute).WithPolling(1).Should(BeTrue())
			settle(w, w.ready(ctx, "second")).Should(Equal(synced))
			w.look("first")
			Eventually(w.ready(ctx, "first")).Should(Equal("False/DuplicateCollectorID"))
			Expect(w.remote("edge-1")()).To(Equal(map[string]string{"rack": "7", "team": "b"}))
			Expect(w.owners(ctx, "second")).To(Equal([]string{"team=b of Collector " + w.namespace + "/second"}))
			end(ctx, first, second)
			Expect(w.remote("edge-1")()).To(Equal(map[string]string{"rack": "7"}))
		},
		Entry("and keeps it until it goes itself", func(ctx context.Context, first, second *fleetmanagementv1alpha1.Collector) {
			deleted(ctx, first)
			Expect(w.remote("edge-1")()).To(Equal(map[string]string{"rack": "7", "team": "b"}))
			deleted(ctx, second)
		}),
		Entry("and leaves it to the other when it goes", func(ctx context.Context, first, second *fleetmanagementv1alpha1.Collector) {
			deleted(ctx, second)
			settle(w, w.ready(ctx, "first")).Should(Equal(synced))
			Expect(w.remote("edge-1")()).To(Equal(map[string]string{"rack": "7", "team": "a", "tier": "gold"}))
			deleted(ctx, first)
		}),
	)

	It("AT-06: gives and takes back any key and any value", func(ctx SpecContext) {
		theirs := map[string]string{"their/key~": "", "remote_attributes": "x"}
		w.registers("edge/1 ~é", nil, maps.Clone(theirs))
		ours := map[string]string{"remote_attributes": "ours"}
		for i, key := range []string{"a/b", "c~d", "e.f", "g h", `i"j`, "ключ", "k,l", "~1", "remoteAttributes.x", "/remote_attributes/x", strings.Repeat("k", 100)} {
			ours[key] = []string{"", "1", "x,y", `q"`, "ü ~/.", strings.Repeat("é", 150)}[i%6]
		}
		edge := w.collector("edge", "edge/1 ~é", asks(ours))
		w.create(ctx, edge)
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		all := maps.Clone(theirs)
		maps.Copy(all, ours)
		Expect(w.remote("edge/1 ~é")()).To(Equal(all))
		Expect(w.fleet.Count(bulkUpdate)).To(Equal(1))
		w.quiet(func() { w.look("edge") })
		deleted(ctx, edge)
		Expect(w.remote("edge/1 ~é")()).To(Equal(theirs))
	})

	It("AT-16: leaves room for what others set and for what is restored", func(ctx SpecContext) {
		theirs := map[string]string{"restored": "before"}
		for i := range 98 {
			theirs[fmt.Sprintf("theirs-%d", i)] = strings.Repeat("é", 150)
		}
		w.registers("edge-1", nil, maps.Clone(theirs))
		edge := w.collector("edge", "edge-1", asks(map[string]string{"restored": "ours", "b": "1"}))
		w.create(ctx, edge)
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		patch(ctx, w.collector("edge", ""), `{"spec": {"remoteAttributes": {"restored": null, "c": "2"}}}`)
		settle(w, w.ready(ctx, "edge")).Should(Equal("False/ValidationError"))
		told := messageOf(w.read(ctx, "edge").Status.Conditions, fleetmanagementv1alpha1.ConditionAttributesInvalid)
		Expect(told).To(And(ContainSubstring(`"c" of Collector`), ContainSubstring("at most 100 attributes, and this one has 99 that others set")))
		Expect(told).NotTo(ContainSubstring("é"))
		Expect(w.fleet.Count(bulkUpdate)).To(Equal(2), "nothing is sent that would be refused")
		w.quiet(func() { w.look("edge") })
		deleted(ctx, edge)
		Expect(w.remote("edge-1")()).To(Equal(theirs))
	})
})
