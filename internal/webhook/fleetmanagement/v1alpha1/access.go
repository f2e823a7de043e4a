// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// Access tells what somebody may do.
type Access interface {
	// Create answers a SubjectAccessReview.
	Create(ctx context.Context, review client.Object, opts ...client.CreateOption) error
}

// discovery is what the kinds of discoveries have in common.
type discovery[T client.Object] struct {
	// makes is the resource of the objects that a discovery makes.
	makes string
	// target returns the namespace that it makes them in; empty for its own.
	target func(T) string
	spec   func(T) any
}

// admission asks whether who writes a discovery may create by himself, in another namespace, what the discovery makes there. What
// cannot be found out is no permission.
func (d discovery[T]) admission(o Options) admit[T] {
	if o.Access == nil {
		return nil
	}
	return func(ctx context.Context, old, now T) (field.ErrorList, error) {
		target := d.target(now)
		if target == "" || target == now.GetNamespace() || !isNew(old) && equality.Semantic.DeepEqual(d.spec(old), d.spec(now)) {
			return nil, nil
		}
		request, err := admission.RequestFromContext(ctx)
		if err != nil {
			return nil, unanswered("who asks for it", err)
		}
		review := &authorizationv1.SubjectAccessReview{Spec: reviewOf(request.UserInfo)}
		review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: target, Verb: "create", Group: fleetmanagementv1alpha1.GroupVersion.Group,
			Version: fleetmanagementv1alpha1.GroupVersion.Version, Resource: d.makes,
		}
		ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
		defer cancel()
		if err := o.Access.Create(ctx, review); err != nil {
			return nil, unanswered(fmt.Sprintf("whether %s may create %s in the namespace %s", request.UserInfo.Username, d.makes, target), err)
		}
		if review.Status.Allowed && !review.Status.Denied {
			return nil, nil
		}
		return field.ErrorList{field.Forbidden(spec.Child("targetNamespace"), fmt.Sprintf(
			"%s may not create %s in the namespace %s, which the discovery would do: have a Role there allow it, or leave targetNamespace out",
			request.UserInfo.Username, d.makes, target))}, nil
	}
}

func reviewOf(user authenticationv1.UserInfo) authorizationv1.SubjectAccessReviewSpec {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	return authorizationv1.SubjectAccessReviewSpec{User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra}
}
