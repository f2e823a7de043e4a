// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/discovery"
)

// counts is what the API server says was written: Findings, and their statuses.
type counts struct {
	findings, statuses float64
}

// writes asks the API server itself how many writes of Findings it has served.
func (b *bench) writes(ctx context.Context) (counts, error) {
	client, err := discovery.NewDiscoveryClientForConfig(b.cluster.Config)
	if err != nil {
		return counts{}, fmt.Errorf("creating a client: %w", err)
	}
	page, err := client.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return counts{}, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	sum := func(subresource string) (float64, error) {
		return addUp(bufio.NewScanner(strings.NewReader(string(page))), func(series string) bool {
			return strings.HasPrefix(series, "apiserver_request_total{") && strings.Contains(series, `resource="findings"`) &&
				strings.Contains(series, `subresource="`+subresource+`"`) && !strings.Contains(series, `verb="GET"`) &&
				!strings.Contains(series, `verb="LIST"`) && !strings.Contains(series, `verb="WATCH"`)
		})
	}
	var c counts
	if c.findings, err = sum(""); err != nil {
		return c, err
	}
	c.statuses, err = sum("status")
	return c, err
}

// say prints what one step took.
func (b *bench) say(ctx context.Context, name string, took time.Duration, before counts) error {
	after, err := b.writes(ctx)
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
	fmt.Printf("%-56s %7.1f s  %6.0f writes of Findings, %6.0f of statuses%s\n", name, took.Seconds(),
		after.findings-before.findings, after.statuses-before.statuses, memory)
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
