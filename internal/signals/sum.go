// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package signals

import (
	"cmp"
	"slices"
	"strings"
)

// Sort orders entries, worst first, and drops duplicates: those that differ in their messages alone. It changes what it is
// given.
func Sort(entries []Entry) []Entry {
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.Rank, a.Rank), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Package, b.Package),
			cmp.Compare(a.Installed, b.Installed), cmp.Compare(a.Fixed, b.Fixed), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(entries, func(a, b Entry) bool {
		a.Message, b.Message = "", ""
		return a == b
	})
}

// Sum returns what reports of one identity say together; there is at least one. Names of pods and ReplicaSets give way to
// that of the workload, so that it says the same after a rollout.
func Sum(id Identity, reports []Report) Report {
	sum := Report{Subject: Subject{Namespace: id.Namespace, Kind: id.Kind, Name: id.Name, Container: id.Container}}
	for _, report := range reports {
		if report.Subject == sum.Subject && (sum.Name == "" || report.Name < sum.Name) {
			sum.Name = report.Name
		}
		for _, entry := range report.Entries {
			entry.Message = Cut(strings.ReplaceAll(entry.Message, report.Subject.Name, id.Name), messageBytes)
			sum.Entries = append(sum.Entries, entry)
		}
	}
	sum.Name = cmp.Or(sum.Name, id.Name)
	sum.Entries = Sort(sum.Entries)
	return sum
}
