// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"

	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

const tenantForbidden = "False/TenantForbidden"

// tenantWorld is a world that enforces TenantPolicies. Its namespace has the label team, whose value is its own name.
type tenantWorld struct{ *collectorWorld }

func newTenantWorld(ctx context.Context) *tenantWorld {
	GinkgoHelper()
	w := newCollectorWorld(ctx)
	w.enableOnly("pipeline", "collector", "policy", "tenant-policy")
	return bind(ctx, w.world)
}

// bind makes a world, whose manager does not run yet, one that enforces TenantPolicies.
func bind(ctx context.Context, w *world) *tenantWorld {
	GinkgoHelper()
	w.options.Fleet.EnforceTenantPolicies = true
	relabel(ctx, w.namespace, w.namespace)
	return &tenantWorld{&collectorWorld{w}}
}

// relabel gives a namespace the label team, which makes it that of no team while it is empty.
func relabel(ctx context.Context, namespace, team string) {
	GinkgoHelper()
	patch(ctx, namespaceCalled(namespace), fmt.Sprintf(`{"metadata": {"labels": {"team": %q}}}`, team))
}

func namespaceCalled(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// elsewhere makes another namespace, of no team, and returns its name.
func (w *tenantWorld) elsewhere(ctx context.Context) string {
	GinkgoHelper()
	name := w.namespace + "-free"
	cluster.CreateNamespace(ctx, name)
	DeferCleanup(func(ctx SpecContext) {
		w.stop() // first, since what it looks after goes
		cluster.DeleteAll(ctx, name, kinds()...)
	})
	return name
}

type tenantChange = func(*fleetmanagementv1alpha1.TenantPolicySpec)

// tenant makes a policy that requires the matcher team="a" in the namespace of the world.
func (w *tenantWorld) tenant(name string, change ...tenantChange) *fleetmanagementv1alpha1.TenantPolicy {
	p := &fleetmanagementv1alpha1.TenantPolicy{ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-" + name}}
	p.Spec = fleetmanagementv1alpha1.TenantPolicySpec{
		Subjects:          []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "team-a"}},
		RequiredMatchers:  []string{`team="a"`},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": w.namespace}},
	}
	for _, c := range change {
		c(&p.Spec)
	}
	return p
}

func allows(key, value string) tenantChange {
	return func(s *fleetmanagementv1alpha1.TenantPolicySpec) {
		s.AllowedAttributes = append(s.AllowedAttributes, fleetmanagementv1alpha1.AllowedAttribute{Key: key, Value: value})
	}
}

func allowsCollectors(matchers ...string) tenantChange {
	return func(s *fleetmanagementv1alpha1.TenantPolicySpec) { s.AllowedCollectors = matchers }
}

func requires(matchers ...string) tenantChange {
	return func(s *fleetmanagementv1alpha1.TenantPolicySpec) { s.RequiredMatchers = matchers }
}

func selects(selector *metav1.LabelSelector) tenantChange {
	return func(s *fleetmanagementv1alpha1.TenantPolicySpec) { s.NamespaceSelector = selector }
}

func matching(matchers ...string) pipelineChange {
	return func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.Matchers = matchers }
}

func in(namespace string) pipelineChange {
	return func(p *fleetmanagementv1alpha1.Pipeline) { p.Namespace = namespace }
}

// sent has a pipeline in Fleet Management go to collectors that meet these matchers.
func sent(matchers ...string) func(*pipelinev1.Pipeline) {
	return func(p *pipelinev1.Pipeline) { p.Matchers = matchers }
}

// readyOf reads Ready of a Pipeline of any namespace.
func readyOf(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) string {
	GinkgoHelper()
	Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
	return verdictOf(p.Status.Conditions, fleetmanagementv1alpha1.ConditionReady)
}

// pipelineReady returns a function that reads Ready of a Pipeline.
func (w *tenantWorld) pipelineReady(ctx context.Context, name string) func() string {
	return w.world.ready(ctx, name)
}

// tenantSays returns a function that reads Valid and Ready of a policy, its subjects and its namespaces.
func (w *tenantWorld) tenantSays(ctx context.Context, name string) func() string {
	return func() string {
		var p fleetmanagementv1alpha1.TenantPolicy
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(w.tenant(name)), &p); err != nil {
			return err.Error()
		}
		conditions := p.Status.Conditions
		return fmt.Sprintf("%s %s %d subjects %d namespaces", verdictOf(conditions, fleetmanagementv1alpha1.ConditionValid),
			verdictOf(conditions, fleetmanagementv1alpha1.ConditionReady), p.Status.BoundSubjectCount, p.Status.MatchedNamespaces)
	}
}

// tenantMessage reads the message of Ready of a policy.
func (w *tenantWorld) tenantMessage(ctx context.Context, name string) string {
	GinkgoHelper()
	var p fleetmanagementv1alpha1.TenantPolicy
	Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(w.tenant(name)), &p)).To(Succeed())
	return messageOf(p.Status.Conditions, fleetmanagementv1alpha1.ConditionReady)
}

// collectorMessage reads the message of a condition of a Collector.
func (w *tenantWorld) collectorMessage(ctx context.Context, name, condition string) string {
	GinkgoHelper()
	return messageOf(w.read(ctx, name).Status.Conditions, condition)
}

// fetched creates an ExternalAttributeSync that claimed attributes for a collector before. Its controller does not run.
func (w *tenantWorld) fetched(ctx context.Context, name string, matchers []string, id string, gives map[string]string) {
	GinkgoHelper()
	s := &fleetmanagementv1alpha1.ExternalAttributeSync{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	s.Spec.Source = fleetmanagementv1alpha1.ExternalSource{
		Kind: fleetmanagementv1alpha1.SourceHTTP, HTTP: &fleetmanagementv1alpha1.HTTPSource{URL: "https://inventory.example.com"},
	}
	s.Spec.Schedule, s.Spec.Selector.Matchers = "1h", matchers
	s.Spec.Mapping = fleetmanagementv1alpha1.AttributeMapping{CollectorIDField: "id", AttributeFields: map[string]string{"site": "site"}}
	w.create(ctx, s)
	s.Status.OwnedKeys = []fleetmanagementv1alpha1.OwnedKeys{{CollectorID: id, Attributes: gives}}
	Expect(cluster.Client.Status().Update(ctx, s)).To(Succeed())
}
