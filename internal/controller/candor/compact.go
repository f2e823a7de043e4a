// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

// markPrefix starts the identifier of the one entry that stands for all shown entries of a Finding in the cache.
const markPrefix = "cached/"

// CompactFinding keeps of a Finding what the controllers read. The shown entries, by far the most of it, shrink to a mark. An
// informer may hand it its own output.
func CompactFinding(object any) (any, error) {
	f, ok := object.(*candorv1alpha1.Finding)
	if !ok {
		return object, nil
	}
	f.ManagedFields = nil
	if evidence := f.Spec.Evidence; evidence != nil && !marked(evidence.Top) {
		evidence.Top = mark(evidence.Top)
	}
	return f, nil
}

func mark(top []candorv1alpha1.Entry) []candorv1alpha1.Entry {
	return []candorv1alpha1.Entry{{ID: markPrefix + signals.TopMark(top)}}
}

func marked(top []candorv1alpha1.Entry) bool {
	return len(top) == 1 && strings.HasPrefix(top[0].ID, markPrefix)
}

// leaveTop takes the shown entries out of what is to be written when the Finding has them already.
func leaveTop(cached *candorv1alpha1.Finding, evidence *candorv1alpha1.Evidence) {
	if shown := mark(evidence.Top); cached.Spec.Evidence != nil && slices.Equal(shown, cached.Spec.Evidence.Top) {
		evidence.Top = shown
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
