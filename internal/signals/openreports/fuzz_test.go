// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package openreports

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

// FuzzAnyObject gives each class arbitrary JSON under its own kind.
func FuzzAnyObject(f *testing.F) {
	for _, seed := range []string{
		`{}`,
		`{"metadata":null,"scope":null,"results":null}`,
		`{"metadata":{"namespace":"team-a","name":"r"},"source":"kyverno","scope":{"kind":"Deployment","name":"web","namespace":"team-a"},
		  "results":[{"policy":"p","rule":"autogen-r","result":"fail","severity":"high","message":"m","resources":[{"kind":"Pod","name":"web-1"}]}]}`,
		`{"scope":[],"results":[{"policy":"p","resources":[null,1,{"kind":"a/b","name":".."}]},{"policy":7},null]}`,
		`{"scope":{"kind":{},"name":[]},"results":{}}`,
		`{"results":[{"source":"CANDOR","policy":"p"},{"source":"Trivy Vulnerability","policy":"p\n@\tq"}],"scope":{"kind":"Pod","name":"a"}}`,
		`{"candor":"candor/1\t\t\t\n@\tPod\tweb\tkyverno\n4\ta\tb\tc\td\te\n"}`,
		`{"candor":"candor/1\t\tno reason\t"}`,
		`{"candor":"candor/1\twhole\n","metadata":{"creationTimestamp":"2026-11-01T10:00:00Z"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var object map[string]any
		if json.Unmarshal(text, &object) != nil || object == nil {
			t.Skip()
		}
		for _, class := range classes {
			report := (&unstructured.Unstructured{Object: object}).DeepCopy()
			report.SetGroupVersionKind(class.Kind)
			readBothWays(t, class, report)
		}
	})
}

// FuzzReport gives each class a report whose fields hold any text and one of whose fields holds any value.
func FuzzReport(f *testing.F) {
	f.Add("Deployment", "web", "kyverno", "fail", "severity", `"high"`, "require-limits", uint8(3))
	f.Add("Pod", "..", "candor", "warn", "resources", `[{"kind":"Pod","name":"a"},{}]`, "@\tPod\tb\tc\n", uint8(2))
	f.Add("", "", "", "", "policy", `null`, "\x00\xff\u202e", uint8(255))
	f.Add("Job", "a", "trivy", "error", "result", `[1.5e300,{"a":null}]`, "…", uint8(200))
	f.Fuzz(func(t *testing.T, kind, name, source, outcome, key, value, text string, repeat uint8) {
		var odd any
		if json.Unmarshal([]byte(value), &odd) != nil {
			odd = value
		}
		long := strings.Repeat(text, int(repeat))
		reference := map[string]any{"kind": kind, "name": name, "namespace": source}
		var results []any
		for _, policy := range []string{text, long, name + text} {
			result := map[string]any{"policy": policy, "rule": long, "result": outcome, "severity": kind, "source": source, "message": long}
			results = append(results, result)
		}
		results[1].(map[string]any)[key] = odd
		results[2].(map[string]any)["resources"] = []any{reference, map[string]any{"kind": kind, "name": name}}
		for _, class := range classes {
			report := &unstructured.Unstructured{Object: map[string]any{"results": results, "scope": reference, "source": text}}
			report.SetGroupVersionKind(class.Kind)
			report.SetNamespace("team-a")
			report.SetName(name)
			readBothWays(t, class, report)
		}
	})
}

func readBothWays(t *testing.T, class signals.Class, report *unstructured.Unstructured) {
	t.Helper()
	slim := compaction.Slim(t, class, report)
	whole, wholeErr := class.Reports(report)
	fromMemory, err := class.Reports(slim)
	if !reflect.DeepEqual(whole, fromMemory) || !reflect.DeepEqual(wholeErr, err) {
		t.Errorf("whole: %v, %v; from memory: %v, %v", whole, wholeErr, fromMemory, err)
	}
	var drop *signals.Drop
	if err != nil && (!errors.As(err, &drop) || !slices.Contains(reasons, drop.Reason) || drop.Detail == "") {
		t.Errorf("%v is no drop reason", err)
	}
	if _, forged := report.Object[packed.Key]; forged {
		return
	}
	seen := map[signals.Subject]bool{}
	for _, one := range whole {
		if seen[one.Subject] || !signals.ValidObject(one.Subject.Kind, one.Subject.Name) || one.Subject.Namespace != report.GetNamespace() {
			t.Errorf("subject %+v is told twice, or is none", one.Subject)
		}
		seen[one.Subject] = true
		expectWithinBounds(t, one.Entries)
	}
}

func expectWithinBounds(t *testing.T, entries []signals.Entry) {
	t.Helper()
	for i, e := range entries {
		if e.ID == "" || e.Rank < signals.Unknown || e.Rank > signals.Critical || len(e.Message) > messageBytes || strings.EqualFold(e.Source, "candor") {
			t.Errorf("entry %+v is out of bounds", e)
		}
		if i > 0 && e.Rank > entries[i-1].Rank {
			t.Errorf("entry %+v is worse than the one before it", e)
		}
		for _, text := range []string{e.ID, e.Source, e.Message} {
			if len(text) > packed.FieldBytes || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
				t.Errorf("%q is too long or holds what no line may hold", text)
			}
		}
	}
}
