// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"time"

	"k8s.io/utils/clock"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
)

const (
	// paceInterval is the time between two questions for the limits of the stack.
	paceInterval = time.Hour
	// ourShare is how much of the requests that the stack is granted is used. The rest is for people and for others that use it.
	ourShare = 0.8
)

// LimitsAPI is what a Pacer asks of Fleet Management.
type LimitsAPI interface {
	// Available returns the fault that each call would get now; nil when calls are made.
	Available() error
	Limits(ctx context.Context) (fleetclient.Limits, error)
	// Pace sets how many requests a second are sent; zero is what the options say, which it never exceeds.
	Pace(rps float64)
}

// Pacer keeps requests below what the stack is granted, as far as Fleet Management tells. Nothing else depends on it. Only the leader
// runs it.
type Pacer struct {
	api     LimitsAPI
	clock   clock.WithTicker
	metrics *Metrics
	// recovered holds one signal at most.
	recovered chan struct{}
}

// NewPacer returns a Pacer.
func NewPacer(api LimitsAPI, c clock.WithTicker, m *Metrics) *Pacer {
	return &Pacer{api: api, clock: c, metrics: m, recovered: make(chan struct{}, 1)}
}

// Recovered says that credentials are taken again, or changed: they may be those of another stack. It does not block.
func (p *Pacer) Recovered() { signal(p.recovered) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Pacer) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (p *Pacer) Start(ctx context.Context) error {
	ticker := p.clock.NewTicker(paceInterval)
	defer ticker.Stop()
	for {
		p.ask(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		case <-p.recovered:
		}
	}
}

// ask takes the pace from what Fleet Management tells. Without an answer the pace stays what it is.
func (p *Pacer) ask(ctx context.Context) {
	if p.api.Available() != nil {
		return
	}
	select {
	case <-p.recovered: // what it asks for is done now
	default:
	}
	limits, err := p.api.Limits(ctx)
	if err != nil {
		logf.FromContext(ctx).V(1).Info("Cannot read the limits of the stack", "error", err.Error())
		return
	}
	p.metrics.granted(limits)
	p.api.Pace(ourShare * limits.APIRequestsPerSecond)
}
