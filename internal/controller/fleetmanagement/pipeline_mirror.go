// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/pipelines"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// mirrorOwner owns the fields of a mirror's spec that follow Fleet Management.
const mirrorOwner = client.FieldOwner("candor-mirror")

// mirror brings the spec of a mirror up to what Fleet Management holds. Nothing is written there.
func (s *PipelineSyncer) mirror(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) (lifecycle.Outcome, error) {
	for _, condition := range []string{fleetmanagementv1alpha1.ConditionPaused, fleetmanagementv1alpha1.ConditionDrifted, fleetmanagementv1alpha1.ConditionValidated} {
		lifecycle.RemoveCondition(p, condition)
	}
	if err := s.Inventory.Ensure(ctx); err != nil {
		return lifecycle.Outcome{}, err
	}
	live, exists := s.mirrored(p)
	if !exists {
		return lifecycle.Outcome{
			Reason: fleetmanagementv1alpha1.ReasonReadOnly, Status: metav1.ConditionFalse,
			Message: s.nothingToMirror(p),
		}, nil
	}
	// What counts is what would be shown: the spec follows it.
	if err := s.Tenancy.checkMatchers(ctx, p.Namespace, live.Matchers); err != nil {
		return lifecycle.Outcome{}, err
	}
	shown := pipelines.Desired(p, s.name(p))
	shown.Source = nil
	remote := live
	remote.Source = nil
	if len(pipelines.Diff(shown, remote)) == 0 {
		p.Status.SyncedHash, p.Status.Adopted = pipelines.Hash(remote), true
		observe(&p.Status, live)
		return lifecycle.Outcome{Reason: fleetmanagementv1alpha1.ReasonReadOnly, Message: "Shows pipeline " + live.ID + " as Fleet Management holds it."}, nil
	}
	if s.edited(p, shown) {
		return lifecycle.Outcome{
			Reason: fleetmanagementv1alpha1.ReasonMirrorEdited, Status: metav1.ConditionFalse,
			Message: "The spec was edited, and a mirror changes nothing in Fleet Management: undo the edit, or set the annotation " +
				fleetmanagementv1alpha1.AnnotationImportMode + " to " + fleetmanagementv1alpha1.ImportModeAdopt + " to manage the pipeline from here.",
		}, nil
	}
	pass, hash := &pipelinePass{PipelineSyncer: s, p: p}, pipelines.Hash(live)
	if err := pass.refusedBefore(hash); err != nil {
		return lifecycle.Outcome{}, err
	}
	err := s.show(ctx, p, live)
	pass.noteRefusal(hash, err)
	return lifecycle.Outcome{}, err
}

// mirrored returns the pipeline that a mirror shows: that of the ID in its annotation, else of its status, else of its name.
func (s *PipelineSyncer) mirrored(p *fleetmanagementv1alpha1.Pipeline) (fleetclient.Pipeline, bool) {
	id := p.Annotations[fleetmanagementv1alpha1.AnnotationPipelineID]
	if id == "" {
		id = p.Status.ID
	}
	if id != "" {
		return s.Inventory.Get(id)
	}
	if named := s.Inventory.Named(s.name(p)); len(named) > 0 {
		return named[0], true
	}
	return fleetclient.Pipeline{}, false
}

// edited reports whether somebody else than this controller made the spec what it is. The hash may stem from the time when the
// object was no mirror.
func (s *PipelineSyncer) edited(p *fleetmanagementv1alpha1.Pipeline, shown fleetclient.Pipeline) bool {
	last := p.Status.SyncedHash
	return last != "" && last != pipelines.Hash(shown) && last != pipelines.Hash(pipelines.Desired(p, p.Status.SyncedName))
}

// show writes into the spec what Fleet Management holds. The change brings the object back, and its status is written then.
func (s *PipelineSyncer) show(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline, live fleetclient.Pipeline) error {
	matchers := make([]any, 0, len(live.Matchers))
	for _, m := range live.Matchers {
		matchers = append(matchers, m)
	}
	spec := map[string]any{
		"contents": live.Contents, "matchers": matchers, "enabled": live.Enabled, "configType": string(live.ConfigType), "name": live.Name,
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(fleetmanagementv1alpha1.GroupVersion.WithKind("Pipeline"))
	o.SetNamespace(p.Namespace)
	o.SetName(p.Name)
	// The UID makes a race with a deletion a conflict: applying must not create the object anew.
	o.SetUID(p.UID)
	if err := s.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), mirrorOwner, client.ForceOwnership); err != nil {
		kind := fault.Retry
		if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) {
			kind = fault.Terminal // it is more than an object can hold
		}
		return &fault.Fault{
			Kind: kind, Reason: fleetmanagementv1alpha1.ReasonReadOnly,
			Err: fmt.Errorf("the spec cannot become what Fleet Management holds: change the pipeline in Grafana, or delete this object: %w", err),
		}
	}
	lifecycle.Announce(s.Recorder, p, corev1.EventTypeNormal, fleetmanagementv1alpha1.EventMirrorUpdated,
		fmt.Sprintf("Brought the spec up to pipeline %s, as Fleet Management holds it.", live.ID))
	return lifecycle.ErrPending
}

// nothingToMirror says what a mirror looks for in vain.
func (s *PipelineSyncer) nothingToMirror(p *fleetmanagementv1alpha1.Pipeline) string {
	annotation := fleetmanagementv1alpha1.AnnotationPipelineID
	if id := cmp.Or(p.Annotations[annotation], p.Status.ID); id != "" {
		return fmt.Sprintf("Fleet Management has no pipeline of the ID %q: correct the annotation %s, or delete the object.", id, annotation)
	}
	return fmt.Sprintf("Fleet Management has no pipeline of the name %q: set the annotation %s to the ID of the one that is meant.", s.name(p), annotation)
}

// recognise takes the pipeline that a discovery found for the object's own, where no pass has found or made one yet and nobody else
// stamped it. The spec as it was created is what stood there: what differs from that, somebody changed since.
func (s *PipelineSyncer) recognise(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) error {
	live, exists := s.Inventory.Get(p.Annotations[fleetmanagementv1alpha1.AnnotationPipelineID])
	if _, isStamped := pipelines.StampOf(live); !exists || isStamped || p.Status.ID != "" || p.Status.SyncedHash != "" || live.Name != s.name(p) {
		return nil
	}
	if err := s.Tenancy.checkTakeover(ctx, p.Namespace, live); err != nil {
		return err
	}
	p.Status.ID, p.Status.Adopted = live.ID, true
	if p.Generation == 1 {
		p.Status.SyncedName, p.Status.SyncedHash = live.Name, pipelines.Hash(pipelines.Desired(p, live.Name))
	}
	return nil
}
