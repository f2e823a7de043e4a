// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"bytes"
	"encoding/json"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("What is secret about signals", func() {
	It("canary: no key, no token, no signature and nothing of a body that was not taken gets into a log line, an event, a status or a metric", func(ctx SpecContext) {
		w := receiverWorld(ctx)
		log := gbytes.NewBuffer()
		GinkgoWriter.TeeTo(log)
		DeferCleanup(GinkgoWriter.ClearTeeWriters)
		w.takes(ctx)
		signed := bodyOf(disk().with("unknown", "canary-field-1111"))
		stamp := w.clock.Now()
		Expect(w.post(w.namespace, "default", signed, signedAt(signed, doorKey, stamp)).String()).To(Equal("202 created"))
		refused := bodyOf(disk().with("summary", "canary-summary-2222"))
		for _, bad := range []func(*http.Request){
			presenting("canary-token-3333333333"), presenting(doorToken + "canary-more-4444"), signedAt(refused, "canary-key-5555555555", stamp),
			func(r *http.Request) { r.Header.Set("X-Candor-Signature", "canary-signature-6666") },
		} {
			Expect(w.post(w.namespace, "default", refused, bad).status).To(Equal(http.StatusUnauthorized))
		}
		invalid := bodyOf(disk().with("severity", "canary-severity-7777"))
		answer := w.post(w.namespace, "default", invalid, presenting(doorToken))
		Expect(answer.status).To(Equal(http.StatusBadRequest))
		w.settle(ctx)

		var events eventsv1.EventList
		Expect(cluster.Client.List(ctx, &events, client.InNamespace(w.namespace))).To(Succeed())
		families, err := w.manager.Registry.Gather()
		Expect(err).NotTo(HaveOccurred())
		var seen bytes.Buffer
		for _, o := range []any{w.findings(ctx), w.storedPolicy(ctx, "default"), events.Items, families, answer.body} {
			Expect(json.NewEncoder(&seen).Encode(o)).To(Succeed())
		}
		for _, secret := range []string{doorKey, doorToken, "canary-"} {
			Expect(seen.String()).NotTo(ContainSubstring(secret))
			Expect(string(log.Contents())).NotTo(ContainSubstring(secret))
		}
		Expect(seen.String()).To(ContainSubstring("The disk is full."), "what was taken is there")
	})
})
