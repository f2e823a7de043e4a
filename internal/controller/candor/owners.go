// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/candor-dev/candor/internal/signals"
)

// +kubebuilder:rbac:groups=apps,resources=replicasets,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;daemonsets,verbs=get
// +kubebuilder:rbac:groups=batch,resources=cronjobs,verbs=get
// +kubebuilder:rbac:groups="",resources=pods;replicationcontrollers,verbs=get

// workloads are the kinds whose existence may be asked for.
var workloads = map[string]schema.GroupVersionKind{
	"Deployment":            appsv1.SchemeGroupVersion.WithKind("Deployment"),
	"StatefulSet":           appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
	"DaemonSet":             appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
	"ReplicaSet":            appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
	"CronJob":               batchv1.SchemeGroupVersion.WithKind("CronJob"),
	"Job":                   batchv1.SchemeGroupVersion.WithKind("Job"),
	"ReplicationController": corev1.SchemeGroupVersion.WithKind("ReplicationController"),
	"Pod":                   corev1.SchemeGroupVersion.WithKind("Pod"),
}

// revisions are the annotations by which controllers number their ReplicaSets.
var revisions = []string{"deployment.kubernetes.io/revision", "rollout.argoproj.io/revision"}

// owners answers who stands behind a ReplicaSet or a Job, from metadata alone.
type owners struct {
	// cached holds the metadata of ReplicaSets and Jobs.
	cached client.Reader
	// live is asked for other kinds, and only about their existence and the controllers of pods.
	live client.Reader
	pods *podOwners
}

// top returns the identity of the workload behind a subject. It returns false when the subject is a ReplicaSet or a Job
// that is not in the cache, or a pod that nobody has asked for yet, or whose controller cannot be one: nobody can tell, and
// its own name would not last.
func (o owners) top(ctx context.Context, class signals.Class, subject signals.Subject) (signals.Identity, bool, error) {
	id := signals.Identity{
		Provider: class.Provider, Namespace: subject.Namespace, Kind: subject.Kind, Name: subject.Name, Container: subject.Container,
	}
	if class.AddsUp && subject.Kind == podKind {
		owner, known := o.pods.of(subject.Namespace, subject.Name)
		if !known || owner.gone || owner.kind == "" {
			return id, known && !owner.gone, nil
		}
		if !signals.ValidObject(owner.kind, owner.name) {
			return id, false, nil
		}
		subject.Kind, subject.Name = owner.kind, owner.name
	}
	top := id
	top.Kind, top.Name = subject.Kind, subject.Name
	if _, between := intermediates[subject.Kind]; !between {
		return top, true, nil
	}
	object := intermediate(subject.Kind)
	err := o.cached.Get(ctx, client.ObjectKey{Namespace: subject.Namespace, Name: subject.Name}, object)
	if apierrors.IsNotFound(err) {
		return id, false, nil
	} else if err != nil {
		return id, false, fmt.Errorf("reading %s %s/%s: %w", subject.Kind, subject.Namespace, subject.Name, err)
	}
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil {
		return top, true, nil
	}
	if _, between := intermediates[owner.Kind]; between || !signals.ValidObject(owner.Kind, owner.Name) {
		return id, false, nil // an owner reference is free text: two ReplicaSets may name each other
	}
	top.Kind, top.Name = owner.Kind, owner.Name
	return top, true, nil
}

// revision is a subject that reports may name in place of a workload.
type revision struct {
	kind, name string
	number     int
}

// revisionsOf returns what reports may call a workload: its own name, and those of its ReplicaSets and Jobs.
func (o owners) revisionsOf(ctx context.Context, id signals.Identity) ([]revision, error) {
	all := []revision{{kind: id.Kind, name: id.Name}}
	for kind, gvk := range intermediates {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(kind + "List"))
		err := o.cached.List(ctx, list, client.InNamespace(id.Namespace),
			client.MatchingFields{indexController: objectKey(id.Kind, id.Name)}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("listing %ss of %s: %w", kind, id, err)
		}
		for i := range list.Items {
			all = append(all, revision{kind: kind, name: list.Items[i].Name, number: revisionNumber(&list.Items[i])})
		}
	}
	return all, nil
}

// Intermediates returns one empty metadata object of each kind that stands between a workload and its pods.
func Intermediates() []client.Object {
	return []client.Object{intermediate("ReplicaSet"), intermediate("Job")}
}

func revisionNumber(object client.Object) int {
	for _, key := range revisions {
		if number, err := strconv.Atoi(object.GetAnnotations()[key]); err == nil {
			return number
		}
	}
	return 0
}

// existence is what a look for a workload found.
type existence int

const (
	exists existence = iota
	terminating
	gone
	// untold means that Candor has no right to ask for this kind.
	untold
)

// exists asks the API server for a workload.
func (o owners) exists(ctx context.Context, id signals.Identity) (existence, error) {
	gvk, may := workloads[id.Kind]
	if !may || !signals.ValidObject(id.Kind, id.Name) {
		return untold, nil
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(gvk)
	err := o.live.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return gone, nil
	case apierrors.IsForbidden(err):
		return untold, nil
	case err != nil:
		return untold, fmt.Errorf("looking for the workload of %s: %w", id, err)
	case !object.DeletionTimestamp.IsZero():
		return terminating, nil
	default:
		return exists, nil
	}
}
