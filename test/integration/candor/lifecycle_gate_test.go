// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/builder"
)

const (
	ingests = 50
	// whyGate says why anyone cares.
	whyGate = "identical content asks for another look of the model (ingest %d of %d). Each rescan would be paid for again: " +
		"k8sgpt-operator#769 tells of 164 results that made 9,300 model calls in three days"
)

var _ = Describe("The gate, proven", func() {
	It("one enrichment, 50 ingests of identical content and a restart in the middle: nothing asks for the model again", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.apply(ctx, builder.StatefulSet(w.namespace, "web"), builder.Policy(w.namespace, "default", []string{"trivy"}))
		w.start(ctx)
		w.serving()
		w.scan(ctx, "web", builder.Vulnerabilities(5, "HIGH"))
		w.settle(ctx)
		f := w.of(ctx, "web")()
		Expect(signals.NeedsEnrichment(f)).To(BeTrue(), "nobody has looked yet")
		f.Status.EnrichedFingerprint = f.Status.Fingerprint
		Expect(cluster.Client.Status().Update(ctx, f)).To(Succeed())
		w.settle(ctx)
		before := w.stored()

		for i := 1; i <= ingests; i++ {
			if i == ingests/2 {
				w.restart(ctx)
			}
			w.clock.Step(time.Hour)
			w.rescan(ctx, "web", rescored(shuffled(builder.Vulnerabilities(5, "HIGH"))), builder.UpdatedAt(w.clock.Now()))
			w.settle(ctx)
			Expect(signals.NeedsEnrichment(w.of(ctx, "web")())).To(BeFalse(), whyGate, i, ingests)
		}
		Expect(w.stored().Since(before)).To(BeEmpty(), "a look that changes nothing writes nothing")

		w.scan(ctx, "web", builder.Vulnerabilities(6, "HIGH"))
		w.settle(ctx)
		Expect(signals.NeedsEnrichment(w.of(ctx, "web")())).To(BeTrue(), "changed content reopens the gate")
		Expect(w.of(ctx, "web")().Status.EnrichedFingerprint).To(Equal(f.Status.EnrichedFingerprint))
	})
})
