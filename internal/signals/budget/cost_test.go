// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"math"
	"math/big"
	"testing"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/llm"
)

func TestWhatACallCosts(t *testing.T) {
	const most = math.MaxInt64
	for name, test := range map[string]struct {
		read, written int64
		prices        *candorv1alpha1.Prices
		want          Cost
	}{
		"without prices there is no money":           {3000, 1024, nil, Cost{1, 4024, 0}},
		"money is the price of both":                 {1_000_000, 1_000_000, &candorv1alpha1.Prices{InputMicros: 3_000_000, OutputMicros: 15_000_000}, Cost{1, 2_000_000, 18_000_000}},
		"money is rounded up":                        {1, 0, &candorv1alpha1.Prices{InputMicros: 1}, Cost{1, 1, 1}},
		"money that comes out even is not":           {2, 3, &candorv1alpha1.Prices{InputMicros: 500_000, OutputMicros: 1_000_000}, Cost{1, 5, 4}},
		"both prices are rounded up together":        {1, 1, &candorv1alpha1.Prices{InputMicros: 500_000, OutputMicros: 500_000}, Cost{1, 2, 1}},
		"prices of zero are free":                    {3000, 1024, &candorv1alpha1.Prices{}, Cost{1, 4024, 0}},
		"a call that used nothing is a call":         {0, 0, &candorv1alpha1.Prices{InputMicros: 1}, Cost{1, 0, 0}},
		"a usage below zero is none":                 {-5, math.MinInt64, &candorv1alpha1.Prices{InputMicros: 1}, Cost{1, 0, 0}},
		"a price below zero is none":                 {5, 5, &candorv1alpha1.Prices{InputMicros: -1, OutputMicros: math.MinInt64}, Cost{1, 10, 0}},
		"what does not fit is the largest number":    {most, most, &candorv1alpha1.Prices{InputMicros: most, OutputMicros: most}, Cost{1, most, most}},
		"what just does not fit is so as well":       {most, 0, &candorv1alpha1.Prices{InputMicros: 1_000_001}, Cost{1, most, most}},
		"the largest that fits is exact":             {most, 0, &candorv1alpha1.Prices{InputMicros: 1_000_000}, Cost{1, most, most}},
		"a sum above 64 bits is exact":               {1e13, 1e13, &candorv1alpha1.Prices{InputMicros: 1e6, OutputMicros: 1e6}, Cost{1, 2e13, 2e13}},
		"the dearest model reads a body of 1 MiB so": {1 << 20, 16384, &candorv1alpha1.Prices{InputMicros: 1e12, OutputMicros: 1e12}, Cost{1, 1<<20 + 16384, (1<<20 + 16384) * 1e6}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Of(llm.Usage{InputTokens: test.read, OutputTokens: test.written}, test.prices)).To(Equal(test.want))
		})
	}
}

func TestAnEstimateTakesEveryByteForAToken(t *testing.T) {
	g := NewWithT(t)
	prices := &candorv1alpha1.Prices{InputMicros: 3_000_000, OutputMicros: 15_000_000}
	g.Expect(Estimate(4096, 1024, prices)).To(Equal(Cost{1, 5120, 27_648}))
	g.Expect(Estimate(math.MaxInt, math.MaxInt32, nil)).To(Equal(Cost{1, math.MaxInt64, 0}))
	g.Expect(Estimate(-1, -1, prices)).To(Equal(Cost{1, 0, 0}))
}

// FuzzPrice compares with arithmetic that cannot overflow.
func FuzzPrice(f *testing.F) {
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Add(int64(1), int64(999_999), int64(1), int64(2))
	f.Add(int64(math.MinInt64), int64(1), int64(-1), int64(1))
	f.Fuzz(func(t *testing.T, read, input, written, output int64) {
		part := func(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(max(0, a)), big.NewInt(max(0, b))) }
		want := part(read, input)
		want.Add(want, part(written, output)).Add(want, big.NewInt(999_999)).Div(want, big.NewInt(1_000_000))
		if !want.IsInt64() {
			want.SetInt64(math.MaxInt64)
		}
		got := Of(llm.Usage{InputTokens: read, OutputTokens: written}, &candorv1alpha1.Prices{InputMicros: input, OutputMicros: output})
		if got.CostMicros != want.Int64() {
			t.Errorf("%d·%d + %d·%d costs %d, not %v", read, input, written, output, got.CostMicros, want)
		}
	})
}
