// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/candor-dev/candor/internal/signals"
)

// indexResource finds reports by kind and name of what they say they speak of.
const indexResource = "resource"

// anyPod is the value of indexResource of every report that speaks of a pod, where reports may do so in place of its workload.
var anyPod = objectKey(podKind, "")

// resourceKeys returns the values of indexResource for a report.
func resourceKeys(class signals.Class, report *unstructured.Unstructured) []string {
	subjects, _ := class.Subjects(report)
	keys, pods := make([]string, 0, len(subjects)), false
	for _, subject := range subjects {
		keys = append(keys, objectKey(subject.Kind, subject.Name))
		pods = pods || subject.Kind == podKind
	}
	if class.AddsUp && pods {
		keys = append(keys, anyPod)
	}
	return keys
}

// candidate is a report that may speak for an identity.
type candidate struct {
	signals.Report
	revision int
}

// fold finds the reports of every revision of the workload and returns what speaks for it: the report of the current
// revision, then the newest; or all that complete each other. It returns nil when there is none that can be used.
func (r *ReportReconciler) fold(ctx context.Context, reader client.Reader, p *pass) (*signals.Report, error) {
	candidates, err := r.candidates(ctx, reader, p)
	if err != nil || len(candidates) == 0 {
		return nil, err
	}
	if p.class.AddsUp {
		sum := signals.Sum(p.id, ofNewest(candidates))
		return &sum, nil
	}
	first := slices.MinFunc(candidates, speaksFirst)
	return &first.Report, nil
}

// candidates returns the usable reports of an identity.
func (r *ReportReconciler) candidates(ctx context.Context, reader client.Reader, p *pass) ([]candidate, error) {
	revisions, err := r.owners().revisionsOf(ctx, p.id)
	if err == nil && p.class.AddsUp {
		var pods []revision
		pods, err = r.owners().podsOf(ctx, reader, p.class, p.id.Namespace, revisions)
		revisions = append(revisions, pods...)
	}
	if err != nil {
		return nil, err
	}
	var candidates []candidate
	for _, revision := range revisions {
		reports, err := reportsOf(ctx, reader, p.class, p.id.Namespace, revision.kind, revision.name)
		if err != nil {
			return nil, err
		}
		for _, report := range reports {
			id, known, err := r.owners().top(ctx, p.class, report.Subject)
			if err != nil {
				return nil, err
			}
			if known && id == p.id {
				candidates = append(candidates, candidate{Report: report, revision: revision.number})
			}
		}
	}
	return candidates, nil
}

// ofNewest returns the reports of the workload itself, of the newest revision that has any, and of that revision's pods. What
// has no number belongs to all.
func ofNewest(candidates []candidate) []signals.Report {
	newest := 0
	for _, c := range candidates {
		newest = max(newest, c.revision)
	}
	var reports []signals.Report
	for _, c := range candidates {
		if c.revision == 0 || c.revision == newest {
			reports = append(reports, c.Report)
		}
	}
	return reports
}

// speaksFirst orders reports of one identity. The last comparison has no meaning but makes the choice the same each time.
func speaksFirst(a, b candidate) int {
	superseded := func(c candidate) int {
		if c.Superseded {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(superseded(a), superseded(b)), cmp.Compare(b.revision, a.revision),
		b.Updated.Compare(a.Updated), cmp.Compare(a.Name, b.Name))
}

// reportsOf returns the readable reports that speak of one object. What cannot be read was counted when it arrived.
func reportsOf(ctx context.Context, reader client.Reader, class signals.Class, namespace, kind, name string) ([]signals.Report, error) {
	list := listOf(class)
	err := reader.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{indexResource: objectKey(kind, name)},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the reports of %s %s/%s: %w", kind, namespace, name, err)
	}
	var reports []signals.Report
	for i := range list.Items {
		subjects, _ := class.Subjects(&list.Items[i])
		for _, subject := range subjects {
			if subject.Kind != kind || subject.Name != name {
				continue
			}
			if report, err := class.Translate(&list.Items[i], subject); err == nil {
				reports = append(reports, report)
			}
		}
	}
	return reports, nil
}

func listOf(class signals.Class) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(class.Kind.GroupVersion().WithKind(class.Kind.Kind + "List"))
	return list
}

// redirect handles a key that names a ReplicaSet, a Job or a pod in place of its workload: it enqueues the workload once that is
// known, and returns when to come back while it is not. After a while it gives up and counts the report as dropped.
func (r *ReportReconciler) redirect(ctx context.Context, id signals.Identity) (time.Duration, error) {
	class, ok := r.Providers.Classes.ByProvider(id.Provider)
	if !ok {
		return 0, nil
	}
	if class.AddsUp && id.Kind == podKind {
		if _, err := r.owners().learn(ctx, id.Namespace, id.Name); err != nil {
			return 0, err
		}
	}
	subject := signals.Subject{Namespace: id.Namespace, Kind: id.Kind, Name: id.Name, Container: id.Container}
	top, known, err := r.owners().top(ctx, class, subject)
	if err != nil {
		return 0, err
	}
	if known {
		if top != id {
			r.queue.Add(top)
		}
		r.forget(id)
		return 0, nil
	}
	if waiting, err := r.hasReport(ctx, class, id); err != nil || !waiting {
		r.forget(id)
		return 0, err
	}
	return r.retry(ctx, id), nil
}

func (r *ReportReconciler) hasReport(ctx context.Context, class signals.Class, id signals.Identity) (bool, error) {
	reader, serving := r.Providers.Reader(id.Provider)
	if !serving {
		return false, nil
	}
	reports, err := reportsOf(ctx, reader, class, id.Namespace, id.Kind, id.Name)
	return slices.ContainsFunc(reports, func(report signals.Report) bool { return report.Subject.Container == id.Container }), err
}

func (r *ReportReconciler) retry(ctx context.Context, id signals.Identity) time.Duration {
	r.mu.Lock()
	n := r.retries[id]
	r.retries[id] = n + 1
	r.mu.Unlock()
	if n < ownerRetries {
		return ownerRetry << n
	}
	if n == ownerRetries {
		logf.FromContext(ctx).V(1).Info("A report speaks of an object that is not in the cluster", "identity", id.String())
		r.Metrics.dropped(id.Provider, signals.DropOwnerGone)
	}
	return 0
}

func (r *ReportReconciler) forget(id signals.Identity) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.retries, id)
}

// forgetAll drops the waits for the owners of reports that are gone without a word.
func (r *ReportReconciler) forgetAll(provider string) {
	r.pods.forget()
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.retries, func(id signals.Identity, _ int) bool { return id.Provider == provider })
}

func (r *ReportReconciler) owners() owners {
	return owners{cached: r.Client, live: r.Live, pods: &r.pods}
}
