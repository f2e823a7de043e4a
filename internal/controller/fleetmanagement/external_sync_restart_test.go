// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/source"
)

func respec(generation int64, change func(*fleetmanagementv1alpha1.ExternalAttributeSyncSpec)) func(*fleetmanagementv1alpha1.ExternalAttributeSync) {
	return func(o *fleetmanagementv1alpha1.ExternalAttributeSync) {
		change(&o.Spec)
		o.Generation = generation
	}
}

func suspended(is bool) func(*fleetmanagementv1alpha1.ExternalAttributeSyncSpec) {
	return func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { s.Suspend = is }
}

// mapsSite takes the team from another field than aSync does.
func mapsSite(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) {
	s.Mapping.AttributeFields = map[string]string{"team": "site"}
}

func TestAVersionSpeaksOfRecordsAndNotOfWhatAnotherMappingMadeOfThem(t *testing.T) {
	g := NewWithT(t)
	b := newSyncBench(t, 1, aSync())
	b.records, b.version = []source.Record{{"host": "edge-0000", "owner": "x", "site": "berlin"}}, "v1"
	b.pass(t)
	b.err = errors.New("down")
	b.edit(t, respec(2, mapsSite))
	o, _ := b.pass(t)
	g.Expect(saysOf(o, "Ready")).To(Equal("False/SourceFailed"))
	b.err = nil
	b.step(time.Minute)
	o, _ = b.pass(t)
	g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
	g.Expect(b.known).To(BeEmpty())
	g.Expect(o.Status.OwnedKeys[0].Attributes).To(Equal(map[string]string{"team": "berlin"}))
}

func TestAClockThatWasWrongDoesNotStopFetches(t *testing.T) {
	for name, failing := range map[string]error{"after a success": nil, "after a failure": errors.New("down")} {
		t.Run(name, func(t *testing.T) {
			for name, restarts := range map[string]bool{"in the same process": false, "in another one": true} {
				t.Run(name, func(t *testing.T) {
					g := NewWithT(t)
					b := newSyncBench(t, 10, aSync())
					b.records = hosts(10, "x")
					b.pass(t)
					b.err = failing
					b.step(365 * 24 * time.Hour)
					b.pass(t)
					g.Expect(b.fetches).To(Equal(2))
					b.err = nil
					b.step(-365 * 24 * time.Hour)
					if restarts {
						b.restart()
					}
					o, result := b.pass(t)
					g.Expect(b.fetches).To(Equal(2), "nothing is fetched early")
					g.Expect(result.RequeueAfter).To(BeNumerically("<=", 11*time.Minute))
					g.Expect(o.Status.OwnedKeys).To(HaveLen(10))
					b.step(11 * time.Minute)
					o, _ = b.pass(t)
					g.Expect(b.fetches).To(Equal(3))
					g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
				})
			}
		})
	}
}

func TestWhatIsHeldBackIsSoAfterASuspensionAndARestart(t *testing.T) {
	for name, between := range map[string]func(*testing.T, *syncBench){
		"suspended meanwhile": func(t *testing.T, b *syncBench) {
			b.edit(t, respec(2, suspended(true)))
			b.pass(t)
			b.restart()
			b.pass(t)
			b.edit(t, respec(3, suspended(false)))
		},
		"with a schedule that was none meanwhile": func(t *testing.T, b *syncBench) {
			b.edit(t, respec(2, func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { s.Schedule = "often" }))
			b.pass(t)
			b.edit(t, respec(2, func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { s.Schedule = "10m" }))
			b.restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newSyncBench(t, 10, aSync())
			b.records = hosts(10, "x")
			b.pass(t)
			b.records = hosts(1, "x")
			b.step(11 * time.Minute)
			o, _ := b.pass(t)
			g.Expect(saysOf(o, "Ready")).To(Equal("False/Stalled"))
			told := toldBy(o)
			between(t, b)
			o, _ = b.pass(t)
			g.Expect(saysOf(o, "Ready")).To(Equal("False/Stalled"))
			g.Expect(toldBy(o)).To(Equal(told))
			g.Expect(o.Status.OwnedKeys).To(HaveLen(10))
			b.edit(t, annotate(fleetmanagementv1alpha1.AnnotationApproveRemoval, wordIn(t, o)))
			o, _ = b.pass(t)
			g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
			g.Expect(o.Status.OwnedKeys).To(HaveLen(1))
		})
	}
}

func TestAMappingThatChangesWhileNothingIsFetchedHoldsAfterARestart(t *testing.T) {
	t.Run("suspended", func(t *testing.T) {
		g := NewWithT(t)
		b := newSyncBench(t, 1, aSync())
		b.records = []source.Record{{"host": "edge-0000", "owner": "x", "site": "berlin"}}
		b.pass(t)
		b.edit(t, respec(2, func(s *fleetmanagementv1alpha1.ExternalAttributeSyncSpec) { suspended(true)(s); mapsSite(s) }))
		b.pass(t)
		b.restart()
		b.pass(t)
		b.edit(t, respec(3, suspended(false)))
		o, _ := b.pass(t)
		g.Expect(o.Status.OwnedKeys[0].Attributes).To(Equal(map[string]string{"team": "berlin"}))
	})
	t.Run("waiting for its turn", func(t *testing.T) {
		g := NewWithT(t)
		b := newSyncBench(t, 1, aSync())
		b.config.TargetRate, b.config.TargetBurst = 0.1, 1
		b.restart()
		b.records = []source.Record{{"host": "edge-0000", "owner": "x", "site": "berlin"}}
		b.pass(t)
		b.edit(t, respec(2, mapsSite))
		o, _ := b.pass(t)
		g.Expect(b.fetches).To(Equal(1))
		g.Expect(saysOf(o, "Synced")).To(Equal("Unknown/RateLimited"), "what is given is not yet what the spec says")
		b.restart()
		b.step(10 * time.Second)
		o, _ = b.pass(t)
		g.Expect(o.Status.OwnedKeys[0].Attributes).To(Equal(map[string]string{"team": "berlin"}))
		g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
	})
}

func TestAnApprovalIsForOneLoss(t *testing.T) {
	g := NewWithT(t)
	b := newSyncBench(t, 10, aSync())
	round := func(n int) *fleetmanagementv1alpha1.ExternalAttributeSync {
		b.records = hosts(n, "x")
		b.step(11 * time.Minute)
		o, _ := b.pass(t)
		return o
	}
	round(10)
	o := round(0)
	g.Expect(saysOf(o, "Ready")).To(Equal("False/Stalled"))
	word := wordIn(t, o)
	o = round(0)
	g.Expect(wordIn(t, o)).To(Equal(word), "the word stays while the loss does")
	b.edit(t, annotate(fleetmanagementv1alpha1.AnnotationApproveRemoval, word))
	o, _ = b.pass(t)
	g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
	o = round(10)
	g.Expect(o.Status.OwnedKeys).To(HaveLen(10))
	o = round(0)
	g.Expect(saysOf(o, "Ready")).To(Equal("False/Stalled"), "the annotation is that of the loss of an hour ago")
	g.Expect(o.Status.OwnedKeys).To(HaveLen(10))
}

func TestAFailureAfterARestartIsToldInItsOwnWords(t *testing.T) {
	g := NewWithT(t)
	b := newSyncBench(t, 1, aSync())
	b.err = errors.New("down")
	o, _ := b.pass(t)
	meta.SetStatusCondition(o.StatusConditions(), metav1.Condition{
		Type: fleetmanagementv1alpha1.ConditionSynced, Status: metav1.ConditionFalse, Reason: fleetmanagementv1alpha1.ReasonTenantForbidden,
		Message: "No TenantPolicy allows the selector.", ObservedGeneration: o.Generation,
	})
	g.Expect(b.client.Status().Update(t.Context(), o)).To(Succeed())
	b.restart()
	o, _ = b.pass(t)
	g.Expect(saysOf(o, "Ready")).To(Equal("False/SourceFailed"), "the rules that forbade it are gone")
}

func TestASecretThatGoesTakesNothingAway(t *testing.T) {
	g := NewWithT(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "cmdb"}}
	b := newSyncBench(t, 10, secret, aSync(func(o *fleetmanagementv1alpha1.ExternalAttributeSync) {
		o.Spec.Source.SecretRef = &fleetmanagementv1alpha1.SecretReference{Name: "cmdb"}
	}))
	b.records = hosts(10, "x")
	b.pass(t)
	g.Expect(b.client.Delete(t.Context(), secret)).To(Succeed())
	b.woken = nil
	b.step(11 * time.Minute)
	for range 3 {
		o, _ := b.pass(t)
		g.Expect(saysOf(o, "Ready")).To(Equal("False/SecretUnreadable"))
		g.Expect(o.Status.OwnedKeys).To(HaveLen(10))
		g.Expect(b.woken).To(BeEmpty())
		b.restart()
	}
}

// loses is a client of which each second write of a status, from the first on, comes too late.
type loses struct {
	client.Client
	writes int
}

func (l *loses) Status() client.SubResourceWriter { return &losesStatus{l.Client.Status(), l} }

type losesStatus struct {
	client.SubResourceWriter
	*loses
}

func (l *losesStatus) Update(ctx context.Context, o client.Object, opts ...client.SubResourceUpdateOption) error {
	if l.writes++; l.writes%2 == 1 {
		return apierrors.NewConflict(schema.GroupResource{Resource: "externalattributesyncs"}, o.GetName(), errors.New("it was changed"))
	}
	return l.SubResourceWriter.Update(ctx, o, opts...)
}

func TestAStatusThatIsLostCostsNoFetch(t *testing.T) {
	g := NewWithT(t)
	b := newSyncBench(t, 10, aSync())
	b.r.Client = &loses{Client: b.client}
	for round, owner := range []string{"x", "y", "z"} {
		b.records, b.woken = hosts(10, owner), nil
		_, result := b.pass(t)
		g.Expect(result.RequeueAfter).To(BeNumerically("<", time.Second))
		g.Expect(b.woken).To(BeEmpty(), "nothing is given that no status tells of")
		g.Expect(b.fetches).To(Equal(round + 1))
		o, _ := b.pass(t)
		g.Expect(b.fetches).To(Equal(round + 1))
		g.Expect(b.woken).To(HaveLen(10))
		g.Expect(o.Status.OwnedKeys[0].Attributes).To(Equal(map[string]string{"team": owner}))
		b.step(11 * time.Minute)
	}
}

// ends is a source that gets its answer when its process has ceased to lead.
type ends struct {
	*script
	cancel context.CancelFunc
}

func (e ends) Open(fleetmanagementv1alpha1.ExternalSource, map[string][]byte) (source.Source, string, error) {
	return e, "", nil
}

func (e ends) Fetch(ctx context.Context, known string) (source.Result, error) {
	e.cancel()
	return e.script.Fetch(ctx, known)
}

func TestAProcessThatCeasesToLeadWhileItFetchesWritesNothing(t *testing.T) {
	g := NewWithT(t)
	b := newSyncBench(t, 10, aSync())
	b.records = hosts(10, "x")
	ctx, cancel := context.WithCancel(t.Context())
	b.config.Sources = ends{&b.script, cancel}
	b.restart()
	_, err := b.r.Reconcile(ctx, aSync())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.fetches).To(Equal(1))
	g.Expect(b.writes).To(BeZero())
	g.Expect(b.woken).To(BeEmpty())
	b.config.Sources = b
	b.restart()
	o, _ := b.pass(t)
	g.Expect(o.Status.OwnedKeys).To(HaveLen(10), "the next one fetches for itself")
}
