// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

const (
	fleetNamespace = "fleet"
	// grantedRPS is what Grafana grants a stack by default.
	grantedRPS = 3
	// steadyPolls is how many lists the last step waits for, and steadyPoll the time between them.
	steadyPolls = 3
	steadyPoll  = 20 * time.Second
)

// fleetBench measures what collectors cost: requests, seconds and memory.
type fleetBench struct {
	*bench
	server *fleetserver.Server
	policy *fleetmanagementv1alpha1.RemoteAttributePolicy
}

// fleet runs the steps of the fleet.
func (b *bench) fleet(ctx context.Context) error {
	f := &fleetBench{bench: b, server: fleetserver.New(fleetserver.Options{Username: "1", Password: "token", RPS: grantedRPS, Burst: 50})}
	defer f.server.Close()
	fmt.Printf("%d collectors, %d requests a second\n", b.size.collectors, grantedRPS)
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"load: collectors, Collectors and a policy", f.load},
		{"settle: start Candor on all Collectors", f.settle},
		{"policy (AT-24): change the one policy", f.change},
		{"restart: start Candor on what is settled", f.restart},
		{fmt.Sprintf("steady: %d polls", steadyPolls), f.rest},
	} {
		f.server.Reset()
		start, cpu := time.Now(), processors()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		f.say(step.name, time.Since(start))
		fmt.Println("  processor time:", spent(cpu, processors()))
	}
	return f.manager.stop()
}

// say prints what a step took.
func (f *fleetBench) say(name string, took time.Duration) {
	requests := map[string]int{}
	for _, call := range f.server.Calls() {
		requests[call.Procedure]++
	}
	var parts []string
	for _, procedure := range slices.Sorted(maps.Keys(requests)) {
		parts = append(parts, fmt.Sprintf("%d %s", requests[procedure], procedure))
	}
	memory := ""
	if f.manager != nil {
		memory = fmt.Sprintf("  Candor's peak memory %d MiB", f.manager.peakMiB())
	}
	fmt.Printf("%-44s %7.1f s  requests: %s%s\n", name, took.Seconds(), cmp.Or(strings.Join(parts, ", "), "none"), memory)
}

func (f *fleetBench) load(ctx context.Context) error {
	if err := f.cluster.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleetNamespace}}); err != nil {
		return fmt.Errorf("creating a namespace: %w", err)
	}
	f.policy = &fleetmanagementv1alpha1.RemoteAttributePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleetNamespace, Name: "team"},
		Spec: fleetmanagementv1alpha1.RemoteAttributePolicySpec{
			Selector: fleetmanagementv1alpha1.PolicySelector{Matchers: []string{`env="prod"`}}, Attributes: map[string]string{"team": "first"},
		},
	}
	if err := f.cluster.Client.Create(ctx, f.policy); err != nil {
		return fmt.Errorf("creating a policy: %w", err)
	}
	f.server.PutCollectors(f.size.collectors, func(i int) *collectorv1.Collector {
		return &collectorv1.Collector{Id: collectorID(i), CollectorType: collectorv1.CollectorType_COLLECTOR_TYPE_ALLOY, LocalAttributes: map[string]string{
			"env": "prod", "cluster": fmt.Sprintf("cluster-%d", i%20), "namespace": "monitoring", "host": collectorID(i), "os": "linux", "version": "v1.12.0",
		}}
	})
	return f.each(f.size.collectors, func(i int) error {
		c := &fleetmanagementv1alpha1.Collector{ObjectMeta: metav1.ObjectMeta{Namespace: fleetNamespace, Name: collectorID(i)}}
		c.Spec.ID = collectorID(i)
		if err := f.cluster.Client.Create(ctx, c); err != nil {
			return fmt.Errorf("creating a Collector: %w", err)
		}
		return nil
	})
}

func collectorID(i int) string { return fmt.Sprintf("edge-%05d", i) }

func (f *fleetBench) settle(ctx context.Context) (err error) {
	folder := filepath.Join(f.folder, "fleet")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	for name, content := range map[string]string{
		"base-url": f.server.URL(), "username": "1", "password": "token", "ca.pem": string(f.server.CA()),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("writing the credentials: %w", err)
		}
	}
	if f.manager, err = f.startFleet(ctx); err != nil {
		return err
	}
	return f.await(ctx, "first")
}

func (f *fleetBench) startFleet(ctx context.Context) (*process, error) {
	folder := filepath.Join(f.folder, "fleet")
	return f.startManager(ctx, "--fleet-credentials-folder="+folder, "--fleet-ca-file="+filepath.Join(folder, "ca.pem"),
		"--collector-poll-interval="+steadyPoll.String(), "--drift-interval=0")
}

func (f *fleetBench) change(ctx context.Context) error {
	patch := client.MergeFrom(f.policy.DeepCopy())
	f.policy.Spec.Attributes = map[string]string{"team": "second"}
	if err := f.cluster.Client.Patch(ctx, f.policy, patch); err != nil {
		return fmt.Errorf("changing the policy: %w", err)
	}
	return f.await(ctx, "second")
}

func (f *fleetBench) restart(ctx context.Context) (err error) {
	if err := f.manager.stop(); err != nil {
		return err
	}
	if f.manager, err = f.startFleet(ctx); err != nil {
		return err
	}
	return f.manager.await(ctx, `fleet_resource_synced_total{kind="Collector",reason="Synced"`, float64(f.size.collectors))
}

func (f *fleetBench) rest(ctx context.Context) error {
	return f.poll(ctx, func() (bool, error) { return f.server.Count("ListCollectors") >= steadyPolls, nil })
}

// await waits until all collectors, and all statuses, have the value.
func (f *fleetBench) await(ctx context.Context, value string) error {
	return f.poll(ctx, func() (bool, error) {
		for _, c := range f.server.Collectors() {
			if c.GetRemoteAttributes()["team"] != value {
				return false, nil
			}
		}
		var list fleetmanagementv1alpha1.CollectorList
		if err := f.cluster.Client.List(ctx, &list, client.InNamespace(fleetNamespace)); err != nil {
			return false, fmt.Errorf("listing Collectors: %w", err)
		}
		return !slices.ContainsFunc(list.Items, func(c fleetmanagementv1alpha1.Collector) bool {
			return c.Status.EffectiveRemoteAttributes["team"] != value || !meta.IsStatusConditionTrue(c.Status.Conditions, fleetmanagementv1alpha1.ConditionReady)
		}), nil
	})
}

func (f *fleetBench) poll(ctx context.Context, done func() (bool, error)) error {
	// A list of all Collectors costs the API server more than Candor does.
	tick := time.NewTicker(2*time.Second + time.Duration(f.size.collectors)*time.Millisecond/3)
	defer tick.Stop()
	for {
		if is, err := done(); is || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
