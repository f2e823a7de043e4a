// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// agesAfter is longer than the pollInterval of the discoveries of this suite.
const agesAfter = 6 * time.Minute

// discovery is what specs ask of a discovery of either kind. Its name is all.
type discovery struct {
	*world
	row, lists string
	// list is an empty one of the objects that it makes.
	list client.ObjectList
	// object returns an empty discovery, and state what its status tells.
	object func() client.Object
	state  func(client.Object) discoveryState
}

type discoveryState struct {
	conditions                                           []metav1.Condition
	observed, managed, staleTotal, outOfScope, conflicts int32
	stale, conflictIDs                                   []string
	reasons                                              []fleetmanagementv1alpha1.ConflictReason
	lastSync                                             *metav1.Time
}

// read returns the state of the discovery.
func (d *discovery) read(ctx context.Context) discoveryState {
	o := d.object()
	if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: d.namespace, Name: "all"}, o); err != nil {
		return discoveryState{}
	}
	return d.state(o)
}

func (d *discovery) says(ctx context.Context, condition string) func() string {
	return func() string { return verdictOf(d.read(ctx).conditions, condition) }
}

func (d *discovery) ready(ctx context.Context) func() string {
	return d.says(ctx, fleetmanagementv1alpha1.ConditionReady)
}

func (d *discovery) message(ctx context.Context) string {
	return messageOf(d.read(ctx).conditions, fleetmanagementv1alpha1.ConditionReady)
}

// look has the discovery looked at, and waits until its pass is over.
func (d *discovery) look() {
	GinkgoHelper()
	o := d.object()
	o.SetNamespace(d.namespace)
	o.SetName("all")
	d.lookAt(d.row, o)
}

// wake has the discovery looked at.
func (d *discovery) wake() {
	GinkgoHelper()
	o := d.object()
	o.SetNamespace(d.namespace)
	o.SetName("all")
	d.wakeRow(d.row, o)
}

// later lets the list grow too old for the discovery and has it looked at; a new list comes for it. The passes that follow from that
// are over when it returns.
func (d *discovery) later() {
	GinkgoHelper()
	before := d.fleet.Count(d.lists)
	d.clock.Step(agesAfter)
	Eventually(func() int {
		d.wake()
		return d.fleet.Count(d.lists)
	}).WithPolling(100 * time.Millisecond).Should(BeNumerically(">", before))
	d.look()
	d.look()
}

// approve sets the word that the condition tells, as a person would.
func (d *discovery) approve(ctx context.Context) {
	GinkgoHelper()
	word := wordIn(messageOf(d.read(ctx).conditions, fleetmanagementv1alpha1.ConditionRemovalSuspended))
	o := d.object()
	o.SetNamespace(d.namespace)
	o.SetName("all")
	patch(ctx, o, fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, fleetmanagementv1alpha1.AnnotationApproveRemoval, word))
}

// edit changes the spec of the discovery.
func (d *discovery) edit(ctx context.Context, spec string) {
	GinkgoHelper()
	o := d.object()
	o.SetNamespace(d.namespace)
	o.SetName("all")
	patch(ctx, o, `{"spec": `+spec+`}`)
}

// objects returns the names of the objects in the namespace, in order; those that are marked as stale end with an exclamation mark.
func (d *discovery) objects(ctx context.Context, stale string) func() []string {
	return func() []string {
		list := d.list.DeepCopyObject().(client.ObjectList)
		Expect(cluster.Client.List(ctx, list, client.InNamespace(d.namespace))).To(Succeed())
		names := []string{}
		switch l := list.(type) {
		case *fleetmanagementv1alpha1.PipelineList:
			for _, o := range l.Items {
				names = append(names, marked(&o, stale))
			}
		case *fleetmanagementv1alpha1.CollectorList:
			for _, o := range l.Items {
				names = append(names, marked(&o, stale))
			}
		}
		slices.Sort(names)
		return names
	}
}

// standing returns a function that counts the objects in the namespace by their condition Ready, as "status/reason".
func (d *discovery) standing(ctx context.Context) func() map[string]int {
	return func() map[string]int {
		list := d.list.DeepCopyObject().(client.ObjectList)
		Expect(cluster.Client.List(ctx, list, client.InNamespace(d.namespace))).To(Succeed())
		all := map[string]int{}
		Expect(meta.EachListItem(list, func(o runtime.Object) error {
			all[verdictOf(*o.(lifecycle.Object).StatusConditions(), fleetmanagementv1alpha1.ConditionReady)]++
			return nil
		})).To(Succeed())
		return all
	}
}

func marked(o client.Object, stale string) string {
	if o.GetAnnotations()[stale] == "true" {
		return o.GetName() + "!"
	}
	return o.GetName()
}

// pipelineDiscovery is a world with a PipelineDiscovery.
type pipelineDiscovery struct{ *discovery }

// newPipelineDiscovery makes a world; neither the manager runs nor the discovery exists yet. Lists come for the discovery only.
func newPipelineDiscovery(ctx context.Context) *pipelineDiscovery {
	GinkgoHelper()
	w := newWorld(ctx)
	w.enableOnly("pipeline", "pipeline-discovery")
	w.options.Fleet.DriftInterval = 24 * time.Hour
	return &pipelineDiscovery{&discovery{
		world: w, row: "pipeline-discovery", lists: "ListPipelines", list: &fleetmanagementv1alpha1.PipelineList{},
		object: func() client.Object { return &fleetmanagementv1alpha1.PipelineDiscovery{} },
		state: func(o client.Object) discoveryState {
			s := o.(*fleetmanagementv1alpha1.PipelineDiscovery).Status
			state := discoveryState{
				s.Conditions, s.PipelinesObserved, s.PipelinesManaged, s.StaleTotal, s.OutOfScope, s.ConflictsTotal, s.StalePipelines, nil, nil, s.LastSyncTime,
			}
			for _, c := range s.Conflicts {
				state.conflictIDs, state.reasons = append(state.conflictIDs, c.PipelineID), append(state.reasons, c.Reason)
			}
			return state
		},
	}}
}

// discover creates the discovery.
func (d *pipelineDiscovery) discover(ctx context.Context, change ...func(*fleetmanagementv1alpha1.PipelineDiscovery)) {
	GinkgoHelper()
	o := &fleetmanagementv1alpha1.PipelineDiscovery{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "all"}}
	for _, c := range change {
		c(o)
	}
	d.create(ctx, o)
}

func adopt(d *fleetmanagementv1alpha1.PipelineDiscovery) {
	d.Spec.ImportMode = fleetmanagementv1alpha1.ImportAdopt
}

func prune(d *fleetmanagementv1alpha1.PipelineDiscovery) {
	d.Spec.Policy.OnPipelineRemoved = fleetmanagementv1alpha1.RemovalDelete
}

func (d *pipelineDiscovery) names(ctx context.Context) func() []string {
	return d.objects(ctx, fleetmanagementv1alpha1.AnnotationPipelineStale)
}

// puts makes pipelines p00, p01, … in Fleet Management.
func (d *pipelineDiscovery) puts(n int) []string {
	var all []string
	for i := range n {
		name := fmt.Sprintf("p%02d", i)
		d.put(name)
		all = append(all, name)
	}
	return all
}

// ignoresDrift has a Pipeline leave what others do, and waits until its controller knows.
func (d *pipelineDiscovery) ignoresDrift(ctx context.Context, name string) {
	GinkgoHelper()
	d.change(ctx, name, `{"spec": {"driftPolicy": "Ignore"}}`)
	Eventually(func() bool { p := d.get(ctx, name); return p.Status.ObservedGeneration == p.Generation }).Should(BeTrue())
}

// collectorDiscovery is a world with a CollectorDiscovery.
type collectorDiscovery struct{ *discovery }

// newCollectorDiscovery makes a world; neither the manager runs nor the discovery exists yet. Lists come for the discovery only.
func newCollectorDiscovery(ctx context.Context) *collectorDiscovery {
	GinkgoHelper()
	w := newWorld(ctx)
	w.enableOnly("collector", "collector-discovery")
	w.options.Fleet.CollectorPollInterval = pollInterval
	return &collectorDiscovery{&discovery{
		world: w, row: "collector-discovery", lists: listAll, list: &fleetmanagementv1alpha1.CollectorList{},
		object: func() client.Object { return &fleetmanagementv1alpha1.CollectorDiscovery{} },
		state: func(o client.Object) discoveryState {
			s := o.(*fleetmanagementv1alpha1.CollectorDiscovery).Status
			state := discoveryState{
				s.Conditions, s.CollectorsObserved, s.CollectorsManaged, s.StaleTotal, s.OutOfScope, s.ConflictsTotal, s.StaleCollectors, nil, nil, s.LastSyncTime,
			}
			for _, c := range s.Conflicts {
				state.conflictIDs, state.reasons = append(state.conflictIDs, c.CollectorID), append(state.reasons, c.Reason)
			}
			return state
		},
	}}
}

// discover creates the discovery.
func (d *collectorDiscovery) discover(ctx context.Context, change ...func(*fleetmanagementv1alpha1.CollectorDiscovery)) {
	GinkgoHelper()
	o := &fleetmanagementv1alpha1.CollectorDiscovery{ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: "all"}}
	for _, c := range change {
		c(o)
	}
	d.create(ctx, o)
}

func pruneCollectors(d *fleetmanagementv1alpha1.CollectorDiscovery) {
	d.Spec.Policy.OnCollectorRemoved = fleetmanagementv1alpha1.RemovalDelete
}

func selecting(matchers ...string) func(*fleetmanagementv1alpha1.CollectorDiscovery) {
	return func(d *fleetmanagementv1alpha1.CollectorDiscovery) { d.Spec.Selector.Matchers = matchers }
}

func (d *collectorDiscovery) names(ctx context.Context) func() []string {
	return d.objects(ctx, fleetmanagementv1alpha1.AnnotationCollectorStale)
}

// registers puts collectors into Fleet Management.
func (d *collectorDiscovery) registers(ids ...string) {
	for _, id := range ids {
		d.fleet.PutCollector(&collectorv1.Collector{Id: id, LocalAttributes: map[string]string{"env": "prod"}})
	}
}

// wordIn finds the word that a message tells to set.
func wordIn(message string) string {
	GinkgoHelper()
	found := regexp.MustCompile(`to "([0-9a-f]{8})"`).FindStringSubmatch(message)
	Expect(found).To(HaveLen(2), message)
	return found[1]
}

func inNamespace(namespace string) client.DeleteAllOfOption { return client.InNamespace(namespace) }

func key(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}
