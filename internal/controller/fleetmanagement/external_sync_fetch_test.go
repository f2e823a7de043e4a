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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
)

func TestAT05FailuresBackOffAndTakeNothingAway(t *testing.T) {
	g := NewWithT(t)
	b := newSyncBench(t, 10, aSync())
	b.records = hosts(10, "x")
	b.pass(t)
	b.step(11 * time.Minute)
	b.err = errors.New("the CMDB is on fire")
	end, before := b.clock.Now().Add(5*time.Minute), b.fetches
	var failed *fleetmanagementv1alpha1.ExternalAttributeSync
	for b.clock.Now().Before(end) {
		o, result := b.pass(t)
		g.Expect(saysOf(o, "Ready")).To(Equal("False/SourceFailed"))
		g.Expect(o.Status.OwnedKeys).To(HaveLen(10))
		failed = o
		fetches, writes := b.fetches, b.writes
		b.restart()
		again, after := b.pass(t)
		g.Expect([]int{b.fetches, b.writes}).To(Equal([]int{fetches, writes}), "neither a restart nor its own write makes it ask")
		g.Expect(again.Status).To(Equal(o.Status))
		g.Expect(after).To(Equal(result))
		b.step(result.RequeueAfter)
	}
	g.Expect(b.fetches - before).To(Equal(4))
	g.Expect(failed.Status.Failures).To(Equal(int32(4)))
	g.Expect(toldBy(failed)).To(Equal("the CMDB is on fire"))
	b.err = nil
	o, _ := b.pass(t)
	g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
	g.Expect(o.Status.Failures).To(BeZero())
}

func TestWhatAFailureComesTo(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		change func(*fleetmanagementv1alpha1.ExternalAttributeSync)
		says   string
		after  time.Duration
	}{
		"any error": {err: errors.New("x"), says: "False/SourceFailed", after: 30 * time.Second},
		"one that trying again cannot help, it says": {err: &fault.Fault{Kind: fault.Terminal, Reason: "SourceFailed", Err: errors.New("x")}, says: "False/SourceFailed", after: 30 * time.Second},
		"one that says when to come back":            {err: &fault.Fault{Kind: fault.Wait, Reason: "SourceFailed", After: 5 * time.Minute, Err: errors.New("x")}, says: "False/SourceFailed", after: 5 * time.Minute},
		"sooner than that is not heeded":             {err: &fault.Fault{Kind: fault.Wait, Reason: "SourceFailed", After: time.Second, Err: errors.New("x")}, says: "False/SourceFailed", after: 30 * time.Second},
		"nor much later":                             {err: &fault.Fault{Kind: fault.Wait, Reason: "SourceFailed", After: 1000 * time.Hour, Err: errors.New("x")}, says: "False/SourceFailed", after: time.Hour},
		"a schedule that is none": {
			change: func(o *fleetmanagementv1alpha1.ExternalAttributeSync) { o.Spec.Schedule = "often" }, says: "False/InvalidSchedule", after: 30 * time.Minute,
		},
		"a selector that is none": {
			change: func(o *fleetmanagementv1alpha1.ExternalAttributeSync) {
				o.Spec.Selector.Matchers = []string{`env=~"("`}
			}, says: "False/ValidationError", after: 30 * time.Minute,
		},
		"a Secret of another namespace": {change: func(o *fleetmanagementv1alpha1.ExternalAttributeSync) {
			o.Spec.Source.SecretRef = &fleetmanagementv1alpha1.SecretReference{Name: "x", Namespace: "other"}
		}, says: "False/SecretUnreadable", after: 30 * time.Minute},
		"a Secret that is not there": {change: func(o *fleetmanagementv1alpha1.ExternalAttributeSync) {
			o.Spec.Source.SecretRef = &fleetmanagementv1alpha1.SecretReference{Name: "x"}
		}, says: "False/SecretUnreadable", after: 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := aSync()
			if test.change != nil {
				test.change(o)
			}
			b := newSyncBench(t, 1, o)
			b.err = test.err
			now, result := b.pass(t)
			g.Expect(saysOf(now, "Ready")).To(Equal(test.says))
			g.Expect(result.RequeueAfter).To(Equal(test.after))
			writes := b.writes
			again, _ := b.pass(t)
			g.Expect(again.Status).To(Equal(now.Status))
			g.Expect(b.writes).To(Equal(writes))
		})
	}
}

func TestASecretIsReadAtEachFetchAndMustBeAllowed(t *testing.T) {
	g := NewWithT(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "cmdb", Labels: map[string]string{"external": "true"}}, Data: map[string][]byte{"bearer-token": []byte("old")}}
	b := newSyncBench(t, 1, secret, aSync(func(o *fleetmanagementv1alpha1.ExternalAttributeSync) {
		o.Spec.Source.SecretRef = &fleetmanagementv1alpha1.SecretReference{Name: "cmdb", Namespace: "team"}
	}))
	b.config.SecretSelector = labels.SelectorFromSet(labels.Set{"external": "true"})
	b.restart()
	b.pass(t)
	g.Expect(b.secret).To(Equal(map[string][]byte{"bearer-token": []byte("old")}))
	secret.Data["bearer-token"] = []byte("new")
	g.Expect(b.client.Update(t.Context(), secret)).To(Succeed())
	b.step(11 * time.Minute)
	b.pass(t)
	g.Expect(b.secret).To(Equal(map[string][]byte{"bearer-token": []byte("new")}))
	fetches := b.fetches
	secret.Labels = nil
	g.Expect(b.client.Update(t.Context(), secret)).To(Succeed())
	b.step(11 * time.Minute)
	o, _ := b.pass(t)
	g.Expect(saysOf(o, "Ready")).To(Equal("False/SecretUnreadable"))
	g.Expect(toldBy(o)).To(ContainSubstring("--external-source-secret-label-selector asks for: external=true"))
	g.Expect(b.fetches).To(Equal(fetches))
}

// forbids is a reader that may not read.
type forbids struct{ client.Reader }

func (forbids) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, errors.New(`User "system:serviceaccount:ops:candor" cannot get it`))
}

func TestAMessageNamesTheRoleThatASecretNeeds(t *testing.T) {
	g := NewWithT(t)
	b := newSyncBench(t, 1, aSync(func(o *fleetmanagementv1alpha1.ExternalAttributeSync) {
		o.Spec.Source.SecretRef = &fleetmanagementv1alpha1.SecretReference{Name: "cmdb"}
	}))
	b.config.Secrets = forbids{}
	b.restart()
	o, _ := b.pass(t)
	g.Expect(saysOf(o, "Ready")).To(Equal("False/SecretUnreadable"))
	g.Expect(toldBy(o)).To(And(ContainSubstring("in namespace team, create a Role that allows the verb get on the resource secrets with the resourceName cmdb"),
		ContainSubstring("system:serviceaccount:ops:candor")))
}

func TestADryRunShowsWhatAFetchComesToAndGivesNothing(t *testing.T) {
	for mode, value := range map[string]string{"true": "x", fleetmanagementv1alpha1.DryRunRedacted: "(redacted)"} {
		t.Run(mode, func(t *testing.T) {
			g := NewWithT(t)
			b := newSyncBench(t, 10, aSync(annotate(fleetmanagementv1alpha1.AnnotationDryRun, mode)))
			b.records = hosts(8, "x")
			o, _ := b.pass(t)
			g.Expect(saysOf(o, "Ready")).To(Equal("True/DryRun"))
			g.Expect(toldBy(o)).To(ContainSubstring("8 records would come to 8 attributes for 8 collectors"))
			g.Expect(o.Status.Sample).To(HaveLen(5))
			g.Expect(o.Status.Sample[0]).To(Equal(fleetmanagementv1alpha1.OwnedKeys{CollectorID: "edge-0000", Attributes: map[string]string{"team": value}}))
			g.Expect(o.Status.OwnedKeys).To(BeEmpty())
			g.Expect(b.woken).To(BeEmpty())
			writes := b.writes
			b.restart()
			b.pass(t)
			g.Expect([]int{b.writes, b.fetches}).To(Equal([]int{writes, 1}))
			b.edit(t, annotate(fleetmanagementv1alpha1.AnnotationDryRun, "false"))
			o, _ = b.pass(t)
			g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
			g.Expect(o.Status.Sample).To(BeEmpty())
			g.Expect(o.Status.OwnedKeys).To(HaveLen(8))
			g.Expect(b.woken).To(HaveLen(8))
		})
	}
}

func TestFetchesFromOneTargetWaitForTheirTurn(t *testing.T) {
	g := NewWithT(t)
	b := newSyncBench(t, 10, aSync())
	b.config.TargetRate, b.config.TargetBurst = 0.1, 1
	b.restart()
	b.records = hosts(10, "x")
	syncer := b.r.Syncer.(*ExternalSyncSyncer)
	syncer.targets.Reserve("https://cmdb.example:443", b.clock.Now())
	o, result := b.pass(t)
	g.Expect(b.fetches).To(BeZero())
	g.Expect(result.RequeueAfter).To(Equal(10 * time.Second))
	g.Expect(saysOf(o, "Ready")).To(Equal("Unknown/RateLimited"))
	b.step(10 * time.Second)
	o, _ = b.pass(t)
	g.Expect(b.fetches).To(Equal(1))
	g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
	syncer.targets.Reserve("https://cmdb.example:443", b.clock.Now())
	b.edit(t, annotate(fleetmanagementv1alpha1.AnnotationFetchNow, "1"))
	writes := b.writes
	o, result = b.pass(t)
	g.Expect([]int{b.fetches, b.writes}).To(Equal([]int{1, writes}))
	g.Expect(result.RequeueAfter).To(Equal(20 * time.Second))
	g.Expect(saysOf(o, "Ready")).To(Equal(syncedTrue))
}
