// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/packed"
	"github.com/candor-dev/candor/test/compaction"
)

var seeds = []string{
	`{}`,
	`{"metadata":null,"report":null}`,
	`{"metadata":{"namespace":"team-a","name":"r","labels":{"trivy-operator.resource.kind":"ReplicaSet","trivy-operator.resource.name":"web-7d9f","trivy-operator.container.name":"nginx"}},
	  "report":{"artifact":{"repository":"library/nginx","tag":"1","digest":"sha256:a"},"registry":{"server":"docker.io"},"updateTimestamp":"2026-11-01T10:00:00Z",
	  "vulnerabilities":[{"vulnerabilityID":"CVE-1","resource":"p","installedVersion":"1","fixedVersion":"2","severity":"HIGH","score":7.5}],
	  "checks":[{"checkID":"KSV014","severity":"LOW","success":false,"messages":["m"]}]}}`,
	`{"metadata":{"name":"r","annotations":{"trivy-operator.resource.name":"system:a"},"labels":{"trivy-operator.resource.kind":"Role"}},"report":{"checks":[{"checkID":"a\tb\nc","title":"\u202e"}]}}`,
	`{"metadata":{"ownerReferences":[{"kind":"Job","name":"scan-vulnerabilityreport-1","controller":true},1,null]},"report":{"vulnerabilities":[{}],"checks":[1]}}`,
	`{"metadata":{"ownerReferences":{"kind":"Job"},"labels":{"a":1},"generation":"x","creationTimestamp":5},"report":{"vulnerabilities":{},"checks":"x"}}`,
	`{"candor":{"lines":"4\ta\tb\tc\td\te\n"},"metadata":{"name":"r","labels":{"trivy-operator.resource.kind":"Role","trivy-operator.resource.name":"x"}}}`,
	`{"candor":{"lines":"\n"},"metadata":{"name":"r","labels":{"trivy-operator.resource.kind":"Role","trivy-operator.resource.name":"x"}}}`,
	`{"candor":{"lines":"9\ta\tb\tc\td\te","problem":3},"metadata":{"labels":{"trivy-operator.resource.kind":"Role","trivy-operator.resource.name":"x"}}}`,
	`{"candor":5,"metadata":{"labels":{"trivy-operator.resource.kind":"Role","trivy-operator.resource.name":"x"}}}`,
}

// FuzzAnyObject gives each class arbitrary JSON under its own kind.
func FuzzAnyObject(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var object map[string]any
		if json.Unmarshal(text, &object) != nil || object == nil {
			t.Skip()
		}
		for _, class := range classes {
			report := &unstructured.Unstructured{Object: object}
			report = report.DeepCopy()
			report.SetGroupVersionKind(class.Kind)
			translateBothWays(t, class, report)
		}
	})
}

// FuzzReport gives each class a report whose fields hold any text and whose entries hold any value.
func FuzzReport(f *testing.F) {
	f.Add("ReplicaSet", "web-7d9f8c6b5", "nginx", "0s", "severity", `"HIGH"`, "CVE-2026-1", uint8(3))
	f.Add("Role", "", "", "", "checkID", `7`, "system::leader\tlocking\n", uint8(1))
	f.Add("Job", "scan-vulnerabilityreport-1", "\x1b[31m", "24h", "messages", `["\u2028", 1]`, "\u202e\x00\xff", uint8(255))
	f.Add("", "", "", "", "success", `"true"`, "", uint8(0))
	f.Add("Pod", "a", "b", "c", "vulnerabilityID", `{"a":[null,1.5e300,-1]}`, "…", uint8(2))
	f.Fuzz(func(t *testing.T, kind, name, container, ttl, key, value, text string, repeat uint8) {
		var odd any
		if json.Unmarshal([]byte(value), &odd) != nil {
			odd = value
		}
		long := strings.Repeat(text, int(repeat))
		var entries []any
		for _, id := range []string{text, long, name + text, text} {
			e := map[string]any{"vulnerabilityID": id, "checkID": id, "ruleID": id, "target": long, "match": long, "resource": long, "installedVersion": container, "fixedVersion": ttl, "severity": kind, "title": long}
			e[key] = odd
			entries = append(entries, e)
		}
		for _, class := range classes {
			report := &unstructured.Unstructured{Object: map[string]any{"report": map[string]any{
				"vulnerabilities": entries, "checks": entries, "secrets": entries, "updateTimestamp": text,
				"artifact": map[string]any{"repository": long, "tag": long, "digest": odd}, "registry": map[string]any{"server": long},
			}}}
			report.SetGroupVersionKind(class.Kind)
			report.SetNamespace("team-a")
			report.SetName(name)
			report.SetLabels(map[string]string{labelKind: kind, labelName: name, labelContainer: container})
			report.SetAnnotations(map[string]string{annotationName: long, annotationTTL: ttl})
			translateBothWays(t, class, report)
		}
	})
}

func translateBothWays(t *testing.T, class signals.Class, report *unstructured.Unstructured) {
	t.Helper()
	slim := compaction.Slim(t, class, report)
	whole, wholeErr := read(class, report)
	fromMemory, err := read(class, slim)
	if !reflect.DeepEqual(whole, fromMemory) || !reflect.DeepEqual(wholeErr, err) {
		t.Errorf("whole: %v, %v; from memory: %v, %v", whole, wholeErr, fromMemory, err)
	}
	var drop *signals.Drop
	switch {
	case errors.As(err, &drop) && drop.Reason != "" && drop.Detail != "":
	case err != nil:
		t.Errorf("%v is no drop reason", err)
	default:
		if _, forged := report.Object[packed.Key]; !forged {
			expectWithinBounds(t, whole)
		}
	}
}

// expectWithinBounds checks what the code behind a provider relies on.
func expectWithinBounds(t *testing.T, report signals.Report) {
	t.Helper()
	s, a := report.Subject, report.Artifact
	if s.Kind == "" || len(s.Kind) > signals.MaxKind || s.Name == "" || len(s.Name) > signals.MaxName {
		t.Errorf("subject %+v is out of bounds", s)
	}
	if len(a.Registry) > 256 || len(a.Repository) > 256 || len(a.Tag) > 128 || len(a.Digest) > 160 {
		t.Errorf("artifact %+v is out of bounds", a)
	}
	texts := []string{a.Registry, a.Repository, a.Tag, a.Digest}
	for i, e := range report.Entries {
		texts = append(texts, e.ID, e.Package, e.Installed, e.Fixed, e.Message)
		if e.ID == "" || e.Rank < signals.Unknown || e.Rank > signals.Critical {
			t.Errorf("entry %+v has no id or no severity", e)
		}
		if i > 0 && e.Rank > report.Entries[i-1].Rank {
			t.Errorf("entry %+v is worse than the one before it", e)
		}
	}
	for _, text := range texts {
		if len(text) > packed.FieldBytes || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("%q is too long or holds what no line may hold", text)
		}
	}
	unique := slices.Clone(report.Entries)
	for i := range unique {
		unique[i].Message = ""
	}
	if unique = slices.Compact(unique); len(unique) != len(report.Entries) {
		t.Errorf("%d of %d entries are duplicates", len(report.Entries)-len(unique), len(report.Entries))
	}
}
