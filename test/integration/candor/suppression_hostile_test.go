// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/event"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
)

var _ = Describe("Suppressions that nobody expects", func() {
	var w *world
	web := func(ctx context.Context) func() *candorv1alpha1.Finding { return w.of(ctx, "web") }
	critical := builder.Vulnerability("CVE-2026-00001", "openssl", "CRITICAL")
	high := builder.Vulnerability("CVE-2026-00002", "curl", "HIGH")
	start := func(ctx context.Context, entries ...any) {
		GinkgoHelper()
		w.deploy(ctx, "web", entries, atLeast(candorv1alpha1.SeverityMedium))
		w.start(ctx)
		w.serving()
		Eventually(outcome(web(ctx))).Should(Equal(candorv1alpha1.OutcomeStillPresent))
	}
	// writes counts what the manager stores in the namespace because of what happens, by resource, but for the counts of policies.
	writes := func(ctx context.Context, happens func()) map[string]int {
		GinkgoHelper()
		w.settle(ctx)
		before := w.writesTo()
		happens()
		w.settle(ctx)
		counts := map[string]int{}
		for resource, n := range w.writesTo() {
			kind := resource[:strings.LastIndex(resource, "/")]
			if n -= before[resource]; n > 0 && kind != "events" && kind != "signalpolicies/status" {
				counts[kind] += n
			}
		}
		return counts
	}
	BeforeEach(func(ctx SpecContext) { w = newWorld(ctx) })

	It("scope-thousand: of 1,000 in a namespace, one more writes what it mutes and nothing else", func(ctx SpecContext) {
		const findings, entries = 20, 300
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}))
		for i := range findings {
			w.scan(ctx, fmt.Sprint("app-", i), builder.Vulnerabilities(entries, "HIGH"))
		}
		for i := range 1000 {
			w.apply(ctx, w.quiet(fmt.Sprint("cve-", i), ids(fmt.Sprintf("CVE-2026-9%04d", i))))
		}
		w.apply(ctx, builder.Suppression(w.namespace, "old", strings.Repeat("0", 64)))
		w.start(ctx)
		w.serving()
		Eventually(func() int { return len(w.findings(ctx)) }).WithTimeout(time.Minute).Should(Equal(findings))
		Eventually(w.suppression(ctx, "cve-999")).WithTimeout(time.Minute).Should(HavePrefix("False/NoMatch"))
		w.settle(ctx)
		first := w.of(ctx, "app-0")().Spec.Evidence.Top[0].ID
		counts := writes(ctx, func() {
			w.apply(ctx, w.quiet("one", ids(first)))
			Eventually(w.suppression(ctx, "one")).WithTimeout(time.Minute).Should(HavePrefix(fmt.Sprintf("True/Active: Mutes %d entries in %d Findings.", findings, findings)))
		})
		Expect(counts).To(HaveKeyWithValue("suppressions/status", BeNumerically("<=", findings)), "its own, as it counts up")
		delete(counts, "suppressions/status")
		Expect(counts).To(Equal(map[string]int{"findings": findings}))
	})

	It("scope-crowd: of 300 that mute the same entries, each says what it mutes", func(ctx SpecContext) {
		const findings, crowd = 30, 300
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}))
		for i := range findings {
			w.scan(ctx, fmt.Sprint("app-", i), builder.Vulnerabilities(300, "HIGH"))
		}
		w.start(ctx)
		w.serving()
		Eventually(func() int { return len(w.findings(ctx)) }).WithTimeout(time.Minute).Should(Equal(findings))
		w.settle(ctx)
		top := w.of(ctx, "app-0")().Spec.Evidence.Top
		for i := range crowd {
			w.apply(ctx, w.quiet(fmt.Sprintf("cve-%03d", i), ids(top[i%len(top)].ID)))
		}
		for _, name := range []string{"cve-000", "cve-150", "cve-299"} {
			Eventually(w.suppression(ctx, name)).WithTimeout(time.Minute).Should(HavePrefix("True/Active: Mutes 30 entries in 30 Findings."), name)
		}
		Expect(writes(ctx, func() { w.remove(ctx, w.quiet("cve-000")) })).To(Equal(map[string]int{"findings": findings}), "which name who mutes")
	})

	It("scope-restless: an edit each second writes what changes, says no event, and ends as it was written last", func(ctx SpecContext) {
		model := withModel(w)
		start(ctx, critical, high)
		w.drained(ctx)
		w.apply(ctx, w.quiet("cve", ids("CVE-2026-00001")))
		Eventually(mutedIn(web(ctx))).Should(HavePrefix("1 of 2"))
		counts := writes(ctx, func() {
			for i := range 50 {
				id := []string{"CVE-2026-00002", "CVE-2026-00001"}[i%2]
				Expect(cluster.Client.Patch(ctx, w.quiet("cve"), merge(`{"spec": {"reason": "`+fmt.Sprint(i)+`", "vulnerabilityIDs": ["`+id+`"]}}`))).To(Succeed())
			}
			Eventually(mutedIn(web(ctx))).Should(Equal("1 of 2 by [cve], worst HIGH, shown HIGH"))
		})
		Expect(counts["findings"]).To(BeNumerically("<=", 50))
		Expect(counts["findings/status"]).To(BeNumerically("<=", 50))
		w.drained(ctx)
		Expect(mutedIn(web(ctx))()).To(Equal("1 of 2 by [cve], worst HIGH, shown HIGH"))
		Expect(model.Stats().Calls).To(Equal(1))
		Expect(w.eventNotes(ctx, "SuppressionEnded")()).To(BeEmpty())
	})

	It("scope-hidden: mutes an entry that the Finding has no room to show", func(ctx SpecContext) {
		entries := append(builder.Vulnerabilities(60, "HIGH"), builder.Vulnerability("CVE-2026-77777", "zlib", "MEDIUM"))
		start(ctx, entries...)
		for _, e := range web(ctx)().Spec.Evidence.Top {
			Expect(e.ID).NotTo(Equal("CVE-2026-77777"))
		}
		w.apply(ctx, w.quiet("cve", ids("CVE-2026-77777")))
		Eventually(mutedIn(web(ctx))).Should(Equal("1 of 61 by [cve], worst HIGH, shown HIGH"))
		Eventually(w.suppression(ctx, "cve")).Should(HavePrefix("True/Active: Mutes 1 entry in 1 Finding"))
	})

	DescribeTable("scope-down: a mute that lapses while nobody runs has lapsed at the next start", func(ctx SpecContext, scanned bool) {
		start(ctx, critical, high)
		w.apply(ctx, w.quiet("cve", ids("CVE-2026-00001"), until(w.clock.Now().Add(time.Hour))), w.quiet("curl", packages("curl"), until(w.clock.Now().Add(3*time.Hour))))
		Eventually(muteOf(web(ctx))).Should(HavePrefix("Muted"))
		w.settle(ctx)
		w.stop()
		w.clock.Step(2 * time.Hour)
		if !scanned {
			w.unscan(ctx, "web")
		}
		w.start(ctx)
		w.serving()
		want := "1 of 2 by [curl], worst CRITICAL, shown CRITICAL"
		if !scanned {
			want = "0 of 2 by [], worst , shown CRITICAL"
		}
		Eventually(mutedIn(web(ctx))).Should(Equal(want))
		Eventually(muteOf(web(ctx))).Should(HavePrefix("Off, False/SuppressionEnded"))
		Eventually(w.suppression(ctx, "cve")).Should(HavePrefix("False/Expired"))
	}, Entry("with a report", true), Entry("and its report with it", false))

	DescribeTable("scope-odd-end: an end is read as it was before there was a longest mute", func(ctx SpecContext, end, want string) {
		start(ctx, critical)
		s := asUnstructured(builder.Suppression(w.namespace, "quiet", web(ctx)().Status.Fingerprint), "Suppression")
		s.Object["spec"].(map[string]any)["expiresAt"] = end
		Expect(cluster.Client.Create(ctx, s)).To(Succeed())
		Eventually(w.suppression(ctx, "quiet")).Should(HavePrefix(want))
		Expect(writes(ctx, func() {
			for range 3 {
				Eventually(w.wakeSuppressions).Should(BeSent(event.GenericEvent{Object: w.quiet("quiet")}))
				w.settle(ctx)
			}
		})).To(BeEmpty())
		if strings.HasPrefix(want, "False") {
			Expect(muteOf(web(ctx))()).To(Equal("Off, "))
		}
	},
		Entry("of the year 1", "0001-01-01T00:00:00Z", "False/Expired"),
		Entry("with a fraction of a second", "2099-01-01T00:00:00.5Z", "True/Active: Mutes 1 Finding until 2099-01-01T00:00:00Z."),
		Entry("of the year 9999", "9999-12-31T23:59:59Z", "True/Active: Mutes 1 Finding until 9999-12-31T23:59:59Z."),
		Entry("in another zone", "2099-01-01T00:00:00+14:00", "True/Active: Mutes 1 Finding until 2098-12-31T10:00:00Z."),
	)
})
