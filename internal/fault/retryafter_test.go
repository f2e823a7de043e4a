// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	noon := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "120": 2 * time.Minute, "0": 0, "-5": 0, "soon": 0, "1e3": 0, "99999999999": 0,
		noon.Add(time.Hour).Format(http.TimeFormat): time.Hour, noon.Add(-time.Hour).Format(http.TimeFormat): 0,
	} {
		NewWithT(t).Expect(RetryAfter(text, noon)).To(Equal(want), "%q", text)
	}
}
