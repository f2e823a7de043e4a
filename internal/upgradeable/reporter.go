// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upgradeable tells OLM, by an OperatorCondition, when the manager may be replaced by its next version.
package upgradeable

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/candor-dev/candor/internal/repeat"
)

const (
	// pollEvery is how often Left is asked while a migration runs.
	pollEvery = 5 * time.Second
	// retryFirst is the first of doubling waits after an error, up to retryLast: OLM grants the right soon after it starts the
	// pod, or never.
	retryFirst = 5 * time.Second
	retryLast  = 5 * time.Minute

	// ReasonMigrating says that what an earlier version stored is being looked at for the first time by this one.
	ReasonMigrating = "Migrating"
	// ReasonMigrated says that this version has looked at all of it.
	ReasonMigrated = "Migrated"
)

// Reporter reports the condition Upgradeable of one version. OLM makes an OperatorCondition for each version, so that one which
// says True already needs nothing any more: neither a write nor a second look, whatever was restarted in between.
type Reporter struct {
	// Client reads and writes without a cache: OLM grants no right to list.
	Client client.Client
	// Condition is the OperatorCondition that OLM made for this version.
	Condition client.ObjectKey
	// Left returns how many stored objects are still to be looked at.
	Left func(context.Context) (int, error)
	// Done is called once there is nothing left, or never was; nil for nothing.
	Done  func()
	Clock clock.PassiveClock
	Log   logr.Logger

	// said is the last that was stored or found.
	said metav1.ConditionStatus
	// problem is what was logged last.
	problem string
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Reporter) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (r *Reporter) Start(ctx context.Context) error {
	repeat.Until(ctx, retryFirst, retryLast, func(ctx context.Context) (time.Duration, error) {
		err := r.look(ctx)
		if err != nil && ctx.Err() == nil {
			r.complain(err)
		}
		if r.said == metav1.ConditionTrue {
			return repeat.Done, nil
		}
		return pollEvery, err
	})
	if r.said == metav1.ConditionTrue && r.Done != nil {
		r.Done()
	}
	return nil
}

// complain logs a problem once, for as long as it stays the same.
func (r *Reporter) complain(err error) {
	if r.problem == err.Error() || apierrors.IsConflict(err) {
		return
	}
	r.problem = err.Error()
	r.Log.Error(err, "Cannot tell OLM whether this version may be replaced; trying again, ever more slowly")
}

// look stores what there is to say, unless it has been said.
func (r *Reporter) look(ctx context.Context) error {
	left, err := r.Left(ctx)
	if err != nil {
		return err
	}
	want := metav1.Condition{Type: operatorsv2.Upgradeable, Status: metav1.ConditionTrue, Reason: ReasonMigrated, Message: "Nothing of an earlier version is left to migrate."}
	if left > 0 {
		want.Status, want.Reason = metav1.ConditionFalse, ReasonMigrating
		want.Message = "Findings that an earlier version stored are being looked at for the first time by this one. This takes minutes at most."
	}
	if want.Status == r.said {
		return nil
	}
	return r.store(ctx, want)
}

func (r *Reporter) store(ctx context.Context, want metav1.Condition) error {
	var object operatorsv2.OperatorCondition
	if err := r.Client.Get(ctx, r.Condition, &object); err != nil {
		return fmt.Errorf("reading OperatorCondition %s, which OLM makes: %w", r.Condition, err)
	}
	i := slices.IndexFunc(object.Spec.Conditions, func(c metav1.Condition) bool { return c.Type == want.Type })
	if i >= 0 {
		if there := object.Spec.Conditions[i].Status; there == metav1.ConditionTrue || there == want.Status {
			r.said = there
			return nil
		}
	} else {
		i = len(object.Spec.Conditions)
		object.Spec.Conditions = append(object.Spec.Conditions, metav1.Condition{})
	}
	want.LastTransitionTime = metav1.NewTime(r.Clock.Now())
	object.Spec.Conditions[i] = want
	if err := r.Client.Update(ctx, &object); err != nil {
		return fmt.Errorf("writing OperatorCondition %s: %w", r.Condition, err)
	}
	r.said = want.Status
	r.Log.Info("Told OLM whether this version may be replaced", "upgradeable", want.Status, "reason", want.Reason)
	return nil
}
