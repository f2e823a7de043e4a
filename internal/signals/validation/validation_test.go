// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
)

var known = []string{"trivy", "trivy/config", "trivy/rbac", "webhook"}

func trivyPolicy(change ...func(*candorv1alpha1.SignalPolicy)) *candorv1alpha1.SignalPolicy {
	return builder.Policy("team-a", "default", []string{"trivy"}, change...)
}

func everyFieldWithoutEffect(p *candorv1alpha1.SignalPolicy) {
	p.Spec.Budget, p.Spec.Webhook = &candorv1alpha1.Budget{}, &candorv1alpha1.Webhook{}
	p.Spec.GitOpsRepo, p.Spec.PullRequestBudget = &candorv1alpha1.GitOpsRepo{}, &candorv1alpha1.PullRequestBudget{}
}

func TestAPolicyIsWarnedOfWhatSurprises(t *testing.T) {
	const reopens = "spec: a changed minSeverity, onlyFixable or unknownSeverity changes what Findings say: " +
		"their fingerprints change, which ends mutes and reopens them for explanation"
	high := func(p *candorv1alpha1.SignalPolicy) { p.Spec.MinSeverity = candorv1alpha1.SeverityHigh }
	low := func(p *candorv1alpha1.SignalPolicy) { p.Spec.MinSeverity = candorv1alpha1.SeverityLow }
	onlyFixable := func(p *candorv1alpha1.SignalPolicy) { p.Spec.OnlyFixable = true }
	unknownHigh := func(p *candorv1alpha1.SignalPolicy) { p.Spec.UnknownSeverity = candorv1alpha1.UnknownHigh }
	receiver := func(p *candorv1alpha1.SignalPolicy) { p.Spec.WebhookReceiver = &candorv1alpha1.WebhookReceiver{} }
	posted := func(p *candorv1alpha1.SignalPolicy) { p.Spec.Providers = append(p.Spec.Providers, "webhook") }
	strange := func(p *candorv1alpha1.SignalPolicy) { p.Spec.Providers = []string{"falco", "trivy", "Trivy"} }
	for name, test := range map[string]struct {
		old, policy *candorv1alpha1.SignalPolicy
		want        []string
	}{
		"a new policy of known providers": {nil, trivyPolicy(), nil},
		"providers that nobody knows": {nil, trivyPolicy(strange), []string{
			`spec.providers[0]: no provider named "falco" exists; known: trivy, trivy/config, trivy/rbac, webhook`,
			`spec.providers[2]: no provider named "Trivy" exists; known: trivy, trivy/config, trivy/rbac, webhook`,
		}},
		"fields without effect": {nil, trivyPolicy(everyFieldWithoutEffect), []string{
			"spec.gitOpsRepo, spec.pullRequestBudget: accepted for compatibility, without effect in this version",
		}},
		"a receiver that signals may be posted to": {nil, trivyPolicy(posted, receiver), nil},
		"a provider that nobody can post to": {nil, trivyPolicy(posted), []string{
			"spec.webhookReceiver: is missing, so that the provider webhook takes no signals",
		}},
		"a receiver that nobody asks for": {nil, trivyPolicy(receiver), []string{
			"spec.providers: does not name webhook, so that spec.webhookReceiver takes no signals",
		}},
		"a policy that stays as it is":           {trivyPolicy(), trivyPolicy(), nil},
		"a default that is spelled out":          {trivyPolicy(), trivyPolicy(high), nil},
		"another threshold":                      {trivyPolicy(), trivyPolicy(low), []string{reopens}},
		"another choice of fixable":              {trivyPolicy(onlyFixable), trivyPolicy(), []string{reopens}},
		"another treatment of unrated entries":   {trivyPolicy(), trivyPolicy(unknownHigh), []string{reopens}},
		"another provider asks nothing new here": {trivyPolicy(), trivyPolicy(func(p *candorv1alpha1.SignalPolicy) { p.Spec.Providers = known[:3] }), nil},
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
