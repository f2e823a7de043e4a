// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

// Indexes of the manager's cache.
const (
	// indexFingerprint finds Findings by fingerprint.
	indexFingerprint = "fingerprint"
	// indexWorkload finds Findings by kind and name of their workload.
	indexWorkload = "workload"
	// indexMutedBy finds Findings by the Suppressions that mute entries of theirs, and under crowded those that may not name all.
	indexMutedBy = "mutedBy"
	// indexAnswer finds Findings by the request that was answered, and how far the answer may be shared.
	indexAnswer = "answer"
	// indexPosted finds Findings by the policy that their signals were posted to.
	indexPosted = "posted"
	// indexController finds ReplicaSets and Jobs by kind and name of their controller.
	indexController = "controller"
)

// intermediates are the kinds between a workload and its pods that reports name in its place.
var intermediates = map[string]schema.GroupVersionKind{
	"ReplicaSet": appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
	"Job":        batchv1.SchemeGroupVersion.WithKind("Job"),
}

func objectKey(kind, name string) string { return kind + "/" + name }

// Intermediate returns an empty metadata object of a ReplicaSet or a Job.
func intermediate(kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(intermediates[kind])
	return object
}

// AddIndexes adds the indexes that the controllers of this package read by.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	add := func(object client.Object, name string, key client.IndexerFunc) error {
		if err := indexer.IndexField(ctx, object, name, key); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", object, name, err)
		}
		return nil
	}
	for kind := range intermediates {
		if err := add(intermediate(kind), indexController, controllerKey); err != nil {
			return err
		}
	}
	if err := add(&candorv1alpha1.Finding{}, indexFingerprint, func(o client.Object) []string {
		return []string{o.(*candorv1alpha1.Finding).Status.Fingerprint}
	}); err != nil {
		return err
	}
	if err := add(&candorv1alpha1.Finding{}, indexWorkload, func(o client.Object) []string {
		source := o.(*candorv1alpha1.Finding).Spec.Source
		return []string{objectKey(source.Kind, source.Name)}
	}); err != nil {
		return err
	}
	if err := add(&candorv1alpha1.Finding{}, indexAnswer, func(o client.Object) []string {
		return answerKeys(o.(*candorv1alpha1.Finding))
	}); err != nil {
		return err
	}
	if err := add(&candorv1alpha1.Finding{}, indexPosted, func(o client.Object) []string {
		if to := signals.IdentityOf(o.(*candorv1alpha1.Finding)).Policy(); to != "" {
			return []string{to}
		}
		return nil
	}); err != nil {
		return err
	}
	return add(&candorv1alpha1.Finding{}, indexMutedBy, func(o client.Object) []string {
		return muters(o.(*candorv1alpha1.Finding))
	})
}

func controllerKey(o client.Object) []string {
	owner := metav1.GetControllerOfNoCopy(o)
	if owner == nil {
		return nil
	}
	return []string{objectKey(owner.Kind, owner.Name)}
}
