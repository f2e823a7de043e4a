// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/test/kube"
)

var _ = Describe("An ExternalAttributeSync", func() {
	var w *syncWorld
	BeforeEach(func(ctx SpecContext) { w = newSyncWorld(ctx) })

	It("AT-17: gives collectors what the server knows as it is written there, and takes it back when it goes", func(ctx SpecContext) {
		w.answers(200, `{"data": {"hosts": [
			{"host": "edge-0", "number": 1000000, "long": 9007199254740993, "price": 1.50, "on": true, "off": null, "list": ["x"], "owner": "theirs now"}]}}`)
		w.registers("edge-0", nil, map[string]string{"team": "theirs", "rack": "7"})
		w.create(ctx, w.collector("edge", "edge-0", asks(map[string]string{"team": "the Collector's", "number": "0"})))
		o := w.sync("cmdb", func(o *fleetmanagementv1alpha1.ExternalAttributeSync) {
			o.Spec.Source.HTTP.RecordsPath = "data.hosts"
			o.Spec.Mapping.AttributeFields = map[string]string{"number": "number", "long": "long", "price": "price", "on": "on", "off": "off", "list": "list", "team": "owner"}
		})
		w.create(ctx, o)
		w.start(ctx)
		want := map[string]string{"rack": "7", "number": "1000000", "long": "9007199254740993", "price": "1.50", "on": "true", "team": "theirs now"}
		settle(w, w.remote("edge-0")).Should(Equal(want))
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		by := " of ExternalAttributeSync " + w.namespace + "/cmdb"
		Expect(w.owners(ctx, "edge")).To(Equal([]string{
			"long=9007199254740993" + by, "number=1000000" + by, "on=true" + by, "price=1.50" + by, "team=theirs now" + by + ", before: theirs",
		}))
		Expect(w.message(ctx, "cmdb")).To(Equal("5 attributes for 1 collector, from 1 record. Lists and objects where a value is needed, left out: 1."))
		Eventually(w.events(ctx, "Synced")).Should(HaveLen(2))
		Expect(cluster.Client.Delete(ctx, o)).To(Succeed())
		settle(w, w.remote("edge-0")).Should(Equal(map[string]string{"rack": "7", "number": "0", "team": "the Collector's"}), "the next layer, and what stood there before")
		Expect(cluster.Client.Delete(ctx, w.collector("edge", ""))).To(Succeed())
		settle(w, w.remote("edge-0")).Should(Equal(map[string]string{"rack": "7", "team": "theirs"}))
	})

	It("AT-04: asks once each interval, whatever happens to Collectors meanwhile, and after a restart no sooner", func(ctx SpecContext) {
		const n = 200
		w.answers(200, hosts(n, "x"))
		w.fleetOf(ctx, n)
		w.create(ctx, w.sync("cmdb"))
		w.start(ctx)
		settle(w, w.given).Should(Equal(n))
		settle(w, w.syncSays(ctx, "cmdb")).Should(Equal("True/Synced 200"))
		settle(w, w.well(ctx)).Should(Equal(n))
		for round := range 3 {
			Expect(w.fetches()).To(Equal(round + 1))
			for i := range 20 {
				w.look("c-" + string('0'+rune(i%10)))
			}
			w.lookAtSync("cmdb")
			w.restart(ctx)
			w.lookAtSync("cmdb")
			Expect(w.fetches()).To(Equal(round + 1))
			writes := w.writes()
			w.step(pastDue)
			w.lookAtSync("cmdb")
			w.lookAtSync("cmdb")
			Expect(w.writes().Since(writes)).To(Equal(kube.Counts{"update externalattributesyncs/status": 1}), "the times, and nothing follows from that write")
		}
		Expect(w.fetches()).To(Equal(4))
		Expect(w.given()).To(Equal(n))
	})

	It("AT-05: asks a server that fails less and less often, and leaves what was given", func(ctx SpecContext) {
		w.answers(200, hosts(1, "x"))
		w.fleetOf(ctx, 1)
		w.create(ctx, w.sync("cmdb"))
		w.start(ctx)
		settle(w, w.given).Should(Equal(1))
		Eventually(w.syncSays(ctx, "cmdb")).Should(Equal("True/Synced 1"))
		w.answers(500, "the CMDB is on fire")
		w.step(pastDue)
		before := w.fetches()
		for range 30 {
			w.lookAtSync("cmdb")
			w.step(10 * time.Second)
		}
		Expect(w.fetches() - before).To(Equal(4))
		Expect(w.syncSays(ctx, "cmdb")()).To(Equal("False/SourceFailed 1"))
		Expect(w.message(ctx, "cmdb")).To(And(ContainSubstring("500"), ContainSubstring("the CMDB is on fire")))
		Eventually(w.events(ctx, "SourceFailed")).Should(HaveLen(1), "once, not with each try")
		writes, fetches := w.writes(), w.fetches()
		w.restart(ctx)
		w.lookAtSync("cmdb")
		w.look("c-0")
		Expect(w.writes().Since(writes)).To(BeEmpty())
		Expect(w.fetches()).To(Equal(fetches))
		Expect(w.given()).To(Equal(1))
		w.answers(200, hosts(1, "y"))
		w.step(pastDue)
		w.lookAtSync("cmdb")
		Expect(w.syncSays(ctx, "cmdb")()).To(Equal("True/Synced 1"))
		settle(w, w.remote(edge(0))).Should(Equal(map[string]string{"team": "y"}))
	})

	It("AT-18: serves 1,500 collectors, holds back a loss, and takes nothing away after a restart", func(ctx SpecContext) {
		const n = 1500
		w.answers(200, hosts(n, "x"))
		w.fleetOf(ctx, n)
		w.create(ctx, w.sync("cmdb"))
		w.start(ctx)
		settle(w, w.given).WithTimeout(2 * time.Minute).Should(Equal(n))
		settle(w, w.syncSays(ctx, "cmdb")).Should(Equal("True/Synced 1500"))
		settle(w, w.well(ctx)).WithTimeout(3 * time.Minute).WithPolling(time.Second).Should(Equal(n))
		o := w.readSync(ctx, "cmdb")
		Expect(verdictOf(o.Status.Conditions, "Truncated")).To(Equal("True/OwnedKeysTruncated"))
		Expect(o.Status.OwnedKeys).To(BeEmpty())

		calls := w.fleet.Count(bulkUpdate)
		w.restart(ctx)
		w.look("c-0", "c-1499")
		w.answers(200, hosts(1, "x"))
		w.step(pastDue)
		w.lookAtSync("cmdb")
		settle(w, w.syncSays(ctx, "cmdb")).Should(Equal("False/Stalled 1500"))
		w.look("c-0", "c-1499")
		Expect(w.given()).To(Equal(n))
		Expect(w.fleet.Count(bulkUpdate)).To(Equal(calls))
		Expect(w.message(ctx, "cmdb")).To(ContainSubstring("1499 of 1500 collectors would lose all attributes"))

		w.approve(ctx, "cmdb")
		settle(w, w.given).WithTimeout(2 * time.Minute).Should(Equal(1))
		Expect(w.syncSays(ctx, "cmdb")()).To(Equal("True/Synced 1"))
	})

	It("gives a Collector that comes later what was fetched before, and counts it", func(ctx SpecContext) {
		w.answers(200, hosts(3, "x"))
		w.fleetOf(ctx, 1)
		w.registers(edge(1), nil, nil)
		w.registers(edge(2), map[string]string{"env": "prod"}, nil)
		w.create(ctx, w.sync("cmdb"))
		w.start(ctx)
		settle(w, w.given).Should(Equal(1))
		Eventually(w.syncSays(ctx, "cmdb")).Should(Equal("True/Synced 1"))
		w.create(ctx, w.collector("later", edge(1)), w.collector("prod", edge(2)))
		settle(w, w.given).Should(Equal(2))
		w.step(time.Minute)
		settle(w, w.syncSays(ctx, "cmdb")).Should(Equal("True/Synced 2"))
		Expect(w.fetches()).To(Equal(1))
		Expect(w.remote(edge(2))()).To(BeEmpty(), "the selector does not mean it")
		patch(ctx, w.sync("cmdb"), `{"spec": {"selector": {"matchers": ["env=prod"]}}}`)
		settle(w, w.remote(edge(2))).Should(Equal(map[string]string{"team": "x"}))
		settle(w, w.given).Should(Equal(1))
		Expect(w.fetches()).To(Equal(1))
	})

	It("holds back what an edit of the selector, or what Collectors say, would take from many at once", func(ctx SpecContext) {
		const n = 6
		w.answers(200, hosts(n, "x"))
		w.fleetOf(ctx, n)
		o := w.sync("cmdb")
		w.create(ctx, o)
		w.start(ctx)
		settle(w, w.given).Should(Equal(n))
		settle(w, w.well(ctx)).Should(Equal(n))
		Eventually(w.syncSays(ctx, "cmdb")).Should(Equal("True/Synced 6"))

		patch(ctx, o, `{"spec": {"selector": {"matchers": ["os=linux"]}}}`)
		settle(w, w.syncSays(ctx, "cmdb")).Should(Equal("False/Stalled 6"))
		Expect(w.message(ctx, "cmdb")).To(And(ContainSubstring("6 of 6 collectors would lose all attributes"),
			ContainSubstring("spec.selector means none of the Collectors that they name."), ContainSubstring("approve-removal")))
		w.look("c-0", "c-5")
		Expect(w.given()).To(Equal(n))
		w.restart(ctx)
		w.look("c-0", "c-5")
		w.lookAtSync("cmdb")
		Expect(w.syncSays(ctx, "cmdb")()).To(Equal("False/Stalled 6"))
		Expect(w.given()).To(Equal(n), "a restart lets nothing go")

		patch(ctx, o, `{"spec": {"selector": {"matchers": ["env!=prod"]}}}`)
		settle(w, w.syncSays(ctx, "cmdb")).Should(Equal("True/Synced 6"))
		for i := range n {
			w.registers(edge(i), map[string]string{"env": "prod"}, map[string]string{"team": "x"})
		}
		w.poll()
		settle(w, w.syncSays(ctx, "cmdb")).Should(Equal("False/Stalled 6"))
		w.look("c-0", "c-5")
		Expect(w.given()).To(Equal(n))

		w.approve(ctx, "cmdb")
		settle(w, w.given).Should(BeZero())
		Eventually(w.syncSays(ctx, "cmdb")).Should(Equal("False/NoMatch 0"), "which it says for as long as it gives nothing")
		Expect(w.message(ctx, "cmdb")).To(Equal("None of 6 records gives a Collector anything. spec.selector means none of the Collectors that they name."))
	})

	It("lets the first by name of two that give the same key win, and the other one when it goes", func(ctx SpecContext) {
		other := newCMDB()
		w.answers(200, hosts(1, "x"))
		other.answers(200, hosts(1, "y"))
		w.fleetOf(ctx, 1)
		first := w.sync("a")
		w.create(ctx, first, w.sync("b", func(o *fleetmanagementv1alpha1.ExternalAttributeSync) {
			o.Spec.Source.HTTP = &fleetmanagementv1alpha1.HTTPSource{URL: other.URL, CABundle: other.ca()}
		}))
		w.start(ctx)
		Eventually(w.syncSays(ctx, "a")).Should(Equal("True/Synced 1"))
		Eventually(w.syncSays(ctx, "b")).Should(Equal("True/Synced 1"))
		settle(w, w.remote(edge(0))).Should(Equal(map[string]string{"team": "x"}))
		Expect(cluster.Client.Delete(ctx, first)).To(Succeed())
		settle(w, w.remote(edge(0))).Should(Equal(map[string]string{"team": "y"}))
	})

	It("AT-15: is not believed each key that its status claims, and costs no other key by it (B22, B26)", func(ctx SpecContext) {
		long := strings.Repeat("k", 101)
		w.fleetOf(ctx, 1)
		w.registers(edge(1), map[string]string{"env": "prod"}, nil)
		w.create(ctx, w.collector("prod", edge(1)))
		w.enableOnly("collector")
		o := w.sync("cmdb")
		w.create(ctx, o)
		claims := map[string]string{"collector.os": "plan9", long: "x", "value": strings.Repeat("v", 151), "team": "x"}
		o.Status.OwnedKeys = []fleetmanagementv1alpha1.OwnedKeys{{CollectorID: edge(0), Attributes: claims}, {CollectorID: edge(1), Attributes: claims}}
		Expect(cluster.Client.Status().Update(ctx, o)).To(Succeed())
		w.start(ctx)
		settle(w, w.remote(edge(0))).Should(Equal(map[string]string{"team": "x"}))
		settle(w, w.says(ctx, "c-0", "AttributesInvalid")).Should(Equal("True/AttributesRefused"))
		Expect(messageOf(w.read(ctx, "c-0").Status.Conditions, "AttributesInvalid")).To(And(ContainSubstring("collector.os"), ContainSubstring(long[:100]), ContainSubstring("151")))
		w.look("prod")
		Expect(w.remote(edge(1))()).To(BeEmpty(), "its selector does not mean that one")
	})
})
