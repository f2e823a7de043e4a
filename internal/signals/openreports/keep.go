// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package openreports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/packed"
)

const (
	// maxSections bounds what one report speaks of: each section may become a Finding.
	maxSections = 1000
	// maxBytes bounds what is kept of one report. A result is kept for each object that it names, so that a small report of many
	// objects may become a large one.
	maxBytes = 4 << 20
)

// reasons are all that a report, or something in it, may be left out for.
var reasons = []string{
	signals.DropMalformed, signals.DropNoResourceName, signals.DropOtherNamespace, signals.DropTooManyResources, signals.DropOwnReport,
}

// section is what one tool says of one object.
type section struct{ kind, name, source string }

// keeper gathers what is left of a report.
type keeper struct {
	namespace, source string
	scope             any
	sections          map[section][]signals.Entry
	// drop is why something is left out, nil where nothing is. It is the first reason of several.
	drop *signals.Drop
}

// keep returns everything that subjects and translate need: a header, and for each section its name and its entries.
func (r reader) keep(full *unstructured.Unstructured) string {
	k := keeper{namespace: full.GetNamespace(), scope: full.Object["scope"], sections: map[section][]signals.Entry{}}
	err := k.read(full.Object)
	whole := ""
	switch {
	case err != nil:
		// Half a list would look like a workload half as bad. What it spoke of is told where that is not in the list.
		whole, k.drop, k.sections = "whole", &signals.Drop{Reason: signals.DropMalformed, Detail: err.Error()}, map[section][]signals.Entry{}
		k.add("", nil, nil)
	case len(k.sections) > maxSections:
		whole, k.sections = "whole", nil
		k.drop = &signals.Drop{Reason: signals.DropTooManyResources, Detail: fmt.Sprintf("it speaks of more than %d resources", maxSections)}
	}
	sections, fits := k.lines()
	if !fits {
		whole, sections = "whole", ""
		k.drop = &signals.Drop{Reason: signals.DropTooManyResources, Detail: fmt.Sprintf("what it says of %d resources takes more than %d MiB", len(k.sections), maxBytes>>20)}
	}
	if k.drop == nil {
		k.drop = &signals.Drop{}
	}
	return packed.Header(whole, k.drop.Reason, k.drop.Detail) + sections
}

// lines writes the sections; false when they take more than may be kept.
func (k *keeper) lines() (string, bool) {
	var b strings.Builder
	for _, s := range sorted(k.sections) {
		b.WriteString(strings.Join([]string{sectionMark, s.kind, s.name, s.source}, "\t") + "\n")
		b.WriteString(packed.Lines(k.sections[s]))
		if b.Len() > maxBytes {
			return "", false
		}
	}
	return b.String(), true
}

// read fills the sections. Its error says that the report does not have the shape of its kind.
func (k *keeper) read(report map[string]any) error {
	f := packed.NewItem(report)
	k.source = f.Text("source")
	results := f.List("results")
	if problem := f.Problem(); problem != "" {
		return fmt.Errorf("the field %s", problem)
	}
	for i, item := range results {
		r, err := readResult(item, k.source)
		if err != nil {
			return fmt.Errorf("results[%d]%w", i, err)
		}
		if isOwn(r.source) {
			k.leaveOut(signals.DropOwnReport, "a result says that its source is Candor")
			continue
		}
		var entries []signals.Entry
		if r.failed {
			entries = []signals.Entry{r.entry}
		}
		if !k.add(r.source, r.objects, entries) {
			k.leaveOut(signals.DropNoResourceName, fmt.Sprintf("results[%d] names no resource, and the report has no scope", i))
		}
	}
	if len(results) == 0 && !isOwn(k.source) && !k.add(k.source, nil, nil) {
		k.leaveOut(signals.DropNoResourceName, "the report has neither results nor a scope")
	}
	return nil
}

// add puts entries into the sections of objects, else into that of the report's scope. It returns false where neither names
// anything.
func (k *keeper) add(source string, objects []any, entries []signals.Entry) bool {
	if len(objects) == 0 {
		if k.scope == nil {
			return false
		}
		objects = []any{k.scope}
	}
	for _, each := range objects {
		object, ok := each.(map[string]any)
		if !ok {
			k.leaveOut(signals.DropMalformed, "a resource is not an object")
			continue
		}
		f := packed.NewItem(object)
		kind, name, namespace := f.Text("kind"), f.Text("name"), f.Text("namespace")
		switch {
		case f.Problem() != "":
			k.leaveOut(signals.DropMalformed, "of a resource, "+f.Problem())
		case kind == "" || name == "":
			k.leaveOut(signals.DropNoResourceName, "a resource has no kind or no name")
		case !signals.ValidObject(kind, name):
			k.leaveOut(signals.DropMalformed, fmt.Sprintf("%q of kind %q can be no object", name, kind))
		case namespace != "" && namespace != k.namespace:
			k.leaveOut(signals.DropOtherNamespace, fmt.Sprintf("%s %s is in the namespace %s", kind, name, namespace))
		default:
			s := section{kind: kind, name: name, source: source}
			k.sections[s] = append(k.sections[s], entries...)
		}
	}
	return true
}

func (k *keeper) leaveOut(reason, detail string) {
	if k.drop == nil {
		k.drop = &signals.Drop{Reason: reason, Detail: detail}
	}
}

func sorted(sections map[section][]signals.Entry) []section {
	all := make([]section, 0, len(sections))
	for s := range sections {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b section) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name), cmp.Compare(a.source, b.source))
	})
	return all
}
