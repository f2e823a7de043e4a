// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"math/rand/v2"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/kube"
)

// cves makes entries of one severity with these identifiers.
func cves(severity string, ids ...string) []any {
	entries := make([]any, len(ids))
	for i, id := range ids {
		entries[i] = builder.Vulnerability(id, "openssl", severity)
	}
	return entries
}

func shuffled(entries []any) []any {
	rand.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	return entries
}

// rescored gives each entry another score, as a scanner does whose sources disagree.
func rescored(entries []any) []any {
	for i, entry := range entries {
		entry.(map[string]any)["score"] = 1.5 + float64(i)
	}
	return entries
}

func doubled(entries []any) []any { return append(entries, entries...) }

func retitled(entries []any) []any {
	for _, entry := range entries {
		e := entry.(map[string]any)
		e["title"], e["lastModifiedDate"], e["links"] = "Another title", "2026-11-29T00:00:00Z", []any{"https://example.com"}
	}
	return entries
}

func withoutFix(entries []any) []any {
	for _, entry := range entries {
		entry.(map[string]any)["fixedVersion"] = ""
	}
	return entries
}

// without empties a field of the artifact.
func without(field string) func(*unstructured.Unstructured) {
	return func(report *unstructured.Unstructured) {
		Expect(unstructured.SetNestedField(report.Object, "", "report", "artifact", field)).To(Succeed())
	}
}

var _ = Describe("A rescan", Ordered, func() {
	var w *world

	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx)
		w.apply(ctx, builder.StatefulSet(w.namespace, "web"), builder.Policy(w.namespace, "default", []string{"trivy"}))
		w.start(ctx)
		w.serving()
	})

	BeforeEach(func(ctx SpecContext) {
		w.rescan(ctx, "web", builder.Vulnerabilities(5, "HIGH"))
		w.settle(ctx)
		Expect(outcome(w.of(ctx, "web"))()).To(Equal(candorv1alpha1.OutcomeStillPresent))
	})

	DescribeTable("of the same content writes nothing, also across a restart",
		func(ctx SpecContext, change func([]any) []any) {
			before := w.of(ctx, "web")()
			cost := w.cost(ctx, func() {
				w.scan(ctx, "web", change(builder.Vulnerabilities(5, "HIGH")), builder.UpdatedAt(w.clock.Now()))
				w.restart(ctx)
				w.rescan(ctx, "web", change(builder.Vulnerabilities(5, "HIGH")), builder.UpdatedAt(w.clock.Now().Add(time.Hour)))
			})
			Expect(cost).To(BeEmpty())
			Expect(w.of(ctx, "web")()).To(Equal(before))
		},
		Entry("rescan-wave: nothing but UID and time differ", func(entries []any) []any { return entries }),
		Entry("shuffled-order: the entries come in another order", shuffled),
		Entry("score-flip: the scores differ", rescored),
		Entry("duplicate-entries: each entry comes twice", doubled),
		Entry("titles, links and dates differ", retitled),
	)

	DescribeTable("of the same content in another build shows the image and says nothing new",
		func(ctx SpecContext, change func(*unstructured.Unstructured)) {
			before := w.of(ctx, "web")()
			cost := w.cost(ctx, func() { w.rescan(ctx, "web", builder.Vulnerabilities(5, "HIGH"), change) })
			Expect(cost).To(Equal(kube.Counts{"patch findings": 1}))
			after := w.of(ctx, "web")()
			Expect(after.Status).To(Equal(before.Status))
			Expect(after.Spec.Evidence.Artifact).NotTo(Equal(before.Spec.Evidence.Artifact))
		},
		Entry("new-tag-same-vulnerabilities: the tag and the digest differ", builder.Tag("1.28")),
		Entry("empty-digest: the scanner does not know the digest", without("digest")),
		Entry("empty-tag: the image is pinned by digest", without("tag")),
	)

	DescribeTable("in-place update: other content costs two writes and stays the same Finding",
		func(ctx SpecContext, brief string, entries []any) {
			before := w.of(ctx, "web")()
			cost := w.cost(ctx, func() { w.scan(ctx, "web", entries) })
			Expect(cost).To(Equal(kube.Counts{"patch findings": 1, "update findings/status": 1}))
			after := w.of(ctx, "web")()
			Expect(after.UID).To(Equal(before.UID))
			Expect(after.Status.Fingerprint).NotTo(Equal(before.Status.Fingerprint))
			Expect(after.Status.VerificationOutcome).To(Equal(candorv1alpha1.OutcomeStillPresent))
			Expect(after.Status.Brief).To(Equal(brief))
		},
		Entry("one vulnerability more", "6 high", builder.Vulnerabilities(6, "HIGH")),
		Entry("as many others", "5 high", cves("HIGH", "CVE-2026-1", "CVE-2026-2", "CVE-2026-3", "CVE-2026-4", "CVE-2026-5")),
		Entry("the same ones, rated higher", "5 critical", builder.Vulnerabilities(5, "CRITICAL")),
		Entry("the same ones, without a fix", "5 high", withoutFix(builder.Vulnerabilities(5, "HIGH"))),
	)

	It("unknown-only: unrated entries beside others change nothing", func(ctx SpecContext) {
		cost := w.cost(ctx, func() {
			w.scan(ctx, "web", append(builder.Vulnerabilities(5, "HIGH"), cves("UNKNOWN", "CVE-2026-1", "CVE-2026-2")...))
		})
		Expect(cost).To(BeEmpty())
	})

	It("empty report: resolves what was found", func(ctx SpecContext) {
		cost := w.cost(ctx, func() { w.scan(ctx, "web", []any{}) })
		Expect(cost).To(Equal(kube.Counts{"patch findings": 1, "update findings/status": 1}))
		f := w.of(ctx, "web")()
		Expect(f.Status.VerificationOutcome).To(Equal(candorv1alpha1.OutcomeResolved))
		Expect(f.Labels).To(HaveKeyWithValue(candorv1alpha1.LabelOutcome, "ended"))
		Expect(f.Spec.Evidence.Total).To(BeEquivalentTo(5), "an end keeps what was last seen")
		w.remove(ctx, f)
	})
})

var _ = Describe("The first report of a workload", Ordered, func() {
	var w *world

	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx)
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}))
		w.start(ctx)
		w.serving()
	})

	DescribeTable("without anything that is asked for makes no Finding",
		func(ctx SpecContext, name string, entries []any) {
			w.apply(ctx, builder.StatefulSet(w.namespace, name))
			cost := w.cost(ctx, func() { w.scan(ctx, name, entries) })
			Expect(cost).To(BeEmpty())
			Expect(w.of(ctx, name)()).To(BeNil())
			Expect(w.metric("candor_reports_ingested_total", "result", "filtered")()).To(BeNumerically(">", 0))
		},
		Entry("empty report", "empty", []any{}),
		Entry("unknown-only", "unknown", cves("UNKNOWN", "CVE-2026-1")),
		Entry("nothing as severe as the policy asks", "mild", cves("MEDIUM", "CVE-2026-1")),
	)

	DescribeTable("makes a Finding without what the scanner does not know",
		func(ctx SpecContext, name, field string) {
			w.apply(ctx, builder.StatefulSet(w.namespace, name))
			w.scan(ctx, name, builder.Vulnerabilities(1, "HIGH"), without(field))
			w.settle(ctx)
			Expect(outcome(w.of(ctx, name))()).To(Equal(candorv1alpha1.OutcomeStillPresent))
		},
		Entry("empty-digest", "no-digest", "digest"),
		Entry("empty-tag", "no-tag", "tag"),
	)

	It("double-container-same-image: two containers have two Findings with distinct fingerprints", func(ctx SpecContext) {
		w.apply(ctx, builder.StatefulSet(w.namespace, "pair"))
		for _, container := range []string{"main", "sidecar"} {
			w.apply(ctx, builder.VulnerabilityReport(w.namespace, "StatefulSet", "pair", container, builder.Vulnerabilities(3, "HIGH")))
		}
		w.settle(ctx)
		main := w.finding(ctx, "trivy", "StatefulSet", "pair", "main")()
		sidecar := w.finding(ctx, "trivy", "StatefulSet", "pair", "sidecar")()
		Expect(main).NotTo(BeNil())
		Expect(sidecar).NotTo(BeNil())
		Expect(main.Spec.Evidence.Digest).To(Equal(sidecar.Spec.Evidence.Digest))
		Expect(main.Status.Fingerprint).NotTo(Equal(sidecar.Status.Fingerprint))
	})

	It("duplicates: of two reports for one identity the newer speaks, in one Finding", func(ctx SpecContext) {
		w.apply(ctx, builder.StatefulSet(w.namespace, "twice"))
		older := builder.VulnerabilityReport(w.namespace, "StatefulSet", "twice", "app", cves("HIGH", "CVE-2026-1"), builder.UpdatedAt(w.clock.Now()))
		newer := builder.VulnerabilityReport(w.namespace, "StatefulSet", "twice", "app", cves("HIGH", "CVE-2026-2"), builder.UpdatedAt(w.clock.Now().Add(time.Minute)))
		newer.SetName("the-second-report")
		w.apply(ctx, newer, older)
		w.settle(ctx)
		shown := func() string { return w.of(ctx, "twice")().Spec.Evidence.Top[0].ID }
		Expect(shown()).To(Equal("CVE-2026-2"))
		Expect(w.cost(ctx, func() { w.restart(ctx) })).To(BeEmpty())
		w.remove(ctx, newer)
		w.settle(ctx)
		Expect(shown()).To(Equal("CVE-2026-1"))
		mine := slices.DeleteFunc(w.findings(ctx), func(f candorv1alpha1.Finding) bool { return f.Spec.Source.Name != "twice" })
		Expect(mine).To(HaveLen(1))
		Expect(mine[0].Status.VerificationOutcome).To(Equal(candorv1alpha1.OutcomeStillPresent))
	})
})
