// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/lifecycle"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/policy"
)

const (
	// secretRecheck is how soon a Secret is looked at again, which nothing tells of when it changes or goes.
	secretRecheck = time.Minute
)

// receiving is how taking signals for a policy goes.
type receiving struct {
	// condition has no status where the policy does not ask for signals, and where nobody can tell now.
	condition metav1.Condition
	// untold is why nobody can tell.
	untold error
	// again is when to look again; zero waits for an event.
	again time.Duration
}

// receive finds out how taking signals for a policy goes.
func (s *SignalPolicySyncer) receive(ctx context.Context, p *candorv1alpha1.SignalPolicy) receiving {
	named, has := slices.Contains(p.Spec.Providers, signals.Posted), p.Spec.WebhookReceiver != nil
	no := func(reason, message string) receiving {
		return receiving{condition: metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}}
	}
	switch {
	case !named && !has:
		return receiving{}
	case !has:
		return no(candorv1alpha1.ReasonNotConfigured, "The provider webhook takes signals of other tools, and spec.webhookReceiver is missing: add it, with the Secret that they sign with.")
	case !named:
		return no(candorv1alpha1.ReasonProviderNotNamed, "spec.webhookReceiver is there, and spec.providers does not name webhook: add it.")
	case s.Keys == nil:
		return no(candorv1alpha1.ReasonReceiverOff, "Candor takes no signals: an administrator turns that on by --signal-receiver-port, such as 9444.")
	}
	_, short, err := s.Keys.Look(ctx, p)
	var unusable *SecretError
	switch {
	case errors.As(err, &unusable):
		r := no(candorv1alpha1.ReasonSecretUnreadable, unusable.Message)
		r.again = secretRecheck
		return r
	case err != nil:
		return receiving{untold: err, again: secretRecheck}
	}
	said := fmt.Sprintf("Taking signals at /webhook/%s/%s.", p.Namespace, p.Name)
	return receiving{again: secretRecheck, condition: metav1.Condition{
		Status: metav1.ConditionTrue, Reason: candorv1alpha1.ReasonListening, Message: strings.TrimSpace(said + " " + short),
	}}
}

// availability is what it comes to for the provider webhook.
func (r receiving) availability() availability {
	c := r.condition
	switch {
	case r.untold != nil:
		return availability{
			order: 2, status: metav1.ConditionUnknown, reason: candorv1alpha1.ReasonProviderUnreachable, undecided: true,
			message: "Cannot tell whether the Secret of spec.webhookReceiver can be read.",
		}
	case c.Status == metav1.ConditionTrue:
		return availability{status: c.Status, reason: candorv1alpha1.ReasonAvailable, message: c.Message}
	default:
		return availability{order: 3, status: metav1.ConditionFalse, reason: candorv1alpha1.ReasonProviderUnavailable, message: c.Message}
	}
}

// showReceiving writes the conditions of a receiver, and reports whether it has just become full. That it takes nothing is said
// aloud by the condition Ready.
func (s *SignalPolicySyncer) showReceiving(ctx context.Context, p *candorv1alpha1.SignalPolicy, r receiving, findings []candorv1alpha1.Finding) bool {
	switch {
	case r.untold != nil:
		logf.FromContext(ctx).Error(r.untold, "Cannot look at the Secret of a receiver; trying again", "after", r.again)
	case r.condition.Status == "":
		lifecycle.RemoveCondition(p, candorv1alpha1.ConditionReceiving)
	default:
		r.condition.Type = candorv1alpha1.ConditionReceiving
		lifecycle.SetCondition(p, s.Clock.Now(), r.condition)
	}
	return s.showFull(p, findings)
}

// showFull writes whether the signals of a policy have made as many Findings as they may, and reports whether they have just done
// so.
func (s *SignalPolicySyncer) showFull(p *candorv1alpha1.SignalPolicy, findings []candorv1alpha1.Finding) bool {
	made := crowding{}
	if policy.Receives(p) {
		made = crowd(findings, p)
	}
	if !made.full(p) {
		lifecycle.RemoveCondition(p, candorv1alpha1.ConditionReceiverFull)
		return false
	}
	message := fmt.Sprintf("There are %d Findings of signals that have not ended, and spec.webhookReceiver.maxFindings allows %d: signals of anything else are "+
		"refused until one ends, or until more are allowed.", made.standing, policy.MaxFindings(p))
	if made.standing < policy.MaxFindings(p) {
		message = fmt.Sprintf("There are %d Findings of signals with those that have ended, %d times what spec.webhookReceiver.maxFindings allows: signals of anything "+
			"else are refused until some are deleted, by hand or at the end of --finding-retention.", made.kept, keptFactor)
	}
	return lifecycle.SetCondition(p, s.Clock.Now(), metav1.Condition{
		Type: candorv1alpha1.ConditionReceiverFull, Status: metav1.ConditionTrue, Reason: candorv1alpha1.ReasonMaxFindings, Message: message,
	})
}
