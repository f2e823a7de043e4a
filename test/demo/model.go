// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/budget"
	"github.com/candor-dev/candor/test/fakes/llmserver"
)

// modelKey is the only key that the fake lets in. It stands in a file, as that of a mounted Secret does.
const modelKey = "key-of-the-demo"

// keyFolder makes the folder that the Secret candor-llm would be mounted at.
func keyFolder(home string) (string, error) {
	folder := filepath.Join(home, "keys")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return "", fmt.Errorf("making the folder of keys: %w", err)
	}
	return folder, os.WriteFile(filepath.Join(folder, "anthropic-api-key"), []byte(modelKey+"\n"), 0o600)
}

// movableClock is the real clock, and can be put forward. It is safe for concurrent use.
type movableClock struct {
	clock.RealClock
	ahead atomic.Int64
}

func (c *movableClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.ahead.Load())) }

func (c *movableClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *movableClock) putForward(d time.Duration) { c.ahead.Add(int64(d)) }

// asked counts model calls: those that the fake has had, and before there is a model, those that one would have had.
func (d *demo) asked() int {
	if d.model == nil {
		return len(d.questions)
	}
	return d.model.Stats().Calls
}

// startModel starts the fake.
func (d *demo) startModel(name string) {
	d.model = llmserver.Start(llmserver.Options{Key: modelKey, Models: []string{name}})
}

// stop ends the manager and then the model that it may still wait for.
func (d *demo) stop() error {
	err := d.manager.stop()
	if d.model != nil {
		d.model.Close()
	}
	return err
}

// passTime puts the manager's clock forward, and has it look at every Finding: its waits run on the real clock.
func (d *demo) passTime(ctx context.Context, by time.Duration) error {
	d.manager.clock.putForward(by)
	now, err := d.look(ctx)
	if err != nil {
		return err
	}
	for i := range now.findings {
		select {
		case d.manager.wake <- event.GenericEvent{Object: &now.findings[i]}:
		case <-ctx.Done():
			return ctx.Err()
		case <-d.manager.done:
			return errors.Join(d.manager.health(), errors.New("nobody can be woken"))
		}
	}
	return nil
}

// asks has every settle wait until each open Finding says one of these reasons in its condition Enriched.
func (d *demo) asks(reasons ...string) { d.reasons = reasons }

// unanswered returns the reason of a Finding that does not say what it should about its explanation, and false when it does.
func (s state) unanswered(f *candorv1alpha1.Finding) (string, bool) {
	if len(s.reasons) == 0 || !isOpen(f) {
		return "", false
	}
	reason := why(f)
	return reason, !slices.Contains(s.reasons, reason)
}

// why returns the reason of a Finding's condition Enriched; empty when it has none.
func why(f *candorv1alpha1.Finding) string {
	if c := meta.FindStatusCondition(f.Status.Conditions, candorv1alpha1.ConditionEnriched); c != nil {
		return c.Reason
	}
	return ""
}

// ledger returns what the Ledger has counted for the cluster, whether it still counts or not.
func (d *demo) ledger(ctx context.Context) (budget.Cost, error) {
	var ledger candorv1alpha1.Ledger
	if err := d.cluster.Client.Get(ctx, client.ObjectKey{Name: candorv1alpha1.Singleton}, &ledger); err != nil {
		return budget.Cost{}, err
	}
	var sum budget.Cost
	for _, scope := range ledger.Status.Scopes {
		if scope.Name != candorv1alpha1.LedgerScopeCluster {
			continue
		}
		for _, b := range scope.Buckets {
			sum.Calls, sum.Tokens, sum.CostMicros = sum.Calls+b.Calls, sum.Tokens+b.Tokens, sum.CostMicros+b.CostMicros
		}
	}
	return sum, nil
}
