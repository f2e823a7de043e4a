// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package signals

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

var failedChecks = Class{Provider: "trivy/config", Kind: schema.GroupVersionKind{Kind: "ConfigAuditReport"}, One: "failed check", Many: "failed checks"}

func TestSummarySaysInOneLineWhatWasSeen(t *testing.T) {
	fixable := func(rank Rank, id string) Entry {
		return Entry{Rank: rank, ID: id, Package: "p", Installed: "1", Fixed: "2"}
	}
	unfixable := func(rank Rank, id string) Entry { return Entry{Rank: rank, ID: id, Package: "p", Installed: "1"} }
	for name, test := range map[string]struct {
		class                 Class
		repository, container string
		entries               []Entry
		want                  string
	}{
		"one vulnerability": {
			vulnerabilities, "library/nginx", "nginx",
			[]Entry{fixable(Critical, "CVE-2026-1")},
			"1 CRITICAL vulnerability in library/nginx (container nginx), 1 fixable: CVE-2026-1 [evidence abb8cc6e6c48822c]",
		},
		"every severity, and more than it names": {
			vulnerabilities, "library/nginx", "nginx",
			[]Entry{fixable(Critical, "CVE-1"), unfixable(High, "CVE-2"), unfixable(Medium, "CVE-3"), fixable(Low, "CVE-4"), unfixable(Unknown, "CVE-5")},
			"1 CRITICAL, 1 HIGH, 1 MEDIUM, 1 LOW, 1 UNKNOWN vulnerabilities in library/nginx (container nginx), 2 fixable: CVE-1, CVE-2, CVE-3 and 2 more ids [evidence b30a79f0ea7047fd]",
		},
		"one vulnerability in two packages is named once": {
			vulnerabilities, "library/nginx", "",
			[]Entry{{Rank: High, ID: "CVE-1", Package: "curl"}, {Rank: High, ID: "CVE-1", Package: "libcurl"}},
			"2 HIGH vulnerabilities in library/nginx: CVE-1 [evidence 20e7403891359f0b]",
		},
		"no fix, no repository and no container": {
			vulnerabilities, "", "",
			[]Entry{unfixable(High, "CVE-1"), unfixable(High, "CVE-2")},
			"2 HIGH vulnerabilities: CVE-1, CVE-2 [evidence 11040a30b1043be8]",
		},
		"failed checks": {
			failedChecks, "", "",
			[]Entry{{Rank: High, ID: "KSV014", Message: "never part of it"}, {Rank: Medium, ID: "KSV001"}},
			"1 HIGH, 1 MEDIUM failed checks: KSV014, KSV001 [evidence cce6c8a234adae80]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			id := Identity{Provider: test.class.Provider, Namespace: "team-a", Kind: "Deployment", Name: "web", Container: test.container}
			report := Report{Artifact: candorv1alpha1.Artifact{Repository: test.repository, Tag: "1.27", Digest: "sha256:abc"}}
			spec := Spec(test.class, id, report, Evidence{Entries: test.entries, Worst: test.entries[0].Rank})
			NewWithT(t).Expect(spec.Summary).To(Equal(test.want))
		})
	}
}

func TestSpecSaysWhatWasSeen(t *testing.T) {
	artifact := candorv1alpha1.Artifact{Registry: "index.docker.io", Repository: "library/nginx", Tag: "1.27", Digest: "sha256:abc"}
	entry := openssl()
	evidence := Evidence{Entries: []Entry{entry}, Worst: High}
	want := candorv1alpha1.FindingSpec{
		Source: candorv1alpha1.Source{
			Provider: "trivy", Kind: "Deployment", Name: "web", Container: "nginx", RefKind: "VulnerabilityReport", RefName: "web",
		},
		Severity: candorv1alpha1.SeverityHigh,
		Summary:  "1 HIGH vulnerability in library/nginx (container nginx), 1 fixable: CVE-2026-1 [evidence " + evidence.Digest()[:16] + "]",
		Observed: candorv1alpha1.ObservedPresent,
		Evidence: &candorv1alpha1.Evidence{
			Digest: evidence.Digest(), Total: 1, Fixable: 1, BySeverity: candorv1alpha1.SeverityCounts{High: 1}, Artifact: artifact,
			Top: []candorv1alpha1.Entry{{ID: "CVE-2026-1", Severity: "HIGH", Package: "openssl", Installed: "3.0.1", Fixed: "3.0.2", Message: "a buffer overflow"}},
		},
	}
	id := Identity{Provider: "trivy", Namespace: "team-a", Kind: "Deployment", Name: "web", Container: "nginx"}

	t.Run("a report of a ReplicaSet is named by the workload, so that a rollout writes nothing", func(t *testing.T) {
		report := Report{Subject: Subject{Namespace: "team-a", Kind: "ReplicaSet", Name: "web-7d9f"}, Name: "replicaset-web-7d9f-nginx", Artifact: artifact}
		NewWithT(t).Expect(Spec(vulnerabilities, id, report, evidence)).To(BeComparableTo(want))
	})
	t.Run("a report of the workload itself is named by its own name", func(t *testing.T) {
		report := Report{Subject: Subject{Namespace: "team-a", Kind: "Deployment", Name: "web"}, Name: "deployment-web-nginx", Artifact: artifact}
		want.Source.RefName = "deployment-web-nginx"
		NewWithT(t).Expect(Spec(vulnerabilities, id, report, evidence)).To(BeComparableTo(want))
	})
}

func TestTheFingerprintChangesExactlyWhenTheEvidenceDoes(t *testing.T) {
	id := Identity{Provider: "trivy", Namespace: "team-a", Kind: "Deployment", Name: "web", Container: "nginx"}
	of := func(tag string, evidence Evidence) string {
		f := &candorv1alpha1.Finding{Spec: Spec(vulnerabilities, id, Report{Artifact: candorv1alpha1.Artifact{Repository: "library/nginx", Tag: tag, Digest: tag}}, evidence)}
		return Fingerprint(Of(f))
	}
	many := Evidence{Worst: High}
	for i := range 100 {
		many.Entries = append(many.Entries, Entry{Rank: High, ID: fmt.Sprintf("CVE-%03d", i), Package: "p"})
	}
	g := NewWithT(t)
	before := of("1.27", many)
	g.Expect(of("1.28", many)).To(Equal(before), "a new build with the same vulnerabilities is no news")
	many.Entries[99].Fixed = "2"
	fixed := of("1.27", many)
	g.Expect(fixed).NotTo(Equal(before), "the hundredth entry counts as much as the first")
	many.Entries[99].Fixed = "3"
	g.Expect(of("1.27", many)).NotTo(Equal(fixed), "counts are the same and content is not")
}

func TestBriefCountsForAListing(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Brief(nil)).To(BeEmpty())
	g.Expect(Brief(&candorv1alpha1.Evidence{})).To(BeEmpty())
	g.Expect(Brief(&candorv1alpha1.Evidence{BySeverity: candorv1alpha1.SeverityCounts{Critical: 2, High: 3, Unknown: 1}})).To(Equal("2 critical, 3 high, 1 unknown"))
}

// What encoding/json does to a character is what it costs: a less-than sign takes six bytes.
func TestG15SpecStaysUnderTwelveKiB(t *testing.T) {
	for name, fill := range map[string]string{
		"whatever letters it holds":             "x",
		"whatever it holds of three bytes":      "界",
		"whatever it holds of four bytes":       "😀",
		"whatever JSON escapes with two bytes":  `"`,
		"whatever JSON escapes with six bytes":  "<",
		"whatever JSON escapes and is no ASCII": "\u2028",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			huge := strings.Repeat(fill, 512)
			long := strings.Repeat("n", 253)
			evidence := Evidence{Worst: Critical}
			for i := range 5000 {
				evidence.Entries = append(evidence.Entries, Entry{
					Rank: Critical, ID: fmt.Sprintf("%d%s", i, huge), Package: huge, Installed: huge, Fixed: huge, Message: huge,
				})
			}
			id := Identity{Provider: "trivy", Namespace: long[:63], Kind: long[:63], Name: long, Container: long[:63]}
			report := Report{Subject: Subject{Kind: "ReplicaSet", Name: "n"}, Name: long, Artifact: candorv1alpha1.Artifact{
				Registry: Cut(huge, 256), Repository: Cut(huge, 256), Tag: Cut(huge, 128), Digest: Cut(huge, 160),
			}}
			spec := Spec(vulnerabilities, id, report, evidence)
			text, err := json.Marshal(spec)
			g.Expect(err).NotTo(HaveOccurred())
			t.Logf("%d bytes, of which the summary has %d and %d entries", len(text), len(spec.Summary), len(spec.Evidence.Top))
			g.Expect(len(text)).To(BeNumerically("<", 12<<10))
			g.Expect(len(spec.Summary)).To(BeNumerically("<=", 1024))
			g.Expect(len(spec.Evidence.Top)).To(BeNumerically("<=", 25))
			g.Expect(spec.Evidence.Total).To(Equal(int32(5000)))
		})
	}
}
