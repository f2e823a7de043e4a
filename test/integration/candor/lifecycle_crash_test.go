// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/kube"
)

// run starts the manager with some of its controllers; none named stands for all.
func (w *world) run(ctx context.Context, controllers ...string) {
	GinkgoHelper()
	w.stop()
	for name, c := range w.options.Controllers {
		c.Enabled = len(controllers) == 0 || slices.Contains(controllers, name)
	}
	w.start(ctx)
	if w.options.Controllers["report"].Enabled {
		w.serving()
	}
}

var _ = Describe("A crash between the write of the spec and that of the status", func() {
	var w *world

	BeforeEach(func(ctx SpecContext) {
		w = newWorld(ctx)
		w.apply(ctx, builder.StatefulSet(w.namespace, "web"), builder.Policy(w.namespace, "default", []string{"trivy"}))
	})

	It("of a new Finding is made good by the next process", func(ctx SpecContext) {
		w.run(ctx, "report")
		w.scan(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
		w.settle(ctx)
		before := w.of(ctx, "web")()
		Expect(before.Status).To(BeZero())
		cost := w.cost(ctx, func() { w.run(ctx) })
		Expect(cost).To(Equal(kube.Counts{"update findings/status": 1}))
		after := w.of(ctx, "web")()
		Expect(after.Status.VerificationOutcome).To(Equal(candorv1alpha1.OutcomeStillPresent))
		Expect(after.Status.Fingerprint).To(Equal(signals.Fingerprint(signals.Of(before))))
	})

	DescribeTable("of a known Finding is made good by the next process",
		func(ctx SpecContext, entries []any, want candorv1alpha1.Outcome) {
			w.run(ctx)
			w.scan(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
			w.settle(ctx)
			before := w.of(ctx, "web")()
			w.run(ctx, "report")
			w.scan(ctx, "web", entries)
			w.settle(ctx)
			Expect(w.of(ctx, "web")().Status).To(Equal(before.Status))
			cost := w.cost(ctx, func() { w.run(ctx) })
			Expect(cost).To(Equal(kube.Counts{"update findings/status": 1}))
			f := w.of(ctx, "web")()
			Expect(f.Status.VerificationOutcome).To(Equal(want))
			Expect(f.Status.Fingerprint).To(Equal(signals.Fingerprint(signals.Of(f))))
		},
		Entry("other content", builder.Vulnerabilities(4, "HIGH"), candorv1alpha1.OutcomeStillPresent),
		Entry("an end", []any{}, candorv1alpha1.OutcomeResolved),
	)
})

var _ = Describe("What happens while the manager is down", func() {
	DescribeTable("is made good by the next process",
		func(ctx SpecContext, happens func(context.Context, *world), want candorv1alpha1.Outcome) {
			w := newWorld(ctx)
			w.apply(ctx, builder.StatefulSet(w.namespace, "web"), builder.Policy(w.namespace, "default", []string{"trivy"}))
			w.run(ctx)
			w.scan(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
			w.settle(ctx)
			cost := w.cost(ctx, func() {
				w.stop()
				happens(ctx, w)
				w.run(ctx)
			})
			Expect(outcome(w.of(ctx, "web"))()).To(Equal(want))
			Expect(cost).To(Equal(kube.Counts{"patch findings": 1, "update findings/status": 1}))
		},
		Entry("a report of other content", func(ctx context.Context, w *world) {
			w.scan(ctx, "web", builder.Vulnerabilities(4, "HIGH"))
		}, candorv1alpha1.OutcomeStillPresent),
		Entry("an empty report", func(ctx context.Context, w *world) {
			w.scan(ctx, "web", []any{})
		}, candorv1alpha1.OutcomeResolved),
		Entry("the end of the workload", func(ctx context.Context, w *world) {
			w.remove(ctx, builder.StatefulSet(w.namespace, "web"))
			w.unscan(ctx, "web")
		}, candorv1alpha1.OutcomeWorkloadGone),
		Entry("the end of the policy", func(ctx context.Context, w *world) {
			w.remove(ctx, builder.Policy(w.namespace, "default", nil))
		}, candorv1alpha1.OutcomeOutOfPolicy),
	)
})

var _ = Describe("Controllers started in any order", Ordered, func() {
	var (
		w           *world
		fingerprint string
		reference   map[string]string
	)

	populate := func(ctx context.Context) {
		GinkgoHelper()
		foreign := &candorv1alpha1.Finding{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "made-by-hand"},
			Spec: candorv1alpha1.FindingSpec{
				Source:   candorv1alpha1.Source{Provider: "trivy", Kind: "StatefulSet", Name: "web", Container: "app", RefKind: "VulnerabilityReport", RefName: "web"},
				Severity: candorv1alpha1.SeverityHigh, Summary: "Written by a person",
			},
		}
		w.apply(ctx, builder.StatefulSet(w.namespace, "web"), builder.StatefulSet(w.namespace, "api"), foreign,
			builder.Policy(w.namespace, "default", []string{"trivy"}))
		w.scan(ctx, "web", builder.Vulnerabilities(3, "HIGH"))
		w.scan(ctx, "api", builder.Vulnerabilities(2, "CRITICAL"))
		if fingerprint != "" {
			w.apply(ctx, builder.Suppression(w.namespace, "accepted", fingerprint))
		}
	}

	// state is all that Candor says, as text. Time stands still in this world, so that times are equal too.
	state := func(ctx context.Context) map[string]string {
		all := map[string]string{}
		text := func(name string, parts ...any) {
			content, err := json.Marshal(parts)
			Expect(err).NotTo(HaveOccurred())
			all[name] = string(content)
		}
		for _, f := range w.findings(ctx) {
			slices.SortFunc(f.Status.Conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
			text(f.Name, f.Labels, f.Spec, f.Status)
		}
		var policies candorv1alpha1.SignalPolicyList
		Expect(cluster.Client.List(ctx, &policies, client.InNamespace(w.namespace))).To(Succeed())
		for _, p := range policies.Items {
			text("policy "+p.Name, p.Status)
		}
		var suppressions candorv1alpha1.SuppressionList
		Expect(cluster.Client.List(ctx, &suppressions, client.InNamespace(w.namespace))).To(Succeed())
		for _, s := range suppressions.Items {
			text("suppression "+s.Name, s.Status)
		}
		return all
	}

	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx)
		populate(ctx)
		w.run(ctx)
		w.settle(ctx)
		fingerprint = w.of(ctx, "web")().Status.Fingerprint
		w.apply(ctx, builder.Suppression(w.namespace, "accepted", fingerprint))
		Eventually(func() []int32 {
			var p candorv1alpha1.SignalPolicy
			Expect(cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "default"}, &p)).To(Succeed())
			return []int32{p.Status.Findings, p.Status.Open}
		}).Should(Equal([]int32{3, 1}))
		w.settle(ctx)
		reference = state(ctx)
		Expect(reference).To(HaveLen(5))
	})

	DescribeTable("come to the same end",
		func(ctx SpecContext, first ...string) {
			w.stop()
			w.clear(ctx)
			populate(ctx)
			before := map[string]float64{}
			for _, name := range first {
				before[name] = passes(name)
			}
			w.run(ctx, first...)
			for _, name := range first {
				Eventually(func() float64 { return passes(name) }).Should(BeNumerically(">", before[name]), name)
			}
			w.idle()
			w.run(ctx)
			w.settle(ctx)
			different := func() []string {
				var names []string
				for name, text := range state(ctx) {
					if text != reference[name] {
						names = append(names, fmt.Sprintf("%s says\n%s\nand not\n%s", name, text, reference[name]))
					}
				}
				return names
			}
			Eventually(different).Should(BeEmpty())
			Expect(state(ctx)).To(HaveLen(len(reference)))
		},
		Entry("report first", "report"),
		Entry("finding first", "finding"),
		Entry("signalpolicy first", "signalpolicy"),
		Entry("suppression first", "suppression"),
		Entry("report last", "finding", "signalpolicy", "suppression"),
		Entry("finding last", "report", "signalpolicy", "suppression"),
	)
})
