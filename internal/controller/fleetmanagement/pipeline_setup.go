// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/pipelines"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get

// Indexes of Pipelines.
const (
	// indexPipelineName finds Pipelines by the name that they want in Fleet Management.
	indexPipelineName = "pipeline.name"
	// indexPipelineID finds them by the ID in their status, and indexPipelineUID by their own UID.
	indexPipelineID  = "pipeline.status.id"
	indexPipelineUID = "pipeline.uid"
)

// ClusterID returns the UID of the namespace kube-system, which tells a cluster from all others for as long as it lives.
func ClusterID(ctx context.Context, reader client.Reader) (string, error) {
	var namespace corev1.Namespace
	if err := reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &namespace); err != nil {
		return "", fmt.Errorf("reading the ID of the cluster, the UID of the namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return string(namespace.UID), nil
}

// SetupPipelines registers the pipeline controller and its poller. wakes bring Pipelines to look at now.
func SetupPipelines(mgr manager.Manager, options controller.Options, s *PipelineSyncer, wakes ...Wake) error {
	if err := s.addIndexes(mgr.GetFieldIndexer()); err != nil {
		return err
	}
	if err := mgr.Add(&pipelinePoller{PipelineSyncer: s}); err != nil {
		return fmt.Errorf("adding the poller of pipelines: %w", err)
	}
	also := annotationsDiffer(
		fleetmanagementv1alpha1.AnnotationImportMode, fleetmanagementv1alpha1.AnnotationPipelineID, fleetmanagementv1alpha1.AnnotationNameScope,
		fleetmanagementv1alpha1.AnnotationDryRun, fleetmanagementv1alpha1.AnnotationSkipRemoteDelete,
	)
	b := builderFor(mgr, options, "pipeline", &fleetmanagementv1alpha1.Pipeline{}, wakes, also).
		Watches(&fleetmanagementv1alpha1.Pipeline{}, s.namesakes()).
		WatchesRawSource(s.queue.source())
	b = s.Tenancy.watch(b, func(ctx context.Context, namespace string) []reconcile.Request {
		return lifecycle.Requests(ctx, s.Client, &fleetmanagementv1alpha1.PipelineList{}, client.InNamespace(namespace))
	})
	return complete(b, reconcilerFor(mgr, s.Clock, s, "Pipeline", fleetmanagementv1alpha1.PipelineFinalizer, s.Metrics,
		func(o *fleetmanagementv1alpha1.Pipeline) *metav1.Time { return o.Status.UpdatedAt }), "pipeline")
}

func (s *PipelineSyncer) addIndexes(indexer client.FieldIndexer) error {
	for field, value := range map[string]func(*fleetmanagementv1alpha1.Pipeline) string{
		indexPipelineName: s.name,
		indexPipelineID:   func(p *fleetmanagementv1alpha1.Pipeline) string { return p.Status.ID },
		indexPipelineUID:  func(p *fleetmanagementv1alpha1.Pipeline) string { return string(p.UID) },
	} {
		err := indexer.IndexField(context.Background(), &fleetmanagementv1alpha1.Pipeline{}, field, func(o client.Object) []string {
			if v := value(o.(*fleetmanagementv1alpha1.Pipeline)); v != "" {
				return []string{v}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("adding the index %s: %w", field, err)
		}
	}
	return nil
}

// namesakes wakes the Pipelines that want a name which another one gives up, or asks for anew.
func (s *PipelineSyncer) namesakes() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, q queue, names ...string) {
		for _, name := range names {
			var list fleetmanagementv1alpha1.PipelineList
			for _, request := range lifecycle.Requests(ctx, s.Client, &list, client.MatchingFields{indexPipelineName: name}) {
				q.Add(request)
			}
		}
	}
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, after := s.name(e.ObjectOld.(*fleetmanagementv1alpha1.Pipeline)), s.name(e.ObjectNew.(*fleetmanagementv1alpha1.Pipeline))
			if before != after {
				add(ctx, q, before, after)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			s.forget(e.Object.GetUID())
			add(ctx, q, s.name(e.Object.(*fleetmanagementv1alpha1.Pipeline)))
		},
	}
}

// indexed returns the Pipelines of an index. They are the cache's own: nothing of them may be changed.
func (s *PipelineSyncer) indexed(ctx context.Context, field, value string) ([]fleetmanagementv1alpha1.Pipeline, error) {
	var list fleetmanagementv1alpha1.PipelineList
	err := s.Client.List(ctx, &list, client.MatchingFields{field: value}, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency)
	if err != nil {
		return nil, fmt.Errorf("listing Pipelines by %s: %w", field, err)
	}
	return list.Items, nil
}

// holderOf returns the Pipeline of this cluster that stands for a pipeline of a stack. A list that fails is as one that finds nothing: what
// carries a stamp is left alone then all the same.
func (s *PipelineSyncer) holderOf(ctx context.Context, live fleetclient.Pipeline, stack string) (pipelines.Holder, bool) {
	field, value := indexPipelineID, live.ID
	if owner, is := pipelines.StampOf(live); is {
		field, value = indexPipelineUID, string(owner.UID)
	}
	all, err := s.indexed(ctx, field, value)
	i := slices.IndexFunc(all, func(p fleetmanagementv1alpha1.Pipeline) bool {
		return field == indexPipelineUID || p.Status.Stack == "" || p.Status.Stack == stack
	})
	if err != nil || i < 0 {
		return pipelines.Holder{}, false
	}
	p := &all[i]
	h := pipelines.Holder{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
	if !p.Spec.Paused && !pipelines.IsMirror(p) && p.DeletionTimestamp.IsZero() && p.Annotations[fleetmanagementv1alpha1.AnnotationDryRun] != enabledValue &&
		pipelines.CheckHolds(p) == nil {
		h.Wants = s.name(p)
	}
	return h, true
}
