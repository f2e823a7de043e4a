// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures what Candor costs at scale, on an API server of its own: time to settle, writes, memory, and beside
// them what the API server can do bare. It prints what it measured and judges nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/candor-dev/candor/internal/app"
	"github.com/candor-dev/candor/test/kube"
)

// size is how much there is of everything.
type size struct {
	reports, namespaces, entries, workers int
	// collectors is how many collectors of the fleet are measured instead of the reports; zero for none.
	collectors int
	// pprof is the address where Candor's profiles can be had meanwhile.
	pprof string
}

func main() {
	log.SetLogger(logr.Discard())
	var s size
	flag.IntVar(&s.reports, "reports", 10_000, "reports, each of a workload of its own")
	flag.IntVar(&s.namespaces, "namespaces", 50, "namespaces they are spread over")
	flag.IntVar(&s.entries, "entries", 40, "vulnerabilities in each report")
	flag.IntVar(&s.workers, "workers", 8, "parallel requests of the bare runs")
	flag.IntVar(&s.collectors, "collectors", 0, "measure this many collectors of the fleet, and no reports; 0 for the reports")
	flag.StringVar(&s.pprof, "pprof", "0", "address of Candor's /debug/pprof; 0 for none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s size) error {
	cluster, err := kube.Start(kube.Options{Scheme: app.NewScheme()})
	if err != nil {
		return err
	}
	defer func() { _ = cluster.Stop() }()
	if err := cluster.InstallManagerRBAC(ctx); err != nil {
		return err
	}
	if s.collectors == 0 {
		if err := cluster.InstallTrivyCRDs(ctx); err != nil {
			return err
		}
	}
	folder, err := os.MkdirTemp("", "candor-bench-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	config, err := cluster.ManagerConfig(ctx)
	if err != nil {
		return err
	}
	nobody, err := client.New(config, client.Options{Scheme: app.NewScheme()})
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	b := &bench{cluster: cluster, nobody: nobody, size: s, folder: folder}
	if err := b.build(ctx); err != nil {
		return err
	}
	if s.collectors > 0 {
		return b.fleet(ctx)
	}
	return b.signals(ctx)
}

// signals runs the steps of the reports.
func (b *bench) signals(ctx context.Context) error {
	s := b.size
	if err := b.listen(); err != nil {
		return err
	}
	defer b.sinks.Close()
	fmt.Printf("%d reports of %d entries in %d namespaces, %d parallel requests\n", s.reports, s.entries, s.namespaces, s.workers)
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"load: namespaces, ReplicaSets, reports, policies", b.load},
		{"bare: create as many Findings", b.bareCreates},
		{"bare: update their statuses", b.bareStatuses},
		{"bare: remove them", b.bareRemove},
		{"settle: start Candor on all reports", b.settle},
		{"first install: tell each sink what there is", b.firstSync},
		{"restart (G3): start Candor on what is settled", b.restart},
		{"ttl wave (G4): delete every report and add it again", b.wave},
		{"steady (G13): change 50 reports a second", b.steady},
	} {
		start, cpu := time.Now(), processors()
		before, err := b.served(ctx)
		if err != nil {
			return err
		}
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if err := b.say(ctx, step.name, time.Since(start), before); err != nil {
			return err
		}
		fmt.Println("  processor time:", spent(cpu, processors()))
	}
	b.summary()
	return nil
}
