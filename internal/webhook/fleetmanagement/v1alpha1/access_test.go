// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

// reviewer answers every SubjectAccessReview alike, and keeps them.
type reviewer struct {
	allowed, denied bool
	err             error
	asked           []authorizationv1.SubjectAccessReviewSpec
}

func (r *reviewer) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	review := o.(*authorizationv1.SubjectAccessReview)
	r.asked = append(r.asked, review.Spec)
	review.Status.Allowed, review.Status.Denied = r.allowed, r.denied
	return r.err
}

func TestADiscoveryIntoAnotherNamespaceTakesTheRightToDoItOneself(t *testing.T) {
	const refused = "spec.targetNamespace: Forbidden: ann may not create collectors in the namespace team-b, which the discovery would do"
	older := discovering("team-b", nil, nil)
	labelled := discovering("team-b", nil, nil)
	labelled.Labels = map[string]string{"a": "b"}
	for name, test := range map[string]struct {
		reviewer reviewer
		old, now *fleetmanagementv1alpha1.CollectorDiscovery
		asks     int
		want     string
	}{
		"who may create there may":               {reviewer: reviewer{allowed: true}, now: older, asks: 1},
		"who may not must not":                   {now: older, asks: 1, want: refused},
		"who is denied must not, allowed or not": {reviewer: reviewer{allowed: true, denied: true}, now: older, asks: 1, want: refused},
		"no answer is no permission": {
			reviewer: reviewer{allowed: true, err: errors.New("no authorizer")}, now: older, asks: 1,
			want: "Internal error occurred: refused, since it cannot be told whether ann may create collectors in the namespace team-b; try again: no authorizer",
		},
		"its own namespace is nobody's question":         {now: discovering("", nil, nil)},
		"its own namespace by name is nobody's question": {now: discovering("team-a", nil, nil)},
		"a label is nobody's question":                   {old: older, now: labelled},
		"a changed spec is asked about again":            {old: older, now: discovering("team-b", []string{"a=b"}, nil), asks: 1, want: refused},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := ask(by(t, "ann", "team"), collectorDiscoveryValidator(Options{Access: &test.reviewer}), test.old, test.now)
			g.Expect(test.reviewer.asked).To(HaveLen(test.asks))
			if test.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(test.want)))
		})
	}
	t.Run("the question names all that the API server knows of who asks", func(t *testing.T) {
		g := NewWithT(t)
		r := &reviewer{allowed: true}
		g.Expect(ask(by(t, "ann", "team"), pipelineDiscoveryValidator(Options{Access: r}), nil, mirroring("team-b"))).To(Succeed())
		g.Expect(r.asked).To(Equal([]authorizationv1.SubjectAccessReviewSpec{{
			User: "ann", Groups: []string{"team"}, UID: "1", Extra: map[string]authorizationv1.ExtraValue{"scope": {"x"}},
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: "team-b", Verb: "create", Group: "fleetmanagement.grafana.com", Version: "v1alpha1", Resource: "pipelines",
			},
		}}))
	})
	t.Run("a request that names nobody is refused", func(t *testing.T) {
		g := NewWithT(t)
		err := ask(t.Context(), pipelineDiscoveryValidator(Options{Access: &reviewer{allowed: true}}), nil, mirroring("team-b"))
		g.Expect(apierrors.IsInternalError(err)).To(BeTrue(), "%v", err)
	})
	t.Run("a tenant is refused before rights are asked for", func(t *testing.T) {
		g := NewWithT(t)
		r := &reviewer{allowed: true}
		g.Expect(ask(by(t, "ann"), pipelineDiscoveryValidator(Options{Access: r, Tenancy: tenancy(t)}), nil, mirroring("team-b"))).NotTo(Succeed())
		g.Expect(r.asked).To(BeEmpty())
	})
}

func TestTheWebhookOfEachKindValidates(t *testing.T) {
	g := NewWithT(t)
	g.Expect(ask(t.Context(), pipelineDiscoveryValidator(Options{}), nil, mirroring("Team B"))).To(MatchError(ContainSubstring("spec.targetNamespace: Invalid value")))
	g.Expect(ask(t.Context(), collectorDiscoveryValidator(Options{}), nil, discovering("", []string{"a"}, nil))).To(MatchError(ContainSubstring("spec.selector.matchers[0]")))
	g.Expect(ask(t.Context(), externalAttributeSyncValidator(Options{}), nil, syncing("", selecting(nil, []string{"a"})))).To(MatchError(ContainSubstring("spec.mapping.attributeFields[]")))
	g.Expect(ask(t.Context(), tenantPolicyValidator(Options{}), nil, &fleetmanagementv1alpha1.TenantPolicy{})).To(MatchError(ContainSubstring("spec.subjects: Required value")))
}
