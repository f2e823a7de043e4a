// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/candor-dev/candor/test/fakes/fleetserver"
	"github.com/candor-dev/candor/test/kube"
	"github.com/candor-dev/candor/test/suite"
)

var _ = Describe("A Collector when something goes wrong", func() {
	var w *collectorWorld
	BeforeEach(func(ctx SpecContext) { w = newCollectorWorld(ctx) })

	It("writes its status once while Fleet Management fails, however often it tries, and no other object's", func(ctx SpecContext) {
		w.registers("edge-1", map[string]string{"env": "prod"}, nil)
		w.create(ctx, w.policy("team", []string{"env=prod"}, map[string]string{"team": "a"}), w.collector("edge", "edge-1"))
		w.fleet.Fail(fleetserver.Rule{Procedure: bulkUpdate, Respond: fleetserver.PlainText(http.StatusBadGateway, "bad gateway", nil)})
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal("False/SyncFailed"))
		Eventually(w.policySays(ctx, "team")).Should(Equal("False/NoMatch True/NoMatch 0"), "no list of attributes stands in a status yet")
		failed := w.fleet.Count(bulkUpdate)
		writes := w.writes()
		settle(w, func() int { return w.fleet.Count(bulkUpdate) }).Should(BeNumerically(">=", failed+2))
		Expect(w.writes().Since(writes)).To(BeEmpty())
		Expect(w.events(ctx, "SyncFailed")()).To(HaveLen(1))
		w.fleet.ClearFaults()
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		Eventually(w.policySays(ctx, "team")).Should(Equal("True/Matched True/Matched 1"))
	})

	It("does not know whether it is synced while Fleet Management asks to wait, and stays ready", func(ctx SpecContext) {
		w.registers("edge-1", nil, nil)
		w.create(ctx, w.collector("edge", "edge-1"))
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		w.fleet.Fail(fleetserver.Rule{Procedure: bulkUpdate, Times: 1, Respond: fleetserver.PlainText(http.StatusTooManyRequests, "slow down", map[string]string{"Retry-After": "7"})})
		patch(ctx, w.collector("edge", ""), `{"spec": {"remoteAttributes": {"team": "a"}}}`)
		settle(w, w.says(ctx, "edge", "Synced")).Should(Equal("Unknown/RateLimited"))
		Expect(w.ready(ctx, "edge")()).NotTo(HavePrefix("True"), "it was well in another generation")
	})

	It("says that there are no credentials, and is synced as soon as there are", func(ctx SpecContext) {
		w.registers("edge-1", nil, nil)
		w.unmount()
		w.create(ctx, w.collector("edge", "edge-1", asks(map[string]string{"team": "a"})))
		w.start(ctx)
		Eventually(w.ready(ctx, "edge")).Should(Equal("False/NoCredentials"))
		w.mount()
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		Expect(w.remote("edge-1")()).To(Equal(map[string]string{"team": "a"}))
	})

	DescribeTable("is healed by the next manager after a crash, with no write twice",
		func(ctx SpecContext, crash func(ctx SpecContext)) {
			w.registers("edge-1", nil, map[string]string{"rack": "7"})
			edge := w.collector("edge", "edge-1", asks(map[string]string{"team": "a", "tier": "gold"}))
			w.create(ctx, edge)
			crash(ctx)
			Expect(w.remote("edge-1")()).To(HaveLen(3))
			Expect(w.read(ctx, "edge").Status.Conditions).To(BeEmpty())
			w.fleet.ClearFaults()
			w.fleet.Reset()
			w.start(ctx)
			settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
			Expect(w.owners(ctx, "edge")).To(HaveLen(2))
			Expect(w.fleet.Count(bulkUpdate)).To(BeZero())
			Expect(cluster.Client.Delete(ctx, edge)).To(Succeed())
			settle(w, w.remote("edge-1")).Should(Equal(map[string]string{"rack": "7"}))
		},
		Entry("between the bulk update and its answer", func(ctx SpecContext) {
			held := make(chan struct{})
			DeferCleanup(func() { close(held) })
			w.fleet.Fail(fleetserver.Rule{Procedure: bulkUpdate, AfterApplying: true, Respond: fleetserver.Hold(held)})
			w.start(ctx)
			settle(w, func() int { return len(w.remote("edge-1")()) }).Should(Equal(3))
			w.stop()
		}),
		Entry("between the answer and the status", func(ctx SpecContext) {
			var tries atomic.Int32
			w.meddle = refuseStatuses(&tries)
			w.start(ctx)
			settle(w, tries.Load).Should(BeNumerically(">", 0))
			w.stop()
			w.meddle = nil
		}),
	)

	It("takes back what was given before a crash when it is deleted meanwhile", func(ctx SpecContext) {
		w.registers("edge-1", nil, map[string]string{"rack": "7"})
		edge := w.collector("edge", "edge-1", asks(map[string]string{"team": "a"}))
		w.create(ctx, edge)
		var tries atomic.Int32
		w.meddle = refuseStatuses(&tries)
		w.start(ctx)
		settle(w, tries.Load).Should(BeNumerically(">", 0))
		w.stop()
		w.meddle = nil
		Expect(cluster.Client.Delete(ctx, edge)).To(Succeed())
		w.start(ctx)
		settle(w, func() any { return w.read(ctx, "edge") }).Should(BeNil())
		Expect(w.remote("edge-1")()).To(Equal(map[string]string{"rack": "7"}))
	})

	It("costs one list and no write when the manager starts again", func(ctx SpecContext) {
		w.registers("edge-1", map[string]string{"env": "prod"}, nil)
		w.create(ctx, w.policy("team", []string{"env=prod"}, map[string]string{"team": "a"}), w.collector("edge", "edge-1"))
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		Eventually(w.policySays(ctx, "team")).Should(Equal("True/Matched True/Matched 1"))
		w.stop()
		w.fleet.Reset()
		writes := w.writes()
		w.start(ctx)
		Eventually(func() float64 { return min(w.passes("Collector"), w.passes("RemoteAttributePolicy")) }).Should(BeNumerically(">=", 1))
		Expect(w.asked()).To(HaveLen(1))
		Expect(w.fleet.Count(listAll)).To(Equal(1))
		Expect(w.writes().Since(writes)).To(BeEmpty())
	})

	It("tells when the collector was last heard of, with other changes and every half hour", func(ctx SpecContext) {
		heard := w.clock.Now()
		ping := func(at time.Time) {
			w.fleet.EditCollector("edge-1", func(c *collectorv1.Collector) { c.UpdatedAt = timestamppb.New(at) })
			w.poll()
		}
		w.registers("edge-1", nil, nil)
		w.create(ctx, w.collector("edge", "edge-1"))
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		writes := w.writes()
		ping(heard.Add(29 * time.Minute))
		w.look("edge")
		Expect(w.writes().Since(writes)).To(BeEmpty())
		ping(heard.Add(31 * time.Minute))
		Eventually(func() time.Time { return w.read(ctx, "edge").Status.LastPing.UTC() }).Should(Equal(heard.Add(31 * time.Minute)))
		Expect(w.writes().Since(writes)).To(Equal(kube.Counts{"update collectors/status": 1}))
	})

	It("AT-24: takes few requests for many collectors, and one list an interval after that", func(ctx SpecContext) {
		const many = 600
		w.fleet.PutCollectors(many, func(i int) *collectorv1.Collector {
			return &collectorv1.Collector{Id: fmt.Sprintf("edge-%d", i), LocalAttributes: map[string]string{"env": "prod"}}
		})
		team := w.policy("team", []string{"env=prod"}, map[string]string{"team": "a"})
		w.create(ctx, team)
		for i := range many {
			w.create(ctx, w.collector(fmt.Sprintf("edge-%d", i), fmt.Sprintf("edge-%d", i)))
		}
		w.start(ctx)
		given := func(value string) func() int {
			return func() int {
				n := 0
				for _, c := range w.fleet.Collectors() {
					if c.GetRemoteAttributes()["team"] == value {
						n++
					}
				}
				return n
			}
		}
		settle(w, given("a")).WithTimeout(2 * time.Minute).Should(Equal(many))
		settle(w, w.policySays(ctx, "team")).WithTimeout(2 * time.Minute).Should(Equal(fmt.Sprintf("True/Matched True/Matched %d", many)))
		w.fleet.Reset()
		writes := w.writes()
		patch(ctx, team, `{"spec": {"attributes": {"team": "b"}}}`)
		settle(w, given("b")).WithTimeout(2 * time.Minute).Should(Equal(many))
		Expect(w.fleet.Count(bulkUpdate)).To(BeNumerically("<=", 4))
		Expect(w.asked()).To(HaveLen(w.fleet.Count(bulkUpdate)))
		settle(w, func() int { return w.writes().Since(writes)["update collectors/status"] }).WithTimeout(2 * time.Minute).Should(Equal(many))
		Expect(w.writes().Since(writes)["update remoteattributepolicies/status"]).To(BeNumerically("<=", 1))
		w.fleet.Reset()
		writes = w.writes()
		for range 3 {
			w.poll()
		}
		Expect(w.asked()).To(HaveLen(3))
		Expect(w.writes().Since(writes)).To(BeEmpty())
	})
})

// refuseStatuses lets no status of a Collector through, as if the process had ended before it, and counts the tries.
func refuseStatuses(tries *atomic.Int32) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return suite.RoundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/collectors/") && strings.HasSuffix(r.URL.Path, "/status") {
				tries.Add(1)
				return nil, fmt.Errorf("the process is gone")
			}
			return next.RoundTrip(r)
		})
	}
}
