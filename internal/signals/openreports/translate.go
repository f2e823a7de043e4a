// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package openreports

import (
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/packed"
)

// sectionMark starts the line that names a section; those of entries start with a digit.
const sectionMark = "@"

// reader reads the reports of one kind.
type reader struct{ kind schema.GroupVersionKind }

// read returns the sections of a report, compacted or whole. dropped is why the report, if whole is true, or something in it
// cannot be used.
func (r reader) read(object *unstructured.Unstructured) (sections string, whole bool, dropped error) {
	text, ok := packed.Text(object)
	if !ok && object.GroupVersionKind() == r.kind {
		text = r.keep(object)
	}
	head, sections, ok := packed.ReadHeader(text, 3)
	if !ok || !written(head[1], head[2]) {
		return "", true, &signals.Drop{Reason: signals.DropMalformed, Detail: "this is no " + r.kind.Kind}
	}
	if head[1] != "" {
		dropped = &signals.Drop{Reason: head[1], Detail: head[2]}
	}
	return sections, head[0] != "", dropped
}

// written tells what keep says of a report from what somebody else may have written in its place.
func written(reason, detail string) bool {
	if reason == "" {
		return detail == ""
	}
	return detail != "" && slices.Contains(reasons, reason)
}

func (r reader) subjects(object *unstructured.Unstructured) ([]signals.Subject, error) {
	sections, _, dropped := r.read(object)
	var subjects []signals.Subject
	for s := range each(sections) {
		subject := signals.Subject{Namespace: object.GetNamespace(), Kind: s.kind, Name: s.name}
		if len(subjects) == 0 || subjects[len(subjects)-1] != subject {
			subjects = append(subjects, subject)
		}
	}
	return subjects, dropped
}

// translate reads the sections of one object, which stand side by side.
func (r reader) translate(object *unstructured.Unstructured, subject signals.Subject) (signals.Report, error) {
	sections, whole, dropped := r.read(object)
	if whole {
		return signals.Report{}, dropped
	}
	report := signals.Report{Subject: subject, Name: object.GetName()}
	for s, lines := range each(from(sections, subject)) {
		if s.kind != subject.Kind || s.name != subject.Name {
			break
		}
		entries, ok := packed.Entries(lines)
		if !ok {
			return signals.Report{}, &signals.Drop{Reason: signals.DropMalformed, Detail: "this is no " + r.kind.Kind}
		}
		for i := range entries {
			entries[i].Source = s.source
		}
		report.Entries = append(report.Entries, entries...)
	}
	report.Entries = signals.Sort(slices.Clip(report.Entries))
	return report, nil
}

// from returns the sections from the first one of a subject on.
func from(sections string, subject signals.Subject) string {
	first := sectionMark + "\t" + subject.Kind + "\t" + subject.Name + "\t"
	if strings.HasPrefix(sections, first) {
		return sections
	}
	if at := strings.Index(sections, "\n"+first); at >= 0 {
		return sections[at+1:]
	}
	return ""
}

// each returns the sections of a compacted report with the lines of their entries.
func each(sections string) iter.Seq2[section, string] {
	return func(yield func(section, string) bool) {
		for sections != "" {
			line, rest, _ := strings.Cut(sections, "\n")
			f := strings.Split(line, "\t")
			if len(f) != 4 || f[0] != sectionMark {
				return
			}
			lines := rest
			if strings.HasPrefix(rest, sectionMark) {
				lines = ""
			} else if end := strings.Index(rest, "\n"+sectionMark); end >= 0 {
				lines = rest[:end+1]
			}
			if !yield(section{kind: f[1], name: f[2], source: f[3]}, lines) {
				return
			}
			sections = rest[len(lines):]
		}
	}
}
