// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	candorcontroller "github.com/candor-dev/candor/internal/controller/candor"
	"github.com/candor-dev/candor/internal/crdgate"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/openreports"
	"github.com/candor-dev/candor/internal/signals/trivy"
	candorwebhook "github.com/candor-dev/candor/internal/webhook/candor/v1alpha1"
)

// Classes returns the table of the reports that Candor reads. A row adds a provider.
func Classes() signals.Classes {
	return signals.Classes{
		trivy.Vulnerabilities(), trivy.ConfigAudits(), trivy.RBACAssessments(), trivy.ExposedSecrets(),
		openreports.Reports(), openreports.PolicyReports(),
	}
}

// setup is one row of the table of what runs in the manager.
type setup struct {
	name string
	// half is the group of the kinds that the row is about.
	half string
	// does completes the sentence "Run the … controller:".
	does string
	// workers is how many objects it works on at once unless an option says otherwise.
	workers int
	// short is what the flag of the workers calls the controller; empty for name.
	short string
	// needs is the row that this one works with, and is off without; empty for none. It stands before this one.
	needs string
	// foreign lists the classes whose kinds the controller watches and Candor does not own.
	foreign signals.Classes
	add     func(*building, int) error
	// webhook registers the admission webhook of the kind; nil for none. It is served even while the controller is off: a
	// configuration that lists a webhook must never find nobody there.
	webhook func(*building) error
}

// workersFlag is the flag that says how many objects the controller works on at once.
func (s setup) workersFlag() string {
	return "controller-" + cmp.Or(s.short, s.name) + "-max-concurrent"
}

// offBecause is the flag that turns a row off, by itself or by the row that it needs; empty where it is on.
func (o *Options) offBecause(s setup) string {
	for _, row := range []string{s.name, s.needs} {
		if row != "" && !o.Controllers[row].Enabled {
			return "--enable-" + row + "-controller=false"
		}
	}
	return ""
}

func setups() []setup {
	findings, fleet := candorv1alpha1.GroupVersion.Group, fleetmanagementv1alpha1.GroupVersion.Group
	return []setup{
		{name: "report", half: findings, does: "turn reports into Findings", workers: 8, foreign: Classes(), add: addReports},
		{name: "finding", half: findings, does: "say what Findings mean, and delete ended ones", workers: 8, add: addFindings},
		{name: "signalpolicy", half: findings, does: "say what policies do", workers: 1, add: addSignalPolicies, webhook: serveSignalPolicies},
		{name: "operatingpolicy", half: findings, does: "say which model may be asked, and what is left of the budget", workers: 1, add: addOperatingPolicies},
		{name: "suppression", half: findings, does: "say what Suppressions mute", workers: 1, add: addSuppressions, webhook: serveSuppressions},
		{name: "pipeline", half: fleet, does: "bring Pipelines to Fleet Management", workers: 1, add: addPipelines, webhook: servePipelines},
		{name: "collector", half: fleet, does: "give collectors of Fleet Management their attributes", workers: 1, add: addCollectors, webhook: serveCollectors},
		{name: "policy", half: fleet, does: "say which collectors RemoteAttributePolicies concern", workers: 4, add: addPolicies, webhook: serveRemoteAttributePolicies},
		{name: "pipeline-discovery", half: fleet, needs: "pipeline", does: "make Pipelines of the pipelines in Fleet Management", workers: 1, add: addPipelineDiscoveries, webhook: servePipelineDiscoveries},
		{name: "collector-discovery", half: fleet, short: "discovery", needs: "collector", does: "make Collectors of the collectors in Fleet Management", workers: 1, add: addCollectorDiscoveries, webhook: serveCollectorDiscoveries},
		{name: "external-sync", half: fleet, short: "sync", needs: "collector", does: "fetch attributes of collectors for ExternalAttributeSyncs", workers: 4, add: addExternalSyncs, webhook: serveExternalAttributeSyncs},
		{name: "tenant-policy", half: fleet, does: "say whom TenantPolicies bind", workers: 1, add: addTenantPolicies, webhook: serveTenantPolicies},
	}
}

// Rows returns the names of the rows of the table by the API group of their kinds.
func Rows() map[string][]string {
	rows := map[string][]string{}
	for _, s := range setups() {
		rows[s.half] = append(rows[s.half], s.name)
	}
	return rows
}

// building is what the rows of the table share.
type building struct {
	mgr       manager.Manager
	options   Options
	parts     Parts
	providers *candorcontroller.Providers
	metrics   *candorcontroller.Metrics
	models    *candorcontroller.Models
	ledger    *candorcontroller.LedgerStore
	pause     *candorcontroller.Pause
	fleet     *fleet
	mutes     *candorcontroller.Mutes
	// reports is nil while the report controller is off.
	reports *candorcontroller.ReportReconciler
	// providerChanged tells the signalpolicy controller which policies to look at.
	providerChanged chan event.GenericEvent
	// notifier is nil until a row tells people. It brings what it got to know to the controllers by the channels, which are nil for
	// those that are off.
	notifier                   *candorcontroller.Notifier
	toldFindings, toldPolicies chan event.GenericEvent
	// keys is nil while nothing takes signals of other tools.
	keys *candorcontroller.SignalKeys
	// firstLook is nil outside OLM.
	firstLook *candorcontroller.FirstLook
	// webhooks says that there is a certificate to serve them with.
	webhooks bool
}

func newBuilding(mgr manager.Manager, options Options, parts Parts) (*building, error) {
	models, err := options.Models.models()
	if err != nil {
		return nil, err
	}
	fleet, err := newFleet(options.Fleet, parts, mgr.GetClient())
	if err != nil {
		return nil, err
	}
	return &building{
		mgr: mgr, options: options, parts: parts, fleet: fleet, mutes: candorcontroller.NewMutes(mgr.GetClient()),
		providers:       &candorcontroller.Providers{Classes: Classes(), Gates: map[string]*crdgate.Gate{}},
		metrics:         candorcontroller.NewMetrics(mgr.GetCache()),
		models:          models,
		ledger:          &candorcontroller.LedgerStore{Client: mgr.GetClient(), Live: mgr.GetAPIReader()},
		pause:           &candorcontroller.Pause{},
		providerChanged: make(chan event.GenericEvent),
	}, nil
}

// setUp adds every row that is on, and says of each whether it is and why.
func (b *building) setUp(ctx context.Context) error {
	if err := register(b.parts.Registry, slices.Concat(b.metrics.Collectors(), b.fleet.metrics.Collectors(), b.fleet.found.Collectors(), b.fleet.calls.Collectors())); err != nil {
		return err
	}
	if err := candorcontroller.AddIndexes(ctx, b.mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("adding indexes: %w", err)
	}
	for _, s := range setups() {
		if err := b.addRow(s); err != nil {
			return fmt.Errorf("setting up the %s controller: %w", s.name, err)
		}
	}
	return nil
}

func (b *building) addRow(s setup) error {
	log, workers := b.mgr.GetLogger().WithName("setup"), b.options.Controllers[s.name].Workers
	if off := b.options.offBecause(s); off == "" {
		if err := b.announceForeign(s); err != nil {
			return err
		}
		if err := s.add(b, workers); err != nil {
			return err
		}
		log.Info("Controller on", "name", s.name, "workers", workers)
	} else {
		log.Info("Controller off", "name", s.name, "because", off)
	}
	if s.webhook == nil || !b.webhooks {
		return nil
	}
	return s.webhook(b)
}

// announceForeign says which kinds are not there yet. They are picked up when they come.
func (b *building) announceForeign(s setup) error {
	for _, class := range s.foreign {
		installed, err := crdgate.CRDInstalled(b.mgr.GetRESTMapper(), class.Kind)
		if err != nil {
			return fmt.Errorf("looking for %s: %w", class.Kind.Kind, err)
		}
		if !installed {
			b.mgr.GetLogger().WithName("setup").Info("Reports not found; they are picked up when they come", "provider", class.Provider,
				"kind", class.Kind.Kind, "remedy", class.Install)
		}
	}
	return nil
}

func addReports(b *building, workers int) error {
	r := &candorcontroller.ReportReconciler{
		Client: b.mgr.GetClient(), Live: b.mgr.GetAPIReader(), Providers: b.providers, Clock: b.parts.Clock,
		Grace: b.options.EvidenceGrace, Metrics: b.metrics, Mutes: b.mutes, FirstLook: b.firstLook,
	}
	b.reports = r
	if err := r.SetupWithManager(b.mgr, controller.TypedOptions[signals.Identity]{MaxConcurrentReconciles: workers}, b.parts.WakeReports); err != nil {
		return err
	}
	client, err := metadata.NewForConfigAndClient(b.mgr.GetConfig(), b.mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("creating a metadata client: %w", err)
	}
	for _, class := range b.providers.Classes {
		gate := b.gate(class, r, client)
		b.providers.Gates[class.Provider] = gate
		if err := b.mgr.Add(gate); err != nil {
			return fmt.Errorf("adding the gate of %s: %w", class.CRD, err)
		}
	}
	return nil
}

func (b *building) gate(class signals.Class, r *candorcontroller.ReportReconciler, client metadata.Interface) *crdgate.Gate {
	b.metrics.SetProviderUp(class.Provider, false)
	return &crdgate.Gate{
		CRD: class.CRD, Kind: class.Kind, Metadata: client, Live: b.mgr.GetAPIReader(), Log: b.mgr.GetLogger().WithName("gate"),
		NewCache: func(failed func(error)) (cache.Cache, error) {
			return crdgate.NewCache(b.mgr, class.Kind, class.Fields, class.Compact, failed)
		},
		Activate: func(ctx context.Context, c cache.Cache) error { return r.Feed(ctx, class, c) },
		OnChange: func(ctx context.Context, state crdgate.State) {
			b.metrics.SetProviderUp(class.Provider, state.Phase == crdgate.Serving && state.Err == nil)
			r.ProviderChanged(ctx, class.Provider, state)
			b.wakePolicies(ctx)
		},
	}
}

// wakePolicies makes the signalpolicy controller look at every policy.
func (b *building) wakePolicies(ctx context.Context) {
	if !b.options.Controllers["signalpolicy"].Enabled {
		return
	}
	var policies candorv1alpha1.SignalPolicyList
	if err := b.mgr.GetCache().List(ctx, &policies); err != nil {
		b.mgr.GetLogger().Error(err, "Cannot list policies")
		return
	}
	for i := range policies.Items {
		select {
		case b.providerChanged <- event.GenericEvent{Object: &policies.Items[i]}:
		case <-ctx.Done():
			return
		}
	}
}

func addFindings(b *building, workers int) error {
	if err := b.addNotifier(); err != nil {
		return err
	}
	woken := make(chan event.GenericEvent)
	explainer := &candorcontroller.Explainer{
		Client: b.mgr.GetClient(), Live: b.mgr.GetAPIReader(), Models: b.models, Ledger: b.ledger, Pause: b.pause, Process: string(uuid.NewUUID()),
		Callers: candorcontroller.NewCallers(b.parts.Clock, woken), Clock: b.parts.Clock, Recorder: b.mgr.GetEventRecorder("candor"), Metrics: b.metrics,
	}
	explainer.Callers.Gather, explainer.LookForKeys = b.parts.GatherCalls, b.parts.LookForKeys
	if err := b.mgr.Add(explainer.Callers); err != nil {
		return fmt.Errorf("adding the callers of models: %w", err)
	}
	if err := b.mgr.Add(explainer); err != nil {
		return fmt.Errorf("adding the watch for keys: %w", err)
	}
	if err := registerExplainer(b.parts.Registry, explainer); err != nil {
		return err
	}
	return candorcontroller.SetupFindings(b.mgr, controller.Options{MaxConcurrentReconciles: workers}, &candorcontroller.FindingSyncer{
		Client: b.mgr.GetClient(), Recorder: b.mgr.GetEventRecorder("candor"), Clock: b.parts.Clock,
		Retention: b.options.FindingRetention, Metrics: b.metrics, Mutes: b.mutes, Explainer: explainer, Notifier: b.notifier,
	}, b.parts.WakeFindings, woken, b.toldFindings)
}

func addSignalPolicies(b *building, workers int) error {
	if err := b.addNotifier(); err != nil {
		return err
	}
	return candorcontroller.SetupSignalPolicies(b.mgr, controller.Options{MaxConcurrentReconciles: workers}, &candorcontroller.SignalPolicySyncer{
		Client: b.mgr.GetClient(), Providers: b.providers, Models: b.models, Ledger: b.ledger,
		Recorder: b.mgr.GetEventRecorder("candor"), Clock: b.parts.Clock, Notifier: b.notifier, DigestInterval: b.notifier.DigestInterval,
		Keys: b.signalKeys(),
	}, b.parts.WakeSignalPolicies, b.providerChanged, b.toldPolicies)
}

func addOperatingPolicies(b *building, workers int) error {
	return candorcontroller.SetupOperatingPolicies(b.mgr, controller.Options{MaxConcurrentReconciles: workers}, &candorcontroller.OperatingPolicySyncer{
		Models: b.models, Ledger: b.ledger, Pause: b.pause, Recorder: b.mgr.GetEventRecorder("candor"), Clock: b.parts.Clock,
	})
}

func addSuppressions(b *building, workers int) error {
	s := &candorcontroller.SuppressionSyncer{Client: b.mgr.GetClient(), Clock: b.parts.Clock, Mutes: b.mutes}
	if b.reports != nil {
		s.Lines = b.reports.Lines
	}
	return candorcontroller.SetupSuppressions(b.mgr, controller.Options{MaxConcurrentReconciles: workers}, s, b.parts.WakeSuppressions)
}

func serveSignalPolicies(b *building) error {
	return candorwebhook.SetupSignalPolicyWebhook(b.mgr, b.providers.Classes.Known())
}

func serveSuppressions(b *building) error {
	return candorwebhook.SetupSuppressionWebhook(b.mgr, b.parts.Clock)
}
