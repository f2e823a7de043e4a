// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/test/suite"
)

var _ = Describe("Tenancy at admission", func() {
	ann := rbacv1.Subject{Kind: rbacv1.UserKind, Name: "ann"}
	// enforcing serves the webhooks of a manager with these rows.
	enforcing := func(ctx context.Context, rows ...string) *world {
		GinkgoHelper()
		w := newWorld(ctx)
		w.enableOnly(rows...)
		w.options.Fleet.EnforceTenantPolicies = true
		w.served(ctx, w.options.Fleet.WebhookRemoteValidate)
		return w
	}

	It("AT-23: refuses what a tenant must not do, in each kind, and lets others do it", func(ctx SpecContext) {
		w := enforcing(ctx)
		tenant, other := person(ctx, "ann"), person(ctx, "bob")
		policy := aTenantPolicy("team-a", ann, `team="a"`)
		policy.Spec.NamespaceSelector = &metav1.LabelSelector{} // so that what is not known yet is judged again
		policy.Spec.AllowedAttributes = []fleetmanagementv1alpha1.AllowedAttribute{{Key: "region", Value: "eu|us"}}
		policy.Spec.AllowedCollectors = []string{`collector.ID=~"a-.*"`}
		cluster.Create(ctx, policy)
		Eventually(try(ctx, tenant, aPipelineOf(w.namespace))).Should(MatchError(ContainSubstring("Forbidden")), "the policy arrives")
		Eventually(try(ctx, other, aPipelineOf(w.namespace))).Should(Succeed(), "the right arrives")

		type attributes = map[string]string
		region, foreign, mine, n := attributes{"region": "eu"}, attributes{"team": "b"}, []string{`team = a`}, w.namespace
		for _, each := range []struct {
			o    client.Object
			says string
		}{
			{aPipelineOf(n, "team=b"), `spec.matchers: Forbidden: TenantPolicy team-a: one of the matchers has to be team="a"`},
			{aCollector(n, "a-1", foreign), "spec.remoteAttributes[team]: Forbidden: TenantPolicy team-a"},
			{aCollector(n, "a-1", attributes{"region": "eu-north"}), "spec.remoteAttributes[region]: Forbidden: TenantPolicy team-a"},
			{aCollector(n, "b-1", region), "spec.id: Forbidden: TenantPolicy team-a"},
			{anAttributePolicy(n, foreign, mine, nil), "spec.attributes[team]: Forbidden: TenantPolicy team-a"},
			{anAttributePolicy(n, region, []string{"team=~a"}, nil), "spec.selector.matchers: Forbidden: TenantPolicy team-a"},
			{anAttributePolicy(n, region, mine, []string{"b-1"}), "spec.selector.collectorIDs: Forbidden: TenantPolicy team-a"},
			{anExternalSync(n, "team", mine, nil), "spec.mapping.attributeFields[team]: Forbidden: TenantPolicy team-a"},
			{anExternalSync(n, "region", nil, []string{"b-1"}), "spec.selector.collectorIDs: Forbidden: TenantPolicy team-a"},
			{aCollectorDiscovery(n, "", nil, nil), "spec.selector.matchers: Forbidden: TenantPolicy team-a"},
			{aCollectorDiscovery(n, "", mine, []string{"b-1"}), "spec.selector.collectorIDs: Forbidden: TenantPolicy team-a"},
			{aPipelineDiscovery(n, ""), "spec: Forbidden: TenantPolicy team-a"},
		} {
			err := try(ctx, tenant, each.o)()
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%T: %v", each.o, err)
			Expect(err).To(MatchError(ContainSubstring(each.says)))
			Expect(try(ctx, other, each.o)()).To(Succeed(), "%T", each.o)
		}
		for _, o := range []client.Object{
			aPipelineOf(n, "os=linux", "team=a"), aCollector(n, "a-1", region), anAttributePolicy(n, region, mine, nil),
			anExternalSync(n, "region", mine, nil), aCollectorDiscovery(n, "", mine, nil),
		} {
			Expect(try(ctx, tenant, o)()).To(Succeed(), "%T", o)
		}
	})

	It("AT-10: lets what is older than a policy change its metadata and go", func(ctx SpecContext) {
		w := enforcing(ctx)
		tenant := person(ctx, "ann")
		older := []client.Object{
			aPipelineOf(w.namespace, "team=b"), aCollector(w.namespace, "b-1", nil), anAttributePolicy(w.namespace, map[string]string{"team": "b"}, []string{"team=b"}, nil),
			anExternalSync(w.namespace, "team", nil, []string{"b-1"}), aCollectorDiscovery(w.namespace, "", nil, nil), aPipelineDiscovery(w.namespace, ""),
		}
		cluster.Create(ctx, older...)
		policy := aTenantPolicy("team-a", ann, `team="a"`)
		policy.Spec.AllowedCollectors = []string{"collector.ID=a"}
		cluster.Create(ctx, policy)
		Eventually(try(ctx, tenant, aPipelineDiscovery(w.namespace, ""))).Should(MatchError(ContainSubstring("Forbidden")), "the policy arrives")
		for _, o := range older {
			Expect(tenant.Patch(ctx, o, merge(`{"metadata": {"annotations": {"touched": "yes"}, "finalizers": ["example.com/held"]}}`))).To(Succeed(), "%T", o)
		}
		Expect(tenant.Patch(ctx, older[0], merge(`{"spec": {"contents": "logging { }\n"}}`))).To(MatchError(ContainSubstring("spec.matchers: Forbidden")))
		Expect(tenant.Patch(ctx, older[5], merge(`{"spec": {"pollInterval": "1h"}}`))).To(MatchError(ContainSubstring("spec: Forbidden")))
		for _, o := range older {
			Expect(tenant.Delete(ctx, o)).To(Succeed(), "%T", o)
			Expect(tenant.Patch(ctx, o, merge(`{"metadata": {"finalizers": null}}`))).To(Succeed(), "%T", o)
			Expect(apierrors.IsNotFound(cluster.Client.Get(ctx, client.ObjectKeyFromObject(o), o))).To(BeTrue(), "%T", o)
		}
	})

	It("never stops this operator, which is no tenant and yet keeps the rules", func(ctx SpecContext) {
		w := newCollectorWorld(ctx)
		w.enableOnly("pipeline", "collector", "policy", "tenant-policy", "collector-discovery", "pipeline-discovery")
		w.options.Fleet.EnforceTenantPolicies = true
		w.registers("edge-1", nil, nil)
		w.served(ctx, w.options.Fleet.WebhookRemoteValidate)
		machines := rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "system:serviceaccounts"}
		cluster.Create(ctx, aTenantPolicy("machines", machines, `team="a"`))
		another := impersonating("system:serviceaccount:default:another", "system:serviceaccounts", "system:masters")
		Eventually(try(ctx, another, aPipelineOf(w.namespace))).Should(MatchError(ContainSubstring("Forbidden: TenantPolicy machines")))

		cluster.Create(ctx, aCollectorDiscovery(w.namespace, "", nil, nil), aPipelineOf(w.namespace, "team=b"))
		var made fleetmanagementv1alpha1.CollectorList
		settle(w, func() int {
			Expect(cluster.Client.List(ctx, &made, client.InNamespace(w.namespace))).To(Succeed())
			return len(made.Items)
		}).Should(Equal(1), "a discovery creates")
		pipeline := aPipelineOf(w.namespace)
		settle(w, func() []string {
			Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(pipeline), pipeline)).To(Succeed())
			return pipeline.Finalizers
		}).Should(ConsistOf(fleetmanagementv1alpha1.PipelineFinalizer), "a finalizer is set")
		Expect(cluster.Client.Delete(ctx, pipeline)).To(Succeed())
		settle(w, func() bool {
			return apierrors.IsNotFound(cluster.Client.Get(ctx, client.ObjectKeyFromObject(pipeline), pipeline))
		}).Should(BeTrue(), "and is removed")

		config, err := cluster.ManagerConfig(ctx)
		Expect(err).NotTo(HaveOccurred())
		operator, err := client.New(config, client.Options{Scheme: cluster.Client.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		Expect(try(ctx, operator, aPipelineOf(w.namespace))()).To(Succeed())
		Expect(try(ctx, operator, w.broken())()).To(MatchError(ContainSubstring("spec.contents: Invalid value")))
	})

	It("refuses everybody while the policies cannot be listed", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.enableOnly()
		w.options.Fleet.EnforceTenantPolicies = true
		w.meddle = failing("tenantpolicies")
		w.served(ctx, w.options.Fleet.WebhookRemoteValidate)
		err := try(ctx, cluster.Client, aPipelineOf(w.namespace))()
		Expect(apierrors.IsInternalError(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("refused, since it cannot be told what TenantPolicies allow in the namespace " + w.namespace)))
	})

	It("takes the policy of a person who writes it wrong for one that allows nothing", func(ctx SpecContext) {
		cluster.Create(ctx, aTenantPolicy("broken", ann, "a==b"))
		DeferCleanup(func(ctx SpecContext) {
			Expect(cluster.Client.DeleteAllOf(ctx, &fleetmanagementv1alpha1.TenantPolicy{})).To(Succeed())
		})
		w := enforcing(ctx)
		tenant := person(ctx, "ann")
		Eventually(try(ctx, tenant, aPipelineOf(w.namespace, "a=b"))).Should(MatchError(And(
			ContainSubstring("spec: Forbidden: TenantPolicy broken cannot be read: spec.requiredMatchers[0]"), ContainSubstring("have it mended"))))
		Expect(try(ctx, cluster.Client, aPipelineOf(w.namespace, "a=b"))()).To(Succeed(), "it names ann alone")
	})

	It("answers quickly over 500 policies", func(ctx SpecContext) {
		w := enforcing(ctx)
		tenant := person(ctx, "ann")
		for i := range 500 {
			policy := aTenantPolicy(fmt.Sprintf("team-%03d", i), rbacv1.Subject{Kind: rbacv1.UserKind, Name: "ann"}, fmt.Sprintf(`team="%d"`, i), "a=b")
			cluster.Create(ctx, policy)
		}
		Eventually(try(ctx, tenant, aPipelineOf(w.namespace, `team="499"`))).Should(Succeed(), "the last one arrives")
		measure := func(c client.Client) (took []time.Duration) {
			for range 200 {
				began := time.Now()
				Expect(try(ctx, c, aPipelineOf(w.namespace, `team="499"`))()).To(Succeed())
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			return took
		}
		took := measure(tenant)
		AddReportEntry("one write under 500 TenantPolicies, the API server's own work included",
			fmt.Sprintf("median %s, 99%% within %s", took[100], took[197]), ReportEntryVisibilityAlways)
		Expect(took[100]).To(BeNumerically("<", 250*time.Millisecond))
	})
})

// failing answers for the API server that it failed, where a path holds a part.
func failing(part string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return suite.RoundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, part) {
				return &http.Response{
					StatusCode: http.StatusInternalServerError, Status: "500 Internal Server Error", Header: http.Header{}, Body: http.NoBody, Request: r,
				}, nil
			}
			return next.RoundTrip(r)
		})
	}
}
