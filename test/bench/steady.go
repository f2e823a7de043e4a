// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/app"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/builder"
)

const (
	steadyRate  = 50 // changed reports a second
	steadyTime  = 20 * time.Second
	steadyGrace = time.Minute
)

// steady changes reports at a steady rate and measures how long after each change the Finding's status says so.
func (b *bench) steady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, steadyTime+steadyGrace)
	defer cancel()
	c, err := client.NewWithWatch(b.cluster.Config, client.Options{Scheme: app.NewScheme()})
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	changes := min(int(steadyTime.Seconds())*steadyRate, b.size.reports)
	lag := &lags{since: map[string]time.Time{}, done: make(chan struct{}), wanted: changes}
	var now candorv1alpha1.FindingList
	if err := c.List(ctx, &now, client.Limit(1)); err != nil {
		return fmt.Errorf("listing Findings: %w", err)
	}
	// The API server cuts a watch off that falls behind; another one goes on where it ended.
	findings, err := watchtools.NewRetryWatcherWithContext(ctx, now.ResourceVersion, watchFindings{c})
	if err != nil {
		return fmt.Errorf("watching Findings: %w", err)
	}
	defer findings.Stop()
	go lag.follow(findings)
	tick := time.NewTicker(time.Second / steadyRate)
	defer tick.Stop()
	var writes sync.WaitGroup
	failed := make(chan error, changes)
	for i := range changes {
		writes.Go(func() { failed <- b.change(ctx, i, lag) })
		<-tick.C
	}
	writes.Wait()
	close(failed)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	select {
	case <-lag.done:
	case <-ctx.Done():
		return fmt.Errorf("%d of %d changes did not reach a status", len(lag.since), changes)
	}
	b.lags = lag.took
	return b.manager.stop()
}

// watchFindings watches the Findings of all namespaces.
type watchFindings struct{ client.WithWatch }

// WatchWithContext implements cache.WatcherWithContext.
func (w watchFindings) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return w.Watch(ctx, &candorv1alpha1.FindingList{}, &client.ListOptions{Raw: &options})
}

// change makes a report say something else: one entry more.
func (b *bench) change(ctx context.Context, i int, lag *lags) error {
	report := b.report(i)
	if err := b.cluster.Client.Get(ctx, client.ObjectKeyFromObject(report), report); err != nil {
		return fmt.Errorf("reading a report: %w", err)
	}
	body := report.Object["report"].(map[string]any)
	body["vulnerabilities"] = append(body["vulnerabilities"].([]any), builder.Vulnerability("CVE-2026-99999", "changed", "CRITICAL"))
	id := signals.Identity{Provider: "trivy", Namespace: b.namespace(i), Kind: "Deployment", Name: workload(i), Container: "nginx"}
	lag.begin(id.FindingName())
	if err := b.cluster.Client.Update(ctx, report); err != nil {
		return fmt.Errorf("changing a report: %w", err)
	}
	return nil
}

// lags are the times between changes and what came of them.
type lags struct {
	mu     sync.Mutex
	since  map[string]time.Time
	took   []time.Duration
	wanted int
	done   chan struct{}
}

func (l *lags) begin(finding string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since[finding] = time.Now()
}

// follow ends the time of each Finding whose status speaks of changed content.
func (l *lags) follow(findings watch.Interface) {
	for e := range findings.ResultChan() {
		f, ok := e.Object.(*candorv1alpha1.Finding)
		if !ok || !changed(f) || f.Status.Fingerprint != signals.Fingerprint(signals.Of(f)) {
			continue
		}
		l.mu.Lock()
		if began, running := l.since[f.Name]; running {
			l.took = append(l.took, time.Since(began))
			delete(l.since, f.Name)
			if len(l.took) == l.wanted {
				close(l.done)
			}
		}
		l.mu.Unlock()
	}
}

func changed(f *candorv1alpha1.Finding) bool {
	return f.Spec.Evidence != nil && slices.ContainsFunc(f.Spec.Evidence.Top, func(e candorv1alpha1.Entry) bool { return e.Package == "changed" })
}

// percentile returns the time that so many per cent of all kept to.
func percentile(times []time.Duration, per int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(len(sorted)*per/100, len(sorted)-1)]
}
