// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/candor-dev/candor/internal/leader"
)

const (
	reasonAnotherCandor = "AnotherCandor"
	reasonOnlyCandor    = "OnlyCandor"
)

// leaseNamespace returns where the lease is; empty outside a cluster, unless an option says it.
func (o *Options) leaseNamespace() string { return cmp.Or(o.LeaderElectionNamespace, o.podNamespace()) }

// newLock returns the lock of leader election. A request for it ends in time for another before the lease is lost.
func newLock(cfg *rest.Config, o Options) (*leader.Lock, error) {
	return leader.New(cfg, o.leaseNamespace(), max(o.RenewDeadline/2, time.Second))
}

// addLock makes the manager say of another Candor in the cluster that it is there, and not be ready meanwhile. Without leader
// election it looks for none.
func (b *building) addLock(lock *leader.Lock) error {
	if !b.options.LeaderElect {
		return nil
	}
	lock.Log = b.mgr.GetLogger().WithName("leader")
	lock.Record(b.mgr.GetEventRecorder("candor"))
	lock.Announce = func(problem error) {
		if problem == nil {
			lock.Log.Info("No other Candor works in the cluster any more")
			b.tell(corev1.EventTypeNormal, reasonOnlyCandor, "No other Candor works in the cluster any more.")
			return
		}
		lock.Log.Error(problem, "This Candor does not work")
		b.tell(corev1.EventTypeWarning, reasonAnotherCandor, problem.Error())
	}
	if err := b.mgr.AddReadyzCheck("leader", lock.Check); err != nil {
		return fmt.Errorf("adding /readyz/leader: %w", err)
	}
	return nil
}
