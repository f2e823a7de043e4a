// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/lifecycle"
	"github.com/candor-dev/candor/internal/signals/budget"
	"github.com/candor-dev/candor/internal/signals/validation"
)

// +kubebuilder:rbac:groups=candor.dev,resources=operatingpolicies/status,verbs=update

// keyPoll is how soon a key that comes, goes, or is refused shows. No event tells of a mounted file.
const keyPoll = 30 * time.Second

// OperatingPolicySyncer says what the OperatingPolicy comes to: which model may be asked, and what is left of the budget.
type OperatingPolicySyncer struct {
	Models   *Models
	Ledger   *LedgerStore
	Pause    *Pause
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
}

// Settled implements lifecycle.Settler: keys come and go, and budgets free, without a change of the policy.
func (s *OperatingPolicySyncer) Settled(*candorv1alpha1.OperatingPolicy) (time.Duration, bool) {
	return 0, false
}

// Sync implements lifecycle.Syncer.
func (s *OperatingPolicySyncer) Sync(ctx context.Context, p *candorv1alpha1.OperatingPolicy) (lifecycle.Outcome, error) {
	now := s.Clock.Now()
	p.Status.ObservedMode = candorv1alpha1.ModeActive
	if audits(p) {
		p.Status.ObservedMode = candorv1alpha1.ModeAudit
	}
	ledger, err := s.Ledger.Look(ctx)
	if err != nil {
		return lifecycle.Outcome{}, err
	}
	ceiling := budget.Cluster(p)
	p.Status.Budget = budget.Status(ledger, candorv1alpha1.LedgerScopeCluster, ceiling, now)
	model, unusable := s.Models.For(p)
	exhausted := showExhausted(p, p.Status.Budget, tooLittle(p.Status.Budget, model), "The cluster may spend "+ceiling.String(), now)
	showFieldsWithoutEffect(p, validation.OperatingFieldsWithoutEffect(p), now)
	paused := s.showPause(p, model, now)
	outcome := conclusion(p, model, unusable)
	outcome.PollAfter = keyPoll
	if next := p.Status.Budget.NextFree; next != nil {
		outcome.PollAfter = earliest(outcome.PollAfter, untilAfter(next.Time, now))
	}
	outcome.Then = func() {
		if exhausted {
			announceCondition(s.Recorder, p, candorv1alpha1.ConditionBudgetExhausted)
		}
		if paused {
			announceCondition(s.Recorder, p, candorv1alpha1.ConditionBackendPaused)
		}
	}
	return outcome, nil
}

// conclusion says which model may be asked.
func conclusion(p *candorv1alpha1.OperatingPolicy, model *Model, unusable *Unusable) lifecycle.Outcome {
	switch {
	case unusable != nil && unusable.Reason != "":
		return lifecycle.Outcome{Status: metav1.ConditionFalse, Reason: unusable.Reason, Message: unusable.Message}
	case unusable != nil:
		return lifecycle.Outcome{Reason: candorv1alpha1.ReasonActive, Message: unusable.Message}
	case audits(p):
		return lifecycle.Outcome{Reason: candorv1alpha1.ReasonAudit, Message: fmt.Sprintf("Nothing leaves the cluster. In mode Active, %s would be asked.", model.Settings.Model)}
	default:
		return lifecycle.Outcome{Reason: candorv1alpha1.ReasonActive, Message: fmt.Sprintf("%s is asked by the protocol of %s.", model.Settings.Model, model.Provider)}
	}
}

// showPause writes whether the model's server must not be asked, and reports whether that changed.
func (s *OperatingPolicySyncer) showPause(p *candorv1alpha1.OperatingPolicy, model *Model, now time.Time) bool {
	if model == nil {
		lifecycle.RemoveCondition(p, candorv1alpha1.ConditionBackendPaused)
		return false
	}
	_, probing := s.Pause.Until(model.identity, now)
	last := s.Pause.Last()
	if !probing || last == nil {
		lifecycle.RemoveCondition(p, candorv1alpha1.ConditionBackendPaused)
		return false
	}
	return lifecycle.SetCondition(p, now, metav1.Condition{
		Type: candorv1alpha1.ConditionBackendPaused, Status: metav1.ConditionTrue, Reason: string(last.Class),
		Message: fmt.Sprintf("The model's server is asked again after a while, one call at first: %v.", last.Err),
	})
}

// tooLittle reports whether what is left of the tokens does not suffice for the shortest question.
func tooLittle(b *candorv1alpha1.BudgetStatus, model *Model) bool {
	return model != nil && b.TokensLeft <= int64(model.Settings.MaxOutputTokens)
}

// showExhausted writes whether a budget holds calls back, and reports whether it does since now. held says that Findings wait
// for it.
func showExhausted(o lifecycle.Object, b *candorv1alpha1.BudgetStatus, held bool, budget string, now time.Time) bool {
	c := metav1.Condition{
		Type: candorv1alpha1.ConditionBudgetExhausted, Status: metav1.ConditionFalse, Reason: candorv1alpha1.ReasonWithinBudget,
		Message: budget + ".",
	}
	if held || b.CallsLeft == 0 || b.TokensLeft == 0 {
		c.Status, c.Reason = metav1.ConditionTrue, candorv1alpha1.ReasonLimitReached
		c.Message = budget + ", and has. Findings are explained as the window frees, worst severity first."
	}
	return lifecycle.SetCondition(o, now, c) && c.Status == metav1.ConditionTrue
}

// announceCondition makes a warning event of a condition that is bad news.
func announceCondition(recorder events.EventRecorder, o lifecycle.Object, condition string) {
	for _, c := range *o.StatusConditions() {
		if c.Type == condition {
			lifecycle.Announce(recorder, o, corev1.EventTypeWarning, condition, c.Message)
		}
	}
}
