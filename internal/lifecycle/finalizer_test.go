// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/candor-dev/candor/internal/fault"
)

func removes(err error) deleter {
	return deleter{
		syncer: syncer{concludes(Outcome{Reason: "Active"})},
		remove: func(*thing) error { return err },
	}
}

func gone(b *bench) bool {
	return apierrors.IsNotFound(b.client.Get(b.t.Context(), client.ObjectKey{Namespace: "team-a", Name: "one"}, &thing{}))
}

func TestAKindThatLeavesSomethingBehindGetsItsFinalizerBeforeTheWork(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t, one())
	kind := removes(nil)
	kind.sync = func(*thing) (Outcome, error) {
		g.Expect(b.read().Finalizers).To(Equal([]string{finalizer}), "stored before the first remote call")
		return Outcome{Reason: "Active"}, nil
	}
	_, err := b.pass(kind)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.did).To(Equal([]string{"update", "status", "event Normal Active"}), "in one pass")
	g.Expect(b.read().Finalizers).To(Equal([]string{finalizer}))
}

func TestAFinalizerThatIsNotStoredStopsThePass(t *testing.T) {
	for name, test := range map[string]struct {
		answer error
		result ctrl.Result
		failed bool
	}{
		"a conflict is another pass":     {conflict, ctrl.Result{RequeueAfter: 100 * time.Millisecond}, false},
		"any other answer is tried anew": {outage, ctrl.Result{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newBench(t, one())
			b.failUpdate = test.answer
			kind := removes(nil)
			kind.sync = func(*thing) (Outcome, error) { t.Error("work began without a finalizer"); return Outcome{}, nil }
			result, err := b.pass(kind)
			g.Expect(err != nil).To(Equal(test.failed))
			g.Expect(result).To(Equal(test.result))
			g.Expect(b.did).To(Equal([]string{"update"}))
		})
	}
}

func TestAKindThatLeavesNothingBehindGetsNoFinalizer(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t, one())
	_, err := b.pass(always(concludes(Outcome{Reason: "Active"})))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.read().Finalizers).To(BeEmpty())

	b = newBench(t, deleting("example.com/other"))
	_, err = b.pass(always(func(*thing) (Outcome, error) {
		t.Error("an object that is being deleted was synced")
		return Outcome{}, nil
	}))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.did).To(BeEmpty())
}

func TestADeletionEndsWhenNothingIsLeftBehind(t *testing.T) {
	for name, err := range map[string]error{
		"what was left behind is deleted":      nil,
		"what was left behind is gone already": &fault.Fault{Kind: fault.NotFound, Reason: "NotFound", Err: errPlain},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newBench(t, deleting(finalizer))
			result, got := b.pass(removes(err))
			g.Expect(got).NotTo(HaveOccurred())
			g.Expect(result).To(Equal(ctrl.Result{}))
			g.Expect(b.did).To(Equal([]string{"update"}))
			g.Expect(gone(b)).To(BeTrue())
		})
	}
	t.Run("somebody else's finalizer stays", func(t *testing.T) {
		g := NewWithT(t)
		b := newBench(t, deleting("example.com/other", finalizer))
		_, err := b.pass(removes(nil))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(b.read().Finalizers).To(Equal([]string{"example.com/other"}))

		_, err = b.pass(deleter{remove: func(*thing) error { t.Error("deleted twice"); return nil }})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(b.did).To(BeEmpty())
	})
}

func TestADeletionThatFailsSaysSoAndKeepsTheFinalizer(t *testing.T) {
	for name, test := range map[string]struct {
		kind    fault.Kind
		result  ctrl.Result
		retried bool
	}{
		"a Retry is tried again":              {fault.Retry, ctrl.Result{}, true},
		"a Wait waits":                        {fault.Wait, ctrl.Result{RequeueAfter: 7 * time.Second}, false},
		"a Terminal is tried in half an hour": {fault.Terminal, ctrl.Result{RequeueAfter: 30 * time.Minute}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newBench(t, deleting(finalizer))
			tries := 0
			kind := deleter{remove: func(*thing) error {
				tries++
				return &fault.Fault{Kind: test.kind, Reason: "Refused", After: 7 * time.Second, Err: errPlain}
			}}
			result, err := b.pass(kind)
			g.Expect(err != nil).To(Equal(test.retried))
			g.Expect(result).To(Equal(test.result))
			g.Expect(b.did).To(Equal([]string{"status", "event Warning Refused"}))
			g.Expect(b.read().Finalizers).To(Equal([]string{finalizer}))
			g.Expect(b.read().Status.Conditions).To(BeComparableTo(ready(metav1.ConditionFalse, "Refused", "it broke", start)))

			_, _ = b.pass(kind)
			g.Expect(tries).To(Equal(2), "the next pass tries again")
			g.Expect(b.did).To(BeEmpty())
		})
	}
}

func TestDroppingTheFinalizerIsARaceThatMayBeLost(t *testing.T) {
	for name, test := range map[string]struct {
		answer error
		result ctrl.Result
		failed bool
	}{
		"a conflict is another pass":         {conflict, ctrl.Result{RequeueAfter: 100 * time.Millisecond}, false},
		"an object that is gone is no error": {notFound, ctrl.Result{}, false},
		"any other answer is tried anew":     {outage, ctrl.Result{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newBench(t, deleting(finalizer))
			b.failUpdate = test.answer
			result, err := b.pass(removes(nil))
			g.Expect(err != nil).To(Equal(test.failed))
			g.Expect(result).To(Equal(test.result))
			g.Expect(b.did).To(Equal([]string{"update"}))
		})
	}
}

func TestAStaleCopyLosesToTheOneThatIsStored(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t, one())
	stale := b.read()
	_, err := b.pass(always(concludes(Outcome{Reason: "Active"})))
	g.Expect(err).NotTo(HaveOccurred())
	b.did = nil
	result, err := b.passOver(stale, always(concludes(Outcome{Reason: "Other"})))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result).To(Equal(ctrl.Result{RequeueAfter: 100 * time.Millisecond}))
	g.Expect(b.did).To(Equal([]string{"status"}))
	g.Expect(b.read().Status.Conditions).To(HaveLen(1))
	g.Expect(b.read().Status.Conditions[0].Reason).To(Equal("Active"))
}
