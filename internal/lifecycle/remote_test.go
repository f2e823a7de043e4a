// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/candor-dev/candor/internal/fault"
)

// gated is a deleter that may have to wait.
type gated struct {
	deleter
	gate func(*thing) error
}

func (s gated) Gate(_ context.Context, o *thing) error { return s.gate(o) }

func TestAGateIsAskedBeforeTheFinalizerIsSet(t *testing.T) {
	g := NewWithT(t)
	b := newBench(t, one())
	closed := gated{removes(nil), func(*thing) error {
		return &fault.Fault{Kind: fault.Wait, Reason: "NoCredentials", After: time.Minute, Err: errPlain}
	}}
	closed.sync = func(*thing) (Outcome, error) { t.Error("work began before the gate opened"); return Outcome{}, nil }
	result, err := b.pass(closed)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result).To(Equal(ctrl.Result{RequeueAfter: time.Minute}))
	g.Expect(b.did).To(Equal([]string{"status", "event Warning NoCredentials"}))
	g.Expect(b.read().Finalizers).To(BeEmpty())

	_, err = b.pass(closed)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.did).To(BeEmpty(), "waiting on is no news")

	open := gated{removes(nil), func(*thing) error { return nil }}
	_, err = b.pass(open)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(b.did).To(Equal([]string{"update", "status", "event Normal Active"}))
}

func TestWorkThatGoesOnElsewhereWritesNothing(t *testing.T) {
	pending := fmt.Errorf("submitting: %w", ErrPending)
	t.Run("of a spec", func(t *testing.T) {
		g := NewWithT(t)
		b := newBench(t, one())
		result, err := b.pass(always(func(o *thing) (Outcome, error) {
			o.Status.Seen = "half"
			return Outcome{}, pending
		}))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(result).To(Equal(ctrl.Result{RequeueAfter: time.Minute}))
		g.Expect(b.did).To(BeEmpty())
	})
	t.Run("of a deletion, which keeps the finalizer", func(t *testing.T) {
		g := NewWithT(t)
		b := newBench(t, deleting(finalizer))
		result, err := b.pass(removes(pending))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(result).To(Equal(ctrl.Result{RequeueAfter: time.Minute}))
		g.Expect(b.did).To(BeEmpty())
		g.Expect(b.read().Finalizers).To(Equal([]string{finalizer}))
	})
}

func TestASummaryFollowsTheVerdictUnlessNothingIsKnownToBeWrong(t *testing.T) {
	busy := &fault.Fault{Kind: fault.Wait, Reason: "RateLimited", After: 7 * time.Second, Unclear: true, Err: errPlain}
	works, refused := concludes(Outcome{Reason: "Active"}), fails(&fault.Fault{Kind: fault.Terminal, Reason: "Refused", Err: errPlain})
	of := func(o *thing, condition string) string {
		c := meta.FindStatusCondition(o.Status.Conditions, condition)
		return fmt.Sprintf("%s %s of %d", c.Status, c.Reason, c.ObservedGeneration)
	}
	for name, test := range map[string]struct {
		passes      []func(*thing) (Outcome, error)
		summary     string
		condition   string
		newSpecLast bool
	}{
		"a success":                        {[]func(*thing) (Outcome, error){works}, "True Active of 3", "True Active of 3", false},
		"a fault":                          {[]func(*thing) (Outcome, error){works, refused}, "False Refused of 3", "False Refused of 3", false},
		"a busy server after a success":    {[]func(*thing) (Outcome, error){works, fails(busy)}, "True Active of 3", "Unknown RateLimited of 3", false},
		"a busy server after a fault":      {[]func(*thing) (Outcome, error){refused, fails(busy)}, "Unknown RateLimited of 3", "Unknown RateLimited of 3", false},
		"a busy server at the first try":   {[]func(*thing) (Outcome, error){fails(busy)}, "Unknown RateLimited of 3", "Unknown RateLimited of 3", false},
		"a busy server with another spec":  {[]func(*thing) (Outcome, error){works, fails(busy)}, "Unknown RateLimited of 4", "Unknown RateLimited of 4", true},
		"a success after a busy server":    {[]func(*thing) (Outcome, error){works, fails(busy), works}, "True Active of 3", "True Active of 3", false},
		"a fault after a busy server, too": {[]func(*thing) (Outcome, error){works, fails(busy), refused}, "False Refused of 3", "False Refused of 3", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newBench(t, one())
			for i, sync := range test.passes {
				o := b.read()
				if test.newSpecLast && i == len(test.passes)-1 {
					o.Generation++
				}
				r := &Reconciler[*thing]{
					Client: b.client, Recorder: b, Syncer: always(sync), Condition: "Synced", Summary: "Ready", Now: func() time.Time { return b.now },
				}
				_, err := r.Reconcile(t.Context(), o)
				g.Expect(err).NotTo(HaveOccurred())
			}
			got := b.read()
			g.Expect(of(got, "Ready")).To(Equal(test.summary))
			g.Expect(of(got, "Synced")).To(Equal(test.condition))
		})
	}
}
