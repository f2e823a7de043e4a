// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/utils/clock"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	fleetcontroller "github.com/candor-dev/candor/internal/controller/fleetmanagement"
	"github.com/candor-dev/candor/internal/egress"
	"github.com/candor-dev/candor/internal/fleet/attributes"
	"github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/extsync"
	"github.com/candor-dev/candor/internal/fleet/mirror"
	"github.com/candor-dev/candor/internal/fleet/source/open"
	"github.com/candor-dev/candor/internal/netguard"
)

// fleet is what the rows of Fleet Management share.
type fleet struct {
	client    *client.Client
	calls     *client.Metrics
	metrics   *fleetcontroller.Metrics
	found     *mirror.Metrics
	clock     clock.WithTicker
	selectors *fleetcontroller.Selectors
	// claims is what ExternalAttributeSyncs have fetched.
	claims *extsync.Store
	// tenancy is nil while TenantPolicies have no effect.
	tenancy *fleetcontroller.Tenancy
	// self is the name of the user that this operator is, empty until it is asked for.
	self       string
	pipelines  *fleetcontroller.PipelineSyncer
	collectors *fleetcontroller.CollectorSyncer
	// pacer is nil while no row sends requests.
	pacer *fleetcontroller.Pacer
	// recovered are told when requests are answered again.
	recovered []func()
}

// newFleet makes the one client of Fleet Management. It sends nothing.
func newFleet(options FleetOptions, parts Parts, reader ctrlclient.Reader) (*fleet, error) {
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
	f := &fleet{calls: client.NewMetrics(), metrics: fleetcontroller.NewMetrics(), found: mirror.NewMetrics(), clock: parts.FleetClock, selectors: &fleetcontroller.Selectors{}, claims: &extsync.Store{}}
	if options.EnforceTenantPolicies {
		f.tenancy = &fleetcontroller.Tenancy{Client: reader}
	}
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
		ValidateBeforeApply: o.ValidateBeforeApply, Tenancy: f.tenancy,
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
		Selectors: f.selectors, Claims: f.claims, Tenancy: f.tenancy, Limits: attributes.DefaultLimits().WithValue(o.AttributeValueMax), Recorder: b.mgr.GetEventRecorder("candor"), Clock: f.clock, Metrics: f.metrics,
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
	s := &fleetcontroller.PolicySyncer{
		Client: b.mgr.GetClient(), Selectors: b.fleet.selectors, Tenancy: b.fleet.tenancy, Clock: b.fleet.clock, Metrics: b.fleet.metrics,
	}
	if b.fleet.collectors != nil {
		s.Known = b.fleet.collectors.Known
	}
	return fleetcontroller.SetupPolicies(b.mgr, controller.Options{MaxConcurrentReconciles: workers}, s, b.parts.WakePolicies)
}

// discoveries is what the discoveries of both kinds are made of.
func (b *building) discoveries() fleetcontroller.MirrorConfig {
	f := b.fleet
	return fleetcontroller.MirrorConfig{
		Client: b.mgr.GetClient(), Recorder: b.mgr.GetEventRecorder("candor"), Clock: f.clock, Metrics: f.metrics, Found: f.found, Tenancy: f.tenancy,
	}
}

func addPipelineDiscoveries(b *building, workers int) error {
	f := b.fleet
	s := fleetcontroller.NewPipelineDiscoverySyncer(fleetcontroller.PipelineDiscoveryConfig{MirrorConfig: b.discoveries(), Pipelines: f.pipelines})
	f.recovered = append(f.recovered, s.Recovered)
	f.metrics.CountPipelineDiscoveries(b.mgr)
	return fleetcontroller.SetupPipelineDiscoveries(b.mgr, controller.Options{MaxConcurrentReconciles: workers}, s, b.parts.WakePipelineDiscoveries)
}

func addCollectorDiscoveries(b *building, workers int) error {
	f := b.fleet
	s := fleetcontroller.NewCollectorDiscoverySyncer(fleetcontroller.CollectorDiscoveryConfig{MirrorConfig: b.discoveries(), Collectors: f.collectors})
	f.recovered = append(f.recovered, s.Recovered)
	f.metrics.CountCollectorDiscoveries(b.mgr)
	return fleetcontroller.SetupCollectorDiscoveries(b.mgr, controller.Options{MaxConcurrentReconciles: workers}, s, b.parts.WakeCollectorDiscoveries)
}

// addExternalSyncs adds what fetches attributes. The collector controller lists collectors for it, and gives them what it fetches.
func addExternalSyncs(b *building, workers int) error {
	o, f := b.options.Fleet.Sources, b.fleet
	selector, err := o.selector()
	if err != nil {
		return err
	}
	guard, err := o.guard()
	if err != nil {
		return err
	}
	proxyGuard, err := netguard.New(netguard.Administrator, netguard.Options{})
	if err != nil {
		return err
	}
	f.metrics.CountExternalSyncs(b.mgr)
	return fleetcontroller.SetupExternalSyncs(b.mgr, controller.Options{MaxConcurrentReconciles: workers}, fleetcontroller.NewExternalSyncSyncer(
		fleetcontroller.ExternalSyncConfig{
			Client: b.mgr.GetClient(), Secrets: b.mgr.GetAPIReader(),
			Sources:   &open.Opener{Guard: guard, Proxy: http.ProxyFromEnvironment, ProxyGuard: proxyGuard, Clock: f.clock},
			Inventory: f.collectors.Inventory, Selectors: f.selectors, Claims: f.claims, Tenancy: f.tenancy, Wake: f.collectors.Wake,
			SecretSelector: selector, TargetRate: o.TargetRate, TargetBurst: o.TargetBurst,
			Recorder: b.mgr.GetEventRecorder("candor"), Clock: f.clock, Metrics: f.metrics,
		}), b.parts.WakeExternalSyncs)
}

func addTenantPolicies(b *building, workers int) error {
	return fleetcontroller.SetupTenantPolicies(b.mgr, controller.Options{MaxConcurrentReconciles: workers}, fleetcontroller.NewTenantPolicySyncer(
		fleetcontroller.TenantPolicyConfig{
			Client: b.mgr.GetClient(), Clock: b.fleet.clock, Metrics: b.fleet.metrics, Enforced: b.fleet.tenancy != nil,
		}), b.parts.WakeTenantPolicies)
}
