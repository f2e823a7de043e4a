// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/app"
	fleetcontroller "github.com/candor-dev/candor/internal/controller/fleetmanagement"
	"github.com/candor-dev/candor/internal/fleet/attributes"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
	"github.com/candor-dev/candor/test/kube"
)

const (
	// pollInterval is far longer than the time that flushes take, so that a spec says when a list comes.
	pollInterval = 24 * time.Hour
	bulkUpdate   = "BulkUpdateCollectors"
	listAll      = "ListCollectors"
)

// collectorWorld is one namespace, one server and one manager of Collectors and policies that a spec has to itself. Time moves
// when the spec says so.
type collectorWorld struct {
	namespace string
	clock     *clocktesting.FakeClock
	server    *fleetserver.Server
	counter   *kube.Counter
	registry  *prometheus.Registry
	noAccess  atomic.Bool
	// fleetForbids says that the spec has Fleet Management forbid something, so that log lines which say so are right.
	fleetForbids bool

	wakeCollectors, wakePolicies chan event.GenericEvent
	cancel                       context.CancelFunc
	stopped                      chan error
}

var collectorWorlds int

// newCollectorWorld makes a namespace and a server; the manager does not run yet.
func newCollectorWorld(ctx context.Context) *collectorWorld {
	GinkgoHelper()
	collectorWorlds++
	w := &collectorWorld{
		namespace: fmt.Sprintf("collectors-%d", collectorWorlds), counter: kube.NewCounter(),
		clock: clocktesting.NewFakeClock(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)),
	}
	w.server = fleetserver.New(fleetserver.Options{Username: "1", Password: "token", Clock: w.clock})
	before := len(forbidden.Lines())
	Expect(cluster.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		w.stop()
		w.clear(ctx)
		w.server.Close()
		if !w.fleetForbids {
			Expect(forbidden.Lines()[before:]).To(BeEmpty(), "the manager lacks a right")
		}
	})
	return w
}

// clear deletes what the spec made: nothing here finishes the deletion of a namespace.
func (w *collectorWorld) clear(ctx context.Context) {
	GinkgoHelper()
	in := client.InNamespace(w.namespace)
	var list fleetmanagementv1alpha1.CollectorList
	Expect(cluster.Client.List(ctx, &list, in)).To(Succeed())
	for i := range list.Items {
		Expect(client.IgnoreNotFound(cluster.Client.Patch(ctx, &list.Items[i], merge(`{"metadata": {"finalizers": null}}`)))).To(Succeed())
	}
	for _, o := range []client.Object{&fleetmanagementv1alpha1.Collector{}, &fleetmanagementv1alpha1.RemoteAttributePolicy{}} {
		Expect(cluster.Client.DeleteAllOf(ctx, o, in)).To(Succeed())
	}
}

func (w *collectorWorld) credentials() (fleetclient.Credentials, error) {
	if w.noAccess.Load() {
		return fleetclient.Credentials{}, fleetclient.ErrNoCredentials
	}
	return fleetclient.Credentials{BaseURL: w.server.URL(), Username: "1", Password: "token"}, nil
}

// start runs the two controllers as the manager's ServiceAccount.
func (w *collectorWorld) start(ctx context.Context, wraps ...func(http.RoundTripper) http.RoundTripper) {
	GinkgoHelper()
	rest, err := cluster.ManagerConfig(ctx)
	Expect(err).NotTo(HaveOccurred())
	rest.Wrap(w.counter.Wrap)
	for _, wrap := range wraps {
		rest.Wrap(wrap)
	}
	mgr := newManager(rest)
	w.registry = prometheus.NewRegistry()
	metrics := fleetcontroller.NewMetrics()
	w.registry.MustRegister(metrics.Collectors()...)
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM(w.server.CA())).To(BeTrue())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	var syncer *fleetcontroller.CollectorSyncer
	api := fleetclient.New(fleetclient.Options{
		Credentials: w.credentials, HTTP: &http.Client{Transport: transport}, Clock: w.clock, RPS: 1000, Burst: 100_000,
		Recovered: func() { syncer.Recovered() },
	})
	selectors := &fleetcontroller.Selectors{}
	syncer = fleetcontroller.NewCollectorSyncer(fleetcontroller.CollectorConfig{
		Client: mgr.GetClient(), API: api, Inventory: fleetcontroller.NewCollectorInventory(api.ListCollectors, w.clock), Selectors: selectors,
		Limits: attributes.DefaultLimits(), Recorder: mgr.GetEventRecorder("candor"), Clock: w.clock, Metrics: metrics, PollInterval: pollInterval,
	})
	w.wakeCollectors, w.wakePolicies = make(chan event.GenericEvent), make(chan event.GenericEvent)
	Expect(fleetcontroller.SetupCollectors(mgr, controller.Options{}, syncer, w.wakeCollectors)).To(Succeed())
	Expect(fleetcontroller.SetupPolicies(mgr, controller.Options{}, &fleetcontroller.PolicySyncer{
		Client: mgr.GetClient(), Selectors: selectors, Clock: w.clock, Metrics: metrics,
	}, w.wakePolicies)).To(Succeed())
	running, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	w.cancel, w.stopped = cancel, stopped
	go func() {
		defer transport.CloseIdleConnections()
		stopped <- mgr.Start(running)
	}()
}

func newManager(rest *rest.Config) ctrl.Manager {
	GinkgoHelper()
	mgr, err := ctrl.NewManager(rest, ctrl.Options{
		Scheme: app.NewScheme(), Metrics: server.Options{BindAddress: "0"},
		Client:     client.Options{Cache: &client.CacheOptions{EnableReadYourWritesConsistency: ptr.To(true)}},
		Controller: config.Controller{SkipNameValidation: ptr.To(true), ReconciliationTimeout: time.Minute},
	})
	Expect(err).NotTo(HaveOccurred())
	return mgr
}

// stop ends the manager and waits for it.
func (w *collectorWorld) stop() {
	GinkgoHelper()
	if w.cancel == nil {
		return
	}
	w.cancel()
	w.cancel = nil
	Expect(<-w.stopped).To(Succeed())
}

// settle asserts in the end what get returns. Meanwhile time moves by the seconds in which what was submitted is written.
func settle[T any](w *collectorWorld, get func() T) AsyncAssertion {
	return Eventually(func() T {
		w.clock.Step(time.Second)
		return get()
	}).WithPolling(50 * time.Millisecond)
}

// poll lets the next list come, and no more than that one.
func (w *collectorWorld) poll() {
	GinkgoHelper()
	before := w.server.Count(listAll)
	Eventually(func() int {
		listed := w.server.Count(listAll)
		if listed == before {
			w.clock.Step(pollInterval)
		}
		return listed
	}).WithPolling(200 * time.Millisecond).Should(Equal(before + 1))
}

// look has the Collectors looked at, and waits for it.
func (w *collectorWorld) look(names ...string) {
	GinkgoHelper()
	before := w.passes("Collector")
	for _, name := range names {
		w.wakeCollectors <- event.GenericEvent{Object: w.collector(name, "")}
	}
	Eventually(func() float64 { return w.passes("Collector") }).Should(BeNumerically(">=", before+float64(len(names))))
}

// lookAtPolicy has a policy looked at, and waits for it.
func (w *collectorWorld) lookAtPolicy(name string) {
	GinkgoHelper()
	before := w.passes("RemoteAttributePolicy")
	w.wakePolicies <- event.GenericEvent{Object: w.policy(name, nil, nil)}
	Eventually(func() float64 { return w.passes("RemoteAttributePolicy") }).Should(BeNumerically(">", before))
}

// passes is how many passes over a kind have ended with a condition.
func (w *collectorWorld) passes(kind string) float64 {
	families, err := w.registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	total := 0.0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "fleet_resource_synced_total" && m.GetLabel()[0].GetValue() == kind {
				total += m.GetCounter().GetValue()
			}
		}
	}
	return total
}

// writes counts what the manager wrote into the API server, but for events.
func (w *collectorWorld) writes() kube.Counts { return w.counter.Writes().Without("events", "leases") }

// expectQuiet asserts that do neither writes into the API server nor calls Fleet Management.
func (w *collectorWorld) expectQuiet(do func()) {
	GinkgoHelper()
	writes, calls := w.writes(), w.server.Count()
	do()
	Expect(w.writes().Since(writes)).To(BeEmpty(), "writes into the API server")
	Expect(w.server.Calls()[calls:]).To(BeEmpty(), "calls of Fleet Management")
}

// registers puts a collector into Fleet Management.
func (w *collectorWorld) registers(id string, local, remote map[string]string) {
	w.server.PutCollector(&collectorv1.Collector{Id: id, LocalAttributes: local, RemoteAttributes: remote, CollectorType: collectorv1.CollectorType_COLLECTOR_TYPE_ALLOY})
}

// remote returns a function that reads the remote attributes of a collector in Fleet Management.
func (w *collectorWorld) remote(id string) func() map[string]string {
	return func() map[string]string { return w.server.Collector(id).GetRemoteAttributes() }
}

// edit changes the remote attributes of a collector behind the manager's back.
func (w *collectorWorld) edit(id string, change func(map[string]string)) {
	w.server.EditCollector(id, func(c *collectorv1.Collector) {
		if c.RemoteAttributes == nil {
			c.RemoteAttributes = map[string]string{}
		}
		change(c.RemoteAttributes)
	})
}

func (w *collectorWorld) collector(name, id string, change ...func(*fleetmanagementv1alpha1.Collector)) *fleetmanagementv1alpha1.Collector {
	c := &fleetmanagementv1alpha1.Collector{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Spec: fleetmanagementv1alpha1.CollectorSpec{ID: id},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func asks(remote map[string]string) func(*fleetmanagementv1alpha1.Collector) {
	return func(c *fleetmanagementv1alpha1.Collector) { c.Spec.RemoteAttributes = remote }
}

func (w *collectorWorld) policy(name string, matchers []string, gives map[string]string, change ...func(*fleetmanagementv1alpha1.RemoteAttributePolicy)) *fleetmanagementv1alpha1.RemoteAttributePolicy {
	p := &fleetmanagementv1alpha1.RemoteAttributePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       fleetmanagementv1alpha1.RemoteAttributePolicySpec{Selector: fleetmanagementv1alpha1.PolicySelector{Matchers: matchers}, Attributes: gives},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func (w *collectorWorld) create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, o := range objects {
		Expect(cluster.Client.Create(ctx, o)).To(Succeed())
	}
}

// patch changes a Collector or a policy as a person would.
func patch(ctx context.Context, o client.Object, body string) {
	GinkgoHelper()
	Expect(cluster.Client.Patch(ctx, o, merge(body))).To(Succeed())
}

func merge(body string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(body))
}

// read returns a Collector as it is, nil where there is none.
func (w *collectorWorld) read(ctx context.Context, name string) *fleetmanagementv1alpha1.Collector {
	var c fleetmanagementv1alpha1.Collector
	if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, &c); err != nil {
		return nil
	}
	return &c
}

// says returns a function that reads a condition of a Collector as "status/reason", empty for none.
func (w *collectorWorld) says(ctx context.Context, name, condition string) func() string {
	return func() string {
		if c := w.read(ctx, name); c != nil {
			return verdictOf(c.Status.Conditions, condition)
		}
		return ""
	}
}

func (w *collectorWorld) ready(ctx context.Context, name string) func() string {
	return w.says(ctx, name, fleetmanagementv1alpha1.ConditionReady)
}

func verdictOf(conditions []metav1.Condition, condition string) string {
	if found := meta.FindStatusCondition(conditions, condition); found != nil {
		return string(found.Status) + "/" + found.Reason
	}
	return ""
}

// policySays returns a function that reads Ready and Synced of a policy, and how many collectors it concerns.
func (w *collectorWorld) policySays(ctx context.Context, name string) func() string {
	return func() string {
		var p fleetmanagementv1alpha1.RemoteAttributePolicy
		if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, &p); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%s %s %d", verdictOf(p.Status.Conditions, fleetmanagementv1alpha1.ConditionReady),
			verdictOf(p.Status.Conditions, fleetmanagementv1alpha1.ConditionSynced), p.Status.MatchedCount)
	}
}

// owners returns who asks for what, as "key=value of kind name, before: value".
func (w *collectorWorld) owners(ctx context.Context, name string) []string {
	var all []string
	for _, o := range w.read(ctx, name).Status.AttributeOwners {
		text := fmt.Sprintf("%s=%s of %s %s", o.Key, o.Value, o.OwnerKind, o.OwnerName)
		if o.PreviousValue != nil {
			text += ", before: " + *o.PreviousValue
		}
		all = append(all, text)
	}
	return all
}

// events returns a function that reads the notes of the events with a reason.
func (w *collectorWorld) events(ctx context.Context, reason string) func() []string {
	return func() []string {
		var list eventsv1.EventList
		if err := cluster.Client.List(ctx, &list, client.InNamespace(w.namespace)); err != nil {
			return []string{err.Error()}
		}
		var notes []string
		for i := range list.Items {
			if list.Items[i].Reason == reason {
				notes = append(notes, list.Items[i].Note)
			}
		}
		slices.Sort(notes)
		return notes
	}
}

func messageOf(c *fleetmanagementv1alpha1.Collector, condition string) string {
	if found := meta.FindStatusCondition(c.Status.Conditions, condition); found != nil {
		return found.Message
	}
	return ""
}

// touches matches the requests that change one of these paths.
func touches(paths ...string) func(proto.Message) bool {
	return func(m proto.Message) bool {
		for _, op := range m.(*collectorv1.BulkUpdateCollectorsRequest).GetOps() {
			if slices.Contains(paths, op.GetPath()) {
				return true
			}
		}
		return false
	}
}

func wakeOf(c *fleetmanagementv1alpha1.Collector) event.GenericEvent {
	return event.GenericEvent{Object: &fleetmanagementv1alpha1.Collector{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}}
}
