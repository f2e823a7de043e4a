// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package signals

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// namedIDs is how many of the worst identifiers a summary names.
const namedIDs = 3

// Spec returns what a Finding of this identity says about evidence in a report.
func Spec(class Class, id Identity, report Report, evidence Evidence) candorv1alpha1.FindingSpec {
	refName := report.Name
	if report.Subject.Kind != id.Kind || report.Subject.Name != id.Name {
		refName = id.Name
	}
	hash := evidence.Digest()
	spec := candorv1alpha1.FindingSpec{
		Source: candorv1alpha1.Source{
			Provider: id.Provider, Kind: id.Kind, Name: id.Name, Container: id.Container,
			RefKind: class.Kind.Kind, RefName: refName,
		},
		Severity: evidence.Worst.Severity(),
		Summary:  cmp.Or(report.Summary, summary(class, report.Artifact.Repository, id.Container, evidence, hash)),
		Observed: candorv1alpha1.ObservedPresent,
		Evidence: &candorv1alpha1.Evidence{
			Digest: hash, Total: int32(len(evidence.Entries)), Fixable: evidence.Fixable(), BySeverity: evidence.Counts(),
			Artifact: report.Artifact,
		},
	}
	spec.Evidence.Top = evidence.top(report.Subject.Name, id.Name, specBytes-jsonBytes(spec))
	return spec
}

// jsonBytes returns what a spec takes as JSON, which escapes some characters with six bytes.
func jsonBytes(spec candorv1alpha1.FindingSpec) int {
	text, _ := json.Marshal(spec)
	return len(text)
}

// summary is a pure function of what the evidence is, so that the fingerprint changes exactly when the evidence does.
func summary(class Class, repository, container string, evidence Evidence, hash string) string {
	var b strings.Builder
	noun := class.Many
	if len(evidence.Entries) == 1 {
		noun = class.One
	}
	fmt.Fprintf(&b, "%s %s", spoken(evidence.Counts(), strings.ToUpper), noun)
	if repository != "" {
		fmt.Fprintf(&b, " in %s", Cut(repository, 256))
	}
	if container != "" {
		fmt.Fprintf(&b, " (container %s)", container)
	}
	if n := evidence.Fixable(); n > 0 {
		fmt.Fprintf(&b, ", %d fixable", n)
	}
	ids := distinctIDs(evidence.Entries)
	fmt.Fprintf(&b, ": %s", strings.Join(ids[:min(namedIDs, len(ids))], ", "))
	if more := len(ids) - namedIDs; more > 0 {
		fmt.Fprintf(&b, " and %d more ids", more)
	}
	fmt.Fprintf(&b, " [evidence %s]", hash[:16])
	return b.String()
}

// distinctIDs returns the identifiers of entries, worst first and each once: one vulnerability may be in several packages.
func distinctIDs(entries []Entry) []string {
	var ids []string
	seen := map[string]bool{}
	for _, entry := range entries {
		if !seen[entry.ID] {
			seen[entry.ID] = true
			ids = append(ids, Cut(entry.ID, 64))
		}
	}
	return ids
}

// Brief returns the counts of a Finding's evidence for a listing, such as "2 critical, 3 high".
func Brief(evidence *candorv1alpha1.Evidence) string {
	if evidence == nil {
		return ""
	}
	return spoken(evidence.BySeverity, strings.ToLower)
}

func spoken(counts candorv1alpha1.SeverityCounts, style func(string) string) string {
	var parts []string
	for _, level := range []struct {
		rank  Rank
		count int32
	}{{Critical, counts.Critical}, {High, counts.High}, {Medium, counts.Medium}, {Low, counts.Low}, {Unknown, counts.Unknown}} {
		if level.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", level.count, style(level.rank.String())))
		}
	}
	return strings.Join(parts, ", ")
}
