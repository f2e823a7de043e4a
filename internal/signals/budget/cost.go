// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"math"
	"math/bits"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/llm"
)

// tokensPerPrice is how many tokens a price is for.
const tokensPerPrice = 1_000_000

// Unit is what a ceiling bounds.
type Unit string

// Units.
const (
	UnitCalls  Unit = "calls"
	UnitTokens Unit = "tokens"
	UnitCost   Unit = "costMicros"
	// UnitNamespaces is the room of the Ledger itself.
	UnitNamespaces Unit = "namespaces"
)

// Cost is what calls use up. Amounts below zero are read as zero.
type Cost struct {
	Calls, Tokens int64
	// CostMicros is in millionths of the currency of the prices; zero without prices.
	CostMicros int64
}

// Estimate returns the most that one call may cost: no tokenizer makes more tokens of a body than it has bytes, and no more
// are written than maxOutputTokens. Money is rounded up; without prices it is zero.
func Estimate(bodyBytes int, maxOutputTokens int32, prices *candorv1alpha1.Prices) Cost {
	return priced(int64(bodyBytes), int64(maxOutputTokens), prices)
}

// Of returns what one call that used so many tokens costs. Money is rounded up; without prices it is zero.
func Of(usage llm.Usage, prices *candorv1alpha1.Prices) Cost {
	return priced(usage.InputTokens, usage.OutputTokens, prices)
}

func priced(read, written int64, prices *candorv1alpha1.Prices) Cost {
	read, written = max(0, read), max(0, written)
	cost := Cost{Calls: 1, Tokens: plus(read, written)}
	if prices != nil {
		cost.CostMicros = price(read, prices.InputMicros, written, prices.OutputMicros)
	}
	return cost
}

// price returns (a·b + c·d) / 1,000,000, rounded up; the largest int64 where it does not fit.
func price(a, b, c, d int64) int64 {
	high, low := bits.Mul64(uint64(a), uint64(max(0, b)))
	high2, low2 := bits.Mul64(uint64(c), uint64(max(0, d)))
	low, carry := bits.Add64(low, low2, 0)
	high += high2 + carry
	low, carry = bits.Add64(low, tokensPerPrice-1, 0)
	high += carry
	if high >= tokensPerPrice {
		return math.MaxInt64
	}
	quotient, _ := bits.Div64(high, low, tokensPerPrice)
	return int64(min(quotient, math.MaxInt64))
}

func (c Cost) plus(other Cost) Cost {
	return Cost{plus(c.Calls, other.Calls), plus(c.Tokens, other.Tokens), plus(c.CostMicros, other.CostMicros)}
}

// minus subtracts unit by unit and stops at zero.
func (c Cost) minus(other Cost) Cost {
	return Cost{max(0, c.Calls-other.Calls), max(0, c.Tokens-other.Tokens), max(0, c.CostMicros-other.CostMicros)}
}

func (c Cost) atLeastZero() Cost {
	return Cost{max(0, c.Calls), max(0, c.Tokens), max(0, c.CostMicros)}
}
