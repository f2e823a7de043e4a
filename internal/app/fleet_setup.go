// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	fleetcontroller "github.com/candor-dev/candor/internal/controller/fleetmanagement"
	"github.com/candor-dev/candor/internal/egress"
	"github.com/candor-dev/candor/internal/fleet/attributes"
	"github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/validation"
	"github.com/candor-dev/candor/internal/netguard"
	fleetwebhook "github.com/candor-dev/candor/internal/webhook/fleetmanagement/v1alpha1"
)

// fleet is what the rows of Fleet Management share.
type fleet struct {
	client     *client.Client
	calls      *client.Metrics
	metrics    *fleetcontroller.Metrics
	clock      clock.WithTicker
	selectors  *fleetcontroller.Selectors
	pipelines  *fleetcontroller.PipelineSyncer
	collectors *fleetcontroller.CollectorSyncer
	// pacer is nil while no row sends requests.
	pacer *fleetcontroller.Pacer
	// recovered are told when requests are answered again.
	recovered []func()
}

// newFleet makes the one client of Fleet Management. It sends nothing.
func newFleet(options FleetOptions, parts Parts) (*fleet, error) {
	bundle, err := options.bundle()
	if err != nil {
		return nil, err
	}
	guard, err := netguard.New(netguard.Administrator, netguard.Options{})
	if err != nil {
		return nil, err
	}
	transport, err := egress.NewClient(egress.Options{Guard: guard, Proxy: http.ProxyFromEnvironment, CABundle: bundle, MaxBody: client.MaxAnswer})
	if err != nil {
		return nil, fmt.Errorf("--fleet-ca-file=%s: %w", options.CAFile, err)
	}
	f := &fleet{calls: client.NewMetrics(), metrics: fleetcontroller.NewMetrics(), clock: parts.FleetClock, selectors: &fleetcontroller.Selectors{}}
	rps, burst := options.rate()
	f.client = client.New(client.Options{
		Credentials: client.FolderCredentials(options.CredentialsFolder, options.Environment),
		HTTP:        transport, Clock: f.clock, RPS: rps, Burst: burst, Metrics: f.calls, Tracer: parts.Tracer,
		Recovered: func() {
			for _, recovered := range f.recovered {
				recovered()
			}
		},
	})
	return f, nil
}

// pace adds, once, what keeps requests below the limits of the stack.
func (f *fleet) pace(mgr manager.Manager) error {
	if f.pacer != nil {
		return nil
	}
	f.pacer = fleetcontroller.NewPacer(f.client, f.clock, f.metrics)
	f.recovered = append(f.recovered, f.pacer.Recovered)
	if err := mgr.Add(f.pacer); err != nil {
		return fmt.Errorf("adding the pacer of Fleet Management: %w", err)
	}
	return nil
}

func addPipelines(b *building, workers int) error {
	o, f := b.options.Fleet, b.fleet
	cluster := o.ClusterID
	if cluster == "" {
		var err error
		if cluster, err = fleetcontroller.ClusterID(context.Background(), b.mgr.GetAPIReader()); err != nil {
			return err
		}
	}
	f.pipelines = fleetcontroller.NewPipelineSyncer(fleetcontroller.PipelineConfig{
		Client: b.mgr.GetClient(), Reader: b.mgr.GetAPIReader(), API: f.client,
		Inventory: fleetcontroller.NewPipelineInventory(f.client.ListPipelines, f.clock, o.DriftInterval),
		Recorder:  b.mgr.GetEventRecorder("candor"), Clock: f.clock, Metrics: f.metrics, Cluster: cluster, NameScope: o.NameScope,
		DriftPolicy: fleetmanagementv1alpha1.DriftPolicy(o.DriftPolicy), DriftInterval: o.DriftInterval, GCOrphans: o.GCOrphans,
	})
	f.recovered = append(f.recovered, f.pipelines.Recovered)
	f.metrics.CountPipelines(b.mgr, f.pipelines.Inventory)
	if err := f.pace(b.mgr); err != nil {
		return err
	}
	return fleetcontroller.SetupPipelines(b.mgr, controller.Options{MaxConcurrentReconciles: workers}, f.pipelines, b.parts.WakePipelines)
}

func addCollectors(b *building, workers int) error {
	o, f := b.options.Fleet, b.fleet
	f.collectors = fleetcontroller.NewCollectorSyncer(fleetcontroller.CollectorConfig{
		Client: b.mgr.GetClient(), API: f.client, Inventory: fleetcontroller.NewCollectorInventory(f.client.ListCollectors, f.clock),
		Selectors: f.selectors, Limits: attributes.DefaultLimits().WithValue(o.AttributeValueMax), Recorder: b.mgr.GetEventRecorder("candor"), Clock: f.clock, Metrics: f.metrics,
		PollInterval: o.CollectorPollInterval,
	})
	f.recovered = append(f.recovered, f.collectors.Recovered)
	f.metrics.CountCollectors(b.mgr, f.collectors.Inventory)
	if err := f.pace(b.mgr); err != nil {
		return err
	}
	return fleetcontroller.SetupCollectors(b.mgr, controller.Options{MaxConcurrentReconciles: workers}, f.collectors, b.parts.WakeCollectors)
}

func addPolicies(b *building, workers int) error {
	b.fleet.metrics.CountPolicies(b.mgr)
	return fleetcontroller.SetupPolicies(b.mgr, controller.Options{MaxConcurrentReconciles: workers}, &fleetcontroller.PolicySyncer{
		Client: b.mgr.GetClient(), Selectors: b.fleet.selectors, Clock: b.fleet.clock, Metrics: b.fleet.metrics,
	}, b.parts.WakePolicies)
}

// fleetWebhook is what the webhook of a row is told.
func (b *building) fleetWebhook(row string) fleetwebhook.Options {
	o := fleetwebhook.Options{ControllerOff: !b.options.Controllers[row].Enabled, Options: validation.Options{
		MaxPipelineBytes: b.options.Fleet.MaxPipelineBytes, AttributeValueMax: b.options.Fleet.AttributeValueMax, NameScope: b.options.Fleet.NameScope,
	}}
	if b.fleet.pipelines != nil {
		o.Names = b.fleet.pipelines
	}
	if b.fleet.collectors != nil {
		o.CollectorIDs = b.fleet.collectors
	}
	return o
}

func servePipelines(b *building) error {
	return fleetwebhook.SetupPipelineWebhook(b.mgr, b.fleetWebhook("pipeline"))
}

func serveCollectors(b *building) error {
	return fleetwebhook.SetupCollectorWebhook(b.mgr, b.fleetWebhook("collector"))
}

func serveRemoteAttributePolicies(b *building) error {
	return fleetwebhook.SetupRemoteAttributePolicyWebhook(b.mgr, b.fleetWebhook("policy"))
}
