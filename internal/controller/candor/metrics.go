// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// Results of a report, values of the label result.
const (
	resultCreated   = "created"
	resultUpdated   = "updated"
	resultUnchanged = "unchanged"
	resultFiltered  = "filtered"
)

// scrapeTimeout bounds the read of the cache for one scrape.
const scrapeTimeout = 5 * time.Second

// Metrics is what the controllers of this package export. No label names an object or a namespace: what is per namespace
// stands in statuses.
type Metrics struct {
	reportsIngested, reportsDropped, transitions *prometheus.CounterVec
	providerUp                                   *prometheus.GaugeVec
	findings                                     *findingsCollector
}

// NewMetrics makes the metrics; findings are counted by reading reader at each scrape.
func NewMetrics(reader client.Reader) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &Metrics{
		reportsIngested: counter("candor_reports_ingested_total",
			"Looks at a report, by what came of it: created, updated, unchanged, or filtered (no Finding wanted).", "provider", "result"),
		reportsDropped: counter("candor_reports_dropped_total", "Reports that could not be used, by reason.", "provider", "reason"),
		transitions: counter("candor_verification_transitions_total",
			"Changes of a Finding's outcome, by the new outcome.", "outcome", "severity"),
		providerUp: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "candor_provider_up",
			Help: "1 while the reports of a provider are being watched, else 0.",
		}, []string{"provider"}),
		findings: newFindingsCollector(reader),
	}
}

// Collectors returns everything there is to register.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.reportsIngested, m.reportsDropped, m.transitions, m.providerUp, m.findings}
}

// SetProviderUp notes whether the reports of a provider are being watched.
func (m *Metrics) SetProviderUp(provider string, up bool) {
	value := 0.0
	if up {
		value = 1
	}
	m.providerUp.WithLabelValues(provider).Set(value)
}

func (m *Metrics) ingested(provider, result string) {
	m.reportsIngested.WithLabelValues(provider, result).Inc()
}

func (m *Metrics) dropped(provider, reason string) {
	m.reportsDropped.WithLabelValues(provider, reason).Inc()
}

func (m *Metrics) transition(f *candorv1alpha1.Finding) {
	m.transitions.WithLabelValues(string(f.Status.VerificationOutcome), string(f.Spec.Severity)).Inc()
}

// findingsCollector counts what is in the cache, so that the numbers are right after a restart and cannot drift.
type findingsCollector struct {
	reader                client.Reader
	byOutcome, suppressed *prometheus.Desc
}

func newFindingsCollector(reader client.Reader) *findingsCollector {
	return &findingsCollector{
		reader:     reader,
		byOutcome:  prometheus.NewDesc("candor_findings", "Findings that are not muted, by severity and outcome.", []string{"severity", "outcome"}, nil),
		suppressed: prometheus.NewDesc("candor_findings_suppressed", "Findings that a Suppression mutes.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *findingsCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.byOutcome
	ch <- c.suppressed
}

// Collect implements prometheus.Collector. A cache that cannot be read yields no numbers rather than wrong ones.
func (c *findingsCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var list candorv1alpha1.FindingList
	if err := c.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		ch <- prometheus.NewInvalidMetric(c.byOutcome, err)
		return
	}
	type group struct{ severity, outcome string }
	groups, muted := map[group]int{}, 0
	for i := range list.Items {
		f := &list.Items[i]
		if f.Status.Explained == candorv1alpha1.ExplainedMuted {
			muted++
			continue
		}
		groups[group{string(f.Spec.Severity), string(f.Status.VerificationOutcome)}]++
	}
	for g, n := range groups {
		ch <- prometheus.MustNewConstMetric(c.byOutcome, prometheus.GaugeValue, float64(n), g.severity, g.outcome)
	}
	ch <- prometheus.MustNewConstMetric(c.suppressed, prometheus.GaugeValue, float64(muted))
}
