// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// Used returns what counts of a scope in the window that ends now. scope is cluster, or ns/ and the name of a namespace.
func Used(status *candorv1alpha1.LedgerStatus, scope string, window time.Duration, now time.Time) Cost {
	var used Cost
	eachCounting(status, scope, window, now, func(b candorv1alpha1.LedgerBucket) { used = used.plus(costOf(b)) })
	return used
}

// Status returns what counts of a scope, what its ceiling leaves, and when the first that counts leaves the window. Neither is
// ever below zero.
func Status(status *candorv1alpha1.LedgerStatus, scope string, c Ceiling, now time.Time) *candorv1alpha1.BudgetStatus {
	used := Used(status, scope, c.Window, now)
	shown := &candorv1alpha1.BudgetStatus{
		Calls: used.Calls, CallsLeft: max(0, max(0, c.Calls)-used.Calls),
		Tokens: used.Tokens, TokensLeft: max(0, max(0, c.Tokens)-used.Tokens),
		CostMicros: used.CostMicros,
	}
	eachCounting(status, scope, c.Window, now, func(b candorv1alpha1.LedgerBucket) {
		if at := metav1.NewTime(leaves(b, c.Window)); shown.NextFree == nil || at.Before(shown.NextFree) {
			shown.NextFree = &at
		}
	})
	return shown
}

// eachCounting hands over each bucket of a scope that counts, as it is to be read.
func eachCounting(status *candorv1alpha1.LedgerStatus, scope string, window time.Duration, now time.Time, yield func(candorv1alpha1.LedgerBucket)) {
	length := seconds(window)
	for i := range status.Scopes {
		if status.Scopes[i].Name != scope {
			continue
		}
		for _, written := range status.Scopes[i].Buckets {
			if b := read(written); costOf(b) != (Cost{}) && counts(b, length, now) {
				yield(b)
			}
		}
	}
}

// leaves returns when a bucket stops counting.
func leaves(b candorv1alpha1.LedgerBucket, window time.Duration) time.Time {
	return time.Unix(second(b.End+seconds(window)), 0).UTC()
}

func namespaceOf(scope string) (string, bool) {
	return strings.CutPrefix(scope, candorv1alpha1.LedgerScopeNamespace(""))
}
