// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/candor-dev/candor/internal/fault"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
)

func TestAListThatFailedIsNotAskedForAgainAtOnce(t *testing.T) {
	away := &fault.Fault{Kind: fault.Retry, Reason: "SyncFailed", Err: errors.New("503")}
	for name, test := range map[string]struct {
		err error
		// after is how much later the second one asks.
		after time.Duration
		lists int
	}{
		"a server that is down, soon after":         {away, 9 * time.Second, 1},
		"a server that is down, some seconds on":    {away, 10 * time.Second, 2},
		"a pause, which the client itself keeps":    {&fault.Fault{Kind: fault.Wait, Reason: "AuthFailed", Err: errors.New("401")}, 0, 2},
		"credentials that became another stack's":   {&fault.Fault{Kind: fault.Retry, Reason: "SyncFailed", Err: fleetclient.ErrOtherStack}, 0, 2},
		"no failure, as the inventory knows itself": {nil, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			lists, now := 0, clocktesting.NewFakeClock(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
			list := patient(func(context.Context) ([]fleetclient.Pipeline, error) {
				lists++
				return nil, test.err
			}, now)
			for range 2 {
				_, err := list(t.Context())
				if test.err == nil {
					g.Expect(err).NotTo(HaveOccurred())
				} else {
					g.Expect(err).To(MatchError(test.err))
				}
				now.Step(test.after)
			}
			g.Expect(lists).To(Equal(test.lists))
		})
	}
}

func TestAListThatWasGivenUpIsAskedForAgain(t *testing.T) {
	g := NewWithT(t)
	lists := 0
	list := patient(func(ctx context.Context) ([]fleetclient.Pipeline, error) {
		lists++
		return nil, ctx.Err()
	}, clocktesting.NewFakeClock(time.Now()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := list(ctx)
	g.Expect(err).To(MatchError(context.Canceled))
	_, err = list(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(lists).To(Equal(2))
}
