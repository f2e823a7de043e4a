// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	rightsPoll = 20 * time.Millisecond
)

// waitForRights asks, as the manager, for one right of each bound role: a role and its binding become known as a whole.
func waitForRights(ctx context.Context, manager *rest.Config, r rights) error {
	samples, err := sampleRights(r.objects)
	if err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(manager)
	if err != nil {
		return err
	}
	for _, sample := range samples {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &sample}}
		var last error
		err := wait.PollUntilContextTimeout(ctx, rightsPoll, patience, true, func(ctx context.Context) (bool, error) {
			answer, err := clients.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			last = err // a young API server may still lack the role that lets everybody ask
			return err == nil && answer.Status.Allowed, nil
		})
		if err != nil {
			return fmt.Errorf("the API server does not grant the manager %+v: %w (last answer: %w)", sample, err, last)
		}
	}
	return nil
}

// sampleRights takes the first right of every role that a binding of the set names.
func sampleRights(objects []*unstructured.Unstructured) ([]authorizationv1.ResourceAttributes, error) {
	roles := map[string]rbacv1.ClusterRole{}
	for _, object := range objects {
		if object.GetKind() != "ClusterRole" && object.GetKind() != "Role" {
			continue
		}
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		roles[object.GetKind()+"/"+object.GetName()] = role
	}
	var samples []authorizationv1.ResourceAttributes
	for _, object := range objects {
		reference, bound, err := unstructured.NestedStringMap(object.Object, "roleRef")
		if err != nil {
			return nil, err
		}
		if !bound {
			continue
		}
		if sample, ok := firstRight(roles[reference["kind"]+"/"+reference["name"]].Rules); ok {
			sample.Namespace = object.GetNamespace()
			samples = append(samples, sample)
		}
	}
	return samples, nil
}

func firstRight(rules []rbacv1.PolicyRule) (authorizationv1.ResourceAttributes, bool) {
	for _, rule := range rules {
		if len(rule.Verbs) == 0 || len(rule.APIGroups) == 0 || len(rule.Resources) == 0 {
			continue
		}
		resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
		right := authorizationv1.ResourceAttributes{
			Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource,
		}
		if len(rule.ResourceNames) > 0 {
			right.Name = rule.ResourceNames[0]
		}
		return right, true
	}
	return authorizationv1.ResourceAttributes{}, false
}
