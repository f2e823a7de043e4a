// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("In a namespace that a TenantPolicy selects, objects", func() {
	It("are made by a PipelineDiscovery only of pipelines that are allowed there", func(ctx SpecContext) {
		d := newPipelineDiscovery(ctx)
		w := bind(ctx, d.world)
		d.put("ours", sent("team=a", "env=prod"))
		d.put("theirs", sent("team=b"))
		policy := w.tenant("p")
		w.create(ctx, policy)
		d.discover(ctx)
		w.start(ctx)
		Eventually(d.ready(ctx)).Should(HavePrefix("True/"))
		Expect(d.names(ctx)()).To(Equal([]string{"ours"}))
		Eventually(w.pipelineReady(ctx, "ours")).Should(Equal("True/ReadOnly"))

		Expect(cluster.Client.Delete(ctx, policy)).To(Succeed())
		Eventually(d.names(ctx)).Should(Equal([]string{"ours", "theirs"}))
	})

	It("are made by a CollectorDiscovery only of collectors that are allowed there", func(ctx SpecContext) {
		d := newCollectorDiscovery(ctx)
		w := bind(ctx, d.world)
		w.registers("edge-1", map[string]string{"site": "berlin"}, nil)
		w.registers("edge-2", map[string]string{"site": "rome"}, nil)
		policy := w.tenant("p", allowsCollectors("site=berlin"))
		w.create(ctx, policy)
		d.discover(ctx)
		w.start(ctx)
		Eventually(d.ready(ctx)).Should(HavePrefix("True/"))
		Expect(d.names(ctx)()).To(Equal([]string{"edge-1"}))

		Expect(cluster.Client.Delete(ctx, policy)).To(Succeed())
		Eventually(d.names(ctx)).Should(Equal([]string{"edge-1", "edge-2"}))
	})

	It("are given nothing by an ExternalAttributeSync whose selector is forbidden, and nothing is fetched", func(ctx SpecContext) {
		s := newSyncWorld(ctx)
		w := bind(ctx, s.world)
		s.answers(http.StatusOK, hosts(2, "anna"))
		s.fleetOf(ctx, 2)
		w.create(ctx, s.sync("inventory"))
		w.start(ctx)
		settle(w, s.given).Should(Equal(2))
		policy := w.tenant("p")
		w.create(ctx, policy)
		Eventually(s.syncSays(ctx, "inventory")).Should(HavePrefix(tenantForbidden))
		settle(w, s.given).Should(BeZero())
		fetches := s.fetches()
		w.step(pastDue)
		s.lookAtSync("inventory")
		Expect(s.fetches()).To(Equal(fetches))

		Expect(cluster.Client.Delete(ctx, policy)).To(Succeed())
		settle(w, s.given).Should(Equal(2))
	})
})
