// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/packed"
	"github.com/candor-dev/candor/internal/signals/policy"
	"github.com/candor-dev/candor/test/builder"
)

// finding is what becomes of a report of the Deployment web where LOW and above is asked for.
func finding(t *testing.T, report *unstructured.Unstructured) *candorv1alpha1.Finding {
	t.Helper()
	class := classOf(report)
	translated, err := read(class, compact(t, class, report).(*unstructured.Unstructured))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	id := signals.Identity{Provider: class.Provider, Namespace: "team-a", Kind: "Deployment", Name: "web", Container: translated.Subject.Container}
	f := &candorv1alpha1.Finding{
		ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: id.FindingName()},
		Spec:       signals.Spec(class, id, translated, policy.Ask{MinRank: signals.Low}.Select(translated.Entries)),
	}
	f.Status.Fingerprint = signals.Fingerprint(signals.Of(f))
	return f
}

func classOf(report *unstructured.Unstructured) signals.Class {
	return classes[slices.IndexFunc(classes, func(c signals.Class) bool { return c.Kind == report.GroupVersionKind() })]
}

func fingerprint(t *testing.T, report *unstructured.Unstructured) string {
	t.Helper()
	return finding(t, report).Status.Fingerprint
}

func each(change func(entry map[string]any)) func(*unstructured.Unstructured) {
	return func(report *unstructured.Unstructured) {
		for _, entry := range report.Object["report"].(map[string]any)["vulnerabilities"].([]any) {
			change(entry.(map[string]any))
		}
	}
}

func TestWhatARescanChangesIsNoNews(t *testing.T) {
	entries := func() []any {
		return append(builder.Vulnerabilities(30, "HIGH"), builder.Vulnerability("CVE-2026-99999", "zlib", "CRITICAL"))
	}
	before := finding(t, web(entries()))
	shuffle := func(report *unstructured.Unstructured) {
		list := report.Object["report"].(map[string]any)["vulnerabilities"].([]any)
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	for name, change := range map[string]func(*unstructured.Unstructured){
		"nothing":                            func(*unstructured.Unstructured) {},
		"shuffled-order: the order of lines": shuffle,
		"score-flip: scores":                 each(func(e map[string]any) { e["score"] = 9.8 }),
		"score-flip: a score that is gone":   each(func(e map[string]any) { delete(e, "score") }),
		"dates, titles and links": each(func(e map[string]any) {
			e["publishedDate"], e["lastModifiedDate"], e["title"], e["primaryLink"], e["links"] = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", "x", "y", []any{"z"}
			e["description"], e["target"], e["class"], e["packageType"] = "d", "t", "os-pkgs", "debian"
		}),
		"duplicate-entries: every line twice": func(report *unstructured.Unstructured) {
			body := report.Object["report"].(map[string]any)
			body["vulnerabilities"] = append(body["vulnerabilities"].([]any), entries()...)
			shuffle(report)
		},
		"duplicate-entries: the same line with other words": func(report *unstructured.Unstructured) {
			body := report.Object["report"].(map[string]any)
			again := builder.Vulnerability("CVE-2026-99999", "zlib", "CRITICAL")
			again["title"], again["score"] = "other words", 1.0
			body["vulnerabilities"] = append([]any{again}, body["vulnerabilities"].([]any)...)
		},
		"the time of the scan":                               builder.UpdatedAt(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)),
		"the version of the scanner":                         put(map[string]any{"name": "Trivy", "version": "1.0.0"}, "report", "scanner"),
		"the UID of the report":                              put("another", "metadata", "uid"),
		"the tag and the image digest":                       builder.Tag("1.28"),
		"empty-tag: an image pinned by digest has no tag":    remove("report", "artifact", "tag"),
		"empty-tag: a tag that is empty":                     put("", "report", "artifact", "tag"),
		"empty-digest: the scanner does not know the digest": remove("report", "artifact", "digest"),
		"empty-digest: a digest that is empty":               put("", "report", "artifact", "digest"),
		"the registry":                                       put("mirror.example.com", "report", "registry", "server"),
		"the counts that the report states":                  put(map[string]any{"criticalCount": int64(99)}, "report", "summary"),
		"a report of the next ReplicaSet": func(report *unstructured.Unstructured) {
			labels := report.GetLabels()
			labels["trivy-operator.resource.name"] = "web-5c9d7b6f4"
			report.SetLabels(labels)
			report.SetName("replicaset-web-5c9d7b6f4-nginx")
		},
	} {
		t.Run(name, func(t *testing.T) {
			after := finding(t, web(entries(), change))
			NewWithT(t).Expect(after.Status.Fingerprint).To(Equal(before.Status.Fingerprint))
			after.Spec.Evidence.Artifact = before.Spec.Evidence.Artifact
			NewWithT(t).Expect(after).To(BeComparableTo(before), "beside the image, nothing is written")
		})
	}
}

func TestWhatARescanFindsIsNews(t *testing.T) {
	entries := func() []any { return builder.Vulnerabilities(30, "HIGH") }
	before := fingerprint(t, web(entries()))
	last := func(key string, value any) func(*unstructured.Unstructured) {
		return func(report *unstructured.Unstructured) {
			list := report.Object["report"].(map[string]any)["vulnerabilities"].([]any)
			list[29].(map[string]any)[key] = value
		}
	}
	for name, change := range map[string]func(*unstructured.Unstructured){
		"another identifier":        last("vulnerabilityID", "CVE-2027-1"),
		"another package":           last("resource", "zlib"),
		"another installed version": last("installedVersion", "1.0.0-r1"),
		"a fix that has come out":   last("fixedVersion", "1.0.2"),
		"a fix that is withdrawn":   last("fixedVersion", ""),
		"a worse severity":          last("severity", "CRITICAL"),
		"a milder severity":         last("severity", "MEDIUM"),
		"another repository":        put("library/httpd", "report", "artifact", "repository"),
		"one entry more": func(report *unstructured.Unstructured) {
			body := report.Object["report"].(map[string]any)
			body["vulnerabilities"] = append(body["vulnerabilities"].([]any), builder.Vulnerability("CVE-2027-1", "zlib", "HIGH"))
		},
		"one entry fewer": func(report *unstructured.Unstructured) {
			body := report.Object["report"].(map[string]any)
			body["vulnerabilities"] = body["vulnerabilities"].([]any)[1:]
		},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(fingerprint(t, web(entries(), change))).NotTo(Equal(before)) })
	}
}

func TestTheWordsOfAFailedCheckAreShownAndAreNoNews(t *testing.T) {
	g := NewWithT(t)
	report := func(replicaSet string) *unstructured.Unstructured {
		return builder.CheckReport("ConfigAuditReport", "team-a", "ReplicaSet", replicaSet, []any{
			builder.Check("KSV014", "HIGH", false, "Container 'nginx' of ReplicaSet '"+replicaSet+"' should be read-only"),
		})
	}
	before := finding(t, report("web-7d9f8c6b5"))
	g.Expect(before.Spec.Evidence.Top).To(Equal([]candorv1alpha1.Entry{{
		ID: "KSV014", Severity: "HIGH", Message: "Container 'nginx' of ReplicaSet 'web' should be read-only",
	}}))
	g.Expect(finding(t, report("web-5c9d7b6f4"))).To(BeComparableTo(before), "after a rollout nothing is written")
}

func TestACheckThatFailsTwiceIsOneEntry(t *testing.T) {
	report := func(checks ...any) *unstructured.Unstructured {
		return builder.CheckReport("ConfigAuditReport", "team-a", "StatefulSet", "web", checks)
	}
	once := finding(t, report(builder.Check("KSV014", "HIGH", false, "Container 'envoy'")))
	twice := finding(t, report(builder.Check("KSV014", "HIGH", false, "Container 'nginx'"), builder.Check("KSV014", "HIGH", false, "Container 'envoy'")))
	NewWithT(t).Expect(twice).To(BeComparableTo(once), "duplicate-entries: the first message in order is shown")
}

func TestG15AFindingOfAHostileReportIsSmall(t *testing.T) {
	for name, fill := range map[string]string{
		"of letters": "x", "of less-than signs, which JSON escapes with six bytes": "<",
	} {
		t.Run(name, func(t *testing.T) {
			huge, long := strings.Repeat(fill, 10_000), strings.Repeat(fill, packed.FieldBytes+1)
			entries := make([]any, 5000)
			for i := range entries {
				e := builder.Vulnerability(fmt.Sprintf("%d%s", i, long), long, "CRITICAL")
				e["title"], e["installedVersion"], e["fixedVersion"] = huge, long, long
				entries[i] = e
			}
			report := web(entries, put(map[string]any{"repository": huge, "tag": huge, "digest": huge}, "report", "artifact"), put(map[string]any{"server": huge}, "report", "registry"))
			f := finding(t, report)
			text, err := json.Marshal(f.Spec)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(len(text)).To(BeNumerically("<", 12<<10), "so that a whole Finding stays under 16 KiB")
			NewWithT(t).Expect(f.Spec.Evidence.Total).To(Equal(int32(5000)))
		})
	}
}
