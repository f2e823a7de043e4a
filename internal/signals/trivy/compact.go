// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/packed"
)

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

// keep returns everything that subjects and translate need, or why the report cannot be used.
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
	return head.line() + packed.Lines(entries)
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
	fields := h.fields()
	values := make([]string, len(fields))
	for i, field := range fields {
		values[i] = *field
	}
	return packed.Header(values...)
}

// readHeader is the inverse of line, and returns the lines behind it; false for what line did not write.
func readHeader(text string) (head header, lines string, ok bool) {
	fields := head.fields()
	values, lines, ok := packed.ReadHeader(text, len(fields))
	for i, value := range values {
		*fields[i] = value
	}
	return head, lines, ok
}
