// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// +kubebuilder:rbac:groups=candor.dev,resources=ledgers,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=candor.dev,resources=ledgers/status,verbs=update

// ledgerTries bounds how often a write of the Ledger is tried again after somebody else's.
const ledgerTries = 10

// LedgerStore keeps the one Ledger. What it writes stands in the API server before anybody relies on it.
type LedgerStore struct {
	Client client.Client
	// Live reads past the cache.
	Live client.Reader

	// last is the Ledger as it was last read or written; nil before that. Nobody changes what it points to.
	last atomic.Pointer[candorv1alpha1.Ledger]
	// writing is held by whoever replaces last.
	writing sync.Mutex
}

// Look returns what was spent, as far as this process knows. Nobody may change it.
func (s *LedgerStore) Look(ctx context.Context) (*candorv1alpha1.LedgerStatus, error) {
	if last := s.last.Load(); last != nil {
		return &last.Status, nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	return &s.last.Load().Status, nil
}

// Change stores what change makes of the status. An error of change is returned as it is, and nothing is stored. change may
// run several times, each time over what is stored by then.
func (s *LedgerStore) Change(ctx context.Context, change func(*candorv1alpha1.LedgerStatus) error) error {
	return s.change(ctx, change, false)
}

// Correct is Change for what may lower the Ledger, and must not do so twice. client-go repeats a write whose answer is lost and
// then reports a conflict with itself; what is found stored after that is done.
func (s *LedgerStore) Correct(ctx context.Context, change func(*candorv1alpha1.LedgerStatus) error) error {
	return s.change(ctx, change, true)
}

func (s *LedgerStore) change(ctx context.Context, change func(*candorv1alpha1.LedgerStatus) error, once bool) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	for range ledgerTries {
		if s.last.Load() == nil {
			if err := s.read(ctx); err != nil {
				return err
			}
		}
		known := s.last.Load()
		next := known.DeepCopy()
		if err := change(&next.Status); err != nil {
			return err
		}
		err := s.write(ctx, next)
		switch {
		case err == nil:
			s.last.Store(next)
			return nil
		case apierrors.IsNotFound(err):
			// Somebody deleted it. What this process knows is written into a new one.
			kept := known.DeepCopy()
			kept.UID, kept.ResourceVersion = "", ""
			s.last.Store(kept)
		case apierrors.IsConflict(err):
			if err := s.read(ctx); err != nil {
				return err
			}
			if once && equality.Semantic.DeepEqual(s.last.Load().Status, next.Status) {
				return nil
			}
		default:
			// Nobody knows whether it was stored. A Ledger that was being made may hold nothing of what this process knows.
			if known.UID != "" {
				s.last.Store(nil)
			}
			return fmt.Errorf("writing the Ledger: %w", err)
		}
	}
	return errors.New("the Ledger changes faster than it can be written")
}

func (s *LedgerStore) read(ctx context.Context) error {
	ledger := &candorv1alpha1.Ledger{}
	err := s.Live.Get(ctx, types.NamespacedName{Name: candorv1alpha1.Singleton}, ledger)
	if apierrors.IsNotFound(err) {
		ledger = &candorv1alpha1.Ledger{ObjectMeta: metav1.ObjectMeta{Name: candorv1alpha1.Singleton}}
	} else if err != nil {
		return fmt.Errorf("reading the Ledger: %w", err)
	}
	if known := s.last.Load(); known != nil && known.UID != ledger.UID && len(ledger.Status.Scopes) == 0 {
		ledger.Status = known.Status // somebody deleted it, and another was made
	}
	s.last.Store(ledger)
	return nil
}

// write makes the Ledger where it has not been yet, and stores its status.
func (s *LedgerStore) write(ctx context.Context, ledger *candorv1alpha1.Ledger) error {
	if ledger.UID == "" {
		status := ledger.Status
		ledger.ResourceVersion = ""
		if err := s.Client.Create(ctx, ledger, client.DisableReadYourWritesConsistency); err != nil {
			if apierrors.IsAlreadyExists(err) {
				return apierrors.NewConflict(candorv1alpha1.GroupVersion.WithResource("ledgers").GroupResource(), ledger.Name, err)
			}
			return err
		}
		ledger.Status = status
	}
	return s.Client.Status().Update(ctx, ledger, client.DisableReadYourWritesConsistency)
}
