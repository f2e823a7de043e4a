// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

// cachedTop is an annotation that Findings have in the cache alone: the mark of the entries that are left out there.
const cachedTop = "candor.dev/cached-top"

// CompactFinding keeps of a Finding what the controllers read. The shown entries, by far the most of it, shrink to a mark. An
// informer may hand it its own output.
func CompactFinding(object any) (any, error) {
	f, ok := object.(*candorv1alpha1.Finding)
	if !ok {
		return object, nil
	}
	f.ManagedFields = nil
	if f.Spec.Evidence != nil && f.Spec.Evidence.Top != nil {
		metav1.SetMetaDataAnnotation(&f.ObjectMeta, cachedTop, signals.TopMark(f.Spec.Evidence.Top))
		f.Spec.Evidence.Top = nil
	}
	return f, nil
}

// leaveTop takes the shown entries out of what is to be written when the Finding has them already.
func leaveTop(cached *candorv1alpha1.Finding, evidence *candorv1alpha1.Evidence) {
	if signals.TopMark(evidence.Top) == cached.Annotations[cachedTop] {
		evidence.Top = nil
	}
}

// CompactIntermediate keeps of a ReplicaSet or a Job what tells its controller and its revision.
func CompactIntermediate(object any) (any, error) {
	full, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	slim := &metav1.PartialObjectMetadata{TypeMeta: full.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: full.Namespace, Name: full.Name, UID: full.UID, ResourceVersion: full.ResourceVersion,
		Generation: full.Generation, CreationTimestamp: full.CreationTimestamp, DeletionTimestamp: full.DeletionTimestamp,
	}}
	if owner := metav1.GetControllerOfNoCopy(full); owner != nil {
		slim.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	for _, key := range revisions {
		if value, ok := full.Annotations[key]; ok {
			metav1.SetMetaDataAnnotation(&slim.ObjectMeta, key, value)
		}
	}
	return slim, nil
}
