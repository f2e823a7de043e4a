// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/budget"
	"github.com/candor-dev/candor/internal/signals/llm"
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
	explain                                      *explainMetrics
	notifications                                *prometheus.CounterVec
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
		explain:  newExplainMetrics(counter),
		notifications: counter("candor_notifications_total",
			"Events by what became of telling a sink: delivered, failed (it is tried again), lost (nobody could be told for a day), or superseded (dropped for want of room).",
			"sink_type", "event", "outcome"),
	}
}

// Collectors returns everything there is to register.
func (m *Metrics) Collectors() []prometheus.Collector {
	return append([]prometheus.Collector{m.reportsIngested, m.reportsDropped, m.transitions, m.providerUp, m.findings, m.notifications}, m.explain.collectors()...)
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

// Outcomes of telling a sink of an event.
const (
	outcomeDelivered  = "delivered"
	outcomeFailed     = "failed"
	outcomeLost       = "lost"
	outcomeSuperseded = "superseded"
)

func (m *Metrics) notified(sink candorv1alpha1.SinkType, event candorv1alpha1.EventType, outcome string) {
	m.notifications.WithLabelValues(string(sink), string(event), outcome).Inc()
}

// findingsCollector counts what is in the cache, so that the numbers are right after a restart and cannot drift.
type findingsCollector struct {
	reader                                client.Reader
	byOutcome, suppressed, pending, sinks *prometheus.Desc
}

func newFindingsCollector(reader client.Reader) *findingsCollector {
	return &findingsCollector{
		reader:     reader,
		byOutcome:  prometheus.NewDesc("candor_findings", "Findings that are not muted, by worst unmuted severity and outcome.", []string{"severity", "outcome"}, nil),
		suppressed: prometheus.NewDesc("candor_findings_suppressed", "Findings that a Suppression mutes.", nil, nil),
		pending:    prometheus.NewDesc("candor_notifications_pending", "Events of Findings that a sink is yet to be told of.", nil, nil),
		sinks:      prometheus.NewDesc("candor_notification_sinks", "Sinks of SignalPolicies, by how telling people through them goes.", []string{"sink_type", "state"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *findingsCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.byOutcome
	ch <- c.suppressed
	ch <- c.pending
	ch <- c.sinks
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
	groups, muted, pending := map[group]int{}, 0, 0
	for i := range list.Items {
		f := &list.Items[i]
		for _, n := range f.Status.Notified {
			if n.State == candorv1alpha1.NotificationPending {
				pending++
			}
		}
		if f.Status.Explained == candorv1alpha1.ExplainedMuted {
			muted++
			continue
		}
		groups[group{string(shownSeverity(f)), string(f.Status.VerificationOutcome)}]++
	}
	for g, n := range groups {
		ch <- prometheus.MustNewConstMetric(c.byOutcome, prometheus.GaugeValue, float64(n), g.severity, g.outcome)
	}
	ch <- prometheus.MustNewConstMetric(c.suppressed, prometheus.GaugeValue, float64(muted))
	ch <- prometheus.MustNewConstMetric(c.pending, prometheus.GaugeValue, float64(pending))
	c.collectSinks(ctx, ch)
}

// collectSinks counts the sinks of all policies by how they do.
func (c *findingsCollector) collectSinks(ctx context.Context, ch chan<- prometheus.Metric) {
	var list candorv1alpha1.SignalPolicyList
	if err := c.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		ch <- prometheus.NewInvalidMetric(c.sinks, err)
		return
	}
	type group struct{ sink, state string }
	groups := map[group]int{}
	for i := range list.Items {
		for _, s := range list.Items[i].Status.Sinks {
			groups[group{string(s.Type), string(s.State)}]++
		}
	}
	for g, n := range groups {
		ch <- prometheus.MustNewConstMetric(c.sinks, prometheus.GaugeValue, float64(n), g.sink, g.state)
	}
}

// outcomeOK is the label of a call that gave an answer.
const outcomeOK = "ok"

// explainMetrics count what is asked of models, and what is not.
type explainMetrics struct {
	skipped, calls, tokens *prometheus.CounterVec
	sharedTotal, cost      prometheus.Counter
	latency                prometheus.Histogram
}

func newExplainMetrics(counter func(name, help string, labels ...string) *prometheus.CounterVec) *explainMetrics {
	m := &explainMetrics{
		skipped: counter("candor_enrichment_skipped_total", "Decisions not to ask a model about a Finding, by the reason that its condition Enriched tells.", "reason"),
		calls:   counter("candor_llm_calls_total", "Calls of models, by how they ended: ok, or why there was no answer.", "backend", "model", "outcome"),
		tokens:  counter("candor_llm_tokens_total", "Tokens that models reported, input and output.", "direction"),
		sharedTotal: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "candor_enrichment_shared_total", Help: "Findings explained by the answer to an equal question, which cost nothing.",
		}),
		cost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "candor_llm_cost_micros_total", Help: "Cost of calls in millionths of the currency of the prices; 0 without prices.",
		}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "candor_llm_latency_seconds", Help: "How long calls of models took.", Buckets: []float64{.25, .5, 1, 2, 4, 8, 15, 30, 60, 120, 240},
		}),
	}
	for _, direction := range []string{"input", "output"} {
		m.tokens.WithLabelValues(direction) // a counter that begins with its first count hides that count
	}
	return m
}

func (m *explainMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.skipped, m.calls, m.tokens, m.sharedTotal, m.cost, m.latency}
}

// called counts a call that was sent.
func (m *Metrics) called(model *Model, failure *llm.Error, usage llm.Usage, cost int64, took time.Duration) {
	outcome := outcomeOK
	if failure != nil {
		outcome = string(failure.Class)
	}
	m.explain.calls.WithLabelValues(model.Backend.Name(), signals.Clean(model.Settings.Model, 128), outcome).Inc()
	m.explain.tokens.WithLabelValues("input").Add(float64(usage.InputTokens))
	m.explain.tokens.WithLabelValues("output").Add(float64(usage.OutputTokens))
	m.explain.cost.Add(float64(cost))
	m.explain.latency.Observe(took.Seconds())
}

func (m *Metrics) shared() { m.explain.sharedTotal.Inc() }

func (m *Metrics) skipped(reason string) { m.explain.skipped.WithLabelValues(reason).Inc() }

// explainCollector tells at each scrape what is left and what waits.
type explainCollector struct {
	explainer              *Explainer
	remaining, open, depth *prometheus.Desc
}

// NewExplainCollector returns the gauges of an explainer.
func NewExplainCollector(e *Explainer) prometheus.Collector {
	return &explainCollector{
		explainer: e,
		remaining: prometheus.NewDesc("candor_budget_remaining", "What the budget of the cluster still allows, by unit: calls and tokens.", []string{"unit"}, nil),
		open:      prometheus.NewDesc("candor_circuit_open", "1 while the model's server must not be asked, else 0.", []string{"backend"}, nil),
		depth:     prometheus.NewDesc("candor_enrichment_queue_depth", "Findings in line for a model, by severity.", []string{"severity"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *explainCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.remaining
	ch <- c.open
	ch <- c.depth
}

// Collect implements prometheus.Collector. Without a model there is nothing to tell, and only the leader knows.
func (c *explainCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	e := c.explainer
	if !e.Callers.leads.Load() {
		return
	}
	operating, err := operatingPolicy(ctx, e.Client)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.remaining, err)
		return
	}
	model, unusable := e.Models.For(operating)
	if unusable != nil {
		return
	}
	gauge := func(desc *prometheus.Desc, value float64, label string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, label)
	}
	open := 0.0
	if until, _ := e.Pause.Until(model.identity, e.Clock.Now()); !until.IsZero() {
		open = 1
	}
	gauge(c.open, open, model.Backend.Name())
	depth := e.Callers.turns.depth()
	for _, severity := range []candorv1alpha1.Severity{candorv1alpha1.SeverityLow, candorv1alpha1.SeverityMedium, candorv1alpha1.SeverityHigh, candorv1alpha1.SeverityCritical} {
		gauge(c.depth, float64(depth[int32(signals.RankOf(string(severity)))]), string(severity))
	}
	ledger, err := e.Ledger.Look(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.remaining, err)
		return
	}
	ceiling := budget.Cluster(operating)
	left := budget.Status(ledger, candorv1alpha1.LedgerScopeCluster, ceiling, e.Clock.Now())
	gauge(c.remaining, float64(left.CallsLeft), "calls")
	gauge(c.remaining, float64(left.TokensLeft), "tokens")
}
