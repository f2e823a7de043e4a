// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package repeat

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

func TestErrorsSlowItDownAndSuccessSpeedsItUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, start := NewWithT(t), time.Now()
		var at []time.Duration
		results := []error{errors.New("1"), errors.New("2"), errors.New("3"), nil, errors.New("4"), nil}
		Until(t.Context(), time.Second, 3*time.Second, func(context.Context) (time.Duration, error) {
			at = append(at, time.Since(start))
			if len(at) == len(results) {
				return Done, nil
			}
			return 10 * time.Second, results[len(at)-1]
		})
		g.Expect(at).To(Equal([]time.Duration{0, time.Second, 3 * time.Second, 6 * time.Second, 16 * time.Second, 17 * time.Second}))
	})
}

func TestItEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		calls := 0
		Until(ctx, time.Second, time.Minute, func(context.Context) (time.Duration, error) {
			calls++
			return 10 * time.Second, nil
		})
		NewWithT(t).Expect(calls).To(Equal(3))
	})
}
