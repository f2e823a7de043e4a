// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/tenant"
)

// +kubebuilder:rbac:groups=fleetmanagement.grafana.com,resources=tenantpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// Tenancy gives the rules of the TenantPolicies. A nil Tenancy enforces none: its rules allow everything. It is safe for concurrent
// use.
type Tenancy struct {
	// Client reads from a cache.
	Client client.Reader

	mu       sync.Mutex
	compiled map[types.UID]compiledPolicy
}

type compiledPolicy struct {
	generation int64
	policy     tenant.Policy
	err        error
}

// Rules returns the rules for what is stored in a namespace. An error is a fault: nothing may be done then.
func (t *Tenancy) Rules(ctx context.Context, namespace string) (tenant.Rules, error) {
	return t.rules(ctx, namespace, func(tenant.Policy) bool { return true }, tenant.ForNamespace)
}

// RulesFor returns the rules for what a user writes into a namespace. An error is a fault: nothing may be let pass then. Whom no policy
// names is free in every namespace, one that is not there included.
func (t *Tenancy) RulesFor(ctx context.Context, user tenant.User, namespace string) (tenant.Rules, error) {
	concerns := func(p tenant.Policy) bool { return p.Names(user) }
	return t.rules(ctx, namespace, concerns, func(policies []tenant.Policy, labels map[string]string) tenant.Rules {
		return tenant.ForUser(policies, user, labels)
	})
}

// rules returns those of a namespace; concerns tells the policies for which its labels matter.
func (t *Tenancy) rules(ctx context.Context, namespace string, concerns func(tenant.Policy) bool,
	of func([]tenant.Policy, map[string]string) tenant.Rules,
) (tenant.Rules, error) {
	if t == nil {
		return tenant.Rules{}, nil
	}
	policies, err := t.policies(ctx)
	if err != nil || !slices.ContainsFunc(policies, concerns) {
		return tenant.Rules{}, err
	}
	labels, err := t.labels(ctx, namespace)
	if err != nil {
		return tenant.Rules{}, err
	}
	return of(policies, labels), nil
}

// policies returns all policies, each compiled once a generation.
func (t *Tenancy) policies(ctx context.Context) ([]tenant.Policy, error) {
	var list fleetmanagementv1alpha1.TenantPolicyList
	if err := t.Client.List(ctx, &list, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return nil, unread("listing the TenantPolicies", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]tenant.Policy, 0, len(list.Items))
	kept := make(map[types.UID]compiledPolicy, len(list.Items))
	for i := range list.Items {
		p := &list.Items[i]
		known, is := t.compiled[p.UID]
		if !is || known.generation != p.Generation {
			known = compiledPolicy{generation: p.Generation}
			known.policy, known.err = tenant.Compile(p)
		}
		kept[p.UID] = known
		all = append(all, known.policy)
	}
	t.compiled = kept
	return all, nil
}

// labels returns the labels of a namespace. They are the cache's own: nothing of them may be changed.
func (t *Tenancy) labels(ctx context.Context, name string) (map[string]string, error) {
	namespace := namespaceMetadata()
	err := t.Client.Get(ctx, client.ObjectKey{Name: name}, namespace, &client.GetOptions{
		UnsafeDisableDeepCopy: ptr.To(true), DisableReadYourWritesConsistency: true,
	})
	if err != nil {
		return nil, unread("reading the labels of the namespace "+name, err)
	}
	return namespace.Labels, nil
}

// checkMatchers returns a fault if the rules of a namespace do not allow matchers.
func (t *Tenancy) checkMatchers(ctx context.Context, namespace string, matchers []string) error {
	rules, err := t.Rules(ctx, namespace)
	if err != nil {
		return err
	}
	return forbidden(rules.CheckMatchers(matchers))
}

// checkTakeover returns a fault if the rules of a namespace would not allow what a pipeline of Fleet Management is, so that nothing
// there may take it over, whatever it would make of it.
func (t *Tenancy) checkTakeover(ctx context.Context, namespace string, live fleetclient.Pipeline) error {
	rules, err := t.Rules(ctx, namespace)
	if err != nil {
		return err
	}
	if err := rules.CheckMatchers(live.Matchers); err != nil {
		return forbidden(fmt.Errorf("the pipeline %q of Fleet Management is not taken over: choose another spec.name: %w", live.Name, err))
	}
	return nil
}

// forbidden makes a fault of what TenantPolicies say; nil of nothing.
func forbidden(err error) error {
	if err == nil {
		return nil
	}
	return &fault.Fault{Kind: fault.Terminal, Reason: fleetmanagementv1alpha1.ReasonTenantForbidden, Err: err}
}

func unread(what string, err error) error {
	return &fault.Fault{Kind: fault.Retry, Reason: fleetmanagementv1alpha1.ReasonListFailed, Unclear: true, Err: fmt.Errorf("%s: %w", what, err)}
}

// namespaceMetadata is what a Namespace is read into: nothing but its metadata is watched.
func namespaceMetadata() *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}
