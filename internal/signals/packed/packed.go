// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package packed keeps of a report one string: nested maps are what makes a cached report large. The first line of the string
// is a header, and each entry is a line.
package packed

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/candor-dev/candor/internal/signals"
)

const (
	// Key is where a packed report keeps what is left of it.
	Key = "candor"
	// Mark starts the header, to tell it from what somebody else may have written there.
	Mark = "candor/1"
	// FieldBytes bounds each text that is taken from a report.
	FieldBytes = 512
)

// Transform returns what cuts reports of a kind down to the string that keep returns. Anything but a report of this kind, and
// a packed one, is returned as it is: an informer runs its transform on tombstones, and twice on each object.
func Transform(kind schema.GroupVersionKind, keep func(*unstructured.Unstructured) string) func(any) (any, error) {
	return func(object any) (any, error) {
		full, ok := object.(*unstructured.Unstructured)
		if !ok || full.GroupVersionKind() != kind {
			return object, nil
		}
		if _, done := Text(full); done {
			return object, nil
		}
		slim := &unstructured.Unstructured{Object: map[string]any{Key: keep(full)}}
		slim.SetGroupVersionKind(kind)
		slim.SetNamespace(full.GetNamespace())
		slim.SetName(full.GetName())
		slim.SetUID(full.GetUID())
		slim.SetResourceVersion(full.GetResourceVersion())
		return slim, nil
	}
}

// Text returns the string of a packed report. An object of the API server has a creation time, and a packed one has none, so
// that nobody can write what passes for packed.
func Text(report *unstructured.Unstructured) (string, bool) {
	text, ok := report.Object[Key].(string)
	created := report.GetCreationTimestamp()
	return text, ok && created.IsZero() && strings.HasPrefix(text, Mark+"\t")
}

// Header writes the first line.
func Header(fields ...string) string {
	var b strings.Builder
	b.WriteString(Mark)
	for _, field := range fields {
		b.WriteByte('\t')
		b.WriteString(Clean(field))
	}
	b.WriteByte('\n')
	return b.String()
}

// ReadHeader splits a packed report into the n fields of its header and the lines behind; false for what Header did not write.
func ReadHeader(text string, n int) (fields []string, lines string, ok bool) {
	first, lines, _ := strings.Cut(text, "\n")
	fields = strings.Split(first, "\t")
	if len(fields) != n+1 {
		return nil, "", false
	}
	return fields[1:], lines, true
}

// Lines writes entries, worst first and without duplicates, so that the order of a scan means nothing.
func Lines(entries []signals.Entry) string {
	var b strings.Builder
	for _, e := range signals.Sort(entries) {
		fmt.Fprintf(&b, "%d\t%s\t%s\t%s\t%s\t%s\n", e.Rank, e.ID, e.Package, e.Installed, e.Fixed, e.Message)
	}
	return b.String()
}

// Entries is the inverse of Lines; false for what Lines did not write. The strings it returns share the memory of lines.
func Entries(lines string) ([]signals.Entry, bool) {
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

// Clean bounds text of a report and makes it fit to be shown.
func Clean(text string) string { return signals.Clean(text, FieldBytes) }
