// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// NoCeiling as the cost of a Ceiling leaves cost to be bounded by calls and tokens.
const NoCeiling int64 = -1

const (
	defaultWindow = 24 * time.Hour
	minWindow     = time.Minute
)

var (
	clusterDefault   = Ceiling{Calls: 200, Tokens: 1_000_000, CostMicros: NoCeiling, Window: defaultWindow}
	namespaceDefault = Ceiling{Calls: 50, Tokens: 250_000, CostMicros: NoCeiling, Window: defaultWindow}
)

// Ceiling is what may be spent in any window of a length. Its zero value allows nothing.
type Ceiling struct {
	// Calls and Tokens are the most of each; below zero is read as zero.
	Calls, Tokens int64
	// CostMicros is the highest cost in millionths of the currency of the prices, or NoCeiling.
	CostMicros int64
	// Window is the length of the window. It is read in whole seconds, rounded up; zero and less are read as 24 hours.
	Window time.Duration
}

// Cluster returns the ceiling of the whole cluster: what the policy says, field by field, and 200 calls and 1,000,000 tokens
// in 24 hours where it is nil or does not say.
func Cluster(policy *candorv1alpha1.OperatingPolicy) Ceiling {
	if policy == nil {
		return clusterDefault
	}
	return clusterDefault.with(policy.Spec.Budget)
}

// Namespace returns the ceiling of a namespace: what the policy that pays says, field by field, else the namespaceBudget of
// the OperatingPolicy, else 50 calls and 250,000 tokens in 24 hours. Without a policy that pays, and with one that is being
// deleted, it allows nothing; its window is then that of a policy that says nothing.
//
// The cost is the administrator's word alone. Where the window of the payer is a part of the administrator's, it holds an
// equal part of the cost, so that a short window does not raise what the longer one may cost.
func Namespace(policy *candorv1alpha1.OperatingPolicy, payer *candorv1alpha1.SignalPolicy) Ceiling {
	ceiling := namespaceDefault
	if policy != nil {
		ceiling = ceiling.with(policy.Spec.NamespaceBudget)
	}
	switch {
	case payer == nil || !payer.DeletionTimestamp.IsZero():
		return Ceiling{Window: ceiling.Window}
	case payer.Spec.Budget == nil:
		return ceiling
	}
	own := payer.Spec.Budget
	outer := ceiling.Window
	ceiling.Calls = max(0, int64(own.MaxCalls))
	ceiling.Tokens = atLeastZero(own.MaxTokens, ceiling.Tokens)
	ceiling.Window = window(own.WindowSeconds, ceiling.Window)
	if ceiling.CostMicros != NoCeiling {
		ceiling.CostMicros /= max(1, int64((outer+ceiling.Window-1)/ceiling.Window))
	}
	return ceiling
}

// with returns the ceiling with what a budget says in its place.
func (c Ceiling) with(b *candorv1alpha1.CostBudget) Ceiling {
	if b == nil {
		return c
	}
	if b.MaxCalls != nil {
		c.Calls = max(0, int64(*b.MaxCalls))
	}
	c.Tokens = atLeastZero(b.MaxTokens, c.Tokens)
	c.CostMicros = atLeastZero(b.MaxCostMicros, c.CostMicros)
	c.Window = window(b.WindowSeconds, c.Window)
	return c
}

func atLeastZero(value *int64, otherwise int64) int64 {
	if value == nil {
		return otherwise
	}
	return max(0, *value)
}

func window(seconds int32, otherwise time.Duration) time.Duration {
	if seconds <= 0 {
		return otherwise
	}
	return max(minWindow, time.Duration(seconds)*time.Second)
}

// lacking returns the first unit in which the ceiling does not leave room for a cost beside what is used; empty when there is
// room in each.
func (c Ceiling) lacking(used, cost Cost) Unit {
	switch {
	case !fits(used.Calls, cost.Calls, c.Calls):
		return UnitCalls
	case !fits(used.Tokens, cost.Tokens, c.Tokens):
		return UnitTokens
	case c.CostMicros != NoCeiling && !fits(used.CostMicros, cost.CostMicros, c.CostMicros):
		return UnitCost
	default:
		return ""
	}
}

// fits takes amounts of zero and more, so that the difference cannot overflow.
func fits(used, cost, ceiling int64) bool {
	return cost <= ceiling && used <= ceiling-cost
}

// seconds returns the length of a window in seconds, at least 1.
func seconds(window time.Duration) int64 {
	if window <= 0 {
		window = defaultWindow
	}
	whole := int64(window / time.Second)
	if window%time.Second != 0 {
		whole++
	}
	return whole
}

// String says what may be spent, for people: "200 calls and 1,000,000 tokens in 24 hours".
func (c Ceiling) String() string {
	amounts := counted(c.Calls, "call") + " and " + counted(c.Tokens, "token")
	if c.CostMicros != NoCeiling {
		amounts = counted(c.Calls, "call") + ", " + counted(c.Tokens, "token") + " and a cost of " + money(c.CostMicros)
	}
	return amounts + " in " + period(seconds(c.Window))
}

func period(seconds int64) string {
	for _, unit := range []struct {
		seconds, least int64
		name           string
	}{{86400, 2, "day"}, {3600, 1, "hour"}, {60, 1, "minute"}} {
		if n := seconds / unit.seconds; seconds%unit.seconds == 0 && n >= unit.least {
			return counted(n, unit.name)
		}
	}
	return counted(seconds, "second")
}

func counted(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return grouped(max(0, n)) + " " + noun
}

// money writes millionths as units, with two decimal places, or as many as it takes.
func money(micros int64) string {
	micros = max(0, micros)
	fraction := strings.TrimRight(fmt.Sprintf("%06d", micros%1_000_000), "0")
	return grouped(micros/1_000_000) + "." + fraction + strings.Repeat("0", max(0, 2-len(fraction)))
}

// grouped writes commas between thousands.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// plus adds amounts of zero and more; what does not fit is the largest int64.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
