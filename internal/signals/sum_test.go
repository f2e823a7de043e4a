// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package signals

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestAShortNameOfAPodMakesNoLongMessage(t *testing.T) {
	id := Identity{Provider: "openreports", Namespace: "team-a", Kind: "Deployment", Name: strings.Repeat("w", MaxName)}
	pod := Report{Subject: Subject{Namespace: "team-a", Kind: "Pod", Name: "e"}, Entries: []Entry{{ID: "a", Message: strings.Repeat("e", 256)}}}
	NewWithT(t).Expect(len(Sum(id, []Report{pod}).Entries[0].Message)).To(BeNumerically("<=", 256))
}

func TestReportsOfOneWorkloadAddUp(t *testing.T) {
	id := Identity{Provider: "openreports", Namespace: "team-a", Kind: "Deployment", Name: "web"}
	report := func(kind, name, own string, entries ...Entry) Report {
		return Report{Subject: Subject{Namespace: "team-a", Kind: kind, Name: name}, Name: own, Entries: entries}
	}
	rule := func(rank Rank, id, source, message string) Entry {
		return Entry{Rank: rank, ID: id, Source: source, Message: message}
	}
	sum := func(name string, entries ...Entry) Report {
		return Report{Subject: Subject{Namespace: "team-a", Kind: "Deployment", Name: "web"}, Name: name, Entries: entries}
	}
	for name, test := range map[string]struct {
		reports []Report
		want    Report
	}{
		"one of the workload itself": {
			[]Report{report("Deployment", "web", "r-1", rule(High, "a", "kyverno", "web has no limits"))},
			sum("r-1", rule(High, "a", "kyverno", "web has no limits")),
		},
		"one of a pod alone, whose name would not last": {
			[]Report{report("Pod", "web-1-x", "r-1", rule(High, "a", "kyverno", "pod web-1-x has no limits"))},
			sum("web", rule(High, "a", "kyverno", "pod web has no limits")),
		},
		"those of the workload, its ReplicaSet and its pods": {
			[]Report{
				report("Pod", "web-1-x", "a", rule(High, "a", "kyverno", "web-1-x")), report("Pod", "web-1-y", "b", rule(High, "a", "kyverno", "web-1-y")),
				report("ReplicaSet", "web-1", "c", rule(High, "a", "kyverno", "")), report("Deployment", "web", "r-1", rule(Low, "b", "kyverno", "")),
			},
			sum("r-1", rule(High, "a", "kyverno", ""), rule(Low, "b", "kyverno", "")),
		},
		"those of two tools, which may have rules of one name": {
			[]Report{report("Deployment", "web", "r-2", rule(Low, "a", "kyverno", "")), report("Deployment", "web", "r-1", rule(Critical, "a", "falco", ""), rule(Low, "a", "falco", ""))},
			sum("r-1", rule(Critical, "a", "falco", ""), rule(Low, "a", "falco", ""), rule(Low, "a", "kyverno", "")),
		},
		"those that find nothing": {[]Report{report("Deployment", "web", "r-1"), report("Pod", "web-1-x", "r-2")}, sum("r-1")},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(Sum(id, test.reports)).To(BeComparableTo(test.want))
			for i, j := 0, len(test.reports)-1; i < j; i, j = i+1, j-1 {
				test.reports[i], test.reports[j] = test.reports[j], test.reports[i]
			}
			g.Expect(Sum(id, test.reports)).To(BeComparableTo(test.want), "in another order")
		})
	}
}
