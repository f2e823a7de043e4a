// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

var at = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// open returns facts over which a call is made.
func open() Facts {
	f := &candorv1alpha1.Finding{}
	f.Spec.Source.Provider = "trivy"
	f.Spec.Evidence = &candorv1alpha1.Evidence{Total: 1}
	f.Status.VerificationOutcome = candorv1alpha1.OutcomeStillPresent
	f.Status.Fingerprint, f.Status.EnrichedFingerprint = "new", "old"
	return Facts{Finding: f, Payer: &candorv1alpha1.SignalPolicy{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, Key: "key"}
}

func attempts(key string, count int32, failure string) *candorv1alpha1.Enrichment {
	return &candorv1alpha1.Enrichment{Attempt: &candorv1alpha1.Attempt{Key: key, Count: count, Failure: failure, Message: "no JSON"}}
}

// The cases stand in the order of the gate.
func TestTheFirstCheckThatObjectsGivesTheReason(t *testing.T) {
	donor := &candorv1alpha1.Finding{}
	for _, test := range []struct {
		name   string
		change func(*Facts)
		action Action
		reason string
		says   string
		again  time.Time
	}{
		{"policy-deleted: nobody pays", func(f *Facts) { f.Payer = nil }, Stop, "PolicyMissing", "No SignalPolicy of this namespace names the provider trivy", time.Time{}},
		{"nothing may leave the cluster", func(f *Facts) { f.Audit = true }, Stop, "Audit", "spec.mode of the OperatingPolicy is Audit", time.Time{}},
		{"the policy wants no explanation", func(f *Facts) {
			f.Payer.Spec.Enrichment = &candorv1alpha1.EnrichmentPolicy{Enabled: ptr.To(false)}
		}, Stop, "Disabled", "SignalPolicy default", time.Time{}},
		{"the thing is gone", func(f *Facts) { f.Finding.Status.VerificationOutcome = candorv1alpha1.OutcomeResolved }, Stop, "NotOpen", "", time.Time{}},
		{"there is no evidence", func(f *Facts) { f.Finding.Spec.Evidence = nil }, Stop, "NotOpen", "no evidence", time.Time{}},
		{"somebody muted it", func(f *Facts) { f.Muted = true }, Stop, "Suppressed", "", time.Time{}},
		{"there is no model", func(f *Facts) { f.NoModel = "No model is configured." }, Stop, "NoModel", "No model is configured.", time.Time{}},
		{"the content is explained", func(f *Facts) { f.Finding.Status.EnrichedFingerprint = "new" }, Stop, "NotNeeded", "", time.Time{}},
		{"the request is not composed", func(f *Facts) { f.Key = "" }, Compose, "Waiting", "", time.Time{}},
		{"a call runs", func(f *Facts) { f.Busy = true }, Stop, "Waiting", Asking, time.Time{}},
		{"a call may still run elsewhere", func(f *Facts) { f.Busy, f.BusyUntil = true, at }, Stop, "Waiting", Asking, at},
		{"the model was asked as often as it may be", func(f *Facts) { f.Finding.Status.Enrichment = attempts("key", 2, "InvalidOutput") }, Stop, "EnrichmentFailed", "2 times without a usable answer (InvalidOutput: no JSON)", time.Time{}},
		{"calls ended without a trace as often as they may", func(f *Facts) { f.Finding.Status.Enrichment = attempts("key", 2, "") }, Stop, "EnrichmentFailed", "no answer of the last call was stored", time.Time{}},
		{"an equal answer exists", func(f *Facts) { f.Equal = donor }, Share, "SharedResult", "", time.Time{}},
		{"the server asked to wait", func(f *Facts) { f.Paused = at }, Stop, "BackendPaused", "", at},
		{"the cluster has spent its budget", func(f *Facts) { f.Cluster = &Exhausted{"The budget of the cluster (3 calls)", at} }, Stop, "BudgetExhausted", "The budget of the cluster (3 calls) is exhausted", at},
		{"the namespace has spent its budget", func(f *Facts) { f.Namespace = &Exhausted{"The budget of this namespace (1 call)", at} }, Stop, "BudgetExhausted", "The budget of this namespace", at},
		{"the call is larger than the budget", func(f *Facts) { f.Namespace = &Exhausted{Budget: "The budget of this namespace (9 tokens)"} }, Stop, "BudgetExhausted", "does not allow a single call of this size", time.Time{}},
		{"nothing objects", func(*Facts) {}, Call, "Waiting", "worst severity first", time.Time{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g, facts := NewWithT(t), open()
			test.change(&facts)
			d := Decide(facts)
			g.Expect(d.Action).To(Equal(test.action))
			g.Expect(d.Reason).To(Equal(test.reason))
			g.Expect(d.Message).To(ContainSubstring(test.says))
			g.Expect(d.Again).To(Equal(test.again))
		})
	}
}

func TestAnEarlierCheckWins(t *testing.T) {
	everything := func() Facts {
		f := open()
		f.Payer = nil
		f.Audit, f.Muted, f.NoModel, f.Key, f.Busy = true, true, "none", "", true
		f.Finding.Status.VerificationOutcome = candorv1alpha1.OutcomeResolved
		f.Finding.Status.EnrichedFingerprint = "new"
		f.Equal, f.Paused, f.Cluster, f.Namespace = &candorv1alpha1.Finding{}, at, &Exhausted{"cluster", at}, &Exhausted{"namespace", at}
		return f
	}
	g, f := NewWithT(t), everything()
	mend := []struct {
		reason string
		mend   func()
	}{
		{"PolicyMissing", func() {
			f.Payer = &candorv1alpha1.SignalPolicy{Spec: candorv1alpha1.SignalPolicySpec{Enrichment: &candorv1alpha1.EnrichmentPolicy{Enabled: ptr.To(false)}}}
		}},
		{"Audit", func() { f.Audit = false }},
		{"Disabled", func() { f.Payer.Spec.Enrichment = nil }},
		{"NotOpen", func() { f.Finding.Status.VerificationOutcome = candorv1alpha1.OutcomeRecurred }},
		{"Suppressed", func() { f.Muted = false }},
		{"NoModel", func() { f.NoModel = "" }},
		{"NotNeeded", func() { f.Finding.Status.EnrichedFingerprint = "" }},
		{"Waiting", func() { f.Key, f.Finding.Status.Enrichment = "key", attempts("key", 2, "Refused") }},
		{"Waiting", func() { f.Busy = false }},
		{"EnrichmentFailed", func() { f.Finding.Status.Enrichment = attempts("another", 2, "Refused") }},
		{"SharedResult", func() { f.Equal = nil }},
		{"BackendPaused", func() { f.Paused = time.Time{} }},
		{"BudgetExhausted", func() { f.Cluster = nil }},
		{"BudgetExhausted", func() { f.Namespace = nil }},
	}
	for _, step := range mend {
		g.Expect(Decide(f).Reason).To(Equal(step.reason))
		step.mend()
	}
	g.Expect(Decide(f).Action).To(Equal(Call))
}
