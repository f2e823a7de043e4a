// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/app"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
	"github.com/candor-dev/candor/test/kube"
)

const (
	username = "123"
	password = "glc_secret"
)

// world is one namespace, one Fleet Management and one manager that a spec has to itself. Time stands still unless the spec
// steps it.
type world struct {
	namespace string
	clock     *clocktesting.FakeClock
	fleet     *fleetserver.Server
	counter   *kube.Counter
	registry  *prometheus.Registry
	options   app.Options
	// meddle stands between the manager and the API server; nil for nothing.
	meddle func(http.RoundTripper) http.RoundTripper

	wakePipelines chan event.GenericEvent
	stopped       chan error
	cancel        context.CancelFunc
	// forbidden is how many log lines said "forbidden" before the spec.
	forbidden int
}

var worlds int

// newWorld makes a namespace and a Fleet Management; the manager does not run yet.
func newWorld(ctx context.Context, change ...func(*fleetserver.Options)) *world {
	GinkgoHelper()
	worlds++
	w := &world{
		namespace: fmt.Sprintf("fleet-%d", worlds), clock: clocktesting.NewFakeClock(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)),
		counter: kube.NewCounter(), forbidden: len(forbidden.Lines()),
		options: app.DefaultOptions(),
	}
	w.options.HealthProbeBindAddress = "0"
	for name, o := range w.options.Controllers {
		o.Enabled = name == "pipeline"
	}
	options := fleetserver.Options{Username: username, Password: password, Clock: w.clock}
	for _, c := range change {
		c(&options)
	}
	w.fleet = fleetserver.New(options)
	folder := GinkgoT().TempDir()
	w.options.Fleet.CredentialsFolder, w.options.Fleet.CAFile = filepath.Join(folder, "credentials"), filepath.Join(folder, "ca.pem")
	w.options.Fleet.RPS, w.options.Fleet.Burst = 1000, 1000
	Expect(os.WriteFile(w.options.Fleet.CAFile, w.fleet.CA(), 0o600)).To(Succeed())
	w.mount()
	Expect(cluster.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		w.stop()
		w.clear(ctx)
		w.fleet.Close()
		lines := slices.DeleteFunc(slices.Clone(forbidden.Lines()[w.forbidden:]), func(line string) bool {
			// Fleet Management refuses, too, and the manager tells the API server of it. A right that lacks is told by more than a body.
			return strings.HasPrefix(line, "Request Body") || strings.HasPrefix(line, "Response Body") || strings.Contains(line, "403 Forbidden")
		})
		Expect(lines).To(BeEmpty(), "the manager lacks a right")
	})
	return w
}

// clear takes the objects of the spec away, finalizers or not.
func (w *world) clear(ctx context.Context) {
	GinkgoHelper()
	for _, p := range w.pipelines(ctx) {
		p.Finalizers = nil
		Expect(client.IgnoreNotFound(cluster.Client.Update(ctx, &p))).To(Succeed())
		Expect(client.IgnoreNotFound(cluster.Client.Delete(ctx, &p))).To(Succeed())
	}
}

// start runs the manager as its ServiceAccount.
func (w *world) start(ctx context.Context) {
	GinkgoHelper()
	config, err := cluster.ManagerConfig(ctx)
	Expect(err).NotTo(HaveOccurred())
	config.Wrap(w.counter.Wrap)
	if w.meddle != nil {
		config.Wrap(w.meddle)
	}
	w.registry, w.wakePipelines = prometheus.NewRegistry(), make(chan event.GenericEvent)
	running, cancel := context.WithCancel(context.Background())
	mgr, err := app.New(running, config, w.options, app.Parts{
		Clock: w.clock, FleetClock: w.clock, Registry: w.registry, Several: true, WakePipelines: w.wakePipelines,
	})
	Expect(err).NotTo(HaveOccurred())
	stopped := make(chan error, 1)
	w.cancel, w.stopped = cancel, stopped
	go func() { stopped <- mgr.Start(running) }()
}

// mount gives the manager the credentials that Fleet Management takes.
func (w *world) mount() {
	GinkgoHelper()
	folder := w.options.Fleet.CredentialsFolder
	Expect(os.MkdirAll(folder, 0o700)).To(Succeed())
	for name, content := range map[string]string{"base-url": w.fleet.URL(), "username": username, "password": password} {
		Expect(os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600)).To(Succeed())
	}
}

// unmount takes the credentials away.
func (w *world) unmount() {
	GinkgoHelper()
	Expect(os.RemoveAll(w.options.Fleet.CredentialsFolder)).To(Succeed())
}

// stop ends the manager and waits for it.
func (w *world) stop() {
	GinkgoHelper()
	if w.cancel == nil {
		return
	}
	w.cancel()
	w.cancel = nil
	Expect(<-w.stopped).To(Succeed())
}

// restart runs another manager in place of the first, which remembers nothing.
func (w *world) restart(ctx context.Context) {
	GinkgoHelper()
	w.stop()
	w.start(ctx)
}

// metric returns a function that adds up the series of a metric that have all of the labels: name, value, name, value.
func (w *world) metric(name string, labels ...string) func() float64 {
	return func() float64 {
		families, err := w.registry.Gather()
		if err != nil {
			return -1
		}
		added := 0.0
		for _, family := range families {
			if family.GetName() != name {
				continue
			}
			for _, m := range family.GetMetric() {
				have := map[string]string{}
				for _, l := range m.GetLabel() {
					have[l.GetName()] = l.GetValue()
				}
				match := true
				for i := 0; i < len(labels); i += 2 {
					match = match && have[labels[i]] == labels[i+1]
				}
				if match {
					added += m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
		}
		return added
	}
}

// pipelines returns every Pipeline of the namespace.
func (w *world) pipelines(ctx context.Context) []fleetmanagementv1alpha1.Pipeline {
	GinkgoHelper()
	var list fleetmanagementv1alpha1.PipelineList
	Expect(cluster.Client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	return list.Items
}

// writes counts what the manager wrote, but for events and leases.
func (w *world) writes() kube.Counts { return w.counter.Writes().Without("events", "leases") }

// events returns "type reason" of the events of the namespace.
func (w *world) events(ctx context.Context) []string {
	GinkgoHelper()
	var list eventsv1.EventList
	Expect(cluster.Client.List(ctx, &list, client.InNamespace(w.namespace))).To(Succeed())
	var all []string
	for _, e := range list.Items {
		all = append(all, e.Type+" "+e.Reason)
	}
	return all
}
