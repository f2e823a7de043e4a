// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics tests the dashboard of config/grafana and the rules of config/prometheus: their queries with Prometheus' engine,
// against what a manager at work exports, and with promtool when which alert fires.
package metrics

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// step is the time between two samples, and between two evaluations of a rule.
const step = time.Minute

var (
	promQL = parser.NewParser(parser.Options{})
	engine = promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: promQL})
)

// memory is a Prometheus without a disk.
type memory []promql.Series

// load adds series in Prometheus' notation, such as `candor_circuit_open{backend="openai"} 0x4 1x30`: five samples of 0, then
// as many as a dashed line says, a step apart from 0 on.
func (m *memory) load(t *testing.T, descriptions ...string) {
	t.Helper()
	for _, d := range descriptions {
		metric, values, err := promQL.ParseSeriesDesc(d)
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), d)
		series := promql.Series{Metric: metric}
		for i, v := range values {
			if !v.Omitted {
				series.Floats = append(series.Floats, promql.FPoint{T: (time.Duration(i) * step).Milliseconds(), F: v.Value})
			}
		}
		*m = append(*m, series)
	}
}

// at evaluates a query.
func (m memory) at(t *testing.T, query string, at time.Duration) promql.Vector {
	t.Helper()
	g := NewWithT(t)
	q, err := engine.NewInstantQuery(context.Background(), m, nil, query, time.UnixMilli(0).Add(at))
	g.Expect(err).NotTo(HaveOccurred(), query)
	defer q.Close()
	result := q.Exec(context.Background())
	g.Expect(result.Err).NotTo(HaveOccurred(), query)
	vector, err := result.Vector()
	g.Expect(err).NotTo(HaveOccurred(), query)
	return slices.Clone(vector)
}

// Querier implements storage.Queryable.
func (m memory) Querier(mint, maxt int64) (storage.Querier, error) {
	return querier{Querier: storage.NoopQuerier(), memory: m, mint: mint, maxt: maxt}, nil
}

type querier struct {
	storage.Querier
	memory
	mint, maxt int64
}

// Select implements storage.Querier.
func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	for _, s := range q.memory {
		if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Metric.Get(m.Name)) }) {
			continue
		}
		within := promql.Series{Metric: s.Metric}
		for _, point := range s.Floats {
			if point.T >= q.mint && point.T <= q.maxt {
				within.Floats = append(within.Floats, point)
			}
		}
		found = append(found, promql.NewStorageSeries(within))
	}
	return &seriesSet{series: found}
}

// seriesSet hands out series in any order: the engine sorts what it shows.
type seriesSet struct {
	series []storage.Series
	next   int
}

func (s *seriesSet) Next() bool                        { s.next++; return s.next <= len(s.series) }
func (s *seriesSet) At() storage.Series                { return s.series[s.next-1] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// shown writes a result for a person: labels and value of each sample, sorted.
func shown(vector promql.Vector) []string {
	lines := []string{}
	for _, sample := range vector {
		lines = append(lines, fmt.Sprintf("%s %g", sample.Metric, sample.F))
	}
	slices.Sort(lines)
	return lines
}
