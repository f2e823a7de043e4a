// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	candorcontroller "github.com/candor-dev/candor/internal/controller/candor"
	fleetcontroller "github.com/candor-dev/candor/internal/controller/fleetmanagement"
	"github.com/candor-dev/candor/internal/leader"
	"github.com/candor-dev/candor/internal/listwatch"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/webhookcert"
)

const (
	// shutdownTimeout is how long running passes and calls of models may take to end. It is longer than the longest call, and
	// shorter than the pod's grace period.
	shutdownTimeout = 270 * time.Second
	// passTimeout bounds one pass of a controller: a read that waits for a write to show up has no limit of its own.
	passTimeout = 2 * time.Minute
)

// Parts are what a manager is given from outside. The zero value is that of production.
type Parts struct {
	// Clock tells the time; nil is the real one.
	Clock clock.Clock
	// WakeReports, WakeFindings, WakeSuppressions and WakeSignalPolicies make a controller look at an object now: waits run on the
	// real clock, whatever Clock says.
	WakeReports                                        <-chan event.TypedGenericEvent[signals.Identity]
	WakeFindings, WakeSuppressions, WakeSignalPolicies candorcontroller.Wake
	// WakePipelines, WakeCollectors, WakePolicies and WakeTenantPolicies do so for the kinds of Fleet Management.
	WakePipelines, WakeCollectors, WakePolicies, WakeTenantPolicies fleetcontroller.Wake
	// WakeExternalSyncs does so for ExternalAttributeSyncs.
	WakeExternalSyncs fleetcontroller.Wake
	// WakePipelineDiscoveries and WakeCollectorDiscoveries do so for discoveries.
	WakePipelineDiscoveries, WakeCollectorDiscoveries fleetcontroller.Wake
	// FleetClock paces what is asked of Fleet Management; nil is the real one.
	FleetClock clock.WithTicker
	// GatherCalls is how long Findings are collected before the worst of them is explained; zero is the time of production.
	GatherCalls time.Duration
	// SinkTimeout bounds a request to a sink; zero is the time of production.
	SinkTimeout time.Duration
	// LookForKeys says when to look whether a mounted key has changed; nil is every 30 seconds.
	LookForKeys <-chan time.Time
	// Registry takes the metrics; nil is the one that the metrics endpoint serves.
	Registry Registry
	// Tracer makes spans; nil makes none.
	Tracer trace.TracerProvider
	// Several allows more than one manager in a process, whose controllers have the same names.
	Several bool
}

// Run runs the manager until ctx ends.
func Run(ctx context.Context, options Options) error {
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	cfg.UserAgent = "candor/" + Version
	tracer, flush, err := newTracing(ctx, options)
	if err != nil {
		return err
	}
	mgr, err := New(ctx, cfg, options, Parts{Tracer: tracer})
	if err != nil {
		return err
	}
	ctrl.Log.Info("Candor starts", "version", Version)
	for _, name := range options.UnknownVariables {
		ctrl.Log.Info("Ignoring an environment variable that no flag has; docs/reference/flags.md lists them", "name", name)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the manager: %w", err)
	}
	if err := flush(); err != nil {
		ctrl.Log.Info("The last spans are lost", "error", err.Error())
	}
	return nil
}

// New returns a manager with every controller and webhook that the options ask for.
func New(ctx context.Context, cfg *rest.Config, options Options, parts Parts) (manager.Manager, error) {
	if parts.Clock == nil {
		parts.Clock = clock.RealClock{}
	}
	if parts.FleetClock == nil {
		parts.FleetClock = clock.RealClock{}
	}
	from, err := options.webhookCertificate()
	if err != nil {
		return nil, err
	}
	lock, err := newLock(cfg, options)
	if err != nil {
		return nil, err
	}
	certificate := newCertificate()
	mgr, err := ctrl.NewManager(cfg, managerOptions(options, parts, certificate, lock))
	if err != nil {
		return nil, fmt.Errorf("creating the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding /healthz: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding /readyz: %w", err)
	}
	b, err := newBuilding(mgr, options, parts)
	if err != nil {
		return nil, err
	}
	if err := b.addLock(lock); err != nil {
		return nil, err
	}
	if err := b.addCertificate(certificate, from); err != nil {
		return nil, err
	}
	if err := b.addReceiver(certificate); err != nil {
		return nil, err
	}
	if err := b.addOLM(); err != nil {
		return nil, err
	}
	return mgr, b.setUp(ctx)
}

func managerOptions(options Options, parts Parts, certificate *webhookcert.Certificate, lock *leader.Lock) ctrl.Options {
	return ctrl.Options{
		Scheme:    NewScheme(),
		Cache:     cacheOptions(),
		NewCache:  newCache,
		Client:    client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: ptr.To(true)}},
		NewClient: newClient,
		Controller: ctrlconfig.Controller{
			SkipNameValidation: ptr.To(parts.Several), ReconciliationTimeout: passTimeout,
		},
		Metrics:                             metricsOptions(options),
		HealthProbeBindAddress:              options.HealthProbeBindAddress,
		PprofBindAddress:                    options.PprofBindAddress,
		WebhookServer:                       webhookServer(options, certificate),
		LeaderElection:                      options.LeaderElect,
		LeaderElectionReleaseOnCancel:       true,
		LeaderElectionResourceLockInterface: lock,
		LeaseDuration:                       &options.LeaseDuration,
		RenewDeadline:                       &options.RenewDeadline,
		RetryPeriod:                         &options.RetryPeriod,
		GracefulShutdownTimeout:             ptr.To(shutdownTimeout),
	}
}

// newClient spares the API server the search for unknown and duplicate fields: typed objects have none.
func newClient(cfg *rest.Config, options client.Options) (client.Client, error) {
	c, err := client.New(cfg, options)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return client.WithFieldValidation(c, metav1.FieldValidationIgnore), nil
}

// cacheOptions keeps out of memory what no controller reads.
func cacheOptions() cache.Options {
	options := cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: map[client.Object]cache.ByObject{}}
	for _, object := range candorcontroller.Intermediates() {
		options.ByObject[object] = cache.ByObject{Transform: candorcontroller.CompactIntermediate}
	}
	options.ByObject[&corev1.Namespace{}] = cache.ByObject{Transform: fleetcontroller.CompactNamespace}
	return options
}

// newCache reads Findings, the kind that there is most of, in one pass.
func newCache(cfg *rest.Config, options cache.Options) (cache.Cache, error) {
	findings, err := listwatch.New(cfg, options.HTTPClient, candorv1alpha1.GroupVersion.WithResource("findings"),
		listwatch.Typed[candorv1alpha1.Finding](), candorcontroller.CompactFinding)
	if err != nil {
		return nil, err
	}
	options.NewInformer = func(
		from toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		if _, ours := object.(*candorv1alpha1.Finding); ours {
			return findings.Informer(from, object, resync, indexers)
		}
		return toolscache.NewSharedIndexInformer(from, object, resync, indexers)
	}
	return cache.New(cfg, options)
}

func metricsOptions(options Options) metricsserver.Options {
	o := metricsserver.Options{BindAddress: options.MetricsBindAddress, SecureServing: options.MetricsSecure, TLSOpts: tlsOptions(options)}
	if options.MetricsSecure {
		o.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return o
}

func webhookServer(options Options, certificate *webhookcert.Certificate) webhook.Server {
	serving := func(c *tls.Config) { c.GetCertificate = certificate.Get }
	return webhook.NewServer(webhook.Options{Port: options.WebhookPort, TLSOpts: append(tlsOptions(options), serving)})
}

func tlsOptions(options Options) []func(*tls.Config) {
	return []func(*tls.Config){func(c *tls.Config) {
		c.MinVersion = tls.VersionTLS12
		if !options.EnableHTTP2 {
			c.NextProtos = []string{"http/1.1"}
		}
	}}
}
