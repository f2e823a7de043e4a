// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/candor-dev/candor/internal/app"
)

// NewClock returns a clock that stands still unless a spec steps it.
func NewClock() *clocktesting.FakeClock {
	return clocktesting.NewFakeClock(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
}

// NewOptions returns the default options, for a manager that answers no probes.
func NewOptions() app.Options {
	options := app.DefaultOptions()
	options.HealthProbeBindAddress = "0"
	return options
}

// EnableOnly switches these rows of the controllers' table on and all others off.
func EnableOnly(options app.Options, rows ...string) {
	GinkgoHelper()
	for _, c := range options.Controllers {
		c.Enabled = false
	}
	for _, row := range rows {
		Expect(options.Controllers).To(HaveKey(row), "the controllers' table")
		options.Controllers[row].Enabled = true
	}
}

// Manager is a manager that runs, or did.
type Manager struct {
	// Registry has its metrics.
	Registry *prometheus.Registry
	// Cancel tells it to end, and does not wait.
	Cancel context.CancelFunc
	// Ended receives once what it ended with.
	Ended <-chan error
}

// StartManager runs a manager as its ServiceAccount. The wraps, of which nil is none, stand between it and the API server, the last
// one next to the manager. Parts need say neither Registry nor Several.
func (c *Cluster) StartManager(ctx context.Context, options app.Options, parts app.Parts, wraps ...func(http.RoundTripper) http.RoundTripper) *Manager {
	GinkgoHelper()
	config, err := c.ManagerConfig(ctx)
	Expect(err).NotTo(HaveOccurred())
	for _, wrap := range wraps {
		if wrap != nil {
			config.Wrap(wrap)
		}
	}
	registry := prometheus.NewRegistry()
	parts.Registry, parts.Several = registry, true
	running, cancel := context.WithCancel(context.Background())
	mgr, err := app.New(running, config, options, parts)
	if err != nil {
		cancel()
	}
	Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- mgr.Start(running)
	}()
	return &Manager{Registry: registry, Cancel: cancel, Ended: ended}
}

// Stop ends the manager, waits for it, and expects no error that nobody has received. A manager that has ended already, or is nil,
// is fine.
func (m *Manager) Stop() {
	GinkgoHelper()
	if m == nil {
		return
	}
	m.Cancel()
	Expect(<-m.Ended).To(Succeed())
}

// RoundTrip is a function that answers requests, for the wraps of a manager.
type RoundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Sum adds up the series of a metric that have all of the labels: name, value, name, value. It is -1 where they cannot be read.
func Sum(metrics prometheus.Gatherer, name string, labels ...string) float64 {
	families, err := metrics.Gather()
	if err != nil {
		return -1
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			have := map[string]string{}
			for _, l := range m.GetLabel() {
				have[l.GetName()] = l.GetValue()
			}
			match := true
			for i := 0; i < len(labels); i += 2 {
				match = match && have[labels[i]] == labels[i+1]
			}
			if match {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}
