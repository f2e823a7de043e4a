// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// policyBench runs passes over one policy of a namespace with some Collectors.
type policyBench struct {
	client client.Client
	// fails is what listing Collectors answers; nil for the Collectors.
	fails error
	// writes counts statuses written, and heard holds the events.
	writes int
	heard  *events.FakeRecorder
	r      *lifecycle.Reconciler[*fleetmanagementv1alpha1.RemoteAttributePolicy]
}

func newPolicyBench(t *testing.T, p *fleetmanagementv1alpha1.RemoteAttributePolicy, collectors int) *policyBench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := fleetmanagementv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{p}
	for i := range collectors {
		c := &fleetmanagementv1alpha1.Collector{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: fmt.Sprintf("c-%d", i)}}
		c.Spec.ID, c.Status.Registered = fmt.Sprintf("edge-%04d", i), true
		objects = append(objects, c)
	}
	b := &policyBench{heard: events.NewFakeRecorder(10)}
	b.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(p).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if b.fails != nil {
				return b.fails
			}
			return c.List(ctx, list, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			b.writes++
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
	}).Build()
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	b.r = &lifecycle.Reconciler[*fleetmanagementv1alpha1.RemoteAttributePolicy]{
		Client: b.client, Recorder: b.heard, Condition: fleetmanagementv1alpha1.ConditionReady, Now: clock.Now,
		Syncer: &PolicySyncer{Client: b.client, Selectors: &Selectors{}, Clock: clock, Metrics: NewMetrics()},
	}
	return b
}

// pass runs one pass and returns what the policy says then.
func (b *policyBench) pass(p *fleetmanagementv1alpha1.RemoteAttributePolicy) (*fleetmanagementv1alpha1.RemoteAttributePolicy, error) {
	now := &fleetmanagementv1alpha1.RemoteAttributePolicy{}
	if err := b.client.Get(context.Background(), client.ObjectKeyFromObject(p), now); err != nil {
		return nil, err
	}
	_, err := b.r.Reconcile(context.Background(), now)
	return now, err
}

func conditionsOf(p *fleetmanagementv1alpha1.RemoteAttributePolicy) map[string]string {
	all := map[string]string{}
	for _, c := range p.Status.Conditions {
		all[c.Type] = string(c.Status) + "/" + c.Reason
	}
	return all
}

func aPolicy() *fleetmanagementv1alpha1.RemoteAttributePolicy {
	return &fleetmanagementv1alpha1.RemoteAttributePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p", UID: "1", Generation: 1},
		Spec: fleetmanagementv1alpha1.RemoteAttributePolicySpec{
			Selector: fleetmanagementv1alpha1.PolicySelector{Matchers: []string{"env!=prod"}}, Attributes: map[string]string{"a": "b"},
		},
	}
}

func TestAT09APolicyIsWellAgainOnceItsCollectorsCanBeRead(t *testing.T) {
	g := NewWithT(t)
	b := newPolicyBench(t, aPolicy(), 2)
	well := map[string]string{"Ready": "True/Matched", "Synced": "True/Matched", "Truncated": "False/NotTruncated"}
	p, err := b.pass(aPolicy())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(conditionsOf(p)).To(Equal(well))
	g.Expect(p.Status.MatchedCollectorIDs).To(Equal([]string{"edge-0000", "edge-0001"}))
	first := p.Status.DeepCopy()

	b.fails = errors.New("the cache is closed")
	for range 2 {
		p, err = b.pass(aPolicy())
		g.Expect(err).To(MatchError(ContainSubstring("listing the Collectors of team: the cache is closed")))
		g.Expect(conditionsOf(p)).To(Equal(map[string]string{"Ready": "False/ListFailed", "Synced": "False/ListFailed", "Truncated": "False/NotTruncated"}))
	}
	g.Expect(b.writes).To(Equal(2), "a second failure is no news")

	b.fails = nil
	p, err = b.pass(aPolicy())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(conditionsOf(p)).To(Equal(well))
	g.Expect(p.Status.MatchedCollectorIDs).To(Equal(first.MatchedCollectorIDs))
	g.Expect(meta.FindStatusCondition(p.Status.Conditions, "Ready").Message).To(Equal("Concerns 2 collectors."))
	_, err = b.pass(aPolicy())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.writes).To(Equal(3), "the second pass costs nothing")
	g.Expect(b.heard.Events).To(HaveLen(3))
}

func TestAPolicyNamesAThousandCollectorsAndCountsAll(t *testing.T) {
	g := NewWithT(t)
	p, err := newPolicyBench(t, aPolicy(), maxMatchedIDs+1).pass(aPolicy())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p.Status.MatchedCount).To(Equal(int32(maxMatchedIDs + 1)))
	g.Expect(p.Status.MatchedCollectorIDs).To(HaveLen(maxMatchedIDs))
	g.Expect(conditionsOf(p)).To(HaveKeyWithValue("Truncated", "True/MatchedIDsTruncated"))
	g.Expect(conditionsOf(p)).To(HaveKeyWithValue("Ready", "True/Matched"))
}

func TestWhatSelectorsGoBy(t *testing.T) {
	local := map[string]string{"env": "prod"}
	previous := "dev"
	owned := []fleetmanagementv1alpha1.AttributeOwner{{Key: "ring", Value: "1"}, {Key: "tier", Value: "gold", PreviousValue: &previous}}
	remote := map[string]string{"ring": "1", "tier": "gold", "env": "test", "collector.os": "plan9"}
	for name, c := range map[string]struct {
		matcher string
		remote  bool
		meets   bool
	}{
		"a local attribute":                                   {matcher: "env=prod", meets: true},
		"a part of it does not match":                         {matcher: "env=~pro", meets: false},
		"remote attributes are not seen unless asked for":     {matcher: "env=test", meets: false},
		"of others they are, and win over local ones":         {matcher: "env=test", remote: true, meets: true},
		"our own are not":                                     {matcher: "ring=1", remote: true, meets: false},
		"what stood where we overwrote it is":                 {matcher: "tier=dev", remote: true, meets: true},
		"Fleet Management's own cannot be overwritten by one": {matcher: "collector.os=plan9", remote: true, meets: false},
		"the ID is seen in either spelling":                   {matcher: "collector.id=edge", meets: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := aPolicy()
			p.Spec.Selector = fleetmanagementv1alpha1.PolicySelector{Matchers: []string{c.matcher}, IncludeRemote: c.remote}
			compiled, err := compile(p)
			g.Expect(err).NotTo(HaveOccurred())
			others := map[string]string{"env": "test", "collector.os": "plan9"}
			status := fleetmanagementv1alpha1.CollectorStatus{Registered: true, LocalAttributes: local, OtherRemoteAttributes: others, AttributeOwners: owned}
			live := factsOfLive(fleetLive("edge", local, remote), owned)
			g.Expect(compiled.meets(live)).To(Equal(c.meets))
			g.Expect(factsOf(&fleetmanagementv1alpha1.Collector{
				Spec: fleetmanagementv1alpha1.CollectorSpec{ID: "edge"}, Status: status,
			}).equal(live)).To(BeTrue(), "the status tells policies what Fleet Management tells Collectors")
		})
	}
}

func TestAPolicyMatchesNoneOnlyOnceItIsKnownWhichCollectorsThereAre(t *testing.T) {
	g := NewWithT(t)
	b := newPolicyBench(t, aPolicy(), 0)
	known := error(&fault.Fault{Kind: fault.Wait, Reason: fleetmanagementv1alpha1.ReasonNoCredentials, Err: errors.New("no credentials yet")})
	b.r.Syncer.(*PolicySyncer).Known = func() error { return known }
	p, err := b.pass(aPolicy())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(conditionsOf(p)).To(Equal(map[string]string{"Ready": "Unknown/NoCredentials", "Synced": "Unknown/NoCredentials", "Truncated": "False/NotTruncated"}))
	known = nil
	p, _ = b.pass(aPolicy())
	g.Expect(conditionsOf(p)).To(HaveKeyWithValue("Ready", "False/NoMatch"))
	known = errors.New("not listed since a restart")
	p, _ = b.pass(aPolicy())
	g.Expect(conditionsOf(p)).To(HaveKeyWithValue("Ready", "False/NoMatch"), "as was known before")
}
