// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/kube"
)

// question is what a model would be asked: what to make of this content of this Finding.
type question struct {
	finding     types.NamespacedName
	fingerprint string
}

// questions are those that were asked. An answer is kept, so none is asked twice.
type questions map[question]bool

func (q questions) note(findings []candorv1alpha1.Finding) {
	for i := range findings {
		f := &findings[i]
		if f.Status.Fingerprint != "" && signals.NeedsEnrichment(f) && isOpen(f) {
			q[question{finding: client.ObjectKeyFromObject(f), fingerprint: f.Status.Fingerprint}] = true
		}
	}
}

// result is what a step changed and what it cost.
type result struct {
	title    string
	reports  int
	findings int
	changes  []string
	// writes are those of the manager, without events and leases.
	writes kube.Counts
	asked  int
}

// step does something to the cluster, waits until the manager has come to rest, and says what it counted.
func (d *demo) step(ctx context.Context, title string, act func(context.Context) error) (result, error) {
	d.screen.begin(title)
	before, err := d.look(ctx)
	if err != nil {
		return result{}, err
	}
	writes, asked := d.writes(), d.asked()
	if err := act(ctx); err != nil {
		return result{}, fmt.Errorf("%s: %w", title, err)
	}
	after, err := d.settle(ctx)
	if err != nil {
		return result{}, fmt.Errorf("%s: %w", title, err)
	}
	reports, err := d.allReports(ctx)
	if err != nil {
		return result{}, err
	}
	r := result{
		title: title, reports: len(reports), findings: len(after.findings), changes: changes(before.findings, after.findings),
		writes: d.writes().Since(writes), asked: d.asked() - asked,
	}
	d.screen.end(r)
	return r, nil
}

func (d *demo) writes() kube.Counts { return d.manager.counter.Writes().Without("events", "leases") }

// changes counts what became of Findings, in words.
func changes(before, after []candorv1alpha1.Finding) []string {
	old := map[types.UID]*candorv1alpha1.Finding{}
	for i := range before {
		old[before[i].UID] = &before[i]
	}
	counts := map[string]int{}
	for i := range after {
		if word := change(old[after[i].UID], &after[i]); word != "" {
			counts[word]++
		}
	}
	var words []string
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%d %s", counts[word], word))
	}
	return words
}

func change(before, after *candorv1alpha1.Finding) string {
	if before == nil {
		return "new"
	}
	var words []string
	add := func(changed bool, word string) {
		if changed {
			words = append(words, word)
		}
	}
	add(before.Status.VerificationOutcome != after.Status.VerificationOutcome, string(after.Status.VerificationOutcome))
	add(before.Status.SeverityRank != after.Status.SeverityRank, "now "+string(after.Spec.Severity))
	add(!isMuted(before) && isMuted(after), "muted")
	add(isMuted(before) && !isMuted(after), "unmuted")
	if word := explanation(before, after); word != "" {
		words = append(words, word)
	}
	add(len(words) == 0 && before.Status.Fingerprint != after.Status.Fingerprint, "changed")
	add(len(words) == 0 && before.Generation != after.Generation, "in a new image")
	return strings.Join(words, ", ")
}

// explanation is what became of the explanation of a Finding.
func explanation(before, after *candorv1alpha1.Finding) string {
	was, is := before.Status.Explained, after.Status.Explained
	switch {
	case was != is && is == candorv1alpha1.ExplainedTrue && after.Status.Enrichment.Shared:
		return "explained by an equal answer"
	case was != is && is == candorv1alpha1.ExplainedTrue:
		return "explained by a call"
	case was != is && is == candorv1alpha1.ExplainedBudget:
		return "held back by the budget"
	case before.Status.Request == nil && after.Status.Request != nil:
		return "with the digest of a request"
	default:
		return ""
	}
}

// line puts a result beside its title.
func (r result) line() string {
	changed := "unchanged"
	if len(r.changes) > 0 {
		changed = strings.Join(r.changes, ", ")
	}
	return fmt.Sprintf("%s → %s (%s), %s, %s", several(r.reports, "report"), several(r.findings, "finding"), changed,
		several(r.writes.Total(), "API write"), several(r.asked, "model call"))
}

// written lists the writes, such as "9 create findings".
func (r result) written() string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(r.writes)) {
		parts = append(parts, fmt.Sprintf("%d %s", r.writes[key], key))
	}
	return strings.Join(parts, ", ")
}

func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
