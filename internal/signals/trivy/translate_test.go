// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/builder"
)

func TestAVulnerabilityReportBecomesEntries(t *testing.T) {
	report, err := read(Vulnerabilities(), web([]any{builder.Vulnerability("CVE-2026-1", "openssl", "HIGH")}))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(report).To(BeComparableTo(signals.Report{
		Subject: signals.Subject{Namespace: "team-a", Kind: "ReplicaSet", Name: "web-7d9f8c6b5", Container: "nginx"},
		Name:    "replicaset-web-7d9f8c6b5-nginx", Updated: time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC),
		Artifact: candorv1alpha1.Artifact{
			Registry: "index.docker.io", Repository: "library/nginx", Tag: "1.27", Digest: "sha256:" + strings.Repeat("a", 64),
		},
		Entries: []signals.Entry{{Rank: signals.High, ID: "CVE-2026-1", Package: "openssl", Installed: "1.0.0", Fixed: "1.0.1"}},
	}))
}

func TestFailedChecksBecomeEntriesAndPassedOnesDoNot(t *testing.T) {
	untold := builder.Check("KSV020", "LOW", false, "")
	untold["messages"], untold["title"] = nil, "Runs as root"
	absent := builder.Check("KSV021", "LOW", false, "only a flag that is true passes a check")
	delete(absent, "success")
	for _, class := range []signals.Class{ConfigAudits(), RBACAssessments()} {
		report, err := read(class, builder.CheckReport(class.Kind.Kind, "team-a", "Service", "web", []any{
			untold, builder.Check("KSV014", "HIGH", false, "Service 'web' is open"), builder.Check("KSV001", "CRITICAL", true, "passed"), absent,
		}))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(report).To(BeComparableTo(signals.Report{
			Subject: signals.Subject{Namespace: "team-a", Kind: "Service", Name: "web"},
			Name:    "service-web", Updated: time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC),
			Entries: []signals.Entry{
				{Rank: signals.High, ID: "KSV014", Message: "Service 'web' is open"},
				{Rank: signals.Low, ID: "KSV020", Message: "Runs as root"},
				{Rank: signals.Low, ID: "KSV021", Message: "only a flag that is true passes a check"},
			},
		}))
	}
}

func TestTextOfAReportIsMadeHarmless(t *testing.T) {
	entry := builder.Vulnerability(" CVE-2026-1\n", "open\tssl\x1b[31m", "HIGH")
	entry["installedVersion"] = "1.0\u202e\u200b\x00\xff"
	entry["fixedVersion"] = strings.Repeat("9", 600)
	report, err := read(Vulnerabilities(), web([]any{entry}))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(report.Entries).To(BeComparableTo([]signals.Entry{{
		Rank: signals.High, ID: "CVE-2026-1", Package: "open ssl[31m", Installed: "1.0", Fixed: strings.Repeat("9", 509) + "…",
	}}))
}

func TestAReportSaysWhetherItIsSupersededAndWhenItWasWritten(t *testing.T) {
	g := NewWithT(t)
	report, err := read(Vulnerabilities(), web(nil, withEntries, builder.Superseded))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(report.Superseded).To(BeTrue())

	created := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	report, err = read(Vulnerabilities(), web(nil, withEntries, func(u *unstructured.Unstructured) {
		unstructured.RemoveNestedField(u.Object, "report", "updateTimestamp")
		_ = unstructured.SetNestedField(u.Object, created.Format(time.RFC3339), "metadata", "creationTimestamp")
	}))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(report.Superseded).To(BeFalse())
	g.Expect(report.Updated).To(BeTemporally("==", created), "without a timestamp of its own, a report is as old as its object")
}

func withEntries(report *unstructured.Unstructured) {
	_ = unstructured.SetNestedSlice(report.Object, builder.Vulnerabilities(2, "HIGH"), "report", "vulnerabilities")
}

func unlabel(report *unstructured.Unstructured) { report.SetLabels(nil) }

func disown(report *unstructured.Unstructured) { report.SetOwnerReferences(nil) }

func unannotate(report *unstructured.Unstructured) { report.SetAnnotations(nil) }

func TestTheSubjectIsFoundWhereverItsNameStands(t *testing.T) {
	long := strings.Repeat("x", 253)
	web := signals.Subject{Namespace: "team-a", Kind: "ReplicaSet", Name: "web-7d9f8c6b5", Container: "nginx"}
	longWeb := signals.Subject{Namespace: "team-a", Kind: "ReplicaSet", Name: long, Container: "nginx"}
	role := func(name string) signals.Subject {
		return signals.Subject{Namespace: "team-a", Kind: "Role", Name: name}
	}
	reportOf := func(name string, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
		return builder.VulnerabilityReport("team-a", "ReplicaSet", name, "nginx", builder.Vulnerabilities(1, "HIGH"), change...)
	}
	roleReport := func(name string, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
		return builder.CheckReport("RbacAssessmentReport", "team-a", "Role", name, []any{}, change...)
	}
	for name, test := range map[string]struct {
		report *unstructured.Unstructured
		want   signals.Subject
	}{
		"in the label":                      {reportOf("web-7d9f8c6b5", unannotate, disown), web},
		"in the annotation of a hash-named": {reportOf("web-7d9f8c6b5", builder.HashNamed, disown), web},
		"in the controller of a hash-named report that lost its annotation": {reportOf("web-7d9f8c6b5", builder.HashNamed, builder.Superseded), web},
		"long-name: a name of 253 characters":                               {reportOf(long, builder.HashNamed), longWeb},
		"long-name: a name of 253 characters that lost its annotation":      {reportOf(long, builder.HashNamed, unannotate), longWeb},
		"rbac-colon-name: a name that is no label value": {
			roleReport("system:controller:bootstrap-signer", builder.HashNamed), role("system:controller:bootstrap-signer"),
		},
		"rbac-colon-name: a name with two colons that lost its annotation": {
			roleReport("system::leader-locking-kube-scheduler", builder.HashNamed, unannotate), role("system::leader-locking-kube-scheduler"),
		},
		"in the controller alone": {roleReport("proxy", unlabel, unannotate), role("proxy")},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := read(classOf(test.report), test.report)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(report.Subject).To(Equal(test.want))
			class := classOf(test.report)
			again, err := read(class, compact(t, class, test.report).(*unstructured.Unstructured))
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(again.Subject).To(Equal(test.want), "from memory")
		})
	}
}

func TestG18EveryOneOfTenThousandHashNamedReportsIsRead(t *testing.T) {
	const reports = 10_000
	subjects := map[signals.Subject]bool{}
	for n := range reports {
		name := strings.Repeat("a", 64+n%190)[:64+n%190-5] + string([]byte{'-', byte('a' + n/6760%26), byte('a' + n/260%26), byte('a' + n/10%26), byte('0' + n%10)})
		change := []func(*unstructured.Unstructured){builder.HashNamed}
		if n%2 == 1 {
			change = append(change, builder.Superseded)
		}
		report, err := read(Vulnerabilities(), builder.VulnerabilityReport("team-a", "ReplicaSet", name, "nginx", builder.Vulnerabilities(1, "HIGH"), change...))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(report.Subject.Name).To(Equal(name))
		NewWithT(t).Expect(report.Entries).To(HaveLen(1))
		subjects[report.Subject] = true
	}
	NewWithT(t).Expect(subjects).To(HaveLen(reports))
}

func TestScanJobsOfTheScannerItselfAreLeftOut(t *testing.T) {
	for name, test := range map[string]struct {
		kind, name string
		dropped    bool
	}{
		"a Job that scans an image":               {"Job", "scan-vulnerabilityreport-7d9f8c6b5", true},
		"a Job that reads a node":                 {"Job", "node-collector-5d5f6c7b8", true},
		"a Job of another name is someone's own":  {"Job", "backup-28391", false},
		"a Deployment of that name is no scan":    {"Deployment", "scan-vulnerabilityreport-7d9f8c6b5", false},
		"a Job whose name only contains the word": {"Job", "nightly-scan-vulnerabilityreport-1", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(Vulnerabilities(), builder.VulnerabilityReport("team-a", test.kind, test.name, "c", builder.Vulnerabilities(1, "HIGH")))
			if !test.dropped {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(BeComparableTo(&signals.Drop{Reason: signals.DropScanJob, Detail: "the resource is a Job of the scanner itself"}))
		})
	}
}
