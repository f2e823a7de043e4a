// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/candor-dev/candor/test/builder"
)

// scan is one scan of everything. Another scan of the same content differs in all that is not content.
type scan struct {
	number int
	at     time.Time
}

// reports returns what the scan says of a workload, a report for each container.
func (s scan) reports(w *workload) ([]*unstructured.Unstructured, error) {
	kind, name := w.subject()
	var reports []*unstructured.Unstructured
	for _, c := range w.Containers {
		entries, counts, err := s.entries(c.Vulnerabilities)
		if err != nil {
			return nil, fmt.Errorf("%s/%s/%s: %w", w.Namespace, w.Name, c.Name, err)
		}
		report := builder.VulnerabilityReport(w.Namespace, kind, name, c.Name, entries, builder.UpdatedAt(s.at))
		server, repository, _ := strings.Cut(c.Image, "/")
		family, version, _ := strings.Cut(c.OS, " ")
		body := report.Object["report"].(map[string]any)
		body["artifact"] = map[string]any{
			"repository": repository, "tag": c.Tag, "digest": fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(c.Image+":"+c.Tag))),
		}
		body["registry"] = map[string]any{"server": server}
		body["os"] = map[string]any{"family": family, "name": version}
		body["summary"] = counts
		reports = append(reports, report)
	}
	return reports, nil
}

// entries reads the lines of the data. Every other scan lists them from the last to the first, with scores of its own.
func (s scan) entries(lines string) ([]any, map[string]any, error) {
	entries := []any{}
	counts := map[string]any{"criticalCount": int64(0), "highCount": int64(0), "mediumCount": int64(0), "lowCount": int64(0), "unknownCount": int64(0)}
	for line := range strings.Lines(lines) {
		f := strings.SplitN(strings.TrimSpace(line), " ", 7)
		if len(f) != 7 {
			return nil, nil, fmt.Errorf("the line %q has %d fields, want 7", line, len(f))
		}
		score, err := strconv.ParseFloat(f[5], 64)
		if err != nil {
			return nil, nil, fmt.Errorf("the score of %s: %w", f[1], err)
		}
		entry := builder.Vulnerability(f[1], f[2], f[0])
		entry["installedVersion"], entry["fixedVersion"], entry["title"] = f[3], strings.TrimPrefix(f[4], "-"), f[6]
		entry["score"] = max(0, score-float64(s.number)/10)
		entries = append(entries, entry)
		key := strings.ToLower(f[0]) + "Count"
		counts[key] = counts[key].(int64) + 1
	}
	if s.number%2 == 0 {
		slices.Reverse(entries)
	}
	return entries, counts, nil
}

// checks returns what the scan says of the configuration of an object. w is nil for what is no workload.
func (s scan) checks(c checked, w *workload) *unstructured.Unstructured {
	kind, name := c.Kind, c.Name
	if w != nil {
		kind, name = w.subject()
	}
	checks := []any{}
	for _, each := range c.Checks {
		checks = append(checks, builder.Check(each.ID, each.Severity, each.Success, strings.ReplaceAll(each.Message, "{name}", name)))
		checks[len(checks)-1].(map[string]any)["title"] = each.Title
	}
	if s.number%2 == 0 {
		slices.Reverse(checks)
	}
	return builder.CheckReport(c.Report, c.Namespace, kind, name, checks, builder.UpdatedAt(s.at))
}

// marker is a report of a scanner's own Job, which Candor counts and drops: once it is counted, everything that came before
// it has been heard.
func marker(reportKind string, number int) *unstructured.Unstructured {
	name := fmt.Sprintf("scan-vulnerabilityreport-demo%d", number)
	if reportKind == "VulnerabilityReport" {
		return builder.VulnerabilityReport("kube-system", "Job", name, "scanner", []any{})
	}
	return builder.CheckReport(reportKind, "kube-system", "Job", name, []any{})
}

func hash(parts ...string) uint32 {
	h := fnv.New32a()
	for _, part := range parts {
		fmt.Fprintf(h, "%s\x00", part)
	}
	return h.Sum32()
}
