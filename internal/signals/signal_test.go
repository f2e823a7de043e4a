// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package signals

import (
	"math/rand/v2"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

const whyAnyoneCares = "identical content must never ask for another enrichment: k8sgpt-operator#769 made 9,300 model calls in three days for 164 results"

var vulnerabilities = Class{
	Provider: "trivy", Kind: schema.GroupVersionKind{Group: "aquasecurity.github.io", Version: "v1alpha1", Kind: "VulnerabilityReport"},
	One: "vulnerability", Many: "vulnerabilities",
}

func criticalSignal() Signal {
	return Signal{
		Provider: "trivy", Severity: candorv1alpha1.SeverityCritical, Namespace: "team-a", Kind: "Deployment", Name: "web",
		Summary: "1 CRITICAL vulnerability", RefKind: "VulnerabilityReport", RefName: "replicaset-web-7d9f8c6b5-nginx",
	}
}

func TestFingerprintIsTheOneThatTheFormatFixes(t *testing.T) {
	NewWithT(t).Expect(Fingerprint(criticalSignal())).To(Equal("18a01a3c883280e4e3cec7f4695794bade1265ba83ec3bf5f5ceffaed03a947d"))
}

func TestFingerprintChangesWithContentOnly(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Signal)
		same   bool
	}{
		"another provider is other content":            {change: func(s *Signal) { s.Provider = "falco" }},
		"another namespace is other content":           {change: func(s *Signal) { s.Namespace = "team-b" }},
		"another kind is other content":                {change: func(s *Signal) { s.Kind = "StatefulSet" }},
		"another name is other content":                {change: func(s *Signal) { s.Name = "api" }},
		"another severity is other content":            {change: func(s *Signal) { s.Severity = candorv1alpha1.SeverityHigh }},
		"another summary is other content":             {change: func(s *Signal) { s.Summary = "2 CRITICAL vulnerabilities" }},
		"another kind of report is the same content":   {change: func(s *Signal) { s.RefKind = "ClusterVulnerabilityReport" }, same: true},
		"a report of another name is the same content": {change: func(s *Signal) { s.RefName = "replicaset-web-5c9d-nginx" }, same: true},
	} {
		t.Run(name, func(t *testing.T) {
			sig := criticalSignal()
			test.change(&sig)
			same := Fingerprint(sig) == Fingerprint(criticalSignal())
			NewWithT(t).Expect(same).To(Equal(test.same))
		})
	}
}

func TestASignalIsWhatItsFindingHolds(t *testing.T) {
	NewWithT(t).Expect(Of(&candorv1alpha1.Finding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "trivy-fa8dd5a24c3a3453cefb"},
		Spec: candorv1alpha1.FindingSpec{
			Source: candorv1alpha1.Source{
				Provider: "trivy", Kind: "Deployment", Name: "web", Container: "nginx",
				RefKind: "VulnerabilityReport", RefName: "replicaset-web-7d9f8c6b5-nginx",
			},
			Severity: candorv1alpha1.SeverityCritical, Summary: "1 CRITICAL vulnerability",
		},
	})).To(Equal(criticalSignal()))
}

func TestOneEnrichmentLastsUntilTheContentChanges(t *testing.T) {
	g := NewWithT(t)
	id := Identity{Provider: "trivy", Namespace: "team-a", Kind: "Deployment", Name: "web", Container: "nginx"}
	entries := []Entry{{Rank: Critical, ID: "CVE-2026-1", Package: "openssl", Installed: "3.0.1"}}
	f := &candorv1alpha1.Finding{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a"}}

	ingest(f, id, "replicaset-web-1-nginx", entries)
	g.Expect(NeedsEnrichment(f)).To(BeTrue(), "new content")
	enrich(f)
	for range 1000 {
		ingest(f, id, "replicaset-web-2-nginx", entries)
		g.Expect(NeedsEnrichment(f)).To(BeFalse(), whyAnyoneCares)
	}

	entries[0].Fixed = "3.0.2"
	ingest(f, id, "replicaset-web-2-nginx", entries)
	g.Expect(NeedsEnrichment(f)).To(BeTrue(), "a fix that has come out is other content")
	enrich(f)
	g.Expect(NeedsEnrichment(f)).To(BeFalse(), whyAnyoneCares)
}

func TestHourlyRescansOfOneHundredAndSixtyFourResultsAskOnceForEach(t *testing.T) {
	const results, rescans = 164, 72
	calls := 0
	for n := range results {
		id := Identity{Provider: "trivy", Namespace: "team-a", Kind: "Deployment", Name: "web-" + strings.Repeat("x", n)}
		f := &candorv1alpha1.Finding{ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace}}
		for range rescans {
			ingest(f, id, "report-"+strings.Repeat("y", rand.IntN(9)), []Entry{{Rank: High, ID: "CVE-2026-2", Package: "zlib"}})
			if NeedsEnrichment(f) {
				calls++
				enrich(f)
			}
		}
	}
	NewWithT(t).Expect(calls).To(Equal(results), whyAnyoneCares)
}

func TestNeedsEnrichmentIsInequalityAndNothingElse(t *testing.T) {
	for name, test := range map[string]struct {
		status candorv1alpha1.FindingStatus
		want   bool
	}{
		"a Finding that nobody has looked at needs none": {candorv1alpha1.FindingStatus{}, false},
		"content that no model has seen needs one":       {candorv1alpha1.FindingStatus{Fingerprint: "a"}, true},
		"content that a model has seen needs none":       {candorv1alpha1.FindingStatus{Fingerprint: "a", EnrichedFingerprint: "a"}, false},
		"other content than a model has seen needs one":  {candorv1alpha1.FindingStatus{Fingerprint: "b", EnrichedFingerprint: "a"}, true},
		"an end, a mute and a time are not its business": {candorv1alpha1.FindingStatus{
			Fingerprint: "b", EnrichedFingerprint: "a", VerificationOutcome: candorv1alpha1.OutcomeResolved,
			Explained: candorv1alpha1.ExplainedMuted, TimesRecurred: 3,
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(NeedsEnrichment(&candorv1alpha1.Finding{Status: test.status})).To(Equal(test.want), whyAnyoneCares)
		})
	}
}

// ingest makes a Finding say what a report says, as the two controllers do together.
func ingest(f *candorv1alpha1.Finding, id Identity, report string, entries []Entry) {
	f.Spec = Spec(vulnerabilities, id, Report{Subject: Subject{Kind: "ReplicaSet", Name: report}, Name: report}, Evidence{Entries: entries, Worst: entries[0].Rank})
	f.Status.Fingerprint = Fingerprint(Of(f))
}

func enrich(f *candorv1alpha1.Finding) { f.Status.EnrichedFingerprint = f.Status.Fingerprint }

// Fields hold no NUL: neither a name nor what a provider takes from a report does.
func FuzzFingerprintTellsFieldsApart(f *testing.F) {
	f.Add("trivy", "team-a", "Deployment", "web", "CRITICAL", "1 CRITICAL vulnerability", uint8(0), uint8(1))
	f.Add("trivy", "", "", "web", "", "", uint8(3), uint8(3))
	f.Add("a", "b", "ab", "", "b", "a", uint8(2), uint8(2))
	f.Add("é", "界", "…", "\xff", "\u200d", "", uint8(4), uint8(1))
	f.Fuzz(func(t *testing.T, provider, namespace, kind, name, severity, summary string, field, shift uint8) {
		a := [6]string{provider, namespace, kind, name, severity, summary}
		for i := range a {
			a[i] = strings.ReplaceAll(a[i], "\x00", "")
		}
		b, from := a, int(field)%5
		cut := len(a[from]) - int(shift)%(len(a[from])+1)
		b[from], b[from+1] = a[from][:cut], a[from][cut:]+a[from+1]
		if same := Fingerprint(signalOf(a)) == Fingerprint(signalOf(b)); same != (a == b) {
			t.Errorf("%q and %q have the same fingerprint: %t", a, b, same)
		}
		b = a
		b[from], b[from+1] = a[from+1], a[from]
		if same := Fingerprint(signalOf(a)) == Fingerprint(signalOf(b)); same != (a == b) {
			t.Errorf("%q and %q have the same fingerprint: %t", a, b, same)
		}
	})
}

func signalOf(fields [6]string) Signal {
	return Signal{
		Provider: fields[0], Namespace: fields[1], Kind: fields[2], Name: fields[3],
		Severity: candorv1alpha1.Severity(fields[4]), Summary: fields[5],
	}
}
