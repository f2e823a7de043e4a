// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/sparse"
	"github.com/candor-dev/candor/test/builder"
)

var classes = signals.Classes{Vulnerabilities(), ConfigAudits(), RBACAssessments(), ExposedSecrets()}

// read returns what a report says of its one subject, which is told also where the report cannot be used.
func read(class signals.Class, report *unstructured.Unstructured) (signals.Report, error) {
	subjects, err := class.Subjects(report)
	if err != nil || len(subjects) != 1 {
		return signals.Report{Subject: append(subjects, signals.Subject{})[0]}, err
	}
	return class.Translate(report, subjects[0])
}

// web is a report of the container nginx of a ReplicaSet of the Deployment web.
func web(entries []any, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	return builder.VulnerabilityReport("team-a", "ReplicaSet", "web-7d9f8c6b5", "nginx", entries, change...)
}

func compact(t *testing.T, class signals.Class, object any) any {
	t.Helper()
	slim, err := class.Compact(object)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	if full, ok := object.(*unstructured.Unstructured); ok && slim != object {
		expectFieldsSuffice(t, class, full, slim)
	}
	return slim
}

// expectFieldsSuffice expects that a report of which only the fields of its class are decoded is compacted to the same.
func expectFieldsSuffice(t *testing.T, class signals.Class, full *unstructured.Unstructured, slim any) {
	t.Helper()
	g := NewWithT(t)
	text, err := json.Marshal(full.Object)
	g.Expect(err).NotTo(HaveOccurred())
	fields := sparse.Of(append([]string{"apiVersion", "kind", "metadata"}, class.Fields...)...)
	read, err := fields.Decode(sparse.NewDecoder(bytes.NewReader(text)))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(class.Compact(&unstructured.Unstructured{Object: read.(map[string]any)})).To(Equal(slim))
}

func TestCompactKeepsWhatTranslateNeedsAndNothingElse(t *testing.T) {
	report := web([]any{builder.Vulnerability("CVE-2026-1", "openssl", "HIGH"), builder.Vulnerability("CVE-2026-2", "zlib", "CRITICAL")})
	report.SetUID("5d5c1d3e")
	report.SetResourceVersion("42")
	report.SetGeneration(7)
	report.SetCreationTimestamp(metav1.NewTime(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)))
	report.SetFinalizers([]string{"example.com/keep"})
	report.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "trivy-operator"}})
	report.SetOwnerReferences(append(report.GetOwnerReferences(), metav1.OwnerReference{Kind: "Other", Name: "no controller"}))

	NewWithT(t).Expect(compact(t, Vulnerabilities(), report).(*unstructured.Unstructured).Object).To(BeComparableTo(map[string]any{
		"apiVersion": "aquasecurity.github.io/v1alpha1", "kind": "VulnerabilityReport",
		"metadata": map[string]any{
			"namespace": "team-a", "name": "replicaset-web-7d9f8c6b5-nginx", "uid": "5d5c1d3e", "resourceVersion": "42",
		},
		"candor": "candor/1\tReplicaSet\tweb-7d9f8c6b5\tnginx\t24h0m0s\t2026-11-30T12:00:00Z\t2026-11-01T10:00:00Z\tindex.docker.io\tlibrary/nginx\t1.27\t" +
			"sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\t\t\n" +
			"4\tCVE-2026-2\tzlib\t1.0.0\t1.0.1\t\n3\tCVE-2026-1\topenssl\t1.0.0\t1.0.1\t\n",
	}))
}

func TestCompactIsIdempotent(t *testing.T) {
	for name, report := range map[string]*unstructured.Unstructured{
		"for a report that is well":  web(builder.Vulnerabilities(40, "HIGH")),
		"for a report without lines": web([]any{}),
		"for a malformed report":     web([]any{"no object"}),
		"for a report of checks": builder.CheckReport("VulnerabilityReport", "team-a", "Role", "web",
			[]any{builder.Check("KSV113", "HIGH", false, "Role 'web'")}),
	} {
		t.Run(name, func(t *testing.T) {
			once := compact(t, Vulnerabilities(), report)
			before := once.(*unstructured.Unstructured).DeepCopy()
			NewWithT(t).Expect(compact(t, Vulnerabilities(), once)).To(BeIdenticalTo(once))
			NewWithT(t).Expect(once).To(BeComparableTo(before))
		})
	}
}

func TestCompactLeavesAloneWhatIsNoReportOfItsKind(t *testing.T) {
	for name, object := range map[string]any{
		"nothing":                      nil,
		"a tombstone":                  toolscache.DeletedFinalStateUnknown{Key: "team-a/web", Obj: web(nil)},
		"a report of another kind":     builder.CheckReport("ConfigAuditReport", "team-a", "Service", "web", []any{}),
		"a typed object":               builder.Deployment("team-a", "web"),
		"an object without a kind":     &unstructured.Unstructured{},
		"a list":                       &unstructured.UnstructuredList{},
		"a kind of another API's name": &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "VulnerabilityReport"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := compact(t, Vulnerabilities(), object)
			if object == nil {
				NewWithT(t).Expect(got).To(BeNil())
				return
			}
			NewWithT(t).Expect(got).To(Equal(object))
		})
	}
}

func TestCompactDoesNotChangeWhatItIsGiven(t *testing.T) {
	report := web(builder.Vulnerabilities(3, "HIGH"))
	before := report.DeepCopy()
	compact(t, Vulnerabilities(), report)
	NewWithT(t).Expect(report).To(BeComparableTo(before))
}

func TestACompactedReportOfFortyEntriesIsSmall(t *testing.T) {
	var entries []any
	for i := range 40 {
		e := builder.Vulnerability(fmt.Sprintf("CVE-2026-%05d", i), "libssl3", "HIGH")
		e["description"], e["links"] = string(make([]byte, 2000)), []any{"https://example.com/a", "https://example.com/b"}
		entries = append(entries, e)
	}
	text, err := json.Marshal(compact(t, Vulnerabilities(), web(entries)))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(len(text)).To(BeNumerically("<", 3000))
}

func TestTranslateReadsAReportWholeOrCompacted(t *testing.T) {
	whole := web(builder.Vulnerabilities(40, "HIGH"))
	want, err := read(Vulnerabilities(), whole)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	got, err := read(Vulnerabilities(), compact(t, Vulnerabilities(), whole).(*unstructured.Unstructured))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(got).To(BeComparableTo(want))
	NewWithT(t).Expect(got.Entries).To(HaveLen(40))
}
