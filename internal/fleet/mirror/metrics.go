// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Values of the label change of fleet_discovery_changes_total.
const (
	ChangeCreated = "created"
	ChangeRebound = "rebound"
	ChangeStale   = "stale"
	ChangeUnstale = "found_again"
	ChangeDeleted = "deleted"
)

// Tally is how many objects, or things, of a discovery are in a state.
type Tally struct{ Managed, Stale, OutOfScope, Conflicts int }

// Metrics is what discoveries export. No label names an object. It is safe for concurrent use.
type Metrics struct {
	changes *prometheus.CounterVec
	listed  prometheus.Gauge
	objects *prometheus.Desc

	mu      sync.Mutex
	tallies map[discovery]Tally
}

type discovery struct {
	kind string
	key  Key
}

// NewMetrics makes the metrics.
func NewMetrics() *Metrics {
	return &Metrics{
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fleet_discovery_changes_total",
			Help: "What discoveries did to objects, by the kind of the discovery and by change: created, rebound, stale, found_again or deleted.",
		}, []string{"kind", "change"}),
		listed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fleet_discovery_list_collectors_result_size",
			Help: "Collectors in the list that a CollectorDiscovery last went by, in scope or not.",
		}),
		objects: prometheus.NewDesc("fleet_discovery_objects",
			"What all discoveries of a kind found, by state: managed, stale and out_of_scope objects, and conflict for what none is made of.", []string{"kind", "state"}, nil),
		tallies: map[discovery]Tally{},
	}
}

// Collectors returns everything there is to register.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.changes, m.listed, m}
}

// Changed counts a change by a discovery of a kind.
func (m *Metrics) Changed(kind, change string) { m.changes.WithLabelValues(kind, change).Inc() }

// Listed notes how many collectors there are.
func (m *Metrics) Listed(n int) { m.listed.Set(float64(n)) }

// Found notes what a discovery found; Forget drops it.
func (m *Metrics) Found(kind string, d Key, t Tally) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tallies[discovery{kind, d}] = t
}

// Forget drops what a discovery found that is gone.
func (m *Metrics) Forget(kind string, d Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tallies, discovery{kind, d})
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.objects }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	sums := map[string]Tally{}
	for d, t := range m.tallies {
		s := sums[d.kind]
		sums[d.kind] = Tally{s.Managed + t.Managed, s.Stale + t.Stale, s.OutOfScope + t.OutOfScope, s.Conflicts + t.Conflicts}
	}
	m.mu.Unlock()
	for kind, s := range sums {
		for state, n := range map[string]int{"managed": s.Managed, "stale": s.Stale, "out_of_scope": s.OutOfScope, "conflict": s.Conflicts} {
			ch <- prometheus.MustNewConstMetric(m.objects, prometheus.GaugeValue, float64(n), kind, state)
		}
	}
}
