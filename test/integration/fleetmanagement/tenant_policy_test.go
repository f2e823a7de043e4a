// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/candor-dev/candor/test/kube"
	"github.com/candor-dev/candor/test/suite"
)

const validPolicy = "True/Valid True/Valid"

var _ = Describe("A TenantPolicy", func() {
	var w *tenantWorld
	BeforeEach(func(ctx SpecContext) {
		w = newTenantWorld(ctx)
		w.enableOnly("tenant-policy")
	})

	It("says how many subjects it binds in how many namespaces, and follows these", func(ctx SpecContext) {
		var all corev1.NamespaceList
		Expect(cluster.Client.List(ctx, &all)).To(Succeed())
		w.create(ctx, w.tenant("selects"), w.tenant("everywhere", selects(nil)), w.tenant("nowhere", selects(&metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpIn, Values: []string{"no-such-team"}}},
		})))
		w.start(ctx)
		Eventually(w.tenantSays(ctx, "selects")).Should(Equal(validPolicy + " 1 subjects 1 namespaces"))
		Eventually(w.tenantSays(ctx, "everywhere")).Should(Equal(fmt.Sprintf(validPolicy+" 1 subjects %d namespaces", len(all.Items))))
		Eventually(w.tenantSays(ctx, "nowhere")).Should(Equal(validPolicy + " 1 subjects 0 namespaces"))
		Expect(w.tenantMessage(ctx, "selects")).To(Equal("Binds 1 subject in 1 namespace, and all that is stored there."))
		Expect(w.tenantMessage(ctx, "nowhere")).To(HavePrefix("Binds 1 subject in 0 namespaces (check spec.namespaceSelector, and the labels of namespaces: it selects none)"))
		Expect(w.tenantMessage(ctx, "everywhere")).To(HaveSuffix("Without a spec.namespaceSelector it says nothing of what is stored already."))

		free := w.elsewhere(ctx)
		Eventually(w.tenantSays(ctx, "everywhere")).Should(HaveSuffix(fmt.Sprintf(" %d namespaces", len(all.Items)+1)))
		relabel(ctx, free, w.namespace)
		Eventually(w.tenantSays(ctx, "selects")).Should(HaveSuffix(" 2 namespaces"))
		relabel(ctx, free, "")
		Eventually(w.tenantSays(ctx, "selects")).Should(HaveSuffix(" 1 namespaces"))
		Expect(w.fleet.Calls()).To(BeEmpty(), "it never calls Fleet Management")
	})

	It("says that it has no effect while nothing enforces it", func(ctx SpecContext) {
		w.options.Fleet.EnforceTenantPolicies = false
		w.create(ctx, w.tenant("p"))
		w.start(ctx)
		Eventually(w.tenantSays(ctx, "p")).Should(HavePrefix("True/NotEnforced True/NotEnforced"))
		Expect(w.tenantMessage(ctx, "p")).To(HaveSuffix("once --enable-tenant-policy-enforcement is set: until then it has no effect."))
	})

	It("names each mistake in it by its field, and is well again once they are mended", func(ctx SpecContext) {
		p := w.tenant("p", requires("team=="), allows("tier", "("))
		w.create(ctx, p)
		w.start(ctx)
		Eventually(w.tenantSays(ctx, "p")).Should(Equal("False/ParseError False/ParseError 1 subjects 1 namespaces"))
		Expect(w.tenantMessage(ctx, "p")).To(And(ContainSubstring("spec.requiredMatchers[0]"), ContainSubstring("spec.allowedAttributes[0].value")))
		patch(ctx, p, `{"spec": {"requiredMatchers": ["team=a"], "allowedAttributes": null}}`)
		Eventually(w.tenantSays(ctx, "p")).Should(Equal(validPolicy + " 1 subjects 1 namespaces"))
	})

	It("writes its status once, and neither that nor another namespace causes another write", func(ctx SpecContext) {
		w.create(ctx, w.tenant("good"), w.tenant("bad", requires("team==")))
		w.start(ctx)
		Eventually(w.tenantSays(ctx, "good")).Should(HavePrefix(validPolicy))
		Eventually(w.tenantSays(ctx, "bad")).Should(HavePrefix("False/ParseError"))
		w.lookAt("tenant-policy", w.tenant("good"), w.tenant("bad"))
		relabel(ctx, w.elsewhere(ctx), "another")
		w.lookAt("tenant-policy", w.tenant("good"), w.tenant("bad"))
		Expect(w.writes()).To(Equal(kube.Counts{"update tenantpolicies/status": 2}))
	})

	It("has nothing of namespaces read but their metadata", func(ctx SpecContext) {
		accepted := make(chan string, 10)
		w.meddle = func(next http.RoundTripper) http.RoundTripper {
			return suite.RoundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path == "/api/v1/namespaces" {
					accepted <- r.Header.Get("Accept")
				}
				return next.RoundTrip(r)
			})
		}
		w.start(ctx)
		Eventually(accepted).Should(Receive(ContainSubstring("as=PartialObjectMetadata")))
		Consistently(accepted, "1s").ShouldNot(Receive(Not(ContainSubstring("as=PartialObjectMetadata"))))
	})
})
