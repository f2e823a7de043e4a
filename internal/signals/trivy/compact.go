// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/candor-dev/candor/internal/signals"
)

// compactKey is where a compacted report keeps what is left of it, as one string: nested maps are what makes a cached report
// large. The first line is a header, each further line an entry.
const compactKey = "candor"

// compactMark starts a header, to tell it from what somebody else may have written there.
const compactMark = "candor/1"

const (
	labelKind      = "trivy-operator.resource.kind"
	labelName      = "trivy-operator.resource.name"
	labelContainer = "trivy-operator.container.name"
	annotationName = labelName
	annotationTTL  = "trivy-operator.aquasecurity.github.io/report-ttl"
)

type compacter struct {
	kind  schema.GroupVersionKind
	entry entryReader
}

// fields returns the paths of everything that compact reads, beside metadata.
func (c compacter) fields() []string {
	paths := []string{
		"report.updateTimestamp", "report.registry.server", "report.artifact.repository", "report.artifact.tag", "report.artifact.digest",
	}
	for _, field := range c.entry.fields {
		paths = append(paths, "report."+c.entry.list+"."+field)
	}
	return paths
}

// compact cuts a report down to one string. Anything but a report of this kind, and a compacted one, is returned as it is: an
// informer runs its transform on tombstones, and twice on each object.
func (c compacter) compact(object any) (any, error) {
	full, ok := object.(*unstructured.Unstructured)
	if !ok || full.GroupVersionKind() != c.kind {
		return object, nil
	}
	if _, done := compacted(full); done {
		return object, nil
	}
	slim := &unstructured.Unstructured{Object: map[string]any{compactKey: c.keep(full)}}
	slim.SetGroupVersionKind(c.kind)
	slim.SetNamespace(full.GetNamespace())
	slim.SetName(full.GetName())
	slim.SetUID(full.GetUID())
	slim.SetResourceVersion(full.GetResourceVersion())
	return slim, nil
}

// compacted returns what compact kept. An object of the API server has a creation time, and a compacted one has none, so that
// nobody can write what passes for compacted.
func compacted(report *unstructured.Unstructured) (string, bool) {
	text, ok := report.Object[compactKey].(string)
	created := report.GetCreationTimestamp()
	return text, ok && created.IsZero() && strings.HasPrefix(text, compactMark+"\t")
}

// keep returns everything that translate needs, or why the report cannot be used.
func (c compacter) keep(full *unstructured.Unstructured) string {
	head := header{created: full.GetCreationTimestamp().UTC().Format(time.RFC3339), ttl: full.GetAnnotations()[annotationTTL]}
	subject, drop := subjectOf(full)
	head.kind, head.name, head.container = subject.Kind, subject.Name, subject.Container
	report, ok := full.Object["report"].(map[string]any)
	if !ok && drop == nil {
		drop = &signals.Drop{Reason: signals.DropMalformed, Detail: "the field report is missing or not an object"}
	}
	entries, err := c.entry.readAll(report)
	if err != nil && drop == nil {
		drop = &signals.Drop{Reason: signals.DropMalformed, Detail: err.Error()}
	}
	if drop != nil {
		head.drop, head.detail = drop.Reason, drop.Detail
		return head.line()
	}
	text := func(path ...string) string { value, _, _ := unstructured.NestedString(report, path...); return value }
	head.updated, head.registry = text("updateTimestamp"), text("registry", "server")
	head.repository, head.tag, head.digest = text("artifact", "repository"), text("artifact", "tag"), text("artifact", "digest")
	return head.line() + pack(entries)
}

// header is the first line of a compacted report.
type header struct {
	kind, name, container, ttl, created, updated, registry, repository, tag, digest, drop, detail string
}

func (h *header) fields() []*string {
	return []*string{
		&h.kind, &h.name, &h.container, &h.ttl, &h.created, &h.updated, &h.registry, &h.repository, &h.tag, &h.digest, &h.drop, &h.detail,
	}
}

func (h *header) line() string {
	var b strings.Builder
	b.WriteString(compactMark)
	for _, field := range h.fields() {
		b.WriteString("\t" + clean(*field))
	}
	return b.String() + "\n"
}

// readHeader is the inverse of line; false for what line did not write.
func readHeader(line string) (header, bool) {
	var h header
	parts, fields := strings.Split(line, "\t"), h.fields()
	if len(parts) != len(fields)+1 {
		return h, false
	}
	for i, field := range fields {
		*field = parts[i+1]
	}
	return h, true
}

// pack writes entries as one string, worst first and without duplicates, so that the order of a scan means nothing.
func pack(entries []signals.Entry) string {
	slices.SortFunc(entries, func(a, b signals.Entry) int {
		return cmp.Or(cmp.Compare(b.Rank, a.Rank), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Package, b.Package),
			cmp.Compare(a.Installed, b.Installed), cmp.Compare(a.Fixed, b.Fixed), cmp.Compare(a.Message, b.Message))
	})
	entries = slices.CompactFunc(entries, func(a, b signals.Entry) bool {
		a.Message, b.Message = "", ""
		return a == b
	})
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "%d\t%s\t%s\t%s\t%s\t%s\n", e.Rank, e.ID, e.Package, e.Installed, e.Fixed, e.Message)
	}
	return b.String()
}

// unpack is the inverse of pack; false for what pack did not write. The strings it returns share the memory of lines.
func unpack(lines string) ([]signals.Entry, bool) {
	entries := make([]signals.Entry, 0, strings.Count(lines, "\n"))
	for line := range strings.Lines(lines) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 6)
		rank, err := strconv.Atoi(f[0])
		if err != nil || len(f) != 6 || rank < int(signals.Unknown) || rank > int(signals.Critical) {
			return nil, false
		}
		entries = append(entries, signals.Entry{
			Rank: signals.Rank(rank), ID: f[1], Package: f[2], Installed: f[3], Fixed: f[4], Message: f[5],
		})
	}
	return entries, true
}
