// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"errors"
	"fmt"
	"slices"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/attributes"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/pipelines"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// Delete implements lifecycle.Deleter: it lets go what the collector was given. The collector itself is not ours.
func (s *CollectorSyncer) Delete(ctx context.Context, c *fleetmanagementv1alpha1.Collector) error {
	now := s.attempts.of(c)
	if pipelines.SkipsRemoteDelete(c) || s.gaveNothing(c, now) {
		return nil
	}
	kept, err := s.release(ctx, c, now)
	if err != nil {
		if !errors.Is(err, lifecycle.ErrPending) {
			s.Metrics.heldBack(c.UID, err)
		}
		return deleteFailed(err)
	}
	if len(kept) > 0 {
		lifecycle.Announce(s.Recorder, c, warning, fleetmanagementv1alpha1.ReasonDeleteFailed, fmt.Sprintf(
			"Fleet Management refuses to let go of %s: remove them there by hand.", list(kept)))
	}
	if now.changed > 0 {
		lifecycle.Announce(s.Recorder, c, normal, fleetmanagementv1alpha1.EventDeleted, fmt.Sprintf("Let go %s.", count(now.changed, "remote attribute")))
	}
	return nil
}

// gaveNothing says that there is nothing to let go, as far as can be told.
func (s *CollectorSyncer) gaveNothing(c *fleetmanagementv1alpha1.Collector, now attempt) bool {
	if len(now.owned(c.Status.AttributeOwners, nil)) > 0 || s.isPending(c.Spec.ID) {
		return false
	}
	if c.Status.Registered {
		return true
	}
	err := s.API.Available()
	return err != nil && fault.Of(err, "").Reason == fleetmanagementv1alpha1.ReasonNoCredentials
}

// release lets go what a Collector gave, and returns the keys that Fleet Management refuses to let go.
func (s *CollectorSyncer) release(ctx context.Context, c *fleetmanagementv1alpha1.Collector, now attempt) (kept []string, err error) {
	if err := s.API.Available(); err != nil {
		return nil, err
	}
	live, registered, err := s.look(c)
	switch {
	case err != nil:
		return nil, err
	case !registered && len(now.owned(c.Status.AttributeOwners, nil)) > 0 && !s.attempts.missedTwice(c.UID, s.Inventory.Listed()):
		// One list that lacks a collector must not leave in place for good what stood in it.
		return nil, s.poller.ask(c)
	case !registered:
		return nil, nil
	case s.isPending(c.Spec.ID) && s.attempts.await(c):
		return nil, lifecycle.ErrPending
	}
	st, err := s.lettingGo(ctx, c, live, now)
	if err != nil {
		return nil, err
	}
	for _, r := range st.refused {
		kept = append(kept, quote(r.op.Key))
	}
	return kept, s.advance(c, st, now)
}

// lettingGo returns what lets go all that a Collector gave. Operations that Fleet Management refused are left out: an object must
// be able to go.
func (s *CollectorSyncer) lettingGo(ctx context.Context, c *fleetmanagementv1alpha1.Collector, live fleetclient.Collector, now attempt) (step, error) {
	owned := now.owned(c.Status.AttributeOwners, live.RemoteAttributes)
	if !c.Status.Registered && len(owned) == 0 {
		// A crash may have come before the first status: what stands as it is asked for counts as given, but for what must not have
		// been given. Otherwise a Collector that is created with the finalizer and deleted takes from a collector what others gave.
		rules, err := s.Tenancy.Rules(ctx, c.Namespace)
		if err != nil {
			return step{}, err
		}
		st, err := s.plan(ctx, c, live, now, rules)
		if err != nil {
			return step{}, err
		}
		owned = st.Owners
	}
	others, err := s.sameID(ctx, c.Spec.ID)
	if err != nil {
		return step{}, err
	}
	owned = slices.DeleteFunc(slices.Clone(owned), func(mine fleetmanagementv1alpha1.AttributeOwner) bool {
		return slices.ContainsFunc(others, func(o fleetmanagementv1alpha1.Collector) bool { return o.UID != c.UID && gave(&o, mine) })
	})
	plan := attributes.Diff(attributes.Merged{}, live.RemoteAttributes, owned, s.policiesOf(c))
	return s.withoutRefused(c, step{Plan: plan}), nil
}

// gave reports whether a Collector gave what another one is to let go. Where it asks for another value it gives that once it can.
func gave(c *fleetmanagementv1alpha1.Collector, mine fleetmanagementv1alpha1.AttributeOwner) bool {
	return slices.ContainsFunc(c.Status.AttributeOwners, func(o fleetmanagementv1alpha1.AttributeOwner) bool {
		return o.Key == mine.Key && o.Value == mine.Value
	})
}

// deleteFailed says that the attributes cannot be let go yet. It is tried again, whatever it was.
func deleteFailed(err error) error {
	if errors.Is(err, lifecycle.ErrPending) {
		return err
	}
	f := fault.Fault{Kind: fault.Retry, Reason: fleetmanagementv1alpha1.ReasonDeleteFailed, Err: fmt.Errorf("letting go the remote attributes: %w", err)}
	if cause := fault.Of(err, f.Reason); cause.Kind == fault.Wait {
		f.Kind, f.After = fault.Wait, cause.After
	}
	return &f
}
