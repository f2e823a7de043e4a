// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/test/kube"
)

var _ = Describe("What a person tells an ExternalAttributeSync", func() {
	var w *syncWorld
	BeforeEach(func(ctx SpecContext) { w = newSyncWorld(ctx) })

	annotated := func(key, value string) string {
		return `{"metadata": {"annotations": {"` + key + `": "` + value + `"}}}`
	}

	It("is to fetch now, once for each value, or to rest", func(ctx SpecContext) {
		w.answers(200, hosts(1, "x"))
		w.fleetOf(ctx, 1)
		o := w.sync("cmdb")
		w.create(ctx, o)
		w.start(ctx)
		settle(w, w.given).Should(Equal(1))
		Eventually(w.syncSays(ctx, "cmdb")).Should(Equal("True/Synced 1"))
		w.answers(200, hosts(1, "y"))
		w.step(time.Second)
		patch(ctx, o, annotated(fleetmanagementv1alpha1.AnnotationFetchNow, "monday"))
		settle(w, w.remote(edge(0))).Should(Equal(map[string]string{"team": "y"}))
		Eventually(func() string { return w.readSync(ctx, "cmdb").Status.HandledFetchNow }).Should(Equal("monday"))
		w.restart(ctx)
		w.lookAtSync("cmdb")
		Expect(w.fetches()).To(Equal(2))

		patch(ctx, o, `{"spec": {"suspend": true}}`)
		Eventually(w.syncSays(ctx, "cmdb")).Should(Equal("True/Suspended 1"))
		Expect(w.readSync(ctx, "cmdb").Status.NextSyncTime).To(BeNil())
		writes := w.writes()
		w.step(pastDue)
		w.lookAtSync("cmdb")
		w.restart(ctx)
		w.lookAtSync("cmdb")
		w.look("c-0")
		Expect(w.fetches()).To(Equal(2))
		Expect(w.given()).To(Equal(1), "what was given stays")
		Expect(w.writes().Since(writes)).To(BeEmpty())
		patch(ctx, o, `{"spec": {"suspend": false}}`)
		Eventually(w.fetches).Should(Equal(3), "it was due long ago")
	})

	It("is to try only", func(ctx SpecContext) {
		w.answers(200, hosts(1, "x"))
		w.fleetOf(ctx, 1)
		o := w.sync("cmdb", func(o *fleetmanagementv1alpha1.ExternalAttributeSync) {
			o.Annotations = map[string]string{fleetmanagementv1alpha1.AnnotationDryRun: fleetmanagementv1alpha1.DryRunRedacted}
		})
		w.create(ctx, o)
		w.start(ctx)
		Eventually(w.syncSays(ctx, "cmdb")).Should(Equal("True/DryRun 0"))
		Expect(w.readSync(ctx, "cmdb").Status.Sample).To(Equal([]fleetmanagementv1alpha1.OwnedKeys{{CollectorID: edge(0), Attributes: map[string]string{"team": "(redacted)"}}}))
		settle(w, w.ready(ctx, "c-0")).Should(Equal(synced))
		Expect(w.given()).To(BeZero())
		patch(ctx, o, annotated(fleetmanagementv1alpha1.AnnotationDryRun, "false"))
		settle(w, w.given).Should(Equal(1))
		Expect(w.fetches()).To(Equal(1), "what was tried is given")
		Expect(w.readSync(ctx, "cmdb").Status.Sample).To(BeEmpty())
	})

	It("asks with what a Secret holds, once it may read it, and with what it holds then", func(ctx SpecContext) {
		w.mayLack = "secrets"
		w.answers(200, hosts(1, "x"))
		w.fleetOf(ctx, 1)
		w.create(ctx, w.sync("cmdb", signed("token")))
		w.mayRead(ctx, "another")
		w.start(ctx)
		Eventually(w.syncSays(ctx, "cmdb")).Should(Equal("False/SecretUnreadable 0"))
		Expect(w.message(ctx, "cmdb")).To(And(ContainSubstring("create a Role that allows the verb get on the resource secrets with the resourceName token"),
			ContainSubstring("system:serviceaccount:")))
		w.mayRead(ctx, "token")
		look := func() string {
			w.step(syncEvery)
			w.lookAtSync("cmdb")
			return w.message(ctx, "cmdb")
		}
		Eventually(look).Should(Equal("the Secret token of spec.source.secretRef does not exist in namespace " + w.namespace + ": create it"))
		Expect(w.fetches()).To(BeZero())
		secret := w.secret(ctx, "token", "glsa_first")
		Eventually(look).Should(Equal("1 attribute for 1 collector, from 1 record."))
		Expect(w.bearer()).To(Equal("Bearer glsa_first"))
		patch(ctx, secret, `{"stringData": {"bearer-token": "glsa_second"}}`)
		Eventually(func() string { look(); return w.bearer() }).Should(Equal("Bearer glsa_second"))
		Expect(w.counter.Reads()).NotTo(Or(HaveKey("list secrets"), HaveKey("watch secrets")))
	})

	It("is refused where it names what it must not use", func(ctx SpecContext) {
		w.options.Fleet.Sources.AllowCIDRs, w.options.Fleet.Sources.SecretSelector = "", fleetmanagementv1alpha1.LabelExternalSource+"=true"
		w.secret(ctx, "token", "glsa_first")
		w.mayRead(ctx, "token")
		w.create(ctx, w.sync("guarded"), w.sync("unlabelled", signed("token")), w.sync("elsewhere", signed("token"), func(o *fleetmanagementv1alpha1.ExternalAttributeSync) {
			o.Spec.Source.SecretRef.Namespace = "kube-system"
		}))
		w.start(ctx)
		Eventually(w.syncSays(ctx, "guarded")).Should(Equal("False/SourceFailed 0"))
		Expect(w.message(ctx, "guarded")).To(ContainSubstring("CANDOR_EXTERNAL_SOURCE_ALLOW_CIDRS"))
		Eventually(w.syncSays(ctx, "unlabelled")).Should(Equal("False/SecretUnreadable 0"))
		Expect(w.message(ctx, "unlabelled")).To(ContainSubstring("--external-source-secret-label-selector"))
		Eventually(w.syncSays(ctx, "elsewhere")).Should(Equal("False/SecretUnreadable 0"))
		Expect(w.message(ctx, "elsewhere")).To(ContainSubstring("only a Secret of the namespace of the object"))
		Expect(w.fetches()).To(BeZero())
	})

	It("costs one write a fetch, and nothing else", func(ctx SpecContext) {
		w.version = `"v1"`
		w.answers(200, hosts(1, "x"))
		w.fleetOf(ctx, 1)
		w.create(ctx, w.sync("cmdb"))
		w.start(ctx)
		settle(w, w.given).Should(Equal(1))
		settle(w, w.ready(ctx, "c-0")).Should(Equal(synced))
		Eventually(w.syncSays(ctx, "cmdb")).Should(Equal("True/Synced 1"))
		w.step(time.Minute)
		w.lookAtSync("cmdb")
		writes, calls := w.writes(), len(w.asked())
		w.step(pastDue)
		w.lookAtSync("cmdb")
		w.lookAtSync("cmdb")
		w.look("c-0")
		Expect(w.writes().Since(writes)).To(Equal(kube.Counts{"update externalattributesyncs/status": 1}))
		Expect(w.asked()).To(HaveLen(calls))
		Expect(w.fetches()).To(Equal(2))
		Expect(w.metric("fleet_external_sync_fetches_total", "kind", "HTTP", "outcome", "unchanged")()).To(Equal(1.0))
		Expect(w.metric("fleet_external_sync_records")()).To(Equal(1.0))
		Expect(w.metric("fleet_external_sync_owned_keys")()).To(Equal(1.0))
		Expect(w.metric("fleet_external_syncs_stalled")()).To(Equal(0.0))
	})
})
