// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"
	"slices"
	"time"

	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

const (
	// pollInterval is far longer than the time that flushes take, so that a spec says when a list comes.
	pollInterval = 24 * time.Hour
	bulkUpdate   = "BulkUpdateCollectors"
	listAll      = "ListCollectors"
)

// collectorWorld is a world whose manager looks after Collectors and policies. Time moves when the spec says so.
type collectorWorld struct{ *world }

// newCollectorWorld makes a world; the manager does not run yet.
func newCollectorWorld(ctx context.Context) *collectorWorld {
	GinkgoHelper()
	w := newWorld(ctx)
	w.enableOnly("collector", "policy")
	w.options.Fleet.CollectorPollInterval = pollInterval
	return &collectorWorld{w}
}

// poll lets the next list come, and no more than that one.
func (w *collectorWorld) poll() {
	GinkgoHelper()
	before := w.fleet.Count(listAll)
	Eventually(func() int {
		listed := w.fleet.Count(listAll)
		if listed == before {
			w.clock.Step(pollInterval)
		}
		return listed
	}).WithPolling(200 * time.Millisecond).Should(Equal(before + 1))
}

// look has Collectors looked at one after another, and waits for each.
func (w *collectorWorld) look(names ...string) {
	GinkgoHelper()
	for _, name := range names {
		w.lookAt("collector", w.collector(name, ""))
	}
}

// lookAtPolicy has a policy looked at, and waits for it.
func (w *collectorWorld) lookAtPolicy(name string) {
	GinkgoHelper()
	w.lookAt("policy", w.policy(name, nil, nil))
}

// registers puts a collector into Fleet Management.
func (w *collectorWorld) registers(id string, local, remote map[string]string) {
	w.fleet.PutCollector(&collectorv1.Collector{Id: id, LocalAttributes: local, RemoteAttributes: remote, CollectorType: collectorv1.CollectorType_COLLECTOR_TYPE_ALLOY})
}

// remote returns a function that reads the remote attributes of a collector in Fleet Management.
func (w *collectorWorld) remote(id string) func() map[string]string {
	return func() map[string]string { return w.fleet.Collector(id).GetRemoteAttributes() }
}

// edit changes the remote attributes of a collector behind the manager's back.
func (w *collectorWorld) edit(id string, change func(map[string]string)) {
	w.fleet.EditCollector(id, func(c *collectorv1.Collector) {
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
	return func() []string { return cluster.EventNotes(ctx, w.namespace, reason) }
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
