// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics is what a Handler exports.
type Metrics struct {
	receivedTotal, refusedTotal *prometheus.CounterVec
	up                          prometheus.GaugeFunc
	serving                     atomic.Pointer[func() bool]
}

// NewMetrics makes the metrics of one Handler.
func NewMetrics() *Metrics {
	m := &Metrics{
		receivedTotal: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "candor_signals_received_total",
			Help: "Signals of other tools, by their form and what became of them: created, updated, unchanged, filtered, resolved, full or late.",
		}, []string{"form", "result"}),
		refusedTotal: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "candor_signals_refused_total", Help: "Requests to the receiver of signals that were not taken, by reason.",
		}, []string{"reason"}),
	}
	m.up = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "candor_webhook_receiver_up", Help: "1 while the receiver of signals listens and has a valid certificate, else 0.",
	}, func() float64 {
		if serving := m.serving.Load(); serving != nil && (*serving)() {
			return 1
		}
		return 0
	})
	return m
}

// Collectors returns everything there is to register.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.receivedTotal, m.refusedTotal, m.up}
}

// Watch hands in what says at each scrape whether signals can come in.
func (m *Metrics) Watch(serving func() bool) { m.serving.Store(&serving) }

func (m *Metrics) received(form Form, result Result) {
	m.receivedTotal.WithLabelValues(string(form), string(result)).Inc()
}

func (m *Metrics) refused(reason Reason) { m.refusedTotal.WithLabelValues(string(reason)).Inc() }
