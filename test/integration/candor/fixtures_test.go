// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/trivy"
	"github.com/candor-dev/candor/test/builder"
)

// fixturesVariable names a folder of reports that the real Trivy Operator wrote, a report a file.
const fixturesVariable = "CANDOR_TRIVY_FIXTURES"

var trivyClasses = signals.Classes{trivy.Vulnerabilities(), trivy.ConfigAudits(), trivy.RBACAssessments(), trivy.ExposedSecrets()}

var _ = Describe("Reports of the real Trivy Operator", Ordered, ContinueOnFailure, func() {
	var manager *world
	places := map[string]*world{}
	files, err := filepath.Glob(filepath.Join(os.Getenv(fixturesVariable), "*.yaml"))
	BeforeAll(func(ctx SpecContext) {
		if os.Getenv(fixturesVariable) == "" {
			Skip("set " + fixturesVariable + " to a folder of reports to run these")
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(files).NotTo(BeEmpty(), "no report in %s=%s", fixturesVariable, os.Getenv(fixturesVariable))
		manager = newWorld(ctx)
		for i, file := range files {
			places[file] = manager.neighbour(ctx, i)
		}
		manager.start(ctx)
		manager.serving()
	})
	if os.Getenv(fixturesVariable) == "" {
		It("real-reports: become Findings", func() {})
		return
	}
	for _, file := range files {
		It("real-reports: "+filepath.Base(file), func(ctx SpecContext) {
			w := places[file]
			report := w.load(file)
			class, known := classOf(report)
			if !known {
				_, _, err := trivyClasses.Reports(report)
				Expect(err).To(MatchError(And(HavePrefix(signals.DropUnsupportedKind), ContainSubstring(report.GetKind()))))
				Expect(meta.IsNoMatchError(cluster.Client.Create(ctx, report))).To(BeTrue(), "no such CRD is installed, and none is missed")
				return
			}
			manager.ingest(ctx, w, class, report)
		})
	}
})

// ingest holds the manager to make of a report in another namespace the one Finding that the report's own list calls for, or
// none and count it when that is empty.
func (w *world) ingest(ctx context.Context, in *world, class signals.Class, report *unstructured.Unstructured) {
	GinkgoHelper()
	filtered := w.metric("candor_reports_ingested_total", "provider", class.Provider, "result", "filtered")
	before, dropped := filtered(), w.metric("candor_reports_dropped_total")
	in.apply(ctx, builder.Policy(in.namespace, "default", trivyClasses.Providers(), atLeast(candorv1alpha1.SeverityLow),
		func(p *candorv1alpha1.SignalPolicy) { p.Spec.UnknownSeverity = candorv1alpha1.UnknownLow }))
	kind, name := in.applyOwner(ctx, report)
	in.apply(ctx, report)
	if entries(report) == 0 {
		Eventually(filtered).Should(BeNumerically(">", before))
		Expect(in.findings(ctx)).To(BeEmpty())
		return
	}
	f := in.finding(ctx, class.Provider, kind, name, report.GetLabels()["trivy-operator.container.name"])
	Eventually(outcome(f)).Should(Equal(candorv1alpha1.OutcomeStillPresent))
	Expect(f().Spec.Evidence.Total).To(BeEquivalentTo(entries(report)))
	Expect(f().Spec.Evidence.Top).NotTo(BeEmpty())
	Expect(sizeOf(f())).To(BeNumerically("<", 16<<10))
	Expect(in.findings(ctx)).To(HaveLen(1))
	Expect(dropped()).To(BeZero())
}

// applyOwner makes what stands behind a report, where Candor asks for it, and returns the top owner.
func (w *world) applyOwner(ctx context.Context, report *unstructured.Unstructured) (kind, name string) {
	GinkgoHelper()
	kind, name = report.GetLabels()["trivy-operator.resource.kind"], report.GetLabels()["trivy-operator.resource.name"]
	if kind != "ReplicaSet" {
		return kind, name
	}
	deployment := builder.Deployment(w.namespace, name[:strings.LastIndex(name, "-")])
	w.apply(ctx, deployment)
	w.apply(ctx, builder.ReplicaSet(deployment, w.namespace, name, 1))
	return "Deployment", deployment.Name
}

// entries counts the different things that a report itself says are wrong.
func entries(report *unstructured.Unstructured) int {
	different := map[string]bool{}
	for list, keys := range map[string][]string{
		"vulnerabilities": {"vulnerabilityID", "resource", "installedVersion", "fixedVersion", "severity"},
		"checks":          {"checkID", "severity"},
		"secrets":         {"ruleID", "target", "severity"},
	} {
		items, _, _ := unstructured.NestedSlice(report.Object, "report", list)
		for _, each := range items {
			item, id := each.(map[string]any), ""
			for _, key := range keys {
				id += fmt.Sprintln(item[key])
			}
			if passed, _, _ := unstructured.NestedBool(item, "success"); !passed {
				different[id] = true
			}
		}
	}
	return len(different)
}

func classOf(report *unstructured.Unstructured) (signals.Class, bool) {
	for _, class := range trivyClasses {
		if class.Kind == report.GroupVersionKind() {
			return class, true
		}
	}
	return signals.Class{}, false
}

// load reads a report into this namespace, with what Trivy Operator's present CRD demands and older reports lack.
func (w *world) load(file string) *unstructured.Unstructured {
	GinkgoHelper()
	content, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	report := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte(strings.ReplaceAll(string(content), "<HASH>", "7d9f8c6b5")), &report.Object)).To(Succeed())
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation"} {
		unstructured.RemoveNestedField(report.Object, "metadata", field)
	}
	report.SetNamespace(w.namespace)
	references, _, err := unstructured.NestedSlice(report.Object, "metadata", "ownerReferences")
	Expect(err).NotTo(HaveOccurred())
	for _, reference := range references {
		reference.(map[string]any)["uid"] = "00000000-0000-4000-8000-000000000000"
	}
	Expect(unstructured.SetNestedSlice(report.Object, references, "metadata", "ownerReferences")).To(Succeed())
	body, _ := report.Object["report"].(map[string]any)
	vulnerabilities, found := body["vulnerabilities"].([]any)
	if !found {
		return report
	}
	fill(body, "os", map[string]any{"family": "", "name": ""})
	fill(body, "updateTimestamp", "2026-11-01T10:00:00Z")
	for _, each := range vulnerabilities {
		fill(each.(map[string]any), "lastModifiedDate", "")
		fill(each.(map[string]any), "publishedDate", "")
	}
	return report
}

func fill(object map[string]any, key string, value any) {
	if _, found := object[key]; !found {
		object[key] = value
	}
}
