// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/candor-dev/candor/internal/app"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
	"github.com/candor-dev/candor/test/fakes/sinkserver"
	"github.com/candor-dev/candor/test/kube"
)

// logTail is how many lines of its log explain why the manager failed.
const logTail = 15

// manager is Candor as main runs it, in this process, as its own ServiceAccount.
type manager struct {
	counter   *kube.Counter
	cache     cache.Cache
	logPath   string
	log       *os.File
	forbidden *kube.ForbiddenLog
	clock     *movableClock
	wake      chan event.GenericEvent
	fleet     *fleetserver.Server
	// inventory knows the owners of as many hosts as known says.
	inventory *httptest.Server
	known     atomic.Int64
	// chat is where every team is told.
	chat         *sinkserver.Server
	wakePolicies chan event.GenericEvent
	// signals is where other tools post, with a certificate that signalCA vouches for.
	signals  string
	signalCA []byte
	cancel   context.CancelFunc
	// done is closed when the manager has ended, with err.
	done chan struct{}
	err  error
}

func startManager(ctx context.Context, cluster *kube.Cluster, home string) (*manager, error) {
	m := &manager{counter: kube.NewCounter(), logPath: filepath.Join(home, "manager.log"), done: make(chan struct{}), clock: &movableClock{}, wake: make(chan event.GenericEvent), wakePolicies: make(chan event.GenericEvent)}
	var err error
	if m.log, err = os.OpenFile(m.logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return nil, fmt.Errorf("making the manager's log: %w", err)
	}
	logger, forbidden := kube.WatchForbidden(zap.New(zap.WriteTo(m.log)))
	m.forbidden = forbidden
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	config, err := cluster.ManagerConfig(ctx)
	if err != nil {
		return nil, err
	}
	config.Wrap(m.counter.Wrap)
	o := app.DefaultOptions()
	o.HealthProbeBindAddress = "0" // no port that another program may have
	if o.Models.KeyFolder, err = keyFolder(home); err != nil {
		return nil, err
	}
	if err := m.fleetFolder(home, &o.Fleet); err != nil {
		return nil, err
	}
	if err := errors.Join(m.sinks(home, &o.Notify), m.receiver(home, &o.Receiver)); err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	mgr, err := app.New(running, config, o, app.Parts{Clock: m.clock, WakeFindings: m.wake, WakeSignalPolicies: m.wakePolicies, Several: true}) // go test -count runs one after the other
	if err != nil {
		cancel()
		return nil, err
	}
	m.cancel, m.cache = cancel, mgr.GetCache()
	go func() {
		m.err = mgr.Start(running)
		close(m.done)
	}()
	return m, nil
}

func (m *manager) stop() error {
	m.cancel()
	<-m.done
	m.fleet.Close()
	m.inventory.Close()
	m.chat.Close()
	return errors.Join(m.err, m.log.Close())
}

// health returns an error once the manager has ended or lacks a right.
func (m *manager) health() error {
	select {
	case <-m.done:
		return fmt.Errorf("the manager has ended: %w", m.err)
	default:
	}
	if lines := m.forbidden.Lines(); len(lines) > 0 {
		return fmt.Errorf("the manager lacks a right: %s\nrun make manifests and see config/rbac/role.yaml", lines[0])
	}
	return nil
}

// explain adds to an error the last that the manager said.
func (m *manager) explain(err error) error {
	content, readErr := os.ReadFile(m.logPath)
	if readErr != nil || errors.Is(err, context.Canceled) {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return fmt.Errorf("%w\nthe manager's log ends with:\n%s", err, strings.Join(lines[max(0, len(lines)-logTail):], "\n"))
}

// busy reports whether a controller works or has something to work on at once.
func (m *manager) busy() (bool, error) {
	sum, err := metric("workqueue_depth", nil)
	if err != nil || sum > 0 {
		return true, err
	}
	sum, err = metric("controller_runtime_active_workers", nil)
	return sum > 0, err
}

// metric adds up the series of a metric of this process that have these labels.
func metric(name string, labels prometheus.Labels) (float64, error) {
	families, err := metrics.Registry.Gather()
	if err != nil {
		return 0, fmt.Errorf("reading the manager's metrics: %w", err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, series := range family.GetMetric() {
			matching := 0
			for _, pair := range series.GetLabel() {
				if value, asked := labels[pair.GetName()]; asked && value == pair.GetValue() {
					matching++
				}
			}
			if matching == len(labels) {
				sum += series.GetCounter().GetValue() + series.GetGauge().GetValue()
			}
		}
	}
	return sum, nil
}
