// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// replica is the part of a manager that metrics look at.
type replica struct {
	manager.Manager
	cache replicaCache
	leads chan struct{}
}

func (r *replica) GetCache() ctrlcache.Cache { return &r.cache }
func (r *replica) Elected() <-chan struct{}  { return r.leads }

type replicaCache struct {
	ctrlcache.Cache
	objects client.Client
	fails   error
}

func (c *replicaCache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if c.fails != nil {
		return c.fails
	}
	return c.objects.List(ctx, list, options...)
}

func newReplica(t *testing.T, objects ...client.Object) *replica {
	t.Helper()
	scheme := runtime.NewScheme()
	NewWithT(t).Expect(fleetmanagementv1alpha1.AddToScheme(scheme)).To(Succeed())
	return &replica{cache: replicaCache{objects: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()}, leads: make(chan struct{})}
}

// named gives an object a name of its own, and a condition Ready unless the reason is empty.
func named(o interface {
	client.Object
	StatusConditions() *[]metav1.Condition
}, name string, status metav1.ConditionStatus, reason string,
) client.Object {
	o.SetNamespace("team-a")
	o.SetName(name)
	o.SetUID(types.UID("uid-of-" + name))
	if reason != "" {
		*o.StatusConditions() = []metav1.Condition{{Type: fleetmanagementv1alpha1.ConditionReady, Status: status, Reason: reason}}
	}
	return o
}

func leaving(o client.Object) client.Object {
	now := metav1.Now()
	o.SetDeletionTimestamp(&now)
	o.SetFinalizers([]string{fleetmanagementv1alpha1.PipelineFinalizer})
	return o
}

// exported returns the series of a collector of gauges.
func exported(t *testing.T, c prometheus.Collector) []string {
	t.Helper()
	g, registry := NewWithT(t), prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	var all []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, pair := range metric.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", pair.GetName(), pair.GetValue()))
			}
			all = append(all, fmt.Sprintf("%s{%s} %g", family.GetName(), strings.Join(labels, ", "), metric.GetGauge().GetValue()))
		}
	}
	return all
}

func TestWhatAScrapeCounts(t *testing.T) {
	g := NewWithT(t)
	pipeline, collector := func() *fleetmanagementv1alpha1.Pipeline { return &fleetmanagementv1alpha1.Pipeline{} }, func() *fleetmanagementv1alpha1.Collector { return &fleetmanagementv1alpha1.Collector{} }
	r := newReplica(t,
		named(pipeline(), "a", metav1.ConditionTrue, fleetmanagementv1alpha1.ReasonSynced),
		named(pipeline(), "b", metav1.ConditionTrue, fleetmanagementv1alpha1.ReasonSynced),
		named(pipeline(), "c", metav1.ConditionFalse, fleetmanagementv1alpha1.ReasonNameInUse),
		named(pipeline(), "new", "", ""),
		leaving(named(pipeline(), "refused", metav1.ConditionFalse, fleetmanagementv1alpha1.ReasonDeleteFailed)),
		leaving(named(pipeline(), "untried", metav1.ConditionFalse, fleetmanagementv1alpha1.ReasonDeleteFailed)),
		leaving(named(pipeline(), "on-its-way", metav1.ConditionTrue, fleetmanagementv1alpha1.ReasonSynced)),
		named(collector(), "a", metav1.ConditionFalse, fleetmanagementv1alpha1.ReasonNotRegistered),
		named(&fleetmanagementv1alpha1.RemoteAttributePolicy{}, "a", metav1.ConditionTrue, fleetmanagementv1alpha1.ReasonMatched),
	)
	var stack []fleetclient.Pipeline
	for i := range 7 {
		stack = append(stack, fleetclient.Pipeline{ID: fmt.Sprint(i)})
	}
	now := clocktesting.NewFakeClock(time.Now())
	pipelines := NewPipelineInventory(func(context.Context) ([]fleetclient.Pipeline, error) { return stack, nil }, now, time.Minute)
	g.Expect(pipelines.Ensure(t.Context())).To(Succeed())
	m := NewMetrics()
	m.CountPipelines(r, pipelines)
	m.CountCollectors(r, NewCollectorInventory(nil, now)) // of which nothing is known yet
	m.CountPolicies(r)
	m.heldBack("uid-of-refused", &fault.Fault{Reason: fleetmanagementv1alpha1.ReasonAuthFailed, Err: errors.New("401")})
	m.heldBack("uid-of-refused", lifecycle.ErrPending)
	m.heldBack("uid-of-on-its-way", errors.New("not yet"))
	m.heldBack("uid-of-gone", errors.New("not yet"))

	g.Expect(exported(t, m.scrape)).To(BeEmpty(), "a replica that waits tells nothing")
	close(r.leads)
	g.Expect(exported(t, m.scrape)).To(ConsistOf(
		`fleet_deletions_blocked{kind="Pipeline", reason="AuthFailed"} 1`,
		`fleet_deletions_blocked{kind="Pipeline", reason="DeleteFailed"} 1`,
		`fleet_resources{kind="Collector", ready="False", reason="NotRegistered"} 1`,
		`fleet_resources{kind="Pipeline", ready="False", reason="DeleteFailed"} 2`,
		`fleet_resources{kind="Pipeline", ready="False", reason="NameInUse"} 1`,
		`fleet_resources{kind="Pipeline", ready="True", reason="Synced"} 3`,
		`fleet_resources{kind="Pipeline", ready="Unknown", reason="Pending"} 1`,
		`fleet_resources{kind="RemoteAttributePolicy", ready="True", reason="Matched"} 1`,
		`fleet_stack_objects{kind="pipelines"} 7`,
	))
	g.Expect(m.scrape.causes).To(HaveLen(2), "what is gone is forgotten, and what is on its way is not")
	m.letGo("uid-of-refused")
	g.Expect(m.scrape.causes).To(HaveLen(1), "what goes is forgotten, whether anybody scrapes or not")

	r.cache.fails = errors.New("not synced")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m.scrape)
	_, err := registry.Gather()
	g.Expect(err).To(MatchError(ContainSubstring("not synced")), "no numbers rather than wrong ones")
}
