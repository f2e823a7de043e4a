// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/lifecycle"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/budget"
	"github.com/candor-dev/candor/internal/signals/gate"
	"github.com/candor-dev/candor/internal/signals/llm"
	"github.com/candor-dev/candor/internal/signals/policy"
)

// orphanMargin is how much longer than a call's timeout a call that was begun elsewhere is waited for.
const orphanMargin = 30 * time.Second

// Explainer takes a Finding through the gate, and sees to it that what a model says is paid for once.
type Explainer struct {
	Client client.Client
	// Process is a name that no other process has had. It tells the attempts of this one from those of others.
	Process string
	// Live reads past the cache, which holds no evidence lines.
	Live     client.Reader
	Models   *Models
	Ledger   *LedgerStore
	Callers  *Callers
	Pause    *Pause
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	Metrics  *Metrics
	// LookForKeys says when to look whether the key has changed; nil is every 30 seconds.
	LookForKeys <-chan time.Time
}

// Start implements manager.Runnable: it has every Finding looked at when a model becomes usable, stops being so, or has another
// key, without a change of any object. That is what a mounted Secret does.
func (e *Explainer) Start(ctx context.Context) error {
	look := e.LookForKeys
	if look == nil {
		ticker := time.NewTicker(keyPoll)
		defer ticker.Stop()
		look = ticker.C
	}
	for last, first := "", true; ; first = false {
		if operating, err := operatingPolicy(ctx, e.Client); err == nil {
			now := e.Models.mark(operating)
			if !first && now != last {
				e.wakeAll(ctx)
			}
			last = now
		}
		select {
		case <-ctx.Done():
			return nil
		case <-look:
		}
	}
}

func (e *Explainer) wakeAll(ctx context.Context) {
	for _, request := range lifecycle.Requests(ctx, e.Client, &candorv1alpha1.FindingList{}) {
		e.Callers.wake(request.NamespacedName)
	}
}

// situation is what one pass gathers.
type situation struct {
	facts     gate.Facts
	operating *candorv1alpha1.OperatingPolicy
	model     *Model
	unusable  *Unusable
	sharing   candorv1alpha1.Sharing
}

// idle reports that no model is configured and none ever was: there is nothing to gather.
func (s *situation) idle() bool {
	return s.unusable != nil && s.unusable.Reason == "" && s.facts.Finding.Status.Enrichment == nil &&
		s.facts.Finding.Status.Request == nil
}

// look gathers what the gate wants to know, but for the request and what depends on it.
func (e *Explainer) look(ctx context.Context, f *candorv1alpha1.Finding, muted bool) (*situation, error) {
	operating, err := operatingPolicy(ctx, e.Client)
	if err != nil {
		return nil, err
	}
	s := &situation{operating: operating, facts: gate.Facts{Finding: f, Muted: muted, Audit: audits(operating)}}
	s.model, s.unusable = e.Models.For(operating)
	if s.unusable != nil {
		s.facts.NoModel = s.unusable.Message
	}
	if s.idle() {
		return s, nil
	}
	s.facts.Payer, err = payer(ctx, e.Client, f, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		return nil, err
	}
	if s.facts.Payer != nil {
		_, s.sharing = policy.Explains(s.facts.Payer)
	}
	if s.model != nil {
		s.facts.Basis = basis(f, s.model, s.sharing)
		if r := f.Status.Request; r != nil && r.Basis == s.facts.Basis {
			s.facts.Key = r.Key
		}
	}
	return s, nil
}

// payer returns the policy that pays for an explanation of the Finding, nil when there is none.
func payer(ctx context.Context, reader client.Reader, f *candorv1alpha1.Finding, options ...client.ListOption) (*candorv1alpha1.SignalPolicy, error) {
	var policies candorv1alpha1.SignalPolicyList
	if err := reader.List(ctx, &policies, append(options, client.InNamespace(f.Namespace))...); err != nil {
		return nil, fmt.Errorf("listing the policies of %s: %w", f.Namespace, err)
	}
	return policy.Payer(policies.Items, f.Spec.Source.Provider), nil
}

// decide takes the Finding through the gate. Where only the request is missing it composes it, also in mode Audit, in which it
// is shown and not sent.
func (e *Explainer) decide(ctx context.Context, s *situation) (gate.Decision, error) {
	free := s.facts
	free.Key, free.Audit = "", s.facts.Audit && s.model == nil
	if d := gate.Decide(free); d.Action != gate.Compose {
		return d, nil
	}
	if s.facts.Key == "" {
		if err := e.compose(ctx, s); err != nil {
			return gate.Decision{}, err
		}
	}
	if s.facts.Audit {
		return gate.Decide(s.facts), nil
	}
	if err := e.lookFurther(ctx, s); err != nil {
		return gate.Decision{}, err
	}
	return gate.Decide(s.facts), nil
}

// compose reads the evidence and writes the digest of what would be sent into the status.
func (e *Explainer) compose(ctx context.Context, s *situation) error {
	full := &candorv1alpha1.Finding{}
	if err := e.Live.Get(ctx, client.ObjectKeyFromObject(s.facts.Finding), full); err != nil {
		return fmt.Errorf("reading the evidence of %s/%s: %w", s.facts.Finding.Namespace, s.facts.Finding.Name, err)
	}
	body, err := Compose(full, s.model, s.sharing)
	if err != nil {
		return err
	}
	s.facts.Key = keyOf(body)
	s.facts.Finding.Status.Request = &candorv1alpha1.Request{Key: s.facts.Key, Bytes: int32(len(body)), Basis: s.facts.Basis}
	return nil
}

// Compose returns the exact body that a model would be sent about a Finding.
func Compose(f *candorv1alpha1.Finding, model *Model, sharing candorv1alpha1.Sharing) ([]byte, error) {
	body, err := model.Backend.Render(llm.Compose(f.Spec, f.Namespace, sharing), model.Settings)
	if err != nil {
		return nil, fmt.Errorf("composing the request about %s/%s: %w", f.Namespace, f.Name, err)
	}
	return body, nil
}

// lookFurther gathers what depends on the request.
func (e *Explainer) lookFurther(ctx context.Context, s *situation) error {
	f, now := s.facts.Finding, e.Clock.Now()
	s.facts.Busy, s.facts.BusyUntil = e.busy(f, s.model, now)
	equal, err := e.equal(ctx, f, s.facts.Key, s.sharing)
	if err != nil {
		return err
	}
	s.facts.Equal = equal
	until, probe := e.Pause.Until(s.model.identity, now)
	s.facts.Paused = until
	limit := s.model.Concurrent
	if probe {
		limit = 1
	}
	e.Callers.turns.setLimit(limit)
	ledger, err := e.Ledger.Look(ctx)
	if err != nil {
		return err
	}
	cost := budget.Estimate(int(f.Status.Request.Bytes), s.model.Settings.MaxOutputTokens, s.model.Prices)
	cluster, namespace := budget.Cluster(s.operating), budget.Namespace(s.operating, s.facts.Payer)
	switch denial := budget.Check(ledger, f.Namespace, cluster, namespace, cost, now); {
	case denial == nil:
	case denial.Scope == candorv1alpha1.LedgerScopeCluster:
		s.facts.Cluster = &gate.Exhausted{Budget: "The budget of the cluster (" + cluster.String() + ")", Free: denial.Free}
	default:
		s.facts.Namespace = &gate.Exhausted{Budget: "The budget of this namespace (" + namespace.String() + ")", Free: denial.Free}
	}
	return nil
}

// busy reports whether a call for the Finding runs here, or was begun by a manager that may still wait for its answer.
func (e *Explainer) busy(f *candorv1alpha1.Finding, model *Model, now time.Time) (bool, time.Time) {
	if e.Callers.busy(f.UID) {
		return true, time.Time{}
	}
	if f.Status.Enrichment == nil || f.Status.Enrichment.Attempt == nil || !f.Status.Enrichment.Attempt.Running ||
		f.Status.Enrichment.Attempt.By == e.Process {
		return false, time.Time{}
	}
	until := f.Status.Enrichment.Attempt.At.Add(model.Timeout + orphanMargin)
	return now.Before(until), until
}

// equal returns a Finding that holds the answer to an equal question and may share it.
func (e *Explainer) equal(ctx context.Context, f *candorv1alpha1.Finding, key string, sharing candorv1alpha1.Sharing) (*candorv1alpha1.Finding, error) {
	for _, scope := range []candorv1alpha1.Sharing{candorv1alpha1.SharingCluster, candorv1alpha1.SharingNamespace} {
		options := []client.ListOption{client.MatchingFields{indexAnswer: answerKey(scope, key)}, client.Limit(1), client.UnsafeDisableDeepCopy}
		switch {
		case sharing == candorv1alpha1.SharingNone, sharing == candorv1alpha1.SharingNamespace && scope == candorv1alpha1.SharingCluster:
			continue
		case scope == candorv1alpha1.SharingNamespace:
			options = append(options, client.InNamespace(f.Namespace))
		}
		var list candorv1alpha1.FindingList
		if err := e.Client.List(ctx, &list, options...); err != nil {
			return nil, fmt.Errorf("looking for an equal answer: %w", err)
		}
		if len(list.Items) > 0 {
			return &list.Items[0], nil
		}
	}
	return nil, nil
}

func answerKey(scope candorv1alpha1.Sharing, key string) string { return string(scope) + "/" + key }

// answerKeys indexes a Finding by what its answer may be found by. It may be found in its namespace if it is shared at all.
func answerKeys(f *candorv1alpha1.Finding) []string {
	e := f.Status.Enrichment
	if e == nil || e.Key == "" || len(f.Status.Hypotheses) == 0 {
		return nil
	}
	switch e.Sharing {
	case candorv1alpha1.SharingCluster:
		return []string{answerKey(candorv1alpha1.SharingCluster, e.Key), answerKey(candorv1alpha1.SharingNamespace, e.Key)}
	case candorv1alpha1.SharingNamespace:
		return []string{answerKey(candorv1alpha1.SharingNamespace, e.Key)}
	default:
		return nil
	}
}

// shareKey is the same for Findings that may share an answer.
func shareKey(f *candorv1alpha1.Finding, key string, sharing candorv1alpha1.Sharing) string {
	switch sharing {
	case candorv1alpha1.SharingCluster:
		return key
	case candorv1alpha1.SharingNamespace:
		return f.Namespace + "/" + key
	default:
		return string(f.UID)
	}
}

// basis hashes what a request follows from, as far as a cached Finding tells.
func basis(f *candorv1alpha1.Finding, model *Model, sharing candorv1alpha1.Sharing) string {
	return digest16(f.Status.Fingerprint, string(sharing), llm.PromptVersion, model.Backend.Name(), model.Settings.Model,
		fmt.Sprint(model.Settings.MaxOutputTokens), model.Settings.StructuredOutput, model.Settings.TokenLimit)
}

func digest16(fields ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(fields, "\x00")))
	return hex.EncodeToString(sum[:8])
}

func keyOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// current reports that a Finding as it is stored still says what it said when its request was composed.
func current(f *candorv1alpha1.Finding, fingerprint string) bool {
	return signals.Fingerprint(signals.Of(f)) == fingerprint
}

// present reports that the last look at the source saw what a Finding says.
func present(f *candorv1alpha1.Finding) bool {
	return f.Spec.Observed == "" || f.Spec.Observed == candorv1alpha1.ObservedPresent
}
