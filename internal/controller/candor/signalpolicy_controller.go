// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/crdgate"
	"github.com/candor-dev/candor/internal/lifecycle"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/budget"
	"github.com/candor-dev/candor/internal/signals/policy"
	"github.com/candor-dev/candor/internal/signals/validation"
	"github.com/candor-dev/candor/internal/signals/verify"
)

// +kubebuilder:rbac:groups=candor.dev,resources=signalpolicies/status,verbs=update

// countEvery coalesces the counts of a policy: a burst of changed Findings costs it one write in this time.
const countEvery = 5 * time.Second

// SignalPolicySyncer says what a policy does: whether its providers are there, and what they found.
type SignalPolicySyncer struct {
	Client    client.Client
	Providers *Providers
	Models    *Models
	Ledger    *LedgerStore
	Recorder  events.EventRecorder
	Clock     clock.PassiveClock
	// Notifier tells people, and DigestInterval is how often a digest falls due; zero never.
	Notifier       *Notifier
	DigestInterval time.Duration
	// Keys finds what posted signals are authenticated by; nil where none are taken.
	Keys *SignalKeys
}

// Settled implements lifecycle.Settler: providers come and go, and Findings change, without a change of the policy.
func (s *SignalPolicySyncer) Settled(*candorv1alpha1.SignalPolicy) (time.Duration, bool) {
	return 0, false
}

// Sync implements lifecycle.Syncer.
func (s *SignalPolicySyncer) Sync(ctx context.Context, p *candorv1alpha1.SignalPolicy) (lifecycle.Outcome, error) {
	var list candorv1alpha1.FindingList
	err := s.Client.List(ctx, &list, client.InNamespace(p.Namespace), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		return lifecycle.Outcome{}, fmt.Errorf("listing the Findings of %s: %w", p.Namespace, err)
	}
	free, exhausted, err := s.showBudget(ctx, p, count(p, list.Items))
	if err != nil {
		return lifecycle.Outcome{}, err
	}
	showFieldsWithoutEffect(p, validation.FieldsWithoutEffect(p), s.Clock.Now())
	receives := s.receive(ctx, p)
	full := s.showReceiving(ctx, p, receives, list.Items)
	outcome, told := s.judgeProviders(p, receives), s.tell(p, list.Items, exhausted)
	outcome.PollAfter = earliest(earliest(free, receives.again), told.again)
	outcome.Then = func() {
		if full {
			announceCondition(s.Recorder, p, candorv1alpha1.ConditionReceiverFull)
		}
		if exhausted {
			announceCondition(s.Recorder, p, candorv1alpha1.ConditionBudgetExhausted)
		}
		told.then()
	}
	return outcome, nil
}

// judgeProviders writes whether the providers can be watched.
func (s *SignalPolicySyncer) judgeProviders(p *candorv1alpha1.SignalPolicy, receives receiving) lifecycle.Outcome {
	look := s.look(p, receives)
	last := meta.FindStatusCondition(p.Status.Conditions, candorv1alpha1.ConditionReady)
	if look.undecided && last != nil && last.ObservedGeneration == p.Generation {
		// A restart finds out within moments; until then what was true stays true, and costs no write.
		return lifecycle.Outcome{Reason: last.Reason, Message: last.Message, Status: last.Status}
	}
	lifecycle.SetCondition(p, s.Clock.Now(), look.available)
	return look.outcome
}

// held is what an exhausted budget holds back.
type held struct {
	findings int
	// bytes is the size of the largest request among them.
	bytes int
}

// count writes how many Findings there are, and returns those that an exhausted budget holds back.
func count(p *candorv1alpha1.SignalPolicy, findings []candorv1alpha1.Finding) (waits held) {
	p.Status.Findings, p.Status.Open = 0, 0
	enabled, sharing := policy.Explains(p)
	waiting := map[string]struct{}{}
	for i := range findings {
		f := &findings[i]
		if !slices.Contains(p.Spec.Providers, f.Spec.Source.Provider) || signals.RankOf(string(f.Spec.Severity)) < policy.Threshold(p) {
			continue
		}
		p.Status.Findings++
		if !verify.Open(f.Status.VerificationOutcome) || f.Status.Explained == candorv1alpha1.ExplainedMuted {
			continue
		}
		if signals.RankOf(string(shownSeverity(f))) >= policy.Threshold(p) {
			p.Status.Open++
		}
		if f.Status.Explained == candorv1alpha1.ExplainedBudget {
			waits.findings++
			if f.Status.Request != nil {
				waits.bytes = max(waits.bytes, int(f.Status.Request.Bytes))
			}
		}
		if enabled && f.Status.Request != nil && f.Status.Explained != candorv1alpha1.ExplainedFailed && signals.NeedsEnrichment(f) {
			waiting[shareKey(f, f.Status.Request.Key, sharing)] = struct{}{}
		}
	}
	p.Status.Waiting = int32(len(waiting))
	return waits
}

// showBudget writes what the namespace spent and what is left, as soon as there is a model to spend it on. It returns when
// something of it frees, and whether it has just been used up.
func (s *SignalPolicySyncer) showBudget(ctx context.Context, p *candorv1alpha1.SignalPolicy, waits held) (free time.Duration, exhausted bool, err error) {
	operating, err := operatingPolicy(ctx, s.Client)
	if err != nil {
		return 0, false, err
	}
	model, unusable := s.Models.For(operating)
	if unusable != nil && unusable.Reason == "" {
		p.Status.Budget = nil
		lifecycle.RemoveCondition(p, candorv1alpha1.ConditionBudgetExhausted)
		return 0, false, nil
	}
	ledger, err := s.Ledger.Look(ctx)
	if err != nil {
		return 0, false, err
	}
	now, ceiling := s.Clock.Now(), budget.Namespace(operating, p)
	p.Status.Budget = budget.Status(ledger, candorv1alpha1.LedgerScopeNamespace(p.Namespace), ceiling, now)
	if next := p.Status.Budget.NextFree; next != nil {
		free = untilAfter(next.Time, now)
	}
	said := "This namespace may spend " + ceiling.String()
	if model != nil && waits.findings > 0 {
		whole, cost := budget.Cluster(operating), budget.Estimate(waits.bytes, model.Settings.MaxOutputTokens, model.Prices)
		if denial := budget.Check(ledger, p.Namespace, whole, ceiling, cost, now); denial != nil && denial.Scope == candorv1alpha1.LedgerScopeCluster {
			said = "The cluster may spend " + whole.String()
		}
	}
	return free, showExhausted(p, p.Status.Budget, waits.findings > 0, said, now), nil
}

// showFieldsWithoutEffect writes which fields of a spec this version does not act on.
func showFieldsWithoutEffect(o lifecycle.Object, names []string, now time.Time) {
	if len(names) == 0 {
		lifecycle.RemoveCondition(o, candorv1alpha1.ConditionFieldsWithoutEffect)
		return
	}
	lifecycle.SetCondition(o, now, metav1.Condition{
		Type: candorv1alpha1.ConditionFieldsWithoutEffect, Status: metav1.ConditionTrue, Reason: candorv1alpha1.ReasonNoEffect,
		Message: fmt.Sprintf("Accepted for compatibility, without effect in this version: %s.", strings.Join(names, ", ")),
	})
}

// providerLook is what a policy's providers come to.
type providerLook struct {
	// undecided means that some provider is still being looked for, and that nothing has gone wrong with it.
	undecided bool
	available metav1.Condition
	outcome   lifecycle.Outcome
}

// look judges the providers that a policy names. The worst of them gives the reason; the message speaks of all.
func (s *SignalPolicySyncer) look(p *candorv1alpha1.SignalPolicy, receives receiving) providerLook {
	var look providerLook
	unknown, worst := 0, availability{reason: candorv1alpha1.ReasonAvailable, status: metav1.ConditionTrue}
	var ready, sentences []string
	for _, provider := range p.Spec.Providers {
		class, known := s.Providers.Classes.ByProvider(provider)
		var a availability
		switch {
		case provider == signals.Posted:
			a = receives.availability()
		case known:
			a = s.judge(class)
		default:
			unknown++
			ready = append(ready, fmt.Sprintf("No provider named %q exists; known: %s.", provider, strings.Join(s.Providers.Classes.Known(), ", ")))
			continue
		}
		look.undecided = look.undecided || a.undecided
		sentences = append(sentences, a.message)
		if a.order > worst.order {
			worst = a
		}
	}
	look.available = metav1.Condition{
		Type: candorv1alpha1.ConditionProviderAvailable, Status: worst.status, Reason: worst.reason, Message: strings.Join(sentences, " "),
	}
	look.outcome = lifecycle.Outcome{Reason: worst.reason, Status: worst.status, Message: strings.Join(append(ready, sentences...), " ")}
	switch {
	case unknown > 0:
		look.outcome.Reason, look.outcome.Status = candorv1alpha1.ReasonUnknownProvider, metav1.ConditionFalse
	case worst.order == 0:
		look.outcome.Reason = candorv1alpha1.ReasonActive
	}
	if unknown == len(p.Spec.Providers) {
		look.available.Status, look.available.Reason = metav1.ConditionFalse, candorv1alpha1.ReasonUnknownProvider
		look.available.Message = strings.Join(ready, " ")
	}
	return look
}

// availability is what one provider comes to; a higher order is worse.
type availability struct {
	order           int
	status          metav1.ConditionStatus
	reason, message string
	undecided       bool
}

func (s *SignalPolicySyncer) judge(class signals.Class) availability {
	state, watched := s.Providers.State(class.Provider)
	switch {
	case !watched:
		return availability{order: 3, status: metav1.ConditionFalse, reason: candorv1alpha1.ReasonProviderUnavailable, message: fmt.Sprintf(
			"Nobody reads %s: the report controller is turned off.", class.Kind.Kind)}
	case state.Phase == crdgate.Serving && state.Err == nil:
		return availability{status: metav1.ConditionTrue, reason: candorv1alpha1.ReasonAvailable, message: fmt.Sprintf("Watching %s.", class.Kind.Kind)}
	case state.Phase == crdgate.Absent:
		return availability{order: 3, status: metav1.ConditionFalse, reason: candorv1alpha1.ReasonProviderUnavailable, message: fmt.Sprintf(
			"%s CRD not found: %s to enable %s; Candor starts watching by itself.", class.Kind.Kind, class.Install, class.Provider)}
	case state.Phase >= crdgate.Starting && state.Err != nil:
		return availability{order: 3, status: metav1.ConditionFalse, reason: candorv1alpha1.ReasonProviderUnavailable, message: fmt.Sprintf(
			"%s cannot be read: %v.", class.Kind.Kind, state.Err)}
	case state.Err != nil:
		return availability{order: 2, status: metav1.ConditionUnknown, reason: candorv1alpha1.ReasonProviderUnreachable, message: fmt.Sprintf(
			"Cannot tell whether %s exists: %v.", class.Kind.Kind, state.Err)}
	default:
		return availability{
			order: 1, status: metav1.ConditionUnknown, reason: candorv1alpha1.ReasonProviderStarting, undecided: true,
			message: fmt.Sprintf("Reading %s for the first time.", class.Kind.Kind),
		}
	}
}
