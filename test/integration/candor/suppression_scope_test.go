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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/builder"
)

type scope = func(*candorv1alpha1.Suppression)

var _ = Describe("A Suppression of less than a Finding", func() {
	var w *world
	critical := builder.Vulnerability("CVE-2026-00001", "openssl", "CRITICAL")
	high := builder.Vulnerability("CVE-2026-00002", "curl", "HIGH")
	medium := builder.Vulnerability("CVE-2026-00003", "zlib", "MEDIUM")
	web := func(ctx context.Context) func() *candorv1alpha1.Finding { return w.of(ctx, "web") }

	// start runs the manager over a StatefulSet "web" with these entries, under a policy that asks for MEDIUM and above.
	start := func(ctx context.Context, entries ...any) {
		GinkgoHelper()
		w.deploy(ctx, "web", entries, atLeast(candorv1alpha1.SeverityMedium))
		w.start(ctx)
		w.serving()
		Eventually(outcome(web(ctx))).Should(Equal(candorv1alpha1.OutcomeStillPresent))
	}
	BeforeEach(func(ctx SpecContext) { w = newWorld(ctx) })

	It("scope-lapse: of a vulnerability changes no fingerprint, pays nothing, resolves nothing, and lapses by itself", func(ctx SpecContext) {
		model := withModel(w)
		start(ctx, critical, high)
		Eventually(why(web(ctx))).Should(Equal(candorv1alpha1.ReasonEnriched))
		w.drained(ctx)
		before := web(ctx)()
		end := w.clock.Now().Add(time.Hour)
		w.apply(ctx, w.quiet("cve", ids("CVE-2026-00001"), until(end)))
		Eventually(mutedIn(web(ctx))).Should(Equal("1 of 2 by [cve], worst HIGH, shown HIGH"))
		w.drained(ctx)
		muted := web(ctx)()
		Expect(unmute(muted.Spec)).To(Equal(before.Spec), "nothing but the three fields")
		Expect(muted.Status.Fingerprint).To(Equal(before.Status.Fingerprint))
		Expect(muted.Status.Explained).To(Equal(candorv1alpha1.ExplainedTrue))
		Expect(outcome(web(ctx))()).To(Equal(candorv1alpha1.OutcomeStillPresent))
		Expect(muteOf(web(ctx))()).To(Equal("True, "), "a part that is muted is no mute of the whole")

		w.clock.SetTime(end)
		w.lookAtLines(web(ctx)(), "cve")
		Eventually(mutedIn(web(ctx))).Should(Equal("0 of 2 by [], worst , shown CRITICAL"))
		w.drained(ctx)
		Expect(web(ctx)().Spec).To(Equal(before.Spec))
		Expect(model.Stats().Calls).To(Equal(1), "neither a mute nor its end is news")
		Expect(w.eventNotes(ctx, "Resolved")()).To(BeEmpty())
		Eventually(w.suppression(ctx, "cve")).Should(HavePrefix("False/Expired"))
	})

	It("scope-all: mutes a Finding when nothing else is left in it, which is never explained", func(ctx SpecContext) {
		model := withModel(w)
		w.apply(ctx, w.quiet("a-cve", ids("CVE-2026-00001")), w.quiet("b-package", packages("curl@1.0.0")))
		start(ctx, critical, high)
		Eventually(muteOf(web(ctx))).Should(Equal("Muted, True/Muted: All entries are muted, by Suppressions a-cve, b-package."))
		Eventually(mutedIn(web(ctx))).Should(Equal("2 of 2 by [a-cve b-package], worst , shown CRITICAL"))
		w.drained(ctx)
		Expect(model.Stats().Calls).To(BeZero())
		Eventually(w.metric("candor_findings_suppressed")).Should(Equal(1.0))
		for _, name := range []string{"a-cve", "b-package"} {
			Eventually(w.suppression(ctx, name)).Should(Equal("True/Active: Mutes 1 entry in 1 Finding, of which 1 is muted as a whole. (1 "+web(ctx)().Name+")"), name)
		}

		Expect(cluster.Client.Delete(ctx, w.quiet("b-package"))).To(Succeed())
		Eventually(muteOf(web(ctx))).Should(HaveSuffix("False/SuppressionEnded: Suppressions of this namespace mute some entries, and not all of them any more: " +
			"one was deleted or expired, or the content changed."))
		Eventually(why(web(ctx))).Should(Equal(candorv1alpha1.ReasonEnriched))
		Eventually(w.suppression(ctx, "a-cve")).Should(HavePrefix("True/Active: Mutes 1 entry in 1 Finding. (0 "))
		w.drained(ctx)
		Expect(model.Stats().Calls).To(Equal(1))
	})

	It("scope-single: says the reason and the end of the one Suppression that mutes every entry", func(ctx SpecContext) {
		start(ctx, critical)
		w.apply(ctx, w.quiet("cve", ids("CVE-2026-00001"), until(w.clock.Now().Add(time.Hour))))
		stamp := w.clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		Eventually(muteOf(web(ctx))).Should(Equal("Muted, True/Muted: Muted by Suppression cve until " + stamp + ": " + accepted))
		Expect(cluster.Client.Patch(ctx, w.quiet("cve"), merge(`{"spec": {"reason": "the fix ships on Monday"}}`))).To(Succeed())
		Eventually(muteOf(web(ctx))).Should(HaveSuffix("the fix ships on Monday"))
	})

	It("scope-listing: shows the worst severity that is not muted, and counts by it", func(ctx SpecContext) {
		start(ctx, critical, medium)
		w.apply(ctx, builder.Policy(w.namespace, "strict", []string{"trivy"}, atLeast(candorv1alpha1.SeverityHigh)))
		severity := func() any {
			columns, rows := w.table(ctx, "findings")
			Expect(columns[1]).To(Equal("Severity"))
			return rows[web(ctx)().Name][1]
		}
		Eventually(severity).Should(Equal("CRITICAL"))
		Eventually(w.counts(ctx, "strict")).Should(Equal("1 found, 1 open"))
		w.apply(ctx, w.quiet("cve", ids("CVE-2026-00001")))
		Eventually(severity).Should(Equal("MEDIUM"))
		Expect(web(ctx)().Spec.Severity).To(Equal(candorv1alpha1.SeverityCritical))
		Eventually(w.counts(ctx, "strict")).Should(Equal("1 found, 0 open"))
		Eventually(w.counts(ctx, "default")).Should(Equal("1 found, 1 open"))
		Eventually(w.metric("candor_findings", "severity", "MEDIUM")).Should(Equal(1.0))
	})

	It("scope-rescan: keeps muting what it names when other vulnerabilities come, and the Finding speaks up", func(ctx SpecContext) {
		start(ctx, critical)
		w.apply(ctx, w.quiet("cve", ids("CVE-2026-00001")))
		Eventually(muteOf(web(ctx))).Should(HavePrefix("Muted, True/Muted"))
		before := web(ctx)().Status.Fingerprint
		w.scan(ctx, "web", []any{critical, high})
		Eventually(muteOf(web(ctx))).Should(HavePrefix("Off, False/SuppressionEnded"))
		Expect(mutedIn(web(ctx))()).To(Equal("1 of 2 by [cve], worst HIGH, shown HIGH"))
		Expect(web(ctx)().Status.Fingerprint).NotTo(Equal(before))
		w.scan(ctx, "web", []any{critical})
		Eventually(muteOf(web(ctx))).Should(HavePrefix("Muted, True/Muted"))
	})

	It("scope-threshold: mutes a Finding of which a policy leaves nothing but what is muted", func(ctx SpecContext) {
		start(ctx, critical, high)
		w.apply(ctx, w.quiet("cve", ids("CVE-2026-00001")))
		Eventually(mutedIn(web(ctx))).Should(Equal("1 of 2 by [cve], worst HIGH, shown HIGH"))
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}, atLeast(candorv1alpha1.SeverityCritical)))
		Eventually(muteOf(web(ctx))).Should(HavePrefix("Muted, True/Muted: Muted by Suppression cve: "))
		Eventually(mutedIn(web(ctx))).Should(Equal("1 of 1 by [cve], worst , shown CRITICAL"))
	})

	It("scope-image: of an image writes each of 20 Findings once, and leaves others alone", func(ctx SpecContext) {
		start(ctx, critical)
		for i := range 20 {
			w.scan(ctx, fmt.Sprint("base-", i), []any{critical, high}, func(r *unstructured.Unstructured) {
				Expect(unstructured.SetNestedField(r.Object, "base/java", "report", "artifact", "repository")).To(Succeed())
			})
		}
		Eventually(func() int { return len(w.findings(ctx)) }).Should(Equal(21))
		w.settle(ctx)
		before := w.writesTo()
		w.apply(ctx, w.quiet("base", images("index.docker.io/base/*")))
		Eventually(w.suppression(ctx, "base")).Should(HavePrefix("True/Active: Mutes 40 entries in 20 Findings, of which 20 are muted as a whole."))
		w.settle(ctx)
		after := w.writesTo()
		for _, f := range w.findings(ctx) {
			want := [2]int{1, 1}
			if f.Spec.Source.Name == "web" {
				want = [2]int{}
			}
			spec, status := "findings/"+f.Name, "findings/status/"+f.Name
			Expect([2]int{after[spec] - before[spec], after[status] - before[status]}).To(Equal(want), "spec and status of %s", f.Spec.Source.Name)
		}
		Expect(muteOf(web(ctx))()).To(Equal("Off, "))
	})

	It("scope-workload: of a workload alone mutes whatever its Findings say", func(ctx SpecContext) {
		start(ctx, critical)
		w.scan(ctx, "db", []any{critical})
		Eventually(outcome(w.of(ctx, "db"))).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		w.apply(ctx, w.quiet("web", workload("StatefulSet", "web")))
		Eventually(muteOf(web(ctx))).Should(Equal("Muted, True/Muted: Muted by Suppression web: " + accepted))
		Eventually(w.suppression(ctx, "web")).Should(Equal("True/Active: Mutes 1 Finding. (1 " + web(ctx)().Name + ")"))
		Expect(mutedIn(web(ctx))()).To(Equal("0 of 1 by [], worst , shown CRITICAL"), "the spec needs no word of it")
		w.scan(ctx, "web", []any{critical, high})
		Eventually(func() int32 { return web(ctx)().Spec.Evidence.Total }).Should(BeEquivalentTo(2))
		w.settle(ctx)
		Expect(muteOf(web(ctx))()).To(HavePrefix("Muted, True/Muted"), "whatever it says")
		Expect(muteOf(w.of(ctx, "db"))()).To(Equal("Off, "))
		Expect(cluster.Client.Patch(ctx, w.quiet("web"), merge(`{"spec": {"workload": {"name": "db"}}}`))).To(Succeed())
		Eventually(muteOf(w.of(ctx, "db"))).Should(HavePrefix("Muted, True/Muted"))
		Eventually(muteOf(web(ctx))).Should(Equal(lifted))
	})

	It("scope-edit: follows an edit, and says when nothing is what it names", func(ctx SpecContext) {
		start(ctx, critical, high, medium)
		w.apply(ctx, w.quiet("cve", ids("CVE-2026-00001"), packages("curl")))
		Eventually(w.suppression(ctx, "cve")).Should(Equal("False/NoMatch: Nothing in the Findings of this namespace is what this names now. " +
			"Everything that spec names has to hold at once, written as kubectl get finding -o yaml shows it. (0)"))
		Expect(mutedIn(web(ctx))()).To(Equal("0 of 3 by [], worst , shown CRITICAL"))
		Expect(cluster.Client.Patch(ctx, w.quiet("cve"), merge(`{"spec": {"packages": ["openssl"]}}`))).To(Succeed())
		Eventually(mutedIn(web(ctx))).Should(Equal("1 of 3 by [cve], worst HIGH, shown HIGH"))
		Expect(cluster.Client.Patch(ctx, w.quiet("cve"), merge(`{"spec": {"packages": ["openssl", "curl"], "vulnerabilityIDs": null}}`))).To(Succeed())
		Eventually(mutedIn(web(ctx))).Should(Equal("2 of 3 by [cve], worst MEDIUM, shown MEDIUM"))
		Eventually(w.suppression(ctx, "cve")).Should(HavePrefix("True/Active: Mutes 2 entries in 1 Finding. (0 "))
		Expect(cluster.Client.Patch(ctx, w.quiet("cve"), merge(`{"spec": {"packages": null, "fingerprint": "`+web(ctx)().Status.Fingerprint+`"}}`))).To(Succeed())
		Eventually(muteOf(web(ctx))).Should(Equal("Muted, True/Muted: Muted by Suppression cve: " + accepted))
		Eventually(mutedIn(web(ctx))).Should(Equal("0 of 3 by [], worst , shown CRITICAL"))
	})

	It("scope-overlap: counts for each of several Suppressions what it mutes, and a restart writes nothing", func(ctx SpecContext) {
		start(ctx, critical, high, medium)
		w.apply(ctx, w.quiet("a", ids("CVE-2026-00001", "CVE-2026-00002")), w.quiet("b", packages("curl"), workload("StatefulSet", "web")),
			w.quiet("c", images("nginx"), ids("CVE-2026-00003")), w.quiet("d", ids("CVE-2026-99999")))
		said := func(entries int) string {
			noun := "entries"
			if entries == 1 {
				noun = "entry"
			}
			return fmt.Sprintf("True/Active: Mutes %d %s in 1 Finding, of which 1 is muted as a whole. (1 %s)", entries, noun, web(ctx)().Name)
		}
		Eventually(mutedIn(web(ctx))).Should(Equal("3 of 3 by [a b c], worst , shown CRITICAL"))
		for name, entries := range map[string]int{"a": 2, "b": 1, "c": 1} {
			Eventually(w.suppression(ctx, name)).Should(Equal(said(entries)), name)
		}
		Eventually(w.suppression(ctx, "d")).Should(HavePrefix("False/NoMatch"))
		w.expectNoWrites(ctx, func() { w.restart(ctx) })
		w.expectNoWrites(ctx, func() {
			w.scan(ctx, "web", []any{medium, high, critical}, builder.UpdatedAt(w.clock.Now().Add(time.Hour)))
		})
	})

	It("scope-unseen: ends with its Suppression also while no report speaks of the Finding", func(ctx SpecContext) {
		start(ctx, critical, high)
		w.apply(ctx, w.quiet("cve", ids("CVE-2026-00001")))
		Eventually(mutedIn(web(ctx))).Should(Equal("1 of 2 by [cve], worst HIGH, shown HIGH"))
		w.expectNoWrites(ctx, func() { w.unscan(ctx, "web") })
		Expect(cluster.Client.Delete(ctx, w.quiet("cve"))).To(Succeed())
		Eventually(mutedIn(web(ctx))).Should(Equal("0 of 2 by [], worst , shown CRITICAL"))
		w.apply(ctx, w.quiet("image", images("library/nginx")))
		Eventually(muteOf(web(ctx))).Should(HavePrefix("Muted, True/Muted: Muted by Suppression image: "))
	})

	It("scope-longest: mutes no longer than the OperatingPolicy allows, from its creation on", func(ctx SpecContext) {
		start(ctx, critical, high)
		cve := w.quiet("cve", ids("CVE-2026-00001"))
		w.apply(ctx, cve)
		w.clock.SetTime(cve.CreationTimestamp.Add(time.Hour))
		Eventually(mutedIn(web(ctx))).Should(Equal("1 of 2 by [cve], worst HIGH, shown HIGH"))
		w.apply(ctx, bounded(2))
		end := cve.CreationTimestamp.Add(48 * time.Hour).UTC().Format(time.RFC3339)
		Eventually(w.suppression(ctx, "cve")).Should(HavePrefix("True/Active: Mutes 1 entry in 1 Finding until " + end +
			", since spec.suppression.maxDays of the OperatingPolicy allows 2 days."))
		w.clock.Step(36 * time.Hour)
		w.apply(ctx, bounded(1))
		Eventually(mutedIn(web(ctx))).Should(Equal("0 of 2 by [], worst , shown CRITICAL"))
		Eventually(w.suppression(ctx, "cve")).Should(And(HavePrefix("False/Expired: Expired at "),
			ContainSubstring("From its creation, spec.suppression.maxDays of the OperatingPolicy allows 1 day: create it anew to mute on.")))
		Expect(cluster.Client.Delete(ctx, bounded(1))).To(Succeed())
		Eventually(mutedIn(web(ctx))).Should(Equal("1 of 2 by [cve], worst HIGH, shown HIGH"))
	})

	It("scope-size: keeps a Finding of 5,000 entries under 16 KiB, whatever the Suppressions are called", func(ctx SpecContext) {
		entries := builder.Vulnerabilities(5000, "HIGH")
		for i := range entries {
			entry := entries[i].(map[string]any)
			entry["title"], entry["primaryLink"] = "", "" // the API server takes 1.5 MiB
		}
		start(ctx, entries...)
		before := web(ctx)().Spec
		for i := range 7 {
			w.apply(ctx, w.quiet(fmt.Sprint(i, strings.Repeat("n", 252)), images("nginx"), because(strings.Repeat("<", 1024))))
		}
		Eventually(muteOf(web(ctx))).Should(HavePrefix("Muted, True/Muted: All entries are muted, by Suppressions 0nnn"))
		w.settle(ctx)
		f := web(ctx)()
		Expect(f.Spec.Evidence.Muted).To(BeEquivalentTo(5000))
		Expect(sizeOf(f)).To(BeNumerically("<", 16<<10))
		Expect(unmute(f.Spec)).To(Equal(before))
		for i := range 7 {
			Eventually(w.suppression(ctx, fmt.Sprint(i, strings.Repeat("n", 252)))).Should(HavePrefix("True/Active: Mutes 5000 entries in 1 Finding"), "number %d, which the Finding need not name", i)
		}
	})

	It("scope-partly: is explained once as a whole where some of it is muted", func(ctx SpecContext) {
		model := withModel(w)
		w.apply(ctx, w.quiet("cve", ids("CVE-2026-00001")))
		start(ctx, critical, high)
		Eventually(why(web(ctx))).Should(Equal(candorv1alpha1.ReasonEnriched))
		w.drained(ctx)
		Expect(cluster.Client.Delete(ctx, w.quiet("cve"))).To(Succeed())
		Eventually(mutedIn(web(ctx))).Should(HavePrefix("0 of 2"))
		w.drained(ctx)
		Expect(model.Journal()).To(HaveLen(1))
		Expect(string(model.Journal()[0].Body)).To(And(ContainSubstring("CVE-2026-00001"), ContainSubstring("CVE-2026-00002"), Not(ContainSubstring("muted"))))
	})
})

// quiet makes a Suppression of scopes.
func (w *world) quiet(name string, scopes ...scope) *candorv1alpha1.Suppression {
	return builder.Suppression(w.namespace, name, "", scopes...)
}

func ids(names ...string) scope {
	return func(s *candorv1alpha1.Suppression) { s.Spec.VulnerabilityIDs = names }
}

func packages(names ...string) scope {
	return func(s *candorv1alpha1.Suppression) { s.Spec.Packages = names }
}

func images(names ...string) scope {
	return func(s *candorv1alpha1.Suppression) { s.Spec.ImageRepositories = names }
}

func workload(kind, name string) scope {
	return func(s *candorv1alpha1.Suppression) {
		s.Spec.Workload = &candorv1alpha1.WorkloadScope{Kind: kind, Name: name}
	}
}

// bounded is an OperatingPolicy that lets Suppressions last for so many days.
func bounded(days int32) *candorv1alpha1.OperatingPolicy {
	return &candorv1alpha1.OperatingPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: candorv1alpha1.Singleton},
		Spec:       candorv1alpha1.OperatingPolicySpec{Suppression: &candorv1alpha1.SuppressionLimits{MaxDays: ptr.To(days)}},
	}
}

// lookAtLines makes the report and suppression controllers look again, as their timers would.
func (w *world) lookAtLines(f *candorv1alpha1.Finding, suppression string) {
	w.wakeReports <- event.TypedGenericEvent[signals.Identity]{Object: signals.IdentityOf(f)}
	w.wakeSuppressions <- event.GenericEvent{Object: builder.Suppression(w.namespace, suppression, "")}
}

// mutedIn puts what is muted inside a Finding into one line.
func mutedIn(f func() *candorv1alpha1.Finding) func() string {
	return func() string {
		found := f()
		if found == nil {
			return "no Finding"
		}
		e := found.Spec.Evidence
		return fmt.Sprintf("%d of %d by %v, worst %s, shown %s", e.Muted, e.Total, e.MutedBy, e.WorstUnmuted, found.Status.ShownSeverity)
	}
}

// unmute returns a spec without what Suppressions write into it.
func unmute(spec candorv1alpha1.FindingSpec) candorv1alpha1.FindingSpec {
	spec = *spec.DeepCopy()
	spec.Evidence.Muted, spec.Evidence.WorstUnmuted, spec.Evidence.MutedBy = 0, "", nil
	return spec
}

// writesTo counts what the manager wrote in this namespace, by resource and name.
func (w *world) writesTo() map[string]int {
	counts := map[string]int{}
	for _, r := range w.counter.Requests() {
		if !r.Reads() && r.Namespace == w.namespace {
			counts[r.Resource+"/"+r.Name]++
		}
	}
	return counts
}
