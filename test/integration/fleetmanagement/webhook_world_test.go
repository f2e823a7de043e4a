// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

// authors is a group that may write the kinds of the fleet where a binding says so.
const authors = "fleet-authors"

// person returns a client of somebody who is an author in these namespaces, in all for none.
func person(ctx context.Context, name string, namespaces ...string) client.Client {
	GinkgoHelper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: authors},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{fleetmanagementv1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"}}},
	}
	Expect(cluster.Client.Create(ctx, role)).To(Or(Succeed(), MatchError(apierrors.IsAlreadyExists, "AlreadyExists")))
	if len(namespaces) == 0 {
		everywhere := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: authors + "-" + name}}
		everywhere.Subjects, everywhere.RoleRef = author(name)
		cluster.Create(ctx, everywhere)
		DeferCleanup(func(ctx SpecContext) { Expect(cluster.Client.Delete(ctx, everywhere)).To(Succeed()) })
	}
	for _, namespace := range namespaces {
		grant(ctx, name, namespace)
	}
	return impersonating(name)
}

// grant makes somebody an author in a namespace.
func grant(ctx context.Context, name, namespace string) {
	GinkgoHelper()
	there := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: authors + "-" + name}}
	there.Subjects, there.RoleRef = author(name)
	cluster.Create(ctx, there)
	DeferCleanup(func(ctx SpecContext) { Expect(cluster.Client.Delete(ctx, there)).To(Succeed()) })
}

func author(name string) ([]rbacv1.Subject, rbacv1.RoleRef) {
	return []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}},
		rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: authors}
}

func impersonating(name string, groups ...string) client.Client {
	GinkgoHelper()
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
	c, err := client.New(config, client.Options{Scheme: cluster.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// try returns a function that creates an object without storing it.
func try(ctx context.Context, c client.Client, o client.Object) func() error {
	return func() error { return c.Create(ctx, o.DeepCopyObject().(client.Object), client.DryRunAll) }
}

func attemptIn(namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: "attempt"}
}

func anAttributePolicy(namespace string, attributes map[string]string, matchers, ids []string) *fleetmanagementv1alpha1.RemoteAttributePolicy {
	p := &fleetmanagementv1alpha1.RemoteAttributePolicy{ObjectMeta: attemptIn(namespace)}
	p.Spec.Attributes, p.Spec.Selector.Matchers, p.Spec.Selector.CollectorIDs = attributes, matchers, ids
	return p
}

func anExternalSync(namespace, attribute string, matchers, ids []string) *fleetmanagementv1alpha1.ExternalAttributeSync {
	s := &fleetmanagementv1alpha1.ExternalAttributeSync{ObjectMeta: attemptIn(namespace)}
	s.Spec.Source = fleetmanagementv1alpha1.ExternalSource{
		Kind: fleetmanagementv1alpha1.SourceHTTP, HTTP: &fleetmanagementv1alpha1.HTTPSource{URL: "https://inventory.example.com"},
	}
	s.Spec.Schedule, s.Spec.Selector.Matchers, s.Spec.Selector.CollectorIDs = "1h", matchers, ids
	s.Spec.Mapping = fleetmanagementv1alpha1.AttributeMapping{CollectorIDField: "id", AttributeFields: map[string]string{attribute: "field"}}
	return s
}

func aCollector(namespace, id string, attributes map[string]string) *fleetmanagementv1alpha1.Collector {
	return &fleetmanagementv1alpha1.Collector{ObjectMeta: attemptIn(namespace), Spec: fleetmanagementv1alpha1.CollectorSpec{ID: id, RemoteAttributes: attributes}}
}

func aPipelineOf(namespace string, matchers ...string) *fleetmanagementv1alpha1.Pipeline {
	return &fleetmanagementv1alpha1.Pipeline{
		ObjectMeta: attemptIn(namespace), Spec: fleetmanagementv1alpha1.PipelineSpec{Contents: "logging { }", Matchers: matchers},
	}
}

func aCollectorDiscovery(namespace, target string, matchers, ids []string) *fleetmanagementv1alpha1.CollectorDiscovery {
	d := &fleetmanagementv1alpha1.CollectorDiscovery{ObjectMeta: attemptIn(namespace)}
	d.Spec.TargetNamespace, d.Spec.Selector.Matchers, d.Spec.Selector.CollectorIDs = target, matchers, ids
	return d
}

func aPipelineDiscovery(namespace, target string) *fleetmanagementv1alpha1.PipelineDiscovery {
	return &fleetmanagementv1alpha1.PipelineDiscovery{
		ObjectMeta: attemptIn(namespace), Spec: fleetmanagementv1alpha1.PipelineDiscoverySpec{TargetNamespace: target},
	}
}

func aTenantPolicy(name string, subject rbacv1.Subject, matchers ...string) *fleetmanagementv1alpha1.TenantPolicy {
	p := &fleetmanagementv1alpha1.TenantPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Subjects, p.Spec.RequiredMatchers = []rbacv1.Subject{subject}, matchers
	return p
}
