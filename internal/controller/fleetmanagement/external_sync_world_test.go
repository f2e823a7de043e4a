// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/extsync"
	"github.com/candor-dev/candor/internal/fleet/source"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// script is a source that answers what a test says.
type script struct {
	records []source.Record
	version string
	err     error
	// fetches counts, known is what the last one was told, and secret what the source was opened with.
	fetches int
	known   string
	secret  map[string][]byte
}

func (s *script) Open(_ fleetmanagementv1alpha1.ExternalSource, secret map[string][]byte) (source.Source, string, error) {
	s.secret = secret
	return s, "https://cmdb.example:443", nil
}

func (s *script) Fetch(_ context.Context, known string) (source.Result, error) {
	s.fetches++
	s.known = known
	if s.err != nil {
		return source.Result{}, s.err
	}
	if known != "" && known == s.version {
		return source.Result{Version: known, Unchanged: true}, nil
	}
	return source.Result{Records: s.records, Version: s.version}, nil
}

func (*script) Close() error { return nil }

// syncBench runs passes over one sync of a namespace whose Collectors are those that are registered.
type syncBench struct {
	script
	client client.Client
	clock  *clocktesting.FakePassiveClock
	config ExternalSyncConfig
	// registered is what the next list returns.
	registered []fleetclient.Collector
	writes     int
	heard      *events.FakeRecorder
	woken      []string
	r          *lifecycle.Reconciler[*fleetmanagementv1alpha1.ExternalAttributeSync]
}

const syncedTrue = "True/Synced"

func aSync(change ...func(*fleetmanagementv1alpha1.ExternalAttributeSync)) *fleetmanagementv1alpha1.ExternalAttributeSync {
	o := &fleetmanagementv1alpha1.ExternalAttributeSync{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "cmdb", UID: "1", Generation: 1},
		Spec: fleetmanagementv1alpha1.ExternalAttributeSyncSpec{
			Source: fleetmanagementv1alpha1.ExternalSource{
				Kind: fleetmanagementv1alpha1.SourceHTTP, HTTP: &fleetmanagementv1alpha1.HTTPSource{URL: "https://cmdb.example"},
			},
			Schedule: "10m", Selector: fleetmanagementv1alpha1.PolicySelector{Matchers: []string{"env!=prod"}},
			Mapping: fleetmanagementv1alpha1.AttributeMapping{CollectorIDField: "host", AttributeFields: map[string]string{"team": "owner"}},
		},
	}
	for _, f := range change {
		f(o)
	}
	return o
}

// hosts are records of the first collectors.
func hosts(n int, owner string) []source.Record {
	var all []source.Record
	for i := range n {
		all = append(all, source.Record{"host": fmt.Sprintf("edge-%04d", i), "owner": owner})
	}
	return all
}

// newSyncBench makes a bench with collectors that are registered and listed.
func newSyncBench(t *testing.T, collectors int, objects ...client.Object) *syncBench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(fleetmanagementv1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	b := &syncBench{heard: events.NewFakeRecorder(100), clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))}
	for i := range collectors {
		c := &fleetmanagementv1alpha1.Collector{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprintf("c-%d", i)}}
		c.Spec.ID = fmt.Sprintf("edge-%04d", i)
		objects = append(objects, c)
		b.registered = append(b.registered, fleetLive(c.Spec.ID, nil, nil))
	}
	b.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(aSync()).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			b.writes++
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
	}).Build()
	inventory := NewCollectorInventory(func(context.Context, ...string) ([]fleetclient.Collector, error) { return b.registered, nil }, b.clock)
	b.config = ExternalSyncConfig{
		Client: b.client, Secrets: b.client, Sources: b, Inventory: inventory, Selectors: &Selectors{}, Claims: &extsync.Store{}, Clock: b.clock,
		Recorder: b.heard, Metrics: NewMetrics(), Wake: func(_ context.Context, _ string, ids []string) { b.woken = append(b.woken, ids...) },
	}
	b.restart()
	b.list(t)
	return b
}

// restart forgets all that a process knows, but for what was listed.
func (b *syncBench) restart() {
	b.config.Claims = &extsync.Store{}
	b.r = &lifecycle.Reconciler[*fleetmanagementv1alpha1.ExternalAttributeSync]{
		Client: b.client, Recorder: b.heard, Syncer: NewExternalSyncSyncer(b.config), Now: b.clock.Now,
		Condition: fleetmanagementv1alpha1.ConditionSynced, Summary: fleetmanagementv1alpha1.ConditionReady,
	}
}

func (b *syncBench) list(t *testing.T) {
	t.Helper()
	if _, err := b.config.Inventory.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (b *syncBench) step(d time.Duration) { b.clock.SetTime(b.clock.Now().Add(d)) }

// pass runs one pass and returns the sync as it is stored then, and when it is looked at again.
func (b *syncBench) pass(t *testing.T) (*fleetmanagementv1alpha1.ExternalAttributeSync, ctrl.Result) {
	t.Helper()
	now := &fleetmanagementv1alpha1.ExternalAttributeSync{}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(aSync()), now); err != nil {
		t.Fatal(err)
	}
	result, err := b.r.Reconcile(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(now), now); err != nil {
		t.Fatal(err)
	}
	return now, result
}

// edit changes the sync as a person does.
func (b *syncBench) edit(t *testing.T, change func(*fleetmanagementv1alpha1.ExternalAttributeSync)) {
	t.Helper()
	now := &fleetmanagementv1alpha1.ExternalAttributeSync{}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(aSync()), now); err != nil {
		t.Fatal(err)
	}
	change(now)
	if err := b.client.Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
}

func annotate(key, value string) func(*fleetmanagementv1alpha1.ExternalAttributeSync) {
	return func(o *fleetmanagementv1alpha1.ExternalAttributeSync) {
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, key, value)
	}
}

func saysOf(o *fleetmanagementv1alpha1.ExternalAttributeSync, condition string) string {
	if c := meta.FindStatusCondition(o.Status.Conditions, condition); c != nil {
		return string(c.Status) + "/" + c.Reason
	}
	return ""
}

func toldBy(o *fleetmanagementv1alpha1.ExternalAttributeSync) string {
	return meta.FindStatusCondition(o.Status.Conditions, "Synced").Message
}

// wordIn is the word that a sync tells.
func wordIn(t *testing.T, o *fleetmanagementv1alpha1.ExternalAttributeSync) string {
	t.Helper()
	found := regexp.MustCompile(`approve-removal to "([0-9a-f]{8})"\.$`).FindStringSubmatch(toldBy(o))
	if found == nil {
		t.Fatalf("no word in %q", toldBy(o))
	}
	return found[1]
}
