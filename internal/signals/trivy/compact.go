// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/candor-dev/candor/internal/signals"
)

// Where a compacted report keeps what is left of "report". All values are strings, since nested maps are what makes a
// cached report large.
const (
	compactKey  = "candor"
	keyLines    = "lines"
	keyUpdated  = "updated"
	keyProblem  = "problem"
	keyRegistry = "registry"
	keyRepo     = "repository"
	keyTag      = "tag"
	keyDigest   = "digest"
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

// compact cuts a report down to one string of lines and what tells its subject. Anything but a report of this kind, and a
// compacted one, is returned as it is: an informer runs its transform on tombstones, and twice on each object.
func (c compacter) compact(object any) (any, error) {
	full, ok := object.(*unstructured.Unstructured)
	if !ok || full.GroupVersionKind() != c.kind {
		return object, nil
	}
	if _, done := full.Object[compactKey]; done {
		return object, nil
	}
	slim := &unstructured.Unstructured{Object: map[string]any{compactKey: c.body(full)}}
	slim.SetGroupVersionKind(c.kind)
	copyMetadata(slim, full)
	return slim, nil
}

func copyMetadata(slim, full *unstructured.Unstructured) {
	slim.SetNamespace(full.GetNamespace())
	slim.SetName(full.GetName())
	slim.SetUID(full.GetUID())
	slim.SetResourceVersion(full.GetResourceVersion())
	slim.SetGeneration(full.GetGeneration())
	slim.SetCreationTimestamp(full.GetCreationTimestamp())
	slim.SetDeletionTimestamp(full.GetDeletionTimestamp())
	slim.SetLabels(pick(full.GetLabels(), labelKind, labelName, labelContainer))
	slim.SetAnnotations(pick(full.GetAnnotations(), annotationName, annotationTTL))
	if owner := metav1.GetControllerOfNoCopy(full); owner != nil {
		slim.SetOwnerReferences([]metav1.OwnerReference{*owner})
	}
}

func pick(all map[string]string, keys ...string) map[string]string {
	picked := map[string]string{}
	for _, key := range keys {
		if value, ok := all[key]; ok {
			picked[key] = strings.Clone(value)
		}
	}
	return picked
}

// body returns the compacted report, or what is wrong with it.
func (c compacter) body(full *unstructured.Unstructured) map[string]any {
	report, ok := full.Object["report"].(map[string]any)
	if !ok {
		return map[string]any{keyProblem: "the field report is missing or not an object"}
	}
	entries, err := c.entry.readAll(report)
	if err != nil {
		return map[string]any{keyProblem: err.Error()}
	}
	body := map[string]any{keyLines: pack(entries)}
	keep := func(key string, path ...string) {
		if value, _, err := unstructured.NestedString(report, path...); err == nil && value != "" {
			body[key] = clean(value)
		}
	}
	keep(keyUpdated, "updateTimestamp")
	keep(keyRegistry, "registry", "server")
	keep(keyRepo, "artifact", "repository")
	keep(keyTag, "artifact", "tag")
	keep(keyDigest, "artifact", "digest")
	return body
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
