// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/policy"
	"github.com/candor-dev/candor/internal/signals/trivy"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/sinkserver"
	"github.com/candor-dev/candor/test/kube"
)

const bareNamespace = "bare"

type bench struct {
	cluster *kube.Cluster
	// nobody has the manager's rights: the API server does less for an administrator.
	nobody  client.Client
	size    size
	manager *process
	// folder holds the binary, its kubeconfig and its log.
	folder string
	// sinks is where people are told.
	sinks *sinkserver.Server

	bare    []*candorv1alpha1.Finding
	created time.Duration
	updated time.Duration
	settled time.Duration
	// lags are the times from the change of a report to the status that says so.
	lags []time.Duration
	peak int
}

// each calls do for every number below n, with as many calls in flight as the size says.
func (b *bench) each(n int, do func(i int) error) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, b.size.workers)
	for range b.size.workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

func (b *bench) namespace(i int) string { return fmt.Sprintf("team-%02d", i%b.size.namespaces) }

func (b *bench) load(ctx context.Context) error {
	for i := range b.size.namespaces {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.namespace(i)}}
		if err := b.cluster.Client.Create(ctx, ns); err != nil {
			return fmt.Errorf("creating a namespace: %w", err)
		}
		if err := b.cluster.Client.Create(ctx, builder.Policy(ns.Name, "default", []string{"trivy"}, b.telling)); err != nil {
			return fmt.Errorf("creating a policy: %w", err)
		}
	}
	if err := b.cluster.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: bareNamespace}}); err != nil {
		return fmt.Errorf("creating a namespace: %w", err)
	}
	return b.each(b.size.reports, func(i int) error {
		owner := builder.Deployment(b.namespace(i), workload(i))
		if err := b.cluster.Client.Create(ctx, owner); err != nil {
			return fmt.Errorf("creating a Deployment: %w", err)
		}
		if err := b.cluster.Client.Create(ctx, builder.ReplicaSet(owner, b.namespace(i), workload(i)+"-1", 1)); err != nil {
			return fmt.Errorf("creating a ReplicaSet: %w", err)
		}
		if err := b.cluster.Client.Create(ctx, b.report(i)); err != nil {
			return fmt.Errorf("creating a report: %w", err)
		}
		return nil
	})
}

func workload(i int) string { return fmt.Sprintf("workload-%05d", i) }

// report makes a report whose entries differ from those of the others, a third of them HIGH or CRITICAL.
func (b *bench) report(i int) *unstructured.Unstructured {
	severities := []string{"CRITICAL", "HIGH", "MEDIUM", "MEDIUM", "LOW", "LOW"}
	entries := make([]any, b.size.entries)
	for n := range entries {
		entries[n] = builder.Vulnerability(fmt.Sprintf("CVE-2026-%05d", (i*7+n)%99_999), fmt.Sprintf("package-%d", n), severities[n%len(severities)])
	}
	return builder.VulnerabilityReport(b.namespace(i), "ReplicaSet", workload(i)+"-1", "nginx", entries)
}

// bareCreates creates the same Findings that Candor will, in a namespace that Candor is not asked about.
func (b *bench) bareCreates(ctx context.Context) error {
	b.bare = make([]*candorv1alpha1.Finding, b.size.reports)
	for i := range b.bare {
		b.bare[i] = b.finding(i)
	}
	start := time.Now()
	err := b.each(len(b.bare), func(i int) error { return b.nobody.Create(ctx, b.bare[i]) })
	b.created = time.Since(start)
	return err
}

func (b *bench) finding(i int) *candorv1alpha1.Finding {
	class := trivy.Vulnerabilities()
	reports, err := class.Reports(b.report(i))
	if err != nil {
		panic(err)
	}
	report := reports[0]
	id := signals.Identity{Provider: "trivy", Namespace: bareNamespace, Kind: "Deployment", Name: workload(i), Container: "nginx"}
	return &candorv1alpha1.Finding{
		ObjectMeta: metav1.ObjectMeta{Namespace: bareNamespace, Name: id.FindingName(), Labels: map[string]string{candorv1alpha1.LabelOutcome: "open"}},
		Spec:       signals.Spec(class, id, report, policy.Ask{MinRank: signals.High}.Select(report.Entries)),
	}
}

func (b *bench) bareStatuses(ctx context.Context) error {
	now := metav1.Now()
	start := time.Now()
	err := b.each(len(b.bare), func(i int) error {
		f := b.bare[i]
		f.Status = candorv1alpha1.FindingStatus{
			Resource: "Deployment/" + workload(i), Brief: signals.Brief(f.Spec.Evidence), SeverityRank: 4, Fingerprint: signals.Fingerprint(signals.Of(f)),
			Explained: candorv1alpha1.ExplainedOff, VerificationOutcome: candorv1alpha1.OutcomeStillPresent, Since: now, FirstSeen: now, LastSeen: now,
			Conditions: candorv1alpha1.Conditions{{
				Type: candorv1alpha1.ConditionVerified, Status: metav1.ConditionTrue,
				Reason: candorv1alpha1.ReasonStillPresent, Message: "The last report shows it.", LastTransitionTime: now,
			}},
		}
		return b.nobody.Status().Update(ctx, f)
	})
	b.updated = time.Since(start)
	return err
}

func (b *bench) bareRemove(ctx context.Context) error {
	err := b.each(len(b.bare), func(i int) error { return b.cluster.Client.Delete(ctx, b.bare[i]) })
	b.bare = nil
	return err
}

func (b *bench) settle(ctx context.Context) (err error) {
	start := time.Now()
	if b.manager, err = b.startTelling(ctx); err != nil {
		return err
	}
	err = b.manager.await(ctx, `candor_findings{outcome="StillPresent"`, float64(b.size.reports))
	b.settled = time.Since(start)
	return err
}

func (b *bench) restart(ctx context.Context) (err error) {
	if err := b.manager.stop(); err != nil {
		return err
	}
	if b.manager, err = b.startTelling(ctx); err != nil {
		return err
	}
	return b.manager.await(ctx, `candor_reports_ingested_total{provider="trivy",result="unchanged"`, float64(b.size.reports))
}

func (b *bench) wave(ctx context.Context) error {
	before, err := b.manager.metric(ctx, "candor_reports_ingested_total{")
	if err != nil {
		return err
	}
	if err := b.each(b.size.reports, func(i int) error {
		return b.cluster.Client.Delete(ctx, b.report(i))
	}); err != nil {
		return fmt.Errorf("deleting a report: %w", err)
	}
	if err := b.each(b.size.reports, func(i int) error { return b.cluster.Client.Create(ctx, b.report(i)) }); err != nil {
		return fmt.Errorf("creating a report again: %w", err)
	}
	return b.manager.await(ctx, "candor_reports_ingested_total{", before+float64(b.size.reports))
}
