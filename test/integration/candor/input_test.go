// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/builder"
)

var _ = Describe("A report that is not as it should be", func() {
	It("bad-shape: is dropped with a reason and a log line that names it, and stops no other", func(ctx SpecContext) {
		w := newWorld(ctx)
		takeAnyReport(ctx)
		log := gbytes.NewBuffer()
		GinkgoWriter.TeeTo(log)
		DeferCleanup(GinkgoWriter.ClearTeeWriters)
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}))
		for name, change := range badShapes {
			w.apply(ctx, builder.VulnerabilityReport(w.namespace, "StatefulSet", name, "app", builder.Vulnerabilities(1, "HIGH"), change))
		}
		w.apply(ctx, dbReport(w.namespace, 2))
		w.start(ctx)
		Eventually(outcome(w.db(ctx))).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		Eventually(w.metric("candor_reports_dropped_total", "provider", "trivy", "reason", signals.DropMalformed)).Should(
			Equal(float64(len(badShapes))))
		for name := range badShapes {
			Expect(string(log.Contents())).To(MatchRegexp(`A report cannot be used.*"report"="%s/statefulset-%s-app" "reason"="malformed" "detail"=".+"`, w.namespace, name))
		}
		Expect(w.findings(ctx)).To(HaveLen(1))
	})

	It("bad-update: no longer speaks for its Finding, which is Stale after the grace", func(ctx SpecContext) {
		w := newWorld(ctx)
		takeAnyReport(ctx)
		w.startWithDB(ctx, "trivy")
		w.apply(ctx, builder.VulnerabilityReport(w.namespace, "StatefulSet", "db", "app", nil, withoutBody))
		Eventually(w.metric("candor_reports_dropped_total", "reason", signals.DropMalformed)).Should(Equal(1.0))
		w.settle(ctx)
		Expect(outcome(w.db(ctx))()).To(Equal(candorv1alpha1.OutcomeStillPresent))
		w.clock.Step(w.options.EvidenceGrace)
		w.lookAtDB()
		Eventually(outcome(w.db(ctx))).Should(Equal(candorv1alpha1.OutcomeStale))
	})

	It("nameless, scan-job: is dropped with a reason of its own", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.startWithDB(ctx, "trivy")
		w.apply(ctx, builder.VulnerabilityReport(w.namespace, "StatefulSet", "nameless", "app", builder.Vulnerabilities(1, "HIGH"), nameless),
			builder.VulnerabilityReport(w.namespace, "Job", "scan-vulnerabilityreport-5d4f", "app", builder.Vulnerabilities(1, "HIGH")),
			builder.VulnerabilityReport(w.namespace, "StatefulSet", "long", "app", builder.Vulnerabilities(1, "HIGH"), named(strings.Repeat("x", 254))))
		for _, reason := range []string{signals.DropNoResourceName, signals.DropScanJob, signals.DropMalformed} {
			Eventually(w.metric("candor_reports_dropped_total", "provider", "trivy", "reason", reason)).Should(Equal(1.0), reason)
		}
		w.settle(ctx)
		Expect(w.findings(ctx)).To(HaveLen(1))
	})

	It("owner-gone: of a ReplicaSet that is not there is tried again, then dropped, and read when the ReplicaSet comes", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.startWithDB(ctx, "trivy")
		web := builder.Deployment(w.namespace, "web")
		w.apply(ctx, web, webReport(w.namespace, "web-1", 3))
		dropped := w.metric("candor_reports_dropped_total", "provider", "trivy", "reason", signals.DropOwnerGone)
		id := signals.Identity{Provider: "trivy", Namespace: w.namespace, Kind: "ReplicaSet", Name: "web-1", Container: "nginx"}
		Eventually(func() float64 { // each look is one of the tries, which otherwise wait up to 6.4 seconds
			w.wakeReports <- event.TypedGenericEvent[signals.Identity]{Object: id}
			return dropped()
		}).Should(Equal(1.0))
		Expect(w.findings(ctx)).To(HaveLen(1), "it is never a Finding of the ReplicaSet")
		w.apply(ctx, builder.ReplicaSet(web, w.namespace, "web-1", 1))
		Eventually(outcome(w.finding(ctx, "trivy", "Deployment", "web", "nginx"))).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		w.settle(ctx)
		Expect(dropped()).To(Equal(1.0))
		Expect(w.findings(ctx)).To(HaveLen(2))
	})
})

var _ = Describe("A report that is unusual", func() {
	It("hostile-size: of 5,000 entries becomes a Finding of a bounded size that counts them all", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.startWithDB(ctx, "trivy")
		entries := builder.Vulnerabilities(5000, "HIGH")
		for i := range entries {
			entry := entries[i].(map[string]any)
			entry["title"], entry["primaryLink"] = "", "" // the API server takes 1.5 MiB
		}
		w.apply(ctx, builder.VulnerabilityReport(w.namespace, "StatefulSet", "big", "app", entries))
		f := w.finding(ctx, "trivy", "StatefulSet", "big", "app")
		Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		Expect(f().Spec.Evidence.Total).To(BeEquivalentTo(5000))
		Expect(f().Spec.Evidence.Top).NotTo(BeEmpty())
		Expect(f().Status.Brief).To(Equal("5000 high"))
		Expect(sizeOf(f())).To(BeNumerically("<", 16<<10))
	})

	It("hostile-text: full of long and strange text becomes a Finding under 16 KiB", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.startWithDB(ctx, "trivy", "trivy/config")
		long := strings.Repeat("\x1b[31m<&>\u2028\u202e\n\"\\\u00e9\u20ac\U0001F680", 40)
		var entries, checks []any
		for i := range 60 {
			entry := builder.Vulnerability(fmt.Sprint("CVE-", i, long), fmt.Sprint(i, long), "CRITICAL")
			entry["installedVersion"], entry["fixedVersion"] = long, long
			entries, checks = append(entries, entry), append(checks, builder.Check(fmt.Sprint("KSV-", i, long), "CRITICAL", false, long))
		}
		w.apply(ctx, builder.VulnerabilityReport(w.namespace, "StatefulSet", "db", "app", entries, func(r *unstructured.Unstructured) {
			for _, field := range []string{"repository", "tag", "digest"} {
				Expect(unstructured.SetNestedField(r.Object, long, "report", "artifact", field)).To(Succeed())
			}
			Expect(unstructured.SetNestedField(r.Object, long, "report", "registry", "server")).To(Succeed())
		}), builder.CheckReport("ConfigAuditReport", w.namespace, "StatefulSet", "db", checks))
		config := w.finding(ctx, "trivy/config", "StatefulSet", "db", "")
		for _, f := range []func() *candorv1alpha1.Finding{w.db(ctx), config} {
			Eventually(func() bool { return f() != nil && f().Spec.Severity == candorv1alpha1.SeverityCritical }).Should(BeTrue())
			w.settle(ctx)
			w.apply(ctx, builder.Suppression(w.namespace, f().Name, f().Status.Fingerprint, because(strings.Repeat("<", 1024))))
			Eventually(muteOf(f)).Should(HavePrefix("Muted"))
			Expect(sizeOf(f())).To(BeNumerically("<", 16<<10))
			Expect(f().Spec.Summary).NotTo(ContainSubstring("\x1b"))
		}
	})

	DescribeTable("hostile-name: becomes the Finding of the object that it means",
		func(ctx SpecContext, reportKind, provider, kind, name string) {
			w := newWorld(ctx)
			w.apply(ctx, builder.Policy(w.namespace, "default", []string{provider}))
			w.start(ctx)
			report := builder.VulnerabilityReport(w.namespace, kind, "x", "app", builder.Vulnerabilities(1, "HIGH"))
			container := "app"
			if reportKind != "VulnerabilityReport" {
				container = ""
				report = builder.CheckReport(reportKind, w.namespace, kind, "x", []any{builder.Check("KSV113", "HIGH", false, "said of "+name)})
			}
			named(name)(report)
			report.SetName("hash-7d9f8c6b5")
			w.apply(ctx, report)
			f := w.finding(ctx, provider, kind, name, container)
			Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeStillPresent))
			Expect(f().Status.Resource).To(Equal(kind + "/" + name))
			Expect(f().Spec.Source.RefName).To(Equal("hash-7d9f8c6b5"))
		},
		Entry("with a name of 253 characters", "VulnerabilityReport", "trivy", "StatefulSet", strings.Repeat("a", 63)+"."+strings.Repeat("b", 189)),
		Entry("with a colon", "RbacAssessmentReport", "trivy/rbac", "Role", "system:controller:token-cleaner"),
	)

	It("hash-named: of a ReplicaSet whose name is no label value folds into its Deployment", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.startWithWeb(ctx)
		f := w.finding(ctx, "trivy", "Deployment", "web", "nginx")
		web := f()
		w.expectNoWrites(ctx, func() {
			w.apply(ctx, webReport(w.namespace, "web-1", 3, builder.HashNamed))
			Expect(cluster.Client.Delete(ctx, webReport(w.namespace, "web-1", 3))).To(Succeed())
		})
		Expect(f()).To(Equal(web))
	})

	It("two-reports: of one identity are one Finding, for which the newer speaks until it goes", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.startWithDB(ctx, "trivy")
		second := builder.VulnerabilityReport(w.namespace, "StatefulSet", "db", "app", builder.Vulnerabilities(5, "CRITICAL"),
			builder.UpdatedAt(time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)))
		second.SetName("another")
		w.apply(ctx, second)
		brief := func() string { return w.db(ctx)().Status.Brief }
		Eventually(brief).Should(Equal("5 critical"))
		older := builder.VulnerabilityReport(w.namespace, "StatefulSet", "db", "app", builder.Vulnerabilities(9, "CRITICAL"))
		w.expectNoWrites(ctx, func() { w.apply(ctx, older) })
		Expect(cluster.Client.Delete(ctx, second)).To(Succeed())
		Eventually(brief).Should(Equal("9 critical"))
		Expect(w.findings(ctx)).To(HaveLen(1))
	})
})

// badShapes are reports that do not have the shape of their kind, by the name of their workload.
var badShapes = map[string]func(*unstructured.Unstructured){
	"no-body":   withoutBody,
	"body-list": at([]any{"x"}, "report"),
	"body-text": at("x", "report"),
	"body-null": at(nil, "report"),
	"entries-missing": func(r *unstructured.Unstructured) {
		unstructured.RemoveNestedField(r.Object, "report", "vulnerabilities")
	},
	"entries-null":  at(nil, "report", "vulnerabilities"),
	"entries-map":   at(map[string]any{"a": "b"}, "report", "vulnerabilities"),
	"entry-text":    at([]any{"CVE-2026-1"}, "report", "vulnerabilities"),
	"id-number":     at([]any{map[string]any{"vulnerabilityID": int64(1), "severity": "HIGH"}}, "report", "vulnerabilities"),
	"id-missing":    at([]any{map[string]any{"resource": "x", "severity": "HIGH"}}, "report", "vulnerabilities"),
	"severity-list": at([]any{map[string]any{"vulnerabilityID": "CVE-2026-1", "severity": []any{"HIGH"}}}, "report", "vulnerabilities"),
}

func withoutBody(r *unstructured.Unstructured) { delete(r.Object, "report") }

func at(value any, path ...string) func(*unstructured.Unstructured) {
	return func(r *unstructured.Unstructured) {
		Expect(unstructured.SetNestedField(r.Object, value, path...)).To(Succeed())
	}
}

// nameless takes out of a report everything that says what it speaks of.
func nameless(r *unstructured.Unstructured) {
	labels := r.GetLabels()
	delete(labels, "trivy-operator.resource.name")
	r.SetLabels(labels)
	r.SetOwnerReferences(nil)
}

// named gives a report the annotation that says the name of its object where that is no label value.
func named(name string) func(*unstructured.Unstructured) {
	return func(r *unstructured.Unstructured) {
		nameless(r)
		r.SetAnnotations(map[string]string{"trivy-operator.resource.name": name})
	}
}

// takeAnyReport makes the API server take VulnerabilityReports of any shape until the spec ends.
func takeAnyReport(ctx context.Context) {
	GinkgoHelper()
	key := client.ObjectKey{Name: "vulnerabilityreports.aquasecurity.github.io"}
	var strict apiextensionsv1.CustomResourceDefinition
	Expect(cluster.Client.Get(ctx, key, &strict)).To(Succeed())
	setSchema := func(ctx context.Context, schema *apiextensionsv1.JSONSchemaProps) {
		GinkgoHelper()
		Eventually(func(g Gomega) {
			var crd apiextensionsv1.CustomResourceDefinition
			g.Expect(cluster.Client.Get(ctx, key, &crd)).To(Succeed())
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema = schema
			g.Expect(cluster.Client.Update(ctx, &crd)).To(Succeed())
		}).Should(Succeed())
	}
	loose := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	setSchema(ctx, loose)
	DeferCleanup(func(ctx SpecContext) { setSchema(ctx, strict.Spec.Versions[0].Schema.OpenAPIV3Schema) })
	probe := builder.VulnerabilityReport("default", "StatefulSet", "probe", "app", nil, withoutBody)
	Eventually(func() error { return cluster.Client.Create(ctx, probe.DeepCopy(), client.DryRunAll) }).Should(Succeed())
}

// sizeOf returns how large an object is in etcd.
func sizeOf(o client.Object) int {
	GinkgoHelper()
	content, err := json.Marshal(o)
	Expect(err).NotTo(HaveOccurred())
	return len(content)
}
