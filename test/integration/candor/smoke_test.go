// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
)

var _ = Describe("A report", func() {
	It("becomes a Finding that resolves", func(ctx SpecContext) {
		w := newWorld(ctx)
		d := builder.Deployment(w.namespace, "web")
		w.apply(ctx, d)
		w.apply(ctx, builder.ReplicaSet(d, w.namespace, "web-1", 1), builder.Policy(w.namespace, "default", []string{"trivy"}))
		w.start(ctx)
		w.serving()
		w.apply(ctx, builder.VulnerabilityReport(w.namespace, "ReplicaSet", "web-1", "nginx", builder.Vulnerabilities(3, "HIGH")))
		f := w.finding(ctx, "trivy", "Deployment", "web", "nginx")
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		GinkgoWriter.Printf("%+v\n", f())
		w.apply(ctx, builder.VulnerabilityReport(w.namespace, "ReplicaSet", "web-1", "nginx", []any{}))
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeResolved))
		GinkgoWriter.Printf("%v\n", w.writes())
	})
})
