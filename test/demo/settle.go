// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/budget"
	"github.com/candor-dev/candor/internal/signals/policy"
	"github.com/candor-dev/candor/internal/signals/verify"
)

const (
	pollEvery = 50 * time.Millisecond
	// patience covers the five seconds in which a policy gathers changes before it counts, many times over.
	patience = 90 * time.Second
)

// wait polls until done holds, the manager fails or patience ends.
func (d *demo) wait(ctx context.Context, what string, done wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextTimeout(ctx, pollEvery, patience, true, func(ctx context.Context) (bool, error) {
		if err := d.manager.health(); err != nil {
			return false, err
		}
		return done(ctx)
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("waited %s in vain for %s", patience, what)
	default:
		return err
	}
}

// serving waits until the manager watches every kind of report.
func (d *demo) serving(ctx context.Context) error {
	return d.wait(ctx, "the manager to watch the reports", func(context.Context) (bool, error) {
		for _, class := range d.classes {
			if up, err := metric("candor_provider_up", prometheus.Labels{"provider": class.Provider}); err != nil || up == 0 {
				return false, err
			}
		}
		return true, nil
	})
}

// heard waits until the manager has heard of everything that happened to reports so far: a marker of each kind comes last.
func (d *demo) heard(ctx context.Context) error {
	for _, class := range d.classes {
		d.markers++
		dropped := func() (float64, error) {
			return metric("candor_reports_dropped_total", prometheus.Labels{"provider": class.Provider, "reason": signals.DropScanJob})
		}
		before, err := dropped()
		if err != nil {
			return err
		}
		m := marker(class.Kind.Kind, d.markers)
		if err := d.cluster.Client.Create(ctx, m); err != nil {
			return fmt.Errorf("creating a report of a scan Job: %w", err)
		}
		err = d.wait(ctx, "the manager to hear of the last "+class.Kind.Kind, func(context.Context) (bool, error) {
			now, err := dropped()
			return now > before, err
		})
		if err := errors.Join(err, d.cluster.Client.Delete(ctx, m)); err != nil {
			return err
		}
	}
	return nil
}

// state is everything that the manager writes.
type state struct {
	findings     []candorv1alpha1.Finding
	policies     []candorv1alpha1.SignalPolicy
	suppressions []candorv1alpha1.Suppression
	// operating is nil where there is none; spent is what the Ledger says of its window.
	operating *candorv1alpha1.OperatingPolicy
	spent     *candorv1alpha1.BudgetStatus
	// reasons are those of demo.
	reasons []string
}

func (d *demo) look(ctx context.Context) (state, error) {
	var findings candorv1alpha1.FindingList
	var policies candorv1alpha1.SignalPolicyList
	var suppressions candorv1alpha1.SuppressionList
	var operating candorv1alpha1.OperatingPolicyList
	var ledgers candorv1alpha1.LedgerList
	c := d.cluster.Client
	err := errors.Join(c.List(ctx, &findings), c.List(ctx, &policies), c.List(ctx, &suppressions), c.List(ctx, &operating), c.List(ctx, &ledgers))
	now := state{findings: findings.Items, policies: policies.Items, suppressions: suppressions.Items, reasons: d.reasons}
	if len(operating.Items) > 0 && len(ledgers.Items) > 0 {
		now.operating = &operating.Items[0]
		now.spent = budget.Status(&ledgers.Items[0].Status, candorv1alpha1.LedgerScopeCluster, budget.Cluster(now.operating), d.manager.clock.Now())
	}
	return now, err
}

// settle waits until the manager has heard of everything, has nothing left to do, and what it wrote fits together. On the
// way, it notes what a model would be asked.
func (d *demo) settle(ctx context.Context) (state, error) {
	if err := d.heard(ctx); err != nil {
		return state{}, err
	}
	var now state
	pending, quiet := "", 0
	err := d.wait(ctx, "the manager to come to rest", func(ctx context.Context) (bool, error) {
		busy, err := d.manager.busy()
		if err != nil {
			return false, err
		}
		if now, err = d.look(ctx); err != nil {
			return false, err
		}
		d.questions.note(now.findings)
		pending = now.pending()
		// A controller that takes an object from its queue is for a moment neither busy nor waiting; it is not so twice.
		if quiet++; busy || pending != "" {
			quiet = 0
		}
		return quiet > 1, nil
	})
	if err != nil && pending != "" {
		err = fmt.Errorf("%w: %s", err, pending)
	}
	return now, err
}

// pending returns what the manager still has to write, empty when everything says what it should.
func (s state) pending() string {
	for i := range s.findings {
		if f := &s.findings[i]; !s.meant(f) {
			return fmt.Sprintf("the status of Finding %s/%s is not up to date", f.Namespace, f.Name)
		}
	}
	for i := range s.findings {
		f := &s.findings[i]
		if reason, waits := s.unanswered(f); waits {
			return fmt.Sprintf("the condition Enriched of Finding %s/%s has the reason %q and none of %v", f.Namespace, f.Name, reason, s.reasons)
		}
	}
	if s.operating != nil && (s.operating.Status.Budget == nil || s.operating.Status.Budget.Calls != s.spent.Calls) {
		return "the OperatingPolicy does not say yet what was spent"
	}
	for i := range s.policies {
		if p := &s.policies[i]; !s.counted(p) {
			return fmt.Sprintf("the status of SignalPolicy %s/%s is not up to date", p.Namespace, p.Name)
		}
	}
	for i := range s.suppressions {
		if sup := &s.suppressions[i]; !s.matched(sup) {
			return fmt.Sprintf("the status of Suppression %s/%s is not up to date", sup.Namespace, sup.Name)
		}
	}
	return ""
}

func (s state) meant(f *candorv1alpha1.Finding) bool {
	muted := slices.ContainsFunc(s.suppressions, func(sup candorv1alpha1.Suppression) bool {
		return sup.Namespace == f.Namespace && sup.Spec.Fingerprint == f.Status.Fingerprint
	})
	return f.Status.Fingerprint == signals.Fingerprint(signals.Of(f)) && isMuted(f) == muted &&
		verify.Open(f.Status.VerificationOutcome) == (verify.Label(f.Spec.Observed) == "open")
}

func (s state) counted(p *candorv1alpha1.SignalPolicy) bool {
	var findings, open int32
	for i := range s.findings {
		f := &s.findings[i]
		if f.Namespace != p.Namespace || !slices.Contains(p.Spec.Providers, f.Spec.Source.Provider) ||
			signals.RankOf(string(f.Spec.Severity)) < policy.Threshold(p) {
			continue
		}
		findings++
		if isOpen(f) {
			open++
		}
	}
	return p.Status.ObservedGeneration == p.Generation && p.Status.Findings == findings && p.Status.Open == open
}

func (s state) matched(sup *candorv1alpha1.Suppression) bool {
	var muted int32
	for i := range s.findings {
		if f := &s.findings[i]; f.Namespace == sup.Namespace && f.Status.Fingerprint == sup.Spec.Fingerprint {
			muted++
		}
	}
	return sup.Status.ObservedGeneration == sup.Generation && sup.Status.Muted == muted
}

func isMuted(f *candorv1alpha1.Finding) bool {
	return f.Status.Explained == candorv1alpha1.ExplainedMuted
}

// isOpen reports whether a Finding needs someone.
func isOpen(f *candorv1alpha1.Finding) bool {
	return verify.Open(f.Status.VerificationOutcome) && !isMuted(f)
}
