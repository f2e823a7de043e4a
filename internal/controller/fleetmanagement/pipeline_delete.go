// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/pipelines"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// Delete implements lifecycle.Deleter. Only pipelines that are the object's go; the others stay as they are.
func (s *PipelineSyncer) Delete(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) error {
	err := s.remove(ctx, p)
	if err == nil {
		s.forget(p)
		return nil
	}
	f := fault.Of(err, fleetmanagementv1alpha1.ReasonDeleteFailed)
	s.Metrics.heldBack(p.UID, err)
	failed := &fault.Fault{Kind: fault.Retry, Reason: fleetmanagementv1alpha1.ReasonDeleteFailed, Err: fmt.Errorf("deleting the pipeline: %w", err)}
	if f.Kind == fault.Wait {
		failed.Kind, failed.After = fault.Wait, f.After
	}
	return failed
}

func (s *PipelineSyncer) remove(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) error {
	if pipelines.IsMirror(p) {
		return nil
	}
	if p.Annotations[fleetmanagementv1alpha1.AnnotationSkipRemoteDelete] == enabledValue {
		s.gone(p, fleetmanagementv1alpha1.EventOrphaned, "The annotation "+fleetmanagementv1alpha1.AnnotationSkipRemoteDelete+
			" lets the object go, whatever becomes of the pipeline.")
		return nil
	}
	neverSynced := p.Status.ID == "" && p.Status.SyncedHash == ""
	if err := s.API.Available(); neverSynced && err != nil &&
		fault.Of(err, fleetmanagementv1alpha1.ReasonDeleteFailed).Reason == fleetmanagementv1alpha1.ReasonNoCredentials {
		return nil
	}
	if err := s.Inventory.Ensure(ctx); err != nil {
		return err
	}
	ours := s.belongings(ctx, p)
	if neverSynced && len(ours) == 0 {
		// A write may have arrived whose answer did not.
		if err := s.lookUp(ctx, s.name(p)); err != nil {
			return err
		}
		ours = s.belongings(ctx, p)
	}
	if len(ours) == 0 {
		s.sayNotOwned(p)
		return nil
	}
	for _, live := range ours {
		if err := s.let(ctx, p, live); err != nil {
			return err
		}
	}
	return nil
}

func (s *PipelineSyncer) belongings(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) []fleetclient.Pipeline {
	return pipelines.Belongings(s.input(ctx, p, s.stampedBy(p)))
}

// let deletes a pipeline, or takes the stamp off it, as the deletion policy says.
func (s *PipelineSyncer) let(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline, live fleetclient.Pipeline) error {
	if orphans(p) {
		if err := s.release(ctx, live); err != nil {
			return err
		}
		s.gone(p, fleetmanagementv1alpha1.EventOrphaned, fmt.Sprintf("The pipeline %q stays in Fleet Management.", live.Name))
		return nil
	}
	if err := fault.IgnoreNotFound(s.API.DeletePipeline(ctx, live.ID)); err != nil {
		return err
	}
	s.Inventory.Drop(live.ID)
	s.wakeNamed(ctx, live.Name)
	s.gone(p, fleetmanagementv1alpha1.EventDeleted, fmt.Sprintf("Deleted the pipeline %q.", live.Name))
	return nil
}

// release takes the stamp off a pipeline, so that it is nobody's: anybody may adopt it, and it is no orphan. What the update writes
// besides is what stands at this moment.
func (s *PipelineSyncer) release(ctx context.Context, live fleetclient.Pipeline) error {
	if _, isStamped := pipelines.StampOf(live); !isStamped {
		return nil
	}
	live, err := s.API.GetPipeline(ctx, live.ID)
	if err != nil {
		return fault.IgnoreNotFound(err)
	}
	released, err := s.API.UpdatePipeline(ctx, pipelines.Released(live))
	if err != nil {
		return fault.IgnoreNotFound(err)
	}
	s.Inventory.Put(released)
	return nil
}

func orphans(p *fleetmanagementv1alpha1.Pipeline) bool {
	if p.Spec.DeletionPolicy == "" {
		return p.Status.Adopted
	}
	return p.Spec.DeletionPolicy == fleetmanagementv1alpha1.DeletionOrphan
}

// sayNotOwned says that a pipeline stays because it is not the object's, where there is one.
func (s *PipelineSyncer) sayNotOwned(p *fleetmanagementv1alpha1.Pipeline) {
	if live, exists := s.Inventory.Get(p.Status.ID); exists {
		s.gone(p, fleetmanagementv1alpha1.EventRemoteNotOwned, fmt.Sprintf("The pipeline %q stays in Fleet Management, since it is not this object's.", live.Name))
	}
}

func (s *PipelineSyncer) gone(p *fleetmanagementv1alpha1.Pipeline, reason, message string) {
	lifecycle.Announce(s.Recorder, p, corev1.EventTypeNormal, reason, message)
}

func (s *PipelineSyncer) forget(p *fleetmanagementv1alpha1.Pipeline) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.refused, p.UID)
}
