// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package repeat does something over and over: at the pace that it asks for while it goes well, and ever more slowly while it
// does not.
package repeat

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Done is the pause after which nothing comes.
const Done time.Duration = -1

// Until calls do at once, and again after the pause that it returns, until that is Done or ctx ends. After an error the pause is
// first, and doubles up to last while errors follow.
func Until(ctx context.Context, first, last time.Duration, do func(context.Context) (time.Duration, error)) {
	backoff := wait.Backoff{Duration: first, Factor: 2, Cap: last, Steps: 100}
	retry := backoff
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		pause, err := do(ctx)
		switch {
		case err != nil:
			pause = retry.Step()
		case pause == Done:
			return
		default:
			retry = backoff
		}
		timer.Reset(pause)
	}
}
