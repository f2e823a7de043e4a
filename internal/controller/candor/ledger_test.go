// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/budget"
)

var (
	errLost  = errors.New("the connection is gone")
	conflict = apierrors.NewConflict(schema.GroupResource{Group: "candor.dev", Resource: "ledgers"}, "default", errors.New("it changed"))
	wide     = budget.Ceiling{Calls: 1000, Tokens: 1_000_000, CostMicros: budget.NoCeiling, Window: 24 * time.Hour}
	small    = budget.Cost{Calls: 1, Tokens: 100}
)

// books is a LedgerStore over an API server that misbehaves.
type books struct {
	*LedgerStore
	t *testing.T
	// server is the way to it that always works.
	server client.Client
	// store stands for the next writes of the status, one each; nil is a good one.
	store []func(write func() error) error
	// create stands for the next creations alike.
	create []func(write func() error) error
}

func openBooks(t *testing.T) *books {
	t.Helper()
	scheme := runtime.NewScheme()
	NewWithT(t).Expect(candorv1alpha1.AddToScheme(scheme)).To(Succeed())
	b := &books{t: t, server: fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&candorv1alpha1.Ledger{}).Build()}
	next := func(queue *[]func(func() error) error, write func() error) error {
		if len(*queue) == 0 {
			return write()
		}
		first := (*queue)[0]
		*queue = (*queue)[1:]
		return first(write)
	}
	faulty := interceptor.NewClient(b.server.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			return next(&b.create, func() error {
				o.SetUID("uid-of-the-first")
				o.(*candorv1alpha1.Ledger).Status = candorv1alpha1.LedgerStatus{} // a real API server drops it
				return c.Create(ctx, o)
			})
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, _ string, o client.Object, _ ...client.SubResourceUpdateOption) error {
			return next(&b.store, func() error { return c.Status().Update(ctx, o) })
		},
	})
	b.LedgerStore = &LedgerStore{Client: faulty, Live: b.server}
	return b
}

func refuse(err error) func(func() error) error { return func(func() error) error { return err } }

// lose stores, and gives another answer.
func lose(err error) func(func() error) error {
	return func(write func() error) error {
		_ = write()
		return err
	}
}

func (b *books) reserve() (receipt budget.Receipt, err error) {
	err = b.Change(b.t.Context(), func(status *candorv1alpha1.LedgerStatus) error {
		var denial *budget.Denial
		if receipt, denial = budget.Reserve(status, "team-a", wide, wide, small, noon); denial != nil {
			return errors.New("denied")
		}
		return nil
	})
	return receipt, err
}

func (b *books) settle(receipt budget.Receipt, actual budget.Cost) error {
	return b.Correct(b.t.Context(), func(status *candorv1alpha1.LedgerStatus) error {
		budget.Settle(status, receipt, actual)
		return nil
	})
}

// stored returns what the API server holds for the cluster.
func (b *books) stored() budget.Cost {
	b.t.Helper()
	var l candorv1alpha1.Ledger
	NewWithT(b.t).Expect(client.IgnoreNotFound(b.server.Get(b.t.Context(), client.ObjectKey{Name: "default"}, &l))).To(Succeed())
	return budget.Used(&l.Status, candorv1alpha1.LedgerScopeCluster, wide.Window, noon)
}

func times(n int64) budget.Cost { return budget.Cost{Calls: n * small.Calls, Tokens: n * small.Tokens} }

func TestWhatIsReservedIsStoredWhateverTheAPIServerDoes(t *testing.T) {
	for name, test := range map[string]struct {
		create, store []func(func() error) error
		failed        bool
		// stored is what is stored then, and again what is after another reservation.
		stored, again budget.Cost
	}{
		"a good write":                            {nil, nil, false, times(1), times(2)},
		"a conflict is tried again":               {nil, []func(func() error) error{refuse(conflict)}, false, times(1), times(2)},
		"nine conflicts are tried again":          {nil, repeat(refuse(conflict), 9), false, times(1), times(2)},
		"conflicts without end are given up":      {nil, repeat(refuse(conflict), 10), true, times(0), times(1)},
		"an error stores nothing":                 {nil, []func(func() error) error{refuse(errLost)}, true, times(0), times(1)},
		"a lost answer counts":                    {nil, []func(func() error) error{lose(errLost)}, true, times(1), times(2)},
		"a repeated write counts twice":           {nil, []func(func() error) error{lose(conflict)}, false, times(2), times(3)},
		"a Ledger that cannot be made":            {[]func(func() error) error{refuse(errLost)}, nil, true, times(0), times(1)},
		"a Ledger whose making is not answered":   {[]func(func() error) error{lose(errLost)}, nil, true, times(0), times(1)},
		"a Ledger that somebody else makes first": {[]func(func() error) error{makeFirst}, nil, false, times(1), times(2)},
	} {
		t.Run(name, func(t *testing.T) {
			g, b := NewWithT(t), openBooks(t)
			b.create, b.store = test.create, test.store
			_, err := b.reserve()
			g.Expect(err != nil).To(Equal(test.failed), "%v", err)
			g.Expect(b.stored()).To(Equal(test.stored))
			_, err = b.reserve()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(b.stored()).To(Equal(test.again))
			look, err := b.Look(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(budget.Used(look, candorv1alpha1.LedgerScopeCluster, wide.Window, noon)).To(Equal(test.again))
		})
	}
}

func makeFirst(write func() error) error {
	_ = write()
	return apierrors.NewAlreadyExists(schema.GroupResource{Group: "candor.dev", Resource: "ledgers"}, "default")
}

func repeat[T any](v T, n int) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = v
	}
	return all
}

func TestACorrectionHappensOnceWhateverTheAPIServerDoes(t *testing.T) {
	for name, test := range map[string]struct {
		store  func(func() error) error
		failed bool
		stored budget.Cost
	}{
		"a good write":                      {nil, false, times(1)},
		"a conflict is tried again":         {refuse(conflict), false, times(1)},
		"an error leaves what was reserved": {refuse(errLost), true, times(2)},
		"a lost answer is not asked for":    {lose(errLost), true, times(1)},
		"a repeated write corrects once":    {lose(conflict), false, times(1)},
	} {
		t.Run(name, func(t *testing.T) {
			g, b := NewWithT(t), openBooks(t)
			_, err := b.reserve()
			g.Expect(err).NotTo(HaveOccurred())
			receipt, err := b.reserve()
			g.Expect(err).NotTo(HaveOccurred())
			if test.store != nil {
				b.store = append(b.store, test.store)
			}
			err = b.settle(receipt, budget.Cost{})
			g.Expect(err != nil).To(Equal(test.failed), "%v", err)
			g.Expect(b.stored()).To(Equal(test.stored))
		})
	}
}

func TestADeletedLedgerRefundsNothing(t *testing.T) {
	for name, happens := range map[string]func(*books){
		"deleted":                   func(*books) {},
		"deleted and made by hand":  func(b *books) { b.makeEmpty() },
		"its new one is not made":   func(b *books) { b.create = []func(func() error) error{refuse(errLost)} },
		"its new one is not told":   func(b *books) { b.create = []func(func() error) error{lose(errLost)} },
		"its new one is not filled": func(b *books) { b.store = []func(func() error) error{nil, refuse(errLost)} },
	} {
		t.Run(name, func(t *testing.T) {
			g, b := NewWithT(t), openBooks(t)
			for range 3 {
				_, err := b.reserve()
				g.Expect(err).NotTo(HaveOccurred())
			}
			g.Expect(b.server.Delete(t.Context(), &candorv1alpha1.Ledger{ObjectMeta: metav1.ObjectMeta{Name: "default"}})).To(Succeed())
			happens(b)
			for i, store := range b.store {
				if store == nil {
					b.store[i] = func(write func() error) error { return write() }
				}
			}
			if _, err := b.reserve(); err != nil {
				_, err = b.reserve()
				g.Expect(err).NotTo(HaveOccurred())
			}
			g.Expect(b.stored()).To(Equal(times(4)))
		})
	}
}

func (b *books) makeEmpty() {
	b.t.Helper()
	made := &candorv1alpha1.Ledger{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "made-by-hand"}}
	NewWithT(b.t).Expect(b.server.Create(b.t.Context(), made)).To(Succeed())
}

func TestAChangeThatFailsStoresNothing(t *testing.T) {
	g, b := NewWithT(t), openBooks(t)
	_, err := b.reserve()
	g.Expect(err).NotTo(HaveOccurred())
	err = b.Change(t.Context(), func(status *candorv1alpha1.LedgerStatus) error {
		*status = candorv1alpha1.LedgerStatus{}
		return errUnasked
	})
	g.Expect(err).To(Equal(errUnasked))
	g.Expect(b.stored()).To(Equal(times(1)))
	look, err := b.Look(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(budget.Used(look, candorv1alpha1.LedgerScopeCluster, wide.Window, noon)).To(Equal(times(1)))
}
