// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/tenant"
)

// tenancyBench is a Tenancy over a namespace of team a, one of team b and one of nobody.
type tenancyBench struct {
	*Tenancy
	client client.Client
	// fails is what lists answer; nil for what there is.
	fails error
}

func newTenancyBench(t *testing.T, policies ...*fleetmanagementv1alpha1.TenantPolicy) *tenancyBench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(fleetmanagementv1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{namespaceOf("of-a", "a"), namespaceOf("of-b", "b"), namespaceOf("of-nobody", "")}
	for _, p := range policies {
		objects = append(objects, p)
	}
	b := &tenancyBench{}
	b.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if b.fails != nil {
				return b.fails
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
	b.Tenancy = &Tenancy{Client: b.client}
	return b
}

func namespaceOf(name, team string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if team != "" {
		n.Labels = map[string]string{"team": team}
	}
	return n
}

// tenantPolicy names jane, requires the matcher team=t, and selects the namespaces of team t; a team "" selects none.
func tenantPolicy(name, team string) *fleetmanagementv1alpha1.TenantPolicy {
	p := &fleetmanagementv1alpha1.TenantPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1}}
	p.Spec.Subjects = []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "jane"}}
	p.Spec.RequiredMatchers = []string{`team="` + team + `"`}
	if team != "" {
		p.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
	}
	return p
}

func TestWithoutEnforcementEverythingIsAllowed(t *testing.T) {
	g := NewWithT(t)
	var none *Tenancy
	rules, err := none.Rules(t.Context(), "of-a")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(rules.Bound()).To(BeFalse())
	rules, err = none.RulesFor(t.Context(), tenant.User{Name: "jane"}, "of-a")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(rules.Bound()).To(BeFalse())
	g.Expect(none.checkMatchers(t.Context(), "of-a", nil)).To(Succeed())
}

func TestTheRulesOfANamespaceAreThoseOfItsLabels(t *testing.T) {
	b := newTenancyBench(t, tenantPolicy("a", "a"), tenantPolicy("everywhere", ""))
	for namespace, want := range map[string]string{
		"of-a": `TenantPolicy a: one of the matchers has to be team="a"`, "of-b": "", "of-nobody": "",
	} {
		t.Run(namespace, func(t *testing.T) {
			g := NewWithT(t)
			err := b.checkMatchers(t.Context(), namespace, []string{"x=y"})
			if want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(want))
			f := fault.Of(err, "")
			g.Expect(f.Kind).To(Equal(fault.Terminal))
			g.Expect(f.Reason).To(Equal("TenantForbidden"))
		})
	}
	g := NewWithT(t)
	rules, err := b.RulesFor(t.Context(), tenant.User{Name: "jane"}, "of-b")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(rules.CheckMatchers(nil)).To(MatchError(ContainSubstring("TenantPolicy everywhere: ")), "a policy without a selector binds whom it names")
}

func TestWhomNoPolicyNamesIsFreeInANamespaceThatIsNotThere(t *testing.T) {
	g := NewWithT(t)
	b := newTenancyBench(t, tenantPolicy("a", "a"))
	rules, err := b.RulesFor(t.Context(), tenant.User{Name: "joe"}, "of-c")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(rules.Bound()).To(BeFalse())
	_, err = b.RulesFor(t.Context(), tenant.User{Name: "jane"}, "of-c")
	g.Expect(err).To(MatchError(ContainSubstring("reading the labels of the namespace of-c")), "whom one names may be bound there")
}

func TestAPolicyIsCompiledOnceAGeneration(t *testing.T) {
	g := NewWithT(t)
	p := tenantPolicy("a", "a")
	b := newTenancyBench(t, p, tenantPolicy("b", "b"))
	g.Expect(b.checkMatchers(t.Context(), "of-a", []string{"team=a"})).To(Succeed())

	p.Spec.RequiredMatchers = []string{"team=other"}
	g.Expect(b.client.Update(t.Context(), p)).To(Succeed())
	g.Expect(b.checkMatchers(t.Context(), "of-a", []string{"team=a"})).To(Succeed(), "the same generation is what it was")
	p.Generation++
	g.Expect(b.client.Update(t.Context(), p)).To(Succeed())
	g.Expect(b.checkMatchers(t.Context(), "of-a", []string{"team=a"})).NotTo(Succeed())

	g.Expect(b.client.Delete(t.Context(), p)).To(Succeed())
	g.Expect(b.checkMatchers(t.Context(), "of-a", nil)).To(Succeed())
	g.Expect(b.compiled).To(HaveLen(1), "what is gone is forgotten")
}

func TestWhatCannotBeReadAllowsNothing(t *testing.T) {
	for name, test := range map[string]struct {
		namespace string
		fails     error
		want      string
	}{
		"the policies":  {"of-b", errors.New("no cache"), "listing the TenantPolicies: no cache"},
		"the namespace": {"of-c", nil, "reading the labels of the namespace of-c"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newTenancyBench(t, tenantPolicy("a", "a"))
			b.fails = test.fails
			err := b.checkMatchers(t.Context(), test.namespace, []string{"team=a"})
			g.Expect(err).To(MatchError(ContainSubstring(test.want)))
			f := fault.Of(err, "")
			g.Expect(f.Kind).To(Equal(fault.Retry))
			g.Expect(f.Unclear).To(BeTrue(), "nothing is known to be wrong with the object")
		})
	}
}

func TestAChangeOfTenancyWakesExactlyWhatItConcerns(t *testing.T) {
	a, b := tenantPolicy("p", "a"), tenantPolicy("p", "b")
	everywhere, users := tenantPolicy("p", "a"), tenantPolicy("p", "")
	everywhere.Spec.NamespaceSelector = &metav1.LabelSelector{}
	unreadable := tenantPolicy("p", "a")
	unreadable.Spec.RequiredMatchers = []string{"team=="}
	for name, test := range map[string]struct {
		// before is nil for a policy that comes, and after for one that goes.
		before, after *fleetmanagementv1alpha1.TenantPolicy
		want          []string
	}{
		"a policy comes":                         {nil, a, []string{"of-a"}},
		"a policy goes":                          {b, nil, []string{"of-b"}},
		"a policy changes":                       {a, a, []string{"of-a"}},
		"a policy binds elsewhere":               {a, b, []string{"of-a", "of-b"}},
		"a policy binds everywhere":              {a, everywhere, []string{"of-a", "of-b", "of-nobody"}},
		"a policy without a selector comes":      {nil, users, nil},
		"a policy loses its selector":            {a, users, []string{"of-a"}},
		"a policy cannot be read":                {nil, unreadable, []string{"of-a"}},
		"a policy without a selector is changed": {users, users, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bench, q := newTenancyBench(t), newQueue(t)
			h := bench.policyChanged(everything)
			switch {
			case test.before == nil:
				h.Create(t.Context(), event.CreateEvent{Object: test.after}, q)
			case test.after == nil:
				h.Delete(t.Context(), event.DeleteEvent{Object: test.before}, q)
			default:
				h.Update(t.Context(), event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}, q)
			}
			NewWithT(t).Expect(queued(q)).To(Equal(test.want))
		})
	}
	for name, test := range map[string]struct {
		before, after string
		want          []string
	}{
		"a namespace is given to a team that is bound": {"", "a", []string{"n"}},
		"a namespace is taken from it":                 {"a", "", []string{"n"}},
		"a namespace goes from one to the other":       {"a", "b", []string{"n"}},
		"a namespace is given to a team that is free":  {"", "c", nil},
		"another label changes nothing":                {"a", "a", nil},
	} {
		t.Run(name, func(t *testing.T) {
			bench, q := newTenancyBench(t, tenantPolicy("a", "a"), tenantPolicy("b", "b"), tenantPolicy("c", "")), newQueue(t)
			before, after := namespaceOf("n", test.before), namespaceOf("n", test.after)
			metav1.SetMetaDataLabel(&after.ObjectMeta, "other", "label")
			h := bench.namespaceChanged(everything)
			h.Create(t.Context(), event.CreateEvent{Object: before}, q)
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
			NewWithT(t).Expect(queued(q)).To(Equal(test.want))
		})
	}
}

// everything stands for what is stored in a namespace.
func everything(_ context.Context, namespace string) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "x"}}}
}

func newQueue(t *testing.T) requests {
	t.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Second))
	t.Cleanup(q.ShutDown)
	return q
}

// queued returns the namespaces of what waits, sorted.
func queued(q requests) []string {
	var all []string
	for q.Len() > 0 {
		request, _ := q.Get()
		all = append(all, request.Namespace)
	}
	slices.Sort(all)
	return all
}

func TestOfANamespaceOnlyWhatPoliciesSelectByIsKept(t *testing.T) {
	g := NewWithT(t)
	n := namespaceMetadata()
	n.ObjectMeta = metav1.ObjectMeta{
		Name: "n", UID: "1", ResourceVersion: "2", Labels: map[string]string{"team": "a"}, Annotations: map[string]string{"long": "text"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}, Finalizers: []string{"x"},
	}
	kept, err := CompactNamespace(n)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(kept.(*metav1.PartialObjectMetadata).ObjectMeta).To(Equal(metav1.ObjectMeta{
		Name: "n", UID: "1", ResourceVersion: "2", Labels: map[string]string{"team": "a"},
	}))
}
