// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
)

var known = []string{"trivy", "trivy/config", "trivy/rbac"}

func trivyPolicy(change ...func(*candorv1alpha1.SignalPolicy)) *candorv1alpha1.SignalPolicy {
	return builder.Policy("team-a", "default", []string{"trivy"}, change...)
}

func everyFieldWithoutEffect(p *candorv1alpha1.SignalPolicy) {
	p.Spec.Budget, p.Spec.Webhook, p.Spec.WebhookReceiver = &candorv1alpha1.Budget{}, &candorv1alpha1.Webhook{}, &candorv1alpha1.WebhookReceiver{}
	p.Spec.GitOpsRepo, p.Spec.PullRequestBudget = &candorv1alpha1.GitOpsRepo{}, &candorv1alpha1.PullRequestBudget{}
}

func TestAPolicyIsWarnedOfWhatSurprises(t *testing.T) {
	const reopens = "spec: a changed minSeverity, onlyFixable or unknownSeverity changes what Findings say: " +
		"their fingerprints change, which ends mutes and reopens them for explanation"
	high := func(p *candorv1alpha1.SignalPolicy) { p.Spec.MinSeverity = candorv1alpha1.SeverityHigh }
	low := func(p *candorv1alpha1.SignalPolicy) { p.Spec.MinSeverity = candorv1alpha1.SeverityLow }
	onlyFixable := func(p *candorv1alpha1.SignalPolicy) { p.Spec.OnlyFixable = true }
	unknownHigh := func(p *candorv1alpha1.SignalPolicy) { p.Spec.UnknownSeverity = candorv1alpha1.UnknownHigh }
	strange := func(p *candorv1alpha1.SignalPolicy) { p.Spec.Providers = []string{"falco", "trivy", "Trivy"} }
	for name, test := range map[string]struct {
		old, policy *candorv1alpha1.SignalPolicy
		want        []string
	}{
		"a new policy of known providers": {nil, trivyPolicy(), nil},
		"providers that nobody knows": {nil, trivyPolicy(strange), []string{
			`spec.providers[0]: no provider named "falco" exists; known: trivy, trivy/config, trivy/rbac`,
			`spec.providers[2]: no provider named "Trivy" exists; known: trivy, trivy/config, trivy/rbac`,
		}},
		"fields without effect": {nil, trivyPolicy(everyFieldWithoutEffect), []string{
			"spec.webhook, spec.webhookReceiver, spec.gitOpsRepo, spec.pullRequestBudget: accepted for compatibility, without effect in this version",
		}},
		"a policy that stays as it is":           {trivyPolicy(), trivyPolicy(), nil},
		"a default that is spelled out":          {trivyPolicy(), trivyPolicy(high), nil},
		"another threshold":                      {trivyPolicy(), trivyPolicy(low), []string{reopens}},
		"another choice of fixable":              {trivyPolicy(onlyFixable), trivyPolicy(), []string{reopens}},
		"another treatment of unrated entries":   {trivyPolicy(), trivyPolicy(unknownHigh), []string{reopens}},
		"another provider asks nothing new here": {trivyPolicy(), trivyPolicy(func(p *candorv1alpha1.SignalPolicy) { p.Spec.Providers = known }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(SignalPolicy(test.old, test.policy, known)).To(Equal(test.want))
		})
	}
}

func TestFieldsWithoutEffectAreNamed(t *testing.T) {
	g := NewWithT(t)
	g.Expect(FieldsWithoutEffect(trivyPolicy())).To(BeEmpty())
	g.Expect(FieldsWithoutEffect(trivyPolicy(func(p *candorv1alpha1.SignalPolicy) { p.Spec.GitOpsRepo = &candorv1alpha1.GitOpsRepo{} }))).
		To(Equal([]string{"spec.gitOpsRepo"}))
}

func TestASuppressionIsWarnedOfWhatMutesNothing(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	print64 := strings.Repeat("0f", 32)
	noPrint := func(text string) string {
		return `spec.fingerprint: "` + text + `" is no fingerprint, which has 64 digits of 0-9a-f, and mutes nothing: ` +
			"copy it whole with kubectl get finding NAME -o jsonpath='{.status.fingerprint}'"
	}
	for name, test := range map[string]struct {
		fingerprint string
		expires     time.Duration
		want        []string
	}{
		"a whole fingerprint without an end": {print64, 0, nil},
		"an end that is to come":             {print64, time.Second, nil},
		"an end that has passed": {print64, -time.Hour, []string{
			"spec.expiresAt: 2026-11-30T11:00:00Z has passed, so this mutes nothing: set a later time, or leave it out to mute until the content changes",
		}},
		"half a fingerprint":            {print64[:12], 0, []string{noPrint(print64[:12])}},
		"a fingerprint in capitals":     {strings.ToUpper(print64), 0, []string{noPrint(strings.ToUpper(print64))}},
		"a fingerprint and a line feed": {print64 + "\n", 0, []string{noPrint(print64 + `\n`)}},
		"both mistakes": {"x", -time.Hour, []string{
			noPrint("x"),
			"spec.expiresAt: 2026-11-30T11:00:00Z has passed, so this mutes nothing: set a later time, or leave it out to mute until the content changes",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := builder.Suppression("team-a", "mute", test.fingerprint)
			if test.expires != 0 {
				s.Spec.ExpiresAt = &metav1.Time{Time: now.Add(test.expires)}
			}
			NewWithT(t).Expect(Suppression(s, now)).To(Equal(test.want))
		})
	}
	t.Run("an end of this very moment", func(t *testing.T) {
		s := builder.Suppression("team-a", "mute", print64, func(s *candorv1alpha1.Suppression) { s.Spec.ExpiresAt = &metav1.Time{Time: now} })
		NewWithT(t).Expect(Suppression(s, now)).To(HaveLen(1))
	})
}
