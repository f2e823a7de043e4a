// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/bulk"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/inventory"
	"github.com/candor-dev/candor/internal/lifecycle"
)

const (
	// scrapeTimeout bounds the reads of the cache for one scrape.
	scrapeTimeout = 5 * time.Second
	// reasonPending stands for the reason of an object that no pass has judged yet.
	reasonPending = "Pending"
)

// Values of the label action of fleet_pipeline_drift_total.
const (
	driftCorrected = "corrected"
	driftWarned    = "warned"
	driftContended = "contended"
)

// Values of the label limit of fleet_stack_limit; the first two are those of the label kind of fleet_stack_objects, too.
const (
	stackCollectors = "collectors"
	stackPipelines  = "pipelines"
	stackRequests   = "requests_per_second"
)

// Metrics is what the controllers of this package export. No label names an object or a namespace.
type Metrics struct {
	passes, drift *prometheus.CounterVec
	renames       prometheus.Counter
	age           *prometheus.HistogramVec
	orphans       prometheus.Gauge
	batchSize     prometheus.Histogram
	fetches       *prometheus.CounterVec
	fetchTime     *prometheus.HistogramVec
	limits        *prometheus.GaugeVec
	scrape        *scrapeCollector
}

// NewMetrics makes the metrics.
func NewMetrics() *Metrics {
	return &Metrics{
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fleet_resource_synced_total",
			Help: "Passes over an object, by its kind and by the reason of its condition Synced, or Ready where it has no such one, at the end of the pass.",
		}, []string{"kind", "reason"}),
		drift: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fleet_pipeline_drift_total",
			Help: "Changes that somebody else made to a pipeline, by field and by what was done: corrected, warned or contended.",
		}, []string{"field", "action"}),
		renames: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fleet_pipeline_name_migrations_total",
			Help: "Pipelines that got another name in place, because the object's name or its scope changed.",
		}),
		age: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "fleet_resource_sync_age_seconds",
			Help:    "Seconds since Fleet Management last heard of what an object stands for, by kind, at each write of the object.",
			Buckets: []float64{0, 60, 300, 600, 1800, 3600, 7200},
		}, []string{"kind"}),
		orphans: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fleet_pipelines_orphaned",
			Help: "Pipelines that carry the stamp of this cluster and whose object is gone, at the last poll.",
		}),
		batchSize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "fleet_collector_batch_size",
			Help:    "Collectors whose remote attributes one request changes.",
			Buckets: []float64{1, 2, 5, 10, 25, 50, 100, 250, 500},
		}),
		limits: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "fleet_stack_limit",
			Help: "What Fleet Management grants the whole stack, by limit: collectors, pipelines or requests_per_second. Absent where it does not tell.",
		}, []string{"limit"}),
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fleet_external_sync_fetches_total",
			Help: "Times that an ExternalAttributeSync asked its source for records, by the kind of the source and by outcome: fetched, unchanged or failed.",
		}, []string{"kind", "outcome"}),
		fetchTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "fleet_external_sync_fetch_duration_seconds",
			Help:    "Seconds that a source took for that, by its kind.",
			Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30},
		}, []string{"kind"}),
		scrape: newScrapeCollector(),
	}
}

// Collectors returns everything there is to register.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.passes, m.drift, m.renames, m.age, m.orphans, m.batchSize, m.fetches, m.fetchTime, m.limits, m.scrape}
}

func (m *Metrics) passed(kind, reason string) { m.passes.WithLabelValues(kind, reason).Inc() }

func (m *Metrics) drifted(action string, fields []string) {
	for _, field := range fields {
		m.drift.WithLabelValues(field, action).Inc()
	}
}

func (m *Metrics) aged(kind string, age time.Duration) {
	m.age.WithLabelValues(kind).Observe(age.Seconds())
}

func (m *Metrics) setOrphans(n int) { m.orphans.Set(float64(n)) }

// granted notes what the stack is granted, and forgets what is no longer told.
func (m *Metrics) granted(l fleetclient.Limits) {
	for limit, value := range map[string]float64{
		stackCollectors: float64(l.Collectors), stackPipelines: float64(l.Pipelines), stackRequests: l.APIRequestsPerSecond,
	} {
		if value > 0 {
			m.limits.WithLabelValues(limit).Set(value)
		} else {
			m.limits.DeleteLabelValues(limit)
		}
	}
}

// batches notes the size of each request that changes the attributes of collectors.
func (m *Metrics) batches(next bulk.API) bulk.API { return &meteredBatches{next, m.batchSize} }

type meteredBatches struct {
	bulk.API
	size prometheus.Histogram
}

// BulkUpdateCollectors implements bulk.API.
func (b *meteredBatches) BulkUpdateCollectors(ctx context.Context, ids []string, ops []fleetclient.Op) error {
	b.size.Observe(float64(len(ids)))
	return b.API.BulkUpdateCollectors(ctx, ids, ops)
}

// CountPipelines has scrapes count Pipelines, and what the inventory of pipelines holds, once this replica leads.
func (m *Metrics) CountPipelines(mgr manager.Manager, i *inventory.Inventory[fleetclient.Pipeline]) {
	m.scrape.count(tally{
		kind: "Pipeline", list: &fleetmanagementv1alpha1.PipelineList{}, reader: mgr.GetCache(), leads: mgr.Elected(),
		stack: stackPipelines, held: held(i),
	})
}

// CountCollectors has scrapes count Collectors, and what the inventory of collectors holds, once this replica leads.
func (m *Metrics) CountCollectors(mgr manager.Manager, i *inventory.Inventory[fleetclient.Collector]) {
	m.scrape.count(tally{
		kind: "Collector", list: &fleetmanagementv1alpha1.CollectorList{}, reader: mgr.GetCache(), leads: mgr.Elected(),
		stack: stackCollectors, held: held(i),
	})
}

// CountPolicies has scrapes count RemoteAttributePolicies, once this replica leads.
func (m *Metrics) CountPolicies(mgr manager.Manager) {
	m.scrape.count(tally{
		kind: "RemoteAttributePolicy", list: &fleetmanagementv1alpha1.RemoteAttributePolicyList{}, reader: mgr.GetCache(), leads: mgr.Elected(),
	})
}

// fetched notes how a source was asked.
func (m *Metrics) fetched(kind string, unchanged bool, err error, took time.Duration) {
	outcome := "fetched"
	switch {
	case err != nil:
		outcome = "failed"
	case unchanged:
		outcome = "unchanged"
	}
	m.fetches.WithLabelValues(kind, outcome).Inc()
	m.fetchTime.WithLabelValues(kind).Observe(took.Seconds())
}

// CountExternalSyncs has scrapes count ExternalAttributeSyncs and what they give, once this replica leads.
func (m *Metrics) CountExternalSyncs(mgr manager.Manager) {
	of := func(o lifecycle.Object) *fleetmanagementv1alpha1.ExternalAttributeSyncStatus {
		return &o.(*fleetmanagementv1alpha1.ExternalAttributeSync).Status
	}
	m.scrape.count(tally{
		kind: "ExternalAttributeSync", list: &fleetmanagementv1alpha1.ExternalAttributeSyncList{}, reader: mgr.GetCache(), leads: mgr.Elected(),
		sums: []sum{
			{m.scrape.records, func(o lifecycle.Object) float64 { return float64(of(o).RecordsSeen) }},
			{m.scrape.ownedKeys, func(o lifecycle.Object) float64 { return float64(of(o).RecordsApplied) }},
			{m.scrape.stalled, func(o lifecycle.Object) float64 {
				if meta.IsStatusConditionTrue(*o.StatusConditions(), fleetmanagementv1alpha1.ConditionStalled) {
					return 1
				}
				return 0
			}},
		},
	})
}

// heldBack notes why an object that is being deleted cannot go yet: the condition does not tell what kind of fault it was.
func (m *Metrics) heldBack(uid types.UID, why error) {
	if errors.Is(why, lifecycle.ErrPending) {
		return
	}
	m.scrape.mu.Lock()
	defer m.scrape.mu.Unlock()
	m.scrape.causes[uid] = fault.Of(why, fleetmanagementv1alpha1.ReasonDeleteFailed).Reason
}

// letGo forgets why an object could not go.
func (m *Metrics) letGo(uid types.UID) {
	m.scrape.mu.Lock()
	defer m.scrape.mu.Unlock()
	delete(m.scrape.causes, uid)
}

// held returns how many things an inventory holds, and whether it knows.
func held[T any](i *inventory.Inventory[T]) func() (int, bool) {
	return func() (n int, known bool) {
		i.All(func(T) bool {
			n++
			return true
		})
		return n, !i.Listed().IsZero()
	}
}

// tally says how one kind is counted.
type tally struct {
	kind string
	// list is an empty one of the kind; each scrape fills a copy.
	list   client.ObjectList
	reader client.Reader
	// leads is closed once this replica leads: the others hold no copy of the objects.
	leads <-chan struct{}
	// stack is the kind's name among the limits of the stack, and held counts what the stack holds; empty for neither.
	stack string
	held  func() (int, bool)
	// sums are what is added up over the objects.
	sums []sum
}

// sum is a number of each object, added up.
type sum struct {
	desc *prometheus.Desc
	of   func(lifecycle.Object) float64
}

// scrapeCollector counts what is in the cache and in the inventories, so that the numbers are right after a restart and cannot drift.
type scrapeCollector struct {
	resources, blocked, stack *prometheus.Desc
	// records, ownedKeys and stalled are of ExternalAttributeSyncs.
	records, ownedKeys, stalled *prometheus.Desc

	mu      sync.Mutex
	tallies []tally
	// causes are why objects cannot go, by their UID.
	causes map[types.UID]string
}

func newScrapeCollector() *scrapeCollector {
	return &scrapeCollector{
		resources: prometheus.NewDesc("fleet_resources",
			"Objects of fleetmanagement.grafana.com, by the status and the reason of their condition Ready: Unknown and Pending where there is none yet.",
			[]string{"kind", "ready", "reason"}, nil),
		blocked: prometheus.NewDesc("fleet_deletions_blocked",
			"Objects that cannot go, since what they stand for could not be removed from Fleet Management, by the reason why not.", []string{"kind", "reason"}, nil),
		stack: prometheus.NewDesc("fleet_stack_objects",
			"What the whole stack holds as far as this cluster knows, by kind: collectors or pipelines.", []string{"kind"}, nil),
		records: prometheus.NewDesc("fleet_external_sync_records",
			"Records that the last good fetches of all ExternalAttributeSyncs returned.", nil, nil),
		ownedKeys: prometheus.NewDesc("fleet_external_sync_owned_keys",
			"Collectors that ExternalAttributeSyncs give attributes, added up over all of them.", nil, nil),
		stalled: prometheus.NewDesc("fleet_external_syncs_stalled",
			"ExternalAttributeSyncs whose last fetch is held back, because it would take away too much.", nil, nil),
		causes: map[types.UID]string{},
	}
}

func (c *scrapeCollector) count(t tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tallies = append(c.tallies, t)
}

// Describe implements prometheus.Collector.
func (c *scrapeCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.resources
	ch <- c.blocked
	ch <- c.stack
	ch <- c.records
	ch <- c.ownedKeys
	ch <- c.stalled
}

// Collect implements prometheus.Collector. A cache that cannot be read yields no numbers rather than wrong ones.
func (c *scrapeCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	c.mu.Lock()
	tallies := slices.Clone(c.tallies)
	c.mu.Unlock()
	leaving := map[types.UID]bool{}
	for _, t := range tallies {
		select {
		case <-t.leads:
		default:
			return
		}
		if t.held != nil {
			if n, known := t.held(); known {
				ch <- prometheus.MustNewConstMetric(c.stack, prometheus.GaugeValue, float64(n), t.stack)
			}
		}
		if err := c.collect(ctx, ch, t, leaving); err != nil {
			ch <- prometheus.NewInvalidMetric(c.resources, err)
			return
		}
	}
	c.forget(leaving)
}

// collect counts the objects of a kind, and adds those that are being deleted to leaving.
func (c *scrapeCollector) collect(ctx context.Context, ch chan<- prometheus.Metric, t tally, leaving map[types.UID]bool) error {
	list := t.list.DeepCopyObject().(client.ObjectList)
	if err := t.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	type group struct{ ready, reason string }
	groups, blocked, sums := map[group]int{}, map[string]int{}, make([]float64, len(t.sums))
	err := meta.EachListItem(list, func(item runtime.Object) error {
		o := item.(lifecycle.Object)
		ready, reason := verdictOf(o)
		groups[group{ready, reason}]++
		for i, s := range t.sums {
			sums[i] += s.of(o)
		}
		if !o.GetDeletionTimestamp().IsZero() {
			leaving[o.GetUID()] = true
			if reason == fleetmanagementv1alpha1.ReasonDeleteFailed {
				blocked[c.cause(o.GetUID())]++
			}
		}
		return nil
	})
	for g, n := range groups {
		ch <- prometheus.MustNewConstMetric(c.resources, prometheus.GaugeValue, float64(n), t.kind, g.ready, g.reason)
	}
	for i, s := range t.sums {
		ch <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, sums[i])
	}
	for reason, n := range blocked {
		ch <- prometheus.MustNewConstMetric(c.blocked, prometheus.GaugeValue, float64(n), t.kind, reason)
	}
	return err
}

// verdictOf returns what Ready says of an object.
func verdictOf(o lifecycle.Object) (ready, reason string) {
	verdict := meta.FindStatusCondition(*o.StatusConditions(), fleetmanagementv1alpha1.ConditionReady)
	if verdict == nil {
		return string(metav1.ConditionUnknown), reasonPending
	}
	return string(verdict.Status), verdict.Reason
}

// cause is why an object cannot go, DeleteFailed where this process has not tried yet.
func (c *scrapeCollector) cause(uid types.UID) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cause, known := c.causes[uid]; known {
		return cause
	}
	return fleetmanagementv1alpha1.ReasonDeleteFailed
}

// forget drops the causes of objects that are gone. Only an object that is in the cache and leaving has one.
func (c *scrapeCollector) forget(leaving map[types.UID]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid := range c.causes {
		if !leaving[uid] {
			delete(c.causes, uid)
		}
	}
}
