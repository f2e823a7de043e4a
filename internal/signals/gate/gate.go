// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gate decides whether a model may be asked about a Finding. It is an ordered chain of pure checks; the first that
// objects gives the reason that a person reads, a metric counts and a log says.
package gate

import (
	"fmt"
	"time"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/policy"
	"github.com/candor-dev/candor/internal/signals/verify"
)

// MaxAttempts is how many calls may be begun for one request that give no usable answer.
const MaxAttempts = 2

// Asking is the message while a call runs.
const Asking = "A model is being asked."

// Facts are what the gate decides over. A pass gathers them.
type Facts struct {
	Finding *candorv1alpha1.Finding
	// Payer is the policy that pays; nil when none names the provider.
	Payer *candorv1alpha1.SignalPolicy
	// Audit is true when nothing may leave the cluster.
	Audit bool
	// Muted is true while a Suppression holds the fingerprint.
	Muted bool
	// NoModel says why no model can be asked; empty when one can.
	NoModel string
	// Basis is a hash of all that the request follows from, and Key the key of the request. Key may be empty: composing a
	// request costs a read.
	Basis, Key string
	// Busy is true while a call for this Finding runs, or may still run elsewhere: then BusyUntil is when it cannot any more.
	Busy      bool
	BusyUntil time.Time
	// Equal is a Finding whose answer may be taken over; nil when there is none.
	Equal *candorv1alpha1.Finding
	// Paused is until when the model's server must not be asked; zero when it may.
	Paused time.Time
	// Cluster and Namespace say which budget is exhausted and when it frees; nil when it is not.
	Cluster, Namespace *Exhausted
}

// Exhausted is a budget that does not allow a call.
type Exhausted struct {
	// Budget names it, for people: whose it is and what it allows.
	Budget string
	// Free is when it allows the call again; zero when that takes a person.
	Free time.Time
}

// Action is what a pass does next.
type Action string

const (
	// Stop does nothing.
	Stop Action = "Stop"
	// Compose composes the request, and decides again.
	Compose Action = "Compose"
	// Share takes over the answer to an equal question.
	Share Action = "Share"
	// Call asks the model when the Finding's turn comes.
	Call Action = "Call"
)

// Decision is what the gate says.
type Decision struct {
	Action Action
	// Reason is one of the reasons of the condition Enriched.
	Reason string
	// Message says it in a sentence that stays the same for as long as the reason does.
	Message string
	// Again is when to decide again by itself; zero when an event will tell.
	Again time.Time
}

// check objects by returning a decision, or returns nil.
type check func(Facts) *Decision

var chain = []check{
	policyMissing, audit, disabled, notOpen, suppressed, noModel, notNeeded, uncomposed, busy, attemptsExhausted,
	equalAnswer, paused, exhausted,
}

// Decide asks the checks in order.
func Decide(f Facts) Decision {
	for _, objects := range chain {
		if d := objects(f); d != nil {
			return *d
		}
	}
	return Decision{Action: Call, Reason: candorv1alpha1.ReasonWaiting, Message: "A model is asked when the turn of this Finding comes, worst severity first."}
}

func stop(reason, message string, args ...any) *Decision {
	return &Decision{Action: Stop, Reason: reason, Message: fmt.Sprintf(message, args...)}
}

func policyMissing(f Facts) *Decision {
	if f.Payer != nil {
		return nil
	}
	return stop(candorv1alpha1.ReasonPolicyMissing, "No SignalPolicy of this namespace names the provider %s, so nobody pays for an explanation.", f.Finding.Spec.Source.Provider)
}

func audit(f Facts) *Decision {
	if !f.Audit {
		return nil
	}
	if f.Key == "" {
		return stop(candorv1alpha1.ReasonAudit, "Nothing leaves the cluster: spec.mode of the OperatingPolicy is Audit.")
	}
	return stop(candorv1alpha1.ReasonAudit, "Nothing leaves the cluster: spec.mode of the OperatingPolicy is Audit. What would be sent has the digest in status.request.")
}

func disabled(f Facts) *Decision {
	if enabled, _ := policy.Explains(f.Payer); enabled {
		return nil
	}
	return stop(candorv1alpha1.ReasonDisabled, "spec.enrichment.enabled of the SignalPolicy %s is false.", f.Payer.Name)
}

func notOpen(f Facts) *Decision {
	if f.Finding.Spec.Evidence == nil || f.Finding.Spec.Evidence.Total == 0 {
		return stop(candorv1alpha1.ReasonNotOpen, "It holds no evidence that a model could be asked about.")
	}
	if verify.Open(f.Finding.Status.VerificationOutcome) {
		return nil
	}
	return stop(candorv1alpha1.ReasonNotOpen, "It is not there any more, so no model is asked about it.")
}

func suppressed(f Facts) *Decision {
	if !f.Muted {
		return nil
	}
	return stop(candorv1alpha1.ReasonSuppressed, "A Suppression mutes it, so no model is asked about it.")
}

func noModel(f Facts) *Decision {
	if f.NoModel == "" {
		return nil
	}
	return stop(candorv1alpha1.ReasonNoModel, "%s", f.NoModel)
}

func notNeeded(f Facts) *Decision {
	if signals.NeedsEnrichment(f.Finding) {
		return nil
	}
	return stop(candorv1alpha1.ReasonNotNeeded, "A model has explained this content.")
}

func uncomposed(f Facts) *Decision {
	if f.Key != "" {
		return nil
	}
	return &Decision{Action: Compose, Reason: candorv1alpha1.ReasonWaiting}
}

func busy(f Facts) *Decision {
	if !f.Busy {
		return nil
	}
	return &Decision{Action: Stop, Reason: candorv1alpha1.ReasonWaiting, Message: Asking, Again: f.BusyUntil}
}

func attemptsExhausted(f Facts) *Decision {
	last := Attempt(f.Finding, f.Key)
	if last.Count < MaxAttempts {
		return nil
	}
	failure := "no answer of the last call was stored"
	if last.Failure != "" {
		failure = last.Failure + ": " + last.Message
	}
	return stop(candorv1alpha1.ReasonEnrichmentFailed, "The model was asked %d times without a usable answer (%s). It is asked again when the content, the model or the prompt changes, or when you delete this Finding, which makes a new one.", last.Count, failure)
}

func equalAnswer(f Facts) *Decision {
	if f.Equal == nil {
		return nil
	}
	return &Decision{Action: Share, Reason: candorv1alpha1.ReasonSharedResult, Message: "The answer to an equal question was taken over; it cost nothing."}
}

func paused(f Facts) *Decision {
	if f.Paused.IsZero() {
		return nil
	}
	d := stop(candorv1alpha1.ReasonBackendPaused, "The model's server must not be asked for a while; the OperatingPolicy and the log say why.")
	d.Again = f.Paused
	return d
}

func exhausted(f Facts) *Decision {
	e := f.Cluster
	if e == nil {
		e = f.Namespace
	}
	if e == nil {
		return nil
	}
	if e.Free.IsZero() {
		return stop(candorv1alpha1.ReasonBudgetExhausted, "%s does not allow a single call of this size: raise it.", e.Budget)
	}
	d := stop(candorv1alpha1.ReasonBudgetExhausted, "%s is exhausted: it is explained when the window frees.", e.Budget)
	d.Again = e.Free
	return d
}

// Attempt returns the calls that were begun for a request; none when the last one was for another.
func Attempt(f *candorv1alpha1.Finding, key string) candorv1alpha1.Attempt {
	if e := f.Status.Enrichment; e != nil && e.Attempt != nil && e.Attempt.Key == key {
		return *e.Attempt
	}
	return candorv1alpha1.Attempt{Key: key}
}
