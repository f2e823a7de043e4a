// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/discovery"
)

// requests is how many requests the API server has served, by verb and resource, such as "PUT findings/status".
type requests map[string]float64

// served asks the API server itself.
func (b *bench) served(ctx context.Context) (requests, error) {
	client, err := discovery.NewDiscoveryClientForConfig(b.cluster.Config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	page, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return nil, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	counts := requests{}
	for _, series := range families["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range series.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		counts[labels["verb"]+" "+path.Join(labels["resource"], labels["subresource"])] += series.GetCounter().GetValue()
	}
	return counts, nil
}

// since returns what was served after before.
func (r requests) since(before requests) requests {
	later := requests{}
	for what, n := range r {
		if n > before[what] {
			later[what] = n - before[what]
		}
	}
	return later
}

// writes adds up the writes of a resource.
func (r requests) writes(resource string) float64 {
	sum := 0.0
	for _, verb := range []string{"POST", "PUT", "PATCH", "APPLY", "DELETE"} {
		sum += r[verb+" "+resource]
	}
	return sum
}

// String names what was asked for most, as "1000 x PUT findings/status, 1000 x PATCH findings".
func (r requests) String() string {
	most := slices.SortedFunc(maps.Keys(r), func(a, b string) int { return cmp.Or(cmp.Compare(r[b], r[a]), cmp.Compare(a, b)) })
	var parts []string
	for _, what := range most[:min(len(most), 8)] {
		parts = append(parts, fmt.Sprintf("%.0f x %s", r[what], what))
	}
	return strings.Join(parts, ", ")
}

// say prints what one step took.
func (b *bench) say(ctx context.Context, name string, took time.Duration, before requests) error {
	after, err := b.served(ctx)
	if err != nil {
		return err
	}
	memory := ""
	if b.manager != nil {
		if peak := b.manager.peakMiB(); peak > 0 {
			memory = fmt.Sprintf("  Candor's peak memory %d MiB", peak)
			b.peak = max(b.peak, peak)
		}
	}
	step := after.since(before)
	fmt.Printf("%-56s %7.1f s  %6.0f writes of Findings, %6.0f of statuses%s\n", name, took.Seconds(),
		step.writes("findings"), step.writes("findings/status"), memory)
	fmt.Println("  requests:", step)
	return nil
}

func (b *bench) summary() {
	n := float64(b.size.reports)
	bare := b.created + b.updated
	fmt.Printf("\nbare create %.0f/s, bare status update %.0f/s\n", n/b.created.Seconds(), n/b.updated.Seconds())
	fmt.Printf("G1: settled in %.1f s = %.2f x the bare creates and status updates (%.1f s); %.0f reports/s\n", b.settled.Seconds(),
		b.settled.Seconds()/bare.Seconds(), bare.Seconds(), n/b.settled.Seconds())
	fmt.Printf("G13: %d changes at %d a second reached the status in %.2f s (p50), %.2f s (p99)\n", len(b.lags), steadyRate,
		percentile(b.lags, 50).Seconds(), percentile(b.lags, 99).Seconds())
	b.sayTold()
	fmt.Printf("G2: peak memory %d MiB\n", b.peak)
}
