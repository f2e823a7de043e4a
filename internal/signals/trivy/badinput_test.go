// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/packed"
	"github.com/candor-dev/candor/test/builder"
)

// put sets a value of any type, also one that no real report has.
func put(value any, path ...string) func(*unstructured.Unstructured) {
	return func(report *unstructured.Unstructured) {
		parent := report.Object
		for _, key := range path[:len(path)-1] {
			parent = parent[key].(map[string]any)
		}
		parent[path[len(path)-1]] = value
	}
}

func remove(path ...string) func(*unstructured.Unstructured) {
	return func(report *unstructured.Unstructured) { unstructured.RemoveNestedField(report.Object, path...) }
}

func entry(change map[string]any) []any {
	e := builder.Vulnerability("CVE-2026-1", "openssl", "HIGH")
	for key, value := range change {
		e[key] = value
	}
	return []any{builder.Vulnerability("CVE-2026-0", "zlib", "LOW"), e}
}

func check(change map[string]any) []any {
	c := builder.Check("KSV014", "HIGH", false, "a message")
	for key, value := range change {
		c[key] = value
	}
	return []any{c}
}

func TestBadInputIsRejectedWithWhatIsWrong(t *testing.T) {
	audit := func(checks []any, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
		return builder.CheckReport("ConfigAuditReport", "team-a", "Service", "web", checks, change...)
	}
	const nameless = "no label trivy-operator.resource.name, no annotation of that name and no controller says which object the report speaks of"
	for name, test := range map[string]struct {
		report *unstructured.Unstructured
		want   *signals.Drop
	}{
		"no report":               {web(nil, remove("report")), malformed("the field report is missing or not an object")},
		"a report that is null":   {web(nil, put(nil, "report")), malformed("the field report is missing or not an object")},
		"a report that is a list": {web(nil, put([]any{}, "report")), malformed("the field report is missing or not an object")},
		"a report that is text":   {web(nil, put("clean", "report")), malformed("the field report is missing or not an object")},

		"no list":                          {web(nil, remove("report", "vulnerabilities")), malformed("the field report.vulnerabilities is missing or not a list")},
		"a list that is null":              {web(nil, put(nil, "report", "vulnerabilities")), malformed("the field report.vulnerabilities is missing or not a list")},
		"a list that is an object":         {web(nil, put(map[string]any{}, "report", "vulnerabilities")), malformed("the field report.vulnerabilities is missing or not a list")},
		"a list of checks under its name":  {audit(nil, put("x", "report", "checks")), malformed("the field report.checks is missing or not a list")},
		"an entry that is no object":       {web(append(entry(nil), "CVE-2026-2")), malformed("report.vulnerabilities[2] is not an object")},
		"an entry that is null":            {web([]any{nil}), malformed("report.vulnerabilities[0] is not an object")},
		"an entry without id":              {web(entry(map[string]any{"vulnerabilityID": nil})), malformed("report.vulnerabilities[1].vulnerabilityID is empty")},
		"an entry with an empty id":        {web(entry(map[string]any{"vulnerabilityID": ""})), malformed("report.vulnerabilities[1].vulnerabilityID is empty")},
		"an id of nothing visible":         {web(entry(map[string]any{"vulnerabilityID": " \u200b\x07"})), malformed("report.vulnerabilities[1].vulnerabilityID is empty")},
		"an id that is a number":           {web(entry(map[string]any{"vulnerabilityID": int64(7)})), malformed("report.vulnerabilities[1].vulnerabilityID is not a string")},
		"a severity that is a number":      {web(entry(map[string]any{"severity": 9.8})), malformed("report.vulnerabilities[1].severity is not a string")},
		"a package that is an object":      {web(entry(map[string]any{"resource": map[string]any{}})), malformed("report.vulnerabilities[1].resource is not a string")},
		"an installed version of a number": {web(entry(map[string]any{"installedVersion": 1.0})), malformed("report.vulnerabilities[1].installedVersion is not a string")},
		"a fixed version that is a list":   {web(entry(map[string]any{"fixedVersion": []any{"1"}})), malformed("report.vulnerabilities[1].fixedVersion is not a string")},
		"a check without id":               {audit(check(map[string]any{"checkID": nil})), malformed("report.checks[0].checkID is empty")},
		"a check whose success is a word":  {audit(check(map[string]any{"success": "false"})), malformed("report.checks[0].success is not a boolean")},
		"a passed check that is malformed": {audit(check(map[string]any{"success": true, "checkID": nil})), malformed("report.checks[0].checkID is empty")},
		"a title that is a number":         {audit(check(map[string]any{"messages": nil, "title": int64(1)})), malformed("report.checks[0].title is not a string")},

		"a name that is too long": {
			builder.VulnerabilityReport("team-a", "ReplicaSet", strings.Repeat("x", 254), "c", []any{}, builder.HashNamed),
			malformed("the resource's kind has 10 and its name 254 characters; the most are 63 and 253"),
		},
		"a kind that is too long": {
			web([]any{}, put(strings.Repeat("K", 64), "metadata", "labels", "trivy-operator.resource.kind")),
			malformed("the resource's kind has 64 and its name 13 characters; the most are 63 and 253"),
		},
		"no name anywhere": {web(nil, builder.HashNamed, unannotate, disown), &signals.Drop{Reason: signals.DropNoResourceName, Detail: nameless}},
		"no kind anywhere": {
			web(nil, remove("metadata", "labels", "trivy-operator.resource.kind"), disown), &signals.Drop{Reason: signals.DropNoResourceName, Detail: nameless},
		},
		"metadata that is text": {
			web(nil, put("text", "metadata")), &signals.Drop{Reason: signals.DropNoResourceName, Detail: nameless},
		},
		"an owner that is no controller": {
			web(nil, unlabel, put([]any{map[string]any{"kind": "ReplicaSet", "name": "web"}}, "metadata", "ownerReferences")),
			&signals.Drop{Reason: signals.DropNoResourceName, Detail: nameless},
		},
	} {
		t.Run(name, func(t *testing.T) {
			expectDropped(t, test.report, test.want)
		})
	}
}

func TestWhatLooksCompactedAndIsNotIsRejected(t *testing.T) {
	head := packed.Mark + "\tReplicaSet\tweb\tnginx" + strings.Repeat("\t", 9) + "\n"
	for name, value := range map[string]string{
		"a header alone":         packed.Mark + "\t",
		"a header cut short":     packed.Mark + "\tReplicaSet\tweb\n",
		"a header of many words": packed.Mark + strings.Repeat("\tweb", 20) + "\n",
		"an empty line":          head + "\n",
		"a line of words":        head + "no line\n",
		"a line cut short":       head + "4\tCVE-1\tp\t1\t2\n",
		"a rank too high":        head + "5\ta\tb\tc\td\te\n",
		"a rank too low":         head + "-1\ta\tb\tc\td\te\n",
	} {
		t.Run(name, func(t *testing.T) {
			expectDropped(t, web(nil, put(value, packed.Key)), malformed("this is no VulnerabilityReport"))
		})
	}
}

func TestAFieldThatOnlyHasTheNameOfOursIsIgnored(t *testing.T) {
	for name, value := range map[string]any{"text": "clean", "nothing": nil, "an object": map[string]any{}, "a number": int64(4)} {
		t.Run(name, func(t *testing.T) {
			report, err := read(Vulnerabilities(), web(builder.Vulnerabilities(2, "HIGH"), put(value, packed.Key)))
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(report.Entries).To(HaveLen(2))
		})
	}
}

func malformed(detail string) *signals.Drop {
	return &signals.Drop{Reason: signals.DropMalformed, Detail: detail}
}

// expectDropped reads a report as it is, and as it is kept in memory.
func expectDropped(t *testing.T, report *unstructured.Unstructured, want *signals.Drop) {
	t.Helper()
	class := classOf(report)
	_, err := read(class, report)
	NewWithT(t).Expect(err).To(BeComparableTo(want))
	_, err = read(class, compact(t, class, report).(*unstructured.Unstructured))
	NewWithT(t).Expect(err).To(BeComparableTo(want), "from memory")
}

func TestAReportOfAnotherKindIsNotTakenForAnEmptyOne(t *testing.T) {
	_, err := read(Vulnerabilities(), builder.CheckReport("ConfigAuditReport", "team-a", "Service", "web", []any{}))
	NewWithT(t).Expect(err).To(HaveOccurred())
}

func TestWhatIsOddAndHarmlessIsRead(t *testing.T) {
	for name, report := range map[string]*unstructured.Unstructured{
		"metadata of wrong types beside the labels": web(entry(nil), put("a week", "metadata", "generation"), put(true, "metadata", "creationTimestamp")),
		"owners that are no list":                   web(entry(nil), put("web", "metadata", "ownerReferences")),
		"annotations that are no strings":           web(entry(nil), put(map[string]any{"a": int64(1)}, "metadata", "annotations")),
		"an artifact that is text":                  web(entry(nil), put("nginx", "report", "artifact")),
		"a registry that is null":                   web(entry(nil), put(nil, "report", "registry")),
		"no time":                                   web(entry(nil), remove("report", "updateTimestamp")),
		"a time that is none":                       web(entry(nil), put("yesterday", "report", "updateTimestamp")),
		"a severity that nobody knows":              web(entry(map[string]any{"severity": "NEGLIGIBLE"})),
		"an entry without versions":                 web(entry(map[string]any{"installedVersion": nil, "fixedVersion": nil})),
		"scores and links of wrong types":           web(entry(map[string]any{"score": "high", "links": int64(3), "title": []any{}})),
	} {
		t.Run(name, func(t *testing.T) {
			translated, err := read(Vulnerabilities(), report)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(translated.Subject).To(Equal(signals.Subject{Namespace: "team-a", Kind: "ReplicaSet", Name: "web-7d9f8c6b5", Container: "nginx"}))
			NewWithT(t).Expect(translated.Entries).To(HaveLen(2))
		})
	}
}

func TestAReportOfFiveThousandEntriesIsReadWhole(t *testing.T) {
	report, err := read(Vulnerabilities(), web(builder.Vulnerabilities(5000, "CRITICAL")))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(report.Entries).To(HaveLen(5000))
	NewWithT(t).Expect(report.Entries[4999].ID).To(Equal(fmt.Sprintf("CVE-2026-%05d", 4999)))
}
