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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/app"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
	"github.com/candor-dev/candor/test/kube"
	"github.com/candor-dev/candor/test/suite"
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
	options   app.Options
	// meddle stands between the manager and the API server; nil for nothing.
	meddle func(http.RoundTripper) http.RoundTripper
	// mayLack is a resource on which the spec means the manager to lack a right; empty for none.
	mayLack string
	// manager is nil before the start.
	manager *suite.Manager
	// wakes are the channels that have a controller look at an object, by its row in the controllers' table.
	wakes map[string]chan event.GenericEvent
}

var worlds int

// newWorld makes a namespace and a Fleet Management; the manager, which looks after Pipelines, does not run yet.
func newWorld(ctx context.Context, change ...func(*fleetserver.Options)) *world {
	GinkgoHelper()
	worlds++
	w := &world{
		namespace: fmt.Sprintf("fleet-%d", worlds), clock: suite.NewClock(), counter: kube.NewCounter(), options: suite.NewOptions(),
	}
	w.enableOnly("pipeline")
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
	cluster.CreateNamespace(ctx, w.namespace)
	forbidden := cluster.Forbidden()
	DeferCleanup(func(ctx SpecContext) {
		w.stop()
		cluster.DeleteAll(ctx, w.namespace, kinds()...)
		w.fleet.Close()
		Expect(slices.DeleteFunc(forbidden(), func(line string) bool {
			return refusedByFleet(line) || refusedByWebhook(line) || w.mayLack != "" && strings.Contains(line, w.mayLack)
		})).To(BeEmpty(), "the manager lacks a right")
	})
	return w
}

// kinds are those of the fleet.
func kinds() []schema.GroupVersionKind {
	var all []schema.GroupVersionKind
	for name, goType := range cluster.Client.Scheme().KnownTypes(fleetmanagementv1alpha1.GroupVersion) {
		if _, hasMetadata := goType.FieldByName("ObjectMeta"); hasMetadata {
			all = append(all, fleetmanagementv1alpha1.GroupVersion.WithKind(name))
		}
	}
	return all
}

// refusedByFleet tells log lines of what Fleet Management refuses, which the manager tells the API server, and of what a TenantPolicy
// forbids. A right that lacks is told by more than a body.
func refusedByFleet(line string) bool {
	return strings.HasPrefix(line, "Request Body") || strings.HasPrefix(line, "Response Body") || strings.Contains(line, "403 Forbidden") ||
		strings.Contains(line, fleetmanagementv1alpha1.ReasonTenantForbidden)
}

// refusedByWebhook tells log lines of what a webhook refuses.
func refusedByWebhook(line string) bool {
	return strings.HasPrefix(line, "wrote response webhookGroup")
}

// enableOnly says which rows of the controllers' table the next start runs.
func (w *world) enableOnly(rows ...string) {
	GinkgoHelper()
	suite.EnableOnly(w.options, rows...)
}

// start runs the manager as its ServiceAccount.
func (w *world) start(ctx context.Context) {
	GinkgoHelper()
	w.wakes = map[string]chan event.GenericEvent{}
	wake := func(row string) chan event.GenericEvent {
		w.wakes[row] = make(chan event.GenericEvent)
		return w.wakes[row]
	}
	w.manager = cluster.StartManager(ctx, w.options, app.Parts{
		Clock: w.clock, FleetClock: w.clock,
		WakePipelines: wake("pipeline"), WakeCollectors: wake("collector"), WakePolicies: wake("policy"),
		WakeExternalSyncs:       wake("external-sync"),
		WakePipelineDiscoveries: wake("pipeline-discovery"), WakeCollectorDiscoveries: wake("collector-discovery"),
		WakeTenantPolicies: wake("tenant-policy"),
	}, w.counter.Wrap, w.meddle)
}

// stop ends the manager and waits for it.
func (w *world) stop() {
	GinkgoHelper()
	w.manager.Stop()
}

// restart runs another manager in place of the first, which remembers nothing.
func (w *world) restart(ctx context.Context) {
	GinkgoHelper()
	w.stop()
	w.start(ctx)
}

// wakeRow has the controller of a row look at an object, of which it needs the name only.
func (w *world) wakeRow(row string, o client.Object) {
	GinkgoHelper()
	Expect(w.wakes).To(HaveKey(row), "the channels that start makes")
	select {
	case w.wakes[row] <- event.GenericEvent{Object: o}:
	case <-time.After(30 * time.Second):
		Fail("the controller of the row " + row + " does not run")
	}
}

// lookAt has the controller of a row look at objects one after another, and waits each time for the end of a pass that has begun
// since.
func (w *world) lookAt(row string, objects ...client.Object) {
	GinkgoHelper()
	for _, o := range objects {
		kind, err := apiutil.GVKForObject(o, cluster.Client.Scheme())
		Expect(err).NotTo(HaveOccurred())
		Eventually(working).WithArguments(kind.Kind).Should(BeZero(), "a pass that began before")
		before := w.passes(kind.Kind)
		w.wakeRow(row, o)
		Eventually(w.passes).WithArguments(kind.Kind).Should(BeNumerically(">", before))
	}
}

// passes is how many passes over a kind have ended with a condition.
func (w *world) passes(kind string) float64 {
	return w.metric("fleet_resource_synced_total", "kind", kind)()
}

// working is how many passes over a kind run, in whichever manager.
func working(kind string) float64 {
	controller := strings.ToLower(kind)
	if kind == "ExternalAttributeSync" {
		controller = "external-sync"
	}
	return suite.Sum(metrics.Registry, "controller_runtime_active_workers", "controller", controller)
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

// metric returns a function that adds up the series of a metric that have all of the labels: name, value, name, value.
func (w *world) metric(name string, labels ...string) func() float64 {
	return func() float64 { return suite.Sum(w.manager.Registry, name, labels...) }
}

// writes counts what the manager wrote, but for events and leases.
func (w *world) writes() kube.Counts { return w.counter.Writes().Without("events", "leases") }

// asked returns the calls of Fleet Management. What asks for the limits of the stack does so in its own time, and is left out.
func (w *world) asked() []fleetserver.Call {
	return slices.DeleteFunc(w.fleet.Calls(), func(c fleetserver.Call) bool { return c.Procedure == "GetLimits" })
}

// quiet asserts that do neither writes into the API server nor calls Fleet Management.
func (w *world) quiet(do func()) {
	GinkgoHelper()
	writes, calls := w.writes(), len(w.asked())
	do()
	Expect(w.writes().Since(writes)).To(BeEmpty(), "writes into the API server")
	Expect(w.asked()[calls:]).To(BeEmpty(), "calls of Fleet Management")
}

// events returns "type reason" of the events of the namespace.
func (w *world) events(ctx context.Context) []string {
	GinkgoHelper()
	var all []string
	for _, e := range cluster.Events(ctx, w.namespace) {
		all = append(all, e.Type+" "+e.Reason)
	}
	return all
}

func (*world) create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	cluster.Create(ctx, objects...)
}

// settle asserts in the end what get returns. Meanwhile time moves by the seconds in which what was submitted is written.
func settle[T any](w interface{ step(time.Duration) }, get func() T) AsyncAssertion {
	return Eventually(func() T {
		w.step(time.Second)
		return get()
	}).WithPolling(50 * time.Millisecond)
}

func (w *world) step(d time.Duration) { w.clock.Step(d) }

// patch changes an object as a person would.
func patch(ctx context.Context, o client.Object, body string) {
	GinkgoHelper()
	Expect(cluster.Client.Patch(ctx, o, merge(body))).To(Succeed())
}

func merge(body string) client.Patch {
	return client.RawPatch("application/merge-patch+json", []byte(body))
}

// verdictOf reads a condition as "status/reason", empty for none.
func verdictOf(conditions []metav1.Condition, condition string) string {
	if found := meta.FindStatusCondition(conditions, condition); found != nil {
		return string(found.Status) + "/" + found.Reason
	}
	return ""
}

// messageOf reads the message of a condition, empty for none.
func messageOf(conditions []metav1.Condition, condition string) string {
	if found := meta.FindStatusCondition(conditions, condition); found != nil {
		return found.Message
	}
	return ""
}
