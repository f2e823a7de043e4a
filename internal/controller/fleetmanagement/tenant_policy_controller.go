// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/tenant"
	"github.com/candor-dev/candor/internal/lifecycle"
)

// +kubebuilder:rbac:groups=fleetmanagement.grafana.com,resources=tenantpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=fleetmanagement.grafana.com,resources=tenantpolicies/status,verbs=update
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// TenantPolicyConfig is what a TenantPolicySyncer is made of.
type TenantPolicyConfig struct {
	// Client reads from a cache.
	Client  client.Reader
	Clock   clock.PassiveClock
	Metrics *Metrics
	// Enforced says that policies have an effect.
	Enforced bool
}

// TenantPolicySyncer says whether TenantPolicies can be read, and whom they bind. It enforces nothing, and never calls Fleet
// Management.
type TenantPolicySyncer struct{ TenantPolicyConfig }

// NewTenantPolicySyncer returns a TenantPolicySyncer.
func NewTenantPolicySyncer(config TenantPolicyConfig) *TenantPolicySyncer {
	return &TenantPolicySyncer{config}
}

// Settled implements lifecycle.Settler: where a policy binds changes with the namespaces.
func (s *TenantPolicySyncer) Settled(*fleetmanagementv1alpha1.TenantPolicy) (time.Duration, bool) {
	return 0, false
}

// Sync implements lifecycle.Syncer.
func (s *TenantPolicySyncer) Sync(ctx context.Context, p *fleetmanagementv1alpha1.TenantPolicy) (lifecycle.Outcome, error) {
	namespaces, err := listNamespaces(ctx, s.Client)
	if err != nil {
		return lifecycle.Outcome{}, unread("listing the namespaces", err)
	}
	policy, err := tenant.Compile(p)
	matched := 0
	for i := range namespaces {
		if policy.BindsIn(namespaces[i].Labels) {
			matched++
		}
	}
	p.Status.BoundSubjectCount = int32(len(p.Spec.Subjects)) //nolint:gosec // the spec holds 1,000 at most
	p.Status.MatchedNamespaces = int32(matched)              //nolint:gosec // the objects of a cluster do not reach 2^31
	if err != nil {
		return lifecycle.Outcome{}, &fault.Fault{
			Kind: fault.Terminal, Reason: fleetmanagementv1alpha1.ReasonParseError,
			Err: fmt.Errorf("the policy cannot be read, and allows nothing to those it binds: %w", err),
		}
	}
	reason := fleetmanagementv1alpha1.ReasonValid
	if !s.Enforced {
		reason = fleetmanagementv1alpha1.ReasonNotEnforced
	}
	return lifecycle.Outcome{Reason: reason, Message: s.message(p, matched)}, nil
}

func (s *TenantPolicySyncer) message(p *fleetmanagementv1alpha1.TenantPolicy, matched int) string {
	message := fmt.Sprintf("Binds %s in %s", count(len(p.Spec.Subjects), "subject"), count(matched, "namespace"))
	if matched == 0 {
		message += " (check spec.namespaceSelector, and the labels of namespaces: it selects none)"
	}
	switch {
	case !s.Enforced:
		return message + " once --enable-tenant-policy-enforcement is set: until then it has no effect."
	case p.Spec.NamespaceSelector == nil:
		return message + ". Without a spec.namespaceSelector it says nothing of what is stored already."
	default:
		return message + ", and all that is stored there."
	}
}
