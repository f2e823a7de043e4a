// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestConditionsAndGenerationsAreChangedInPlace(t *testing.T) {
	g := NewWithT(t)
	ready := metav1.Condition{Type: ConditionReady, Status: metav1.ConditionTrue, Reason: ReasonActive}
	var (
		policy      SignalPolicy
		suppression Suppression
		finding     Finding
	)
	for _, conditions := range []*[]metav1.Condition{policy.StatusConditions(), suppression.StatusConditions(), finding.StatusConditions()} {
		meta.SetStatusCondition(conditions, ready)
	}
	for _, conditions := range []Conditions{policy.Status.Conditions, suppression.Status.Conditions, finding.Status.Conditions} {
		g.Expect(conditions).To(HaveLen(1))
		g.Expect(conditions[0].Reason).To(Equal(ReasonActive))
	}
	*policy.ObservedGeneration(), *suppression.ObservedGeneration() = 3, 4
	g.Expect([]int64{policy.Status.ObservedGeneration, suppression.Status.ObservedGeneration}).To(Equal([]int64{3, 4}))
	g.Expect(finding.ObservedGeneration()).To(BeNil())
}

func TestACopySharesNothing(t *testing.T) {
	g := NewWithT(t)
	f := &Finding{
		Spec:   FindingSpec{Evidence: &Evidence{Top: []Entry{{ID: "CVE-1"}}}},
		Status: FindingStatus{Conditions: Conditions{{Type: ConditionVerified}}},
	}
	c := f.DeepCopy()
	c.Spec.Evidence.Top[0].ID, c.Status.Conditions[0].Type = "CVE-2", ConditionSuppressed
	g.Expect(f.Spec.Evidence.Top[0].ID).To(Equal("CVE-1"))
	g.Expect(f.Status.Conditions[0].Type).To(Equal(ConditionVerified))
}

func TestWhatIsNotSetIsNotSent(t *testing.T) {
	text, err := json.Marshal(FindingSpec{Source: Source{Provider: "trivy"}, Evidence: &Evidence{Digest: "d"}})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(text).To(MatchJSON(`{
		"source": {"provider": "trivy", "kind": "", "name": "", "refKind": "", "refName": ""}, "severity": "", "summary": "", "evidence": {"digest": "d", "total": 0}
	}`))
}
