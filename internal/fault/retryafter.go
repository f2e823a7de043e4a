// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter bounds what a server may ask for.
const maxRetryAfter = time.Hour

// RetryAfter reads the HTTP header of this name, which holds seconds or a date: how long to wait, up to an hour. Zero means that it
// does not say.
func RetryAfter(header string, now time.Time) time.Duration {
	wait := time.Duration(0)
	if seconds, err := strconv.ParseUint(strings.TrimSpace(header), 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(header); err == nil {
		wait = date.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}
