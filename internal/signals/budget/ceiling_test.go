// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// operating returns a policy with the same budget for the cluster and for namespaces.
func operating(b candorv1alpha1.CostBudget) *candorv1alpha1.OperatingPolicy {
	return &candorv1alpha1.OperatingPolicy{Spec: candorv1alpha1.OperatingPolicySpec{Budget: &b, NamespaceBudget: &b}}
}

func paying(b *candorv1alpha1.Budget) *candorv1alpha1.SignalPolicy {
	return &candorv1alpha1.SignalPolicy{Spec: candorv1alpha1.SignalPolicySpec{Budget: b}}
}

func TestTheCeilingOfTheClusterIsThatOfThePolicyOrTheDefault(t *testing.T) {
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		policy *candorv1alpha1.OperatingPolicy
		want   Ceiling
	}{
		"without a policy the defaults hold":        {nil, Ceiling{200, 1_000_000, NoCeiling, day}},
		"an empty policy says nothing":              {&candorv1alpha1.OperatingPolicy{}, Ceiling{200, 1_000_000, NoCeiling, day}},
		"an empty budget says nothing":              {operating(candorv1alpha1.CostBudget{}), Ceiling{200, 1_000_000, NoCeiling, day}},
		"calls alone leave the rest":                {operating(candorv1alpha1.CostBudget{MaxCalls: new(int32(7))}), Ceiling{7, 1_000_000, NoCeiling, day}},
		"tokens alone leave the rest":               {operating(candorv1alpha1.CostBudget{MaxTokens: new(int64(7))}), Ceiling{200, 7, NoCeiling, day}},
		"cost is bounded beside calls and tokens":   {operating(candorv1alpha1.CostBudget{MaxCostMicros: new(int64(7))}), Ceiling{200, 1_000_000, 7, day}},
		"the window alone leaves the rest":          {operating(candorv1alpha1.CostBudget{WindowSeconds: 3600}), Ceiling{200, 1_000_000, NoCeiling, time.Hour}},
		"zero allows nothing":                       {operating(candorv1alpha1.CostBudget{MaxCalls: new(int32(0)), MaxTokens: new(int64(0)), MaxCostMicros: new(int64(0))}), Ceiling{0, 0, 0, day}},
		"less than zero allows nothing":             {operating(candorv1alpha1.CostBudget{MaxCalls: new(int32(math.MinInt32)), MaxTokens: new(int64(math.MinInt64)), MaxCostMicros: new(int64(-1)), WindowSeconds: -5}), Ceiling{0, 0, 0, day}},
		"the largest numbers are taken as they are": {operating(candorv1alpha1.CostBudget{MaxCalls: new(int32(math.MaxInt32)), MaxTokens: new(int64(math.MaxInt64)), MaxCostMicros: new(int64(math.MaxInt64)), WindowSeconds: math.MaxInt32}), Ceiling{math.MaxInt32, math.MaxInt64, math.MaxInt64, math.MaxInt32 * time.Second}},
		"a window is a minute at least":             {operating(candorv1alpha1.CostBudget{WindowSeconds: 1}), Ceiling{200, 1_000_000, NoCeiling, time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Cluster(test.policy)).To(Equal(test.want))
		})
	}
}

func TestTheCeilingOfANamespaceIsThatOfThePayerThenOfTheOperatingPolicyThenTheDefault(t *testing.T) {
	const day = 24 * time.Hour
	deleted := paying(nil)
	deleted.DeletionTimestamp = &metav1.Time{Time: noon}
	ofAll := operating(candorv1alpha1.CostBudget{MaxCalls: new(int32(5)), MaxTokens: new(int64(500)), MaxCostMicros: new(int64(2400)), WindowSeconds: 86400})
	for name, test := range map[string]struct {
		policy *candorv1alpha1.OperatingPolicy
		payer  *candorv1alpha1.SignalPolicy
		want   Ceiling
	}{
		"policy-deleted: without a payer nothing is allowed":                     {nil, nil, Ceiling{Window: day}},
		"policy-deleted: the OperatingPolicy allows nothing without a payer":     {ofAll, nil, Ceiling{Window: day}},
		"a payer that is being deleted allows nothing":                           {ofAll, deleted, Ceiling{Window: day}},
		"a payer that says nothing has the defaults":                             {nil, paying(nil), Ceiling{50, 250_000, NoCeiling, day}},
		"a payer that says nothing has what the OperatingPolicy says":            {ofAll, paying(nil), Ceiling{5, 500, 2400, day}},
		"what the payer says counts":                                             {ofAll, paying(&candorv1alpha1.Budget{MaxCalls: 9, MaxTokens: new(int64(90)), WindowSeconds: 86400}), Ceiling{9, 90, 2400, day}},
		"what the payer leaves out comes from the OperatingPolicy":               {ofAll, paying(&candorv1alpha1.Budget{MaxCalls: 9}), Ceiling{9, 500, 2400, day}},
		"what both leave out is the default":                                     {nil, paying(&candorv1alpha1.Budget{MaxCalls: 9}), Ceiling{9, 250_000, NoCeiling, day}},
		"a window of an hour has a 24th of the cost of a day":                    {ofAll, paying(&candorv1alpha1.Budget{MaxCalls: 9, WindowSeconds: 3600}), Ceiling{9, 500, 100, time.Hour}},
		"a window of which a day holds one and a half has half of the cost":      {ofAll, paying(&candorv1alpha1.Budget{MaxCalls: 9, WindowSeconds: 57600}), Ceiling{9, 500, 1200, 16 * time.Hour}},
		"a window of a week has no more cost than a day":                         {ofAll, paying(&candorv1alpha1.Budget{MaxCalls: 9, WindowSeconds: 604800}), Ceiling{9, 500, 2400, 7 * day}},
		"no calls are no calls":                                                  {ofAll, paying(&candorv1alpha1.Budget{}), Ceiling{0, 500, 2400, day}},
		"less than zero is nothing":                                              {nil, paying(&candorv1alpha1.Budget{MaxCalls: -1, MaxTokens: new(int64(-1)), WindowSeconds: -1}), Ceiling{0, 0, NoCeiling, day}},
		"the largest numbers are taken as they are, and bound by the cluster":    {nil, paying(&candorv1alpha1.Budget{MaxCalls: math.MaxInt32, MaxTokens: new(int64(math.MaxInt64)), WindowSeconds: math.MaxInt32}), Ceiling{math.MaxInt32, math.MaxInt64, NoCeiling, math.MaxInt32 * time.Second}},
		"the budget of the cluster is not what a namespace is given by default":  {&candorv1alpha1.OperatingPolicy{Spec: candorv1alpha1.OperatingPolicySpec{Budget: &candorv1alpha1.CostBudget{MaxCalls: new(int32(9000))}}}, paying(nil), Ceiling{50, 250_000, NoCeiling, day}},
		"a short window of the OperatingPolicy counts where the payer is silent": {operating(candorv1alpha1.CostBudget{WindowSeconds: 600}), paying(&candorv1alpha1.Budget{MaxCalls: 9}), Ceiling{9, 250_000, NoCeiling, 10 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Namespace(test.policy, test.payer)).To(Equal(test.want))
		})
	}
}

func TestACeilingIsSaidInWords(t *testing.T) {
	for want, ceiling := range map[string]Ceiling{
		"200 calls and 1,000,000 tokens in 24 hours":                                        clusterDefault,
		"1 call and 1 token in 1 hour":                                                      {1, 1, NoCeiling, time.Hour},
		"0 calls, 0 tokens and a cost of 0.00 in 24 hours":                                  {},
		"50 calls, 999 tokens and a cost of 1,234.50 in 7 days":                             {50, 999, 1_234_500_000, 7 * 24 * time.Hour},
		"50 calls, 1,000 tokens and a cost of 0.000001 in 90 minutes":                       {50, 1000, 1, 90 * time.Minute},
		"2,147,483,647 calls and 9,223,372,036,854,775,807 tokens in 2,147,483,647 seconds": {math.MaxInt32, math.MaxInt64, NoCeiling, math.MaxInt32 * time.Second},
	} {
		NewWithT(t).Expect(ceiling.String()).To(Equal(want))
	}
}
