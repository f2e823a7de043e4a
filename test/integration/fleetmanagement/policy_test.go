// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"fmt"

	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/test/kube"
)

const oneMatch, noMatch = "True/Matched True/Matched 1", "False/NoMatch True/NoMatch 0"

var _ = Describe("A RemoteAttributePolicy", func() {
	var w *collectorWorld
	BeforeEach(func(ctx SpecContext) { w = newCollectorWorld(ctx) })

	ids := func(ctx SpecContext, name string) []string {
		var p fleetmanagementv1alpha1.RemoteAttributePolicy
		Expect(cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, &p)).To(Succeed())
		return p.Status.MatchedCollectorIDs
	}

	It("AT-19: is looked at when a collector comes that lacks the attribute it goes by, and when one loses it", func(ctx SpecContext) {
		w.create(ctx,
			w.policy("any", []string{`zone=~".*"`}, map[string]string{"any": "yes"}),
			w.policy("absent", []string{`zone=""`}, map[string]string{"absent": "yes"}),
			w.policy("not", []string{`zone!="a"`}, map[string]string{"not": "yes"}),
		)
		w.registers("edge-1", map[string]string{"os": "linux"}, nil)
		w.start(ctx)
		for _, name := range []string{"any", "absent", "not"} {
			Eventually(w.policySays(ctx, name)).Should(Equal(noMatch), name)
		}
		w.create(ctx, w.collector("edge", "edge-1"))
		settle(w, w.remote("edge-1")).Should(Equal(map[string]string{"any": "yes", "absent": "yes", "not": "yes"}))
		for _, name := range []string{"any", "absent", "not"} {
			Eventually(w.policySays(ctx, name)).Should(Equal(oneMatch), name)
		}
		w.fleet.EditCollector("edge-1", func(c *collectorv1.Collector) { c.LocalAttributes["zone"] = "a" })
		w.poll()
		settle(w, w.remote("edge-1")).Should(Equal(map[string]string{"any": "yes"}))
		Eventually(w.policySays(ctx, "absent")).Should(Equal(noMatch))
		w.fleet.EditCollector("edge-1", func(c *collectorv1.Collector) { delete(c.LocalAttributes, "zone") })
		w.poll()
		settle(w, w.remote("edge-1")).Should(HaveLen(3))
		Eventually(w.policySays(ctx, "absent")).Should(Equal(oneMatch))
	})

	It("names the collectors that it concerns, those of its selector's IDs among them, and follows them", func(ctx SpecContext) {
		w.registers("edge-1", map[string]string{"env": "prod"}, nil)
		w.registers("edge-2", map[string]string{"env": "dev"}, nil)
		w.registers("edge-3", map[string]string{"env": "dev"}, nil)
		w.create(ctx, w.policy("some", []string{"env=prod"}, map[string]string{"some": "yes"}, func(p *fleetmanagementv1alpha1.RemoteAttributePolicy) {
			p.Spec.Selector.CollectorIDs = []string{"edge-3", "edge-4"}
		}))
		for i := 1; i <= 4; i++ {
			w.create(ctx, w.collector(fmt.Sprintf("c-%d", i), fmt.Sprintf("edge-%d", i)))
		}
		w.start(ctx)
		settle(w, w.policySays(ctx, "some")).Should(Equal("True/Matched True/Matched 2"))
		Expect(ids(ctx, "some")).To(Equal([]string{"edge-1", "edge-3"}))
		Expect(cluster.Client.Delete(ctx, w.collector("c-3", ""))).To(Succeed())
		settle(w, w.policySays(ctx, "some")).Should(Equal(oneMatch))
		Expect(ids(ctx, "some")).To(Equal([]string{"edge-1"}))
		Eventually(w.events(ctx, "Matched")).Should(HaveLen(1))
	})

	It("writes its status once, and that write causes no other one", func(ctx SpecContext) {
		w.registers("edge-1", nil, nil)
		w.create(ctx, w.collector("edge", "edge-1"))
		w.start(ctx)
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		writes, calls := w.writes(), len(w.asked())
		w.create(ctx, w.policy("none", []string{"env=prod"}, map[string]string{"a": "b"}))
		Eventually(w.policySays(ctx, "none")).Should(Equal(noMatch))
		w.lookAtPolicy("none")
		w.look("edge")
		Expect(w.writes().Since(writes)).To(Equal(kube.Counts{"update remoteattributepolicies/status": 1}))
		Expect(w.asked()).To(HaveLen(calls))
		Eventually(w.events(ctx, "NoMatch")).Should(HaveLen(1))
	})

	It("takes nothing away while its selector cannot be read, and names the matcher", func(ctx SpecContext) {
		w.registers("edge-1", map[string]string{"env": "prod"}, nil)
		team := w.policy("team", []string{"env=prod"}, map[string]string{"team": "a"})
		w.create(ctx, team, w.collector("edge", "edge-1"))
		w.start(ctx)
		settle(w, w.policySays(ctx, "team")).Should(Equal(oneMatch))
		settle(w, w.ready(ctx, "edge")).Should(Equal(synced))
		patch(ctx, team, `{"spec": {"selector": {"matchers": ["env=~\"(\""]}}}`)
		Eventually(w.policySays(ctx, "team")).Should(HavePrefix("False/ValidationError False/ValidationError"))
		w.look("edge")
		Expect(w.remote("edge-1")()).To(Equal(map[string]string{"team": "a"}))
		var p fleetmanagementv1alpha1.RemoteAttributePolicy
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(team), &p)).To(Succeed())
		Expect(meta.FindStatusCondition(p.Status.Conditions, "Ready").Message).To(ContainSubstring("matchers[0]"))
		writes := w.writes()
		w.lookAtPolicy("team")
		Expect(w.writes().Since(writes)).To(BeEmpty())
	})
})
