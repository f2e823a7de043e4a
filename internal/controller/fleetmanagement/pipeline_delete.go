// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/pipelines"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// Delete implements lifecycle.Deleter. Only pipelines that are the object's go; the others stay as they are.
func (s *PipelineSyncer) Delete(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) error {
	err := s.remove(s.enter(ctx, p), p)
	switch {
	case err == nil:
		s.forget(p.UID)
		return nil
	case errors.Is(err, fleetclient.ErrOtherStack):
		return lifecycle.ErrPending
	}
	f := fault.Of(err, fleetmanagementv1alpha1.ReasonDeleteFailed)
	s.Metrics.heldBack(p.UID, err)
	failed := &fault.Fault{Kind: fault.Retry, Reason: fleetmanagementv1alpha1.ReasonDeleteFailed, Err: fmt.Errorf(
		"the pipeline cannot be deleted yet; the annotation %s=%s lets the object go without it: %w",
		fleetmanagementv1alpha1.AnnotationSkipRemoteDelete, enabledValue, err)}
	if f.Kind == fault.Wait {
		failed.Kind, failed.After = fault.Wait, f.After
	}
	return failed
}

func (s *PipelineSyncer) remove(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) error {
	if pipelines.SkipsRemoteDelete(p) {
		s.gone(p, fleetmanagementv1alpha1.EventOrphaned, "The annotation "+fleetmanagementv1alpha1.AnnotationSkipRemoteDelete+
			" lets the object go, whatever becomes of the pipeline.")
		return nil
	}
	if pipelines.IsMirror(p) || pipelines.CheckAnnotation(p, fleetmanagementv1alpha1.AnnotationImportMode, pipelines.ImportModes...) != nil {
		return s.unmark(ctx, p)
	}
	neverSynced := p.Status.ID == "" && p.Status.SyncedHash == ""
	if err := s.API.Available(); neverSynced && err != nil &&
		fault.Of(err, fleetmanagementv1alpha1.ReasonDeleteFailed).Reason == fleetmanagementv1alpha1.ReasonNoCredentials {
		return nil
	}
	if err := s.Inventory.Ensure(ctx); err != nil {
		return err
	}
	ours, err := s.present(ctx, p)
	if err != nil {
		return err
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

// present returns the pipelines that are the object's at this moment. The list may be some minutes old, and somebody else may have taken
// one over since.
func (s *PipelineSyncer) present(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) ([]fleetclient.Pipeline, error) {
	var ids []string
	for _, live := range s.belongings(ctx, p) {
		ids = append(ids, live.ID)
	}
	if p.Status.ID != "" && !slices.Contains(ids, p.Status.ID) {
		ids = append(ids, p.Status.ID)
	}
	for _, id := range ids {
		if err := s.refresh(ctx, id); err != nil {
			return nil, err
		}
	}
	ours := s.belongings(ctx, p)
	if len(ours) == 0 && p.Status.ID == "" {
		// A write may have arrived whose answer did not.
		if err := s.lookUp(ctx, s.name(p)); err != nil {
			return nil, err
		}
		ours = s.belongings(ctx, p)
	}
	return ours, nil
}

func (s *PipelineSyncer) belongings(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) []fleetclient.Pipeline {
	return pipelines.Belongings(s.input(ctx, p))
}

// unmark takes the stamp off what a mirror managed before it became one: it would look as if its object had got lost. A mirror that
// was always one has left nothing, and asks nobody.
func (s *PipelineSyncer) unmark(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) error {
	for _, live := range s.stampedBy(p) {
		if err := s.refresh(ctx, live.ID); err != nil {
			return err
		}
	}
	for _, live := range s.stampedBy(p) {
		if err := s.release(ctx, live); err != nil {
			return err
		}
	}
	return nil
}

// let deletes a pipeline, or takes the stamp off it, as the deletion policy says.
func (s *PipelineSyncer) let(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline, live fleetclient.Pipeline) error {
	if orphans(p, live) {
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

// release takes the stamp off a pipeline, so that it is nobody's: anybody may adopt it, and it is no orphan.
func (s *PipelineSyncer) release(ctx context.Context, live fleetclient.Pipeline) error {
	if _, isStamped := pipelines.StampOf(live); !isStamped {
		return nil
	}
	released, err := s.API.UpdatePipeline(ctx, pipelines.Released(live))
	if err != nil {
		return fault.IgnoreNotFound(err)
	}
	s.Inventory.Put(released)
	return nil
}

// orphans reports whether a pipeline stays when its object goes. One that a discovery found existed before the object, whatever
// else is known of it.
func orphans(p *fleetmanagementv1alpha1.Pipeline, live fleetclient.Pipeline) bool {
	if p.Spec.DeletionPolicy == "" {
		return p.Status.Adopted || pipelines.IsAdopted(live) || p.Annotations[fleetmanagementv1alpha1.AnnotationPipelineID] != ""
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

// forget drops what is remembered of an object that is gone, or as good as gone.
func (s *PipelineSyncer) forget(uid types.UID) {
	s.Metrics.letGo(uid)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.refused, uid)
}
