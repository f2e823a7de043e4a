// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const finalizer = "example.com/thing"

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// thing is a kind with nothing but what every kind has.
type thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Status            thingStatus `json:"status,omitempty"`
}

type thingStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Seen               string             `json:"seen,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

func (o *thing) DeepCopyObject() runtime.Object {
	c := *o
	o.DeepCopyInto(&c.ObjectMeta)
	c.Status.Conditions = append([]metav1.Condition(nil), o.Status.Conditions...)
	return &c
}

func (o *thing) StatusConditions() *[]metav1.Condition { return &o.Status.Conditions }

func (o *thing) ObservedGeneration() *int64 { return &o.Status.ObservedGeneration }

// syncer, settler and deleter are the three shapes that a kind may have.
type syncer struct {
	sync func(*thing) (Outcome, error)
}

func (s syncer) Sync(_ context.Context, o *thing) (Outcome, error) { return s.sync(o) }

type settler struct {
	syncer
	again   time.Duration
	settled bool
}

func (s settler) Settled(*thing) (time.Duration, bool) { return s.again, s.settled }

type deleter struct {
	syncer
	remove func(*thing) error
}

func (d deleter) Delete(_ context.Context, o *thing) error { return d.remove(o) }

// bench is one object, one Reconciler, and a record of what it did in which order.
type bench struct {
	t      *testing.T
	did    []string
	now    time.Time
	client client.Client
	// failUpdate and failStatus are what the API server answers instead of writing.
	failUpdate, failStatus error
	notes                  []string
}

func newBench(t *testing.T, object *thing) *bench {
	t.Helper()
	b := &bench{t: t, now: start}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(schema.GroupVersion{Group: "example.com", Version: "v1"}, &thing{})
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Group: "example.com", Version: "v1"})
	b.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(object).WithStatusSubresource(object).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			b.did = append(b.did, "update")
			if b.failUpdate != nil {
				return b.failUpdate
			}
			return c.Update(ctx, o, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			b.did = append(b.did, name)
			if b.failStatus != nil {
				return b.failStatus
			}
			return c.SubResource(name).Update(ctx, o, opts...)
		},
	}).Build()
	return b
}

// Eventf implements events.EventRecorder.
func (b *bench) Eventf(_, _ runtime.Object, kind, reason, action, note string, args ...any) {
	b.did = append(b.did, fmt.Sprintf("event %s %s", kind, reason))
	NewWithT(b.t).Expect(action).To(Equal(reason))
	b.notes = append(b.notes, fmt.Sprintf(note, args...))
}

func (b *bench) read() *thing {
	b.t.Helper()
	var o thing
	NewWithT(b.t).Expect(b.client.Get(b.t.Context(), client.ObjectKey{Namespace: "team-a", Name: "one"}, &o)).To(Succeed())
	return &o
}

// pass runs one pass over the object as it is stored.
func (b *bench) pass(s Syncer[*thing]) (ctrl.Result, error) {
	b.t.Helper()
	b.did = nil
	return b.passOver(b.read(), s)
}

func (b *bench) passOver(o *thing, s Syncer[*thing]) (ctrl.Result, error) {
	r := &Reconciler[*thing]{
		Client: b.client, Recorder: b, Syncer: s, Condition: "Ready", Finalizer: finalizer, Now: func() time.Time { return b.now },
	}
	return r.Reconcile(b.t.Context(), o)
}

// always is a kind that is never settled.
func always(sync func(*thing) (Outcome, error)) settler { return settler{syncer: syncer{sync}} }

func concludes(o Outcome) func(*thing) (Outcome, error) {
	return func(*thing) (Outcome, error) { return o, nil }
}

func fails(err error) func(*thing) (Outcome, error) {
	return func(*thing) (Outcome, error) { return Outcome{}, err }
}

func one() *thing {
	return &thing{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "one", Generation: 3}}
}

// deleting is an object that waits for our finalizer.
func deleting(finalizers ...string) *thing {
	o := one()
	o.Finalizers = finalizers
	o.DeletionTimestamp = &metav1.Time{Time: start}
	return o
}

func ready(status metav1.ConditionStatus, reason, message string, at time.Time) []metav1.Condition {
	return []metav1.Condition{{
		Type: "Ready", Status: status, Reason: reason, Message: message, ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(at.Local()),
	}}
}
