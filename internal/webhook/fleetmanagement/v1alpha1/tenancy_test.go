// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/tenant"
)

const operator = "system:serviceaccount:candor:manager"

// policies are TenantPolicies in namespaces without labels.
type policies struct {
	all []tenant.Policy
	err error
	// missing is a namespace that is not found, the first so many times that it is asked for.
	missing string
	times   int
	asked   []string
}

func (p *policies) RulesFor(_ context.Context, user tenant.User, namespace string) (tenant.Rules, error) {
	p.asked = append(p.asked, namespace)
	if namespace == p.missing && p.times > 0 {
		p.times--
		return tenant.Rules{}, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, namespace)
	}
	return tenant.ForUser(p.all, user, nil), p.err
}

// tenancy binds ann and the service accounts to team="a", to the attribute region and to collectors whose ID begins with a.
func tenancy(t *testing.T, changes ...func(*fleetmanagementv1alpha1.TenantPolicySpec)) *policies {
	t.Helper()
	p := &fleetmanagementv1alpha1.TenantPolicy{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	p.Spec = fleetmanagementv1alpha1.TenantPolicySpec{
		Subjects:          []rbacv1.Subject{{Kind: "User", Name: "ann"}, {Kind: "Group", Name: "system:serviceaccounts"}},
		NamespaceSelector: &metav1.LabelSelector{}, // so that what is not known yet is judged again
		RequiredMatchers:  []string{`team="a"`},
		AllowedAttributes: []fleetmanagementv1alpha1.AllowedAttribute{{Key: "region", Value: "eu|us"}},
		AllowedCollectors: []string{`collector.ID=~"a.*"`, `os!=windows`},
	}
	for _, change := range changes {
		change(&p.Spec)
	}
	compiled, _ := tenant.Compile(p)
	return &policies{all: []tenant.Policy{compiled}}
}

// by is a request of somebody.
func by(t *testing.T, name string, groups ...string) context.Context {
	t.Helper()
	return admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UserInfo: authenticationv1.UserInfo{Username: name, Groups: groups, UID: "1", Extra: map[string]authenticationv1.ExtraValue{"scope": {"x"}}},
	}})
}

// ask has a validator judge an object; old is nil for a new one.
func ask[T client.Object](ctx context.Context, v validator[T], old, now T) error {
	if isNew(old) {
		_, err := v.ValidateCreate(ctx, now)
		return err
	}
	_, err := v.ValidateUpdate(ctx, old, now)
	return err
}

func meta() metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "team-a", Name: "x"} }

func selecting(matchers, ids []string) fleetmanagementv1alpha1.PolicySelector {
	return fleetmanagementv1alpha1.PolicySelector{Matchers: matchers, CollectorIDs: ids}
}

func matching(matchers ...string) *fleetmanagementv1alpha1.Pipeline {
	p := pipeline("logging { }")
	p.Spec.Matchers = matchers
	return p
}

func giving(attributes map[string]string, selector fleetmanagementv1alpha1.PolicySelector) *fleetmanagementv1alpha1.RemoteAttributePolicy {
	return &fleetmanagementv1alpha1.RemoteAttributePolicy{
		ObjectMeta: meta(), Spec: fleetmanagementv1alpha1.RemoteAttributePolicySpec{Attributes: attributes, Selector: selector},
	}
}

func syncing(key string, selector fleetmanagementv1alpha1.PolicySelector) *fleetmanagementv1alpha1.ExternalAttributeSync {
	return &fleetmanagementv1alpha1.ExternalAttributeSync{ObjectMeta: meta(), Spec: fleetmanagementv1alpha1.ExternalAttributeSyncSpec{
		Schedule: "1h", Selector: selector,
		Source: fleetmanagementv1alpha1.ExternalSource{
			Kind: fleetmanagementv1alpha1.SourceHTTP, HTTP: &fleetmanagementv1alpha1.HTTPSource{URL: "https://cmdb.example.com"},
		},
		Mapping: fleetmanagementv1alpha1.AttributeMapping{CollectorIDField: "id", AttributeFields: map[string]string{key: "field"}},
	}}
}

func collecting(id string, attributes map[string]string) *fleetmanagementv1alpha1.Collector {
	return &fleetmanagementv1alpha1.Collector{ObjectMeta: meta(), Spec: fleetmanagementv1alpha1.CollectorSpec{ID: id, RemoteAttributes: attributes}}
}

func discovering(target string, matchers, ids []string) *fleetmanagementv1alpha1.CollectorDiscovery {
	return &fleetmanagementv1alpha1.CollectorDiscovery{ObjectMeta: meta(), Spec: fleetmanagementv1alpha1.CollectorDiscoverySpec{
		TargetNamespace: target, Selector: fleetmanagementv1alpha1.CollectorDiscoverySelector{Matchers: matchers, CollectorIDs: ids},
	}}
}

func mirroring(target string) *fleetmanagementv1alpha1.PipelineDiscovery {
	return &fleetmanagementv1alpha1.PipelineDiscovery{ObjectMeta: meta(), Spec: fleetmanagementv1alpha1.PipelineDiscoverySpec{TargetNamespace: target}}
}

// registered is a collector that runs on an operating system.
func registered(c *fleetmanagementv1alpha1.Collector, os string) *fleetmanagementv1alpha1.Collector {
	c.Status.Registered, c.Status.LocalAttributes = true, map[string]string{"os": os}
	return c
}

// judgement is what a validator says of an object of any kind.
func judgement[T client.Object](v func(Options) validator[T], old, now T) func(context.Context, Options) error {
	return func(ctx context.Context, o Options) error { return ask(ctx, v(o), old, now) }
}

func TestAT23WhatATenantWritesIsJudged(t *testing.T) {
	type attributes = map[string]string
	region, team, a := attributes{"region": "eu"}, attributes{"team": "b"}, []string{"team = a"}
	annotated := func(p *fleetmanagementv1alpha1.Pipeline, key, value string) *fleetmanagementv1alpha1.Pipeline {
		p.Annotations = map[string]string{key: value}
		return p
	}
	mode, mirror := fleetmanagementv1alpha1.AnnotationImportMode, fleetmanagementv1alpha1.ImportModeReadOnly
	paused := matching("team=b")
	paused.Spec.Paused = true
	const (
		matchers = `spec.selector.matchers: Forbidden: TenantPolicy a: one of the matchers has to be team="a"`
		ids      = "spec.selector.collectorIDs: Forbidden: TenantPolicy a: collectors must not be named by their IDs"
	)
	var (
		noPipeline  *fleetmanagementv1alpha1.Pipeline
		noCollector *fleetmanagementv1alpha1.Collector
		noPolicy    *fleetmanagementv1alpha1.RemoteAttributePolicy
		noSync      *fleetmanagementv1alpha1.ExternalAttributeSync
		noDiscovery *fleetmanagementv1alpha1.CollectorDiscovery
		noMirrors   *fleetmanagementv1alpha1.PipelineDiscovery
	)
	for name, test := range map[string]struct {
		judge func(context.Context, Options) error
		want  []string
	}{
		"a Pipeline of a matcher that is required":            {judge: judgement(pipelineValidator, noPipeline, matching("os=linux", "team = a"))},
		"a Pipeline of another matcher":                       {judgement(pipelineValidator, noPipeline, matching("team=b")), []string{`spec.matchers: Forbidden: TenantPolicy a: one of the matchers has to be team="a"`}},
		"a Pipeline without matchers":                         {judgement(pipelineValidator, noPipeline, matching()), []string{"spec.matchers: Forbidden"}},
		"a mirror of another matcher":                         {judgement(pipelineValidator, noPipeline, annotated(matching("team=b"), mode, mirror)), []string{"spec.matchers: Forbidden"}},
		"a Pipeline of another's that gets an annotation":     {judge: judgement(pipelineValidator, matching("team=b"), annotated(matching("team=b"), "a", "b"))},
		"a Pipeline of another's that is paused":              {judgement(pipelineValidator, matching("team=b"), paused), []string{"spec.matchers: Forbidden"}},
		"a mirror of another's that is to be managed":         {judgement(pipelineValidator, annotated(matching("team=b"), mode, mirror), matching("team=b")), []string{"spec.matchers: Forbidden"}},
		"a Collector of an attribute that is allowed":         {judge: judgement(collectorValidator, noCollector, collecting("a-1", region))},
		"a Collector of another attribute":                    {judgement(collectorValidator, noCollector, collecting("a-1", team)), []string{"spec.remoteAttributes[team]: Forbidden: TenantPolicy a: only these attributes may be set: region"}},
		"a Collector of another value":                        {judgement(collectorValidator, noCollector, collecting("a-1", attributes{"region": "eu-1"})), []string{"spec.remoteAttributes[region]: Forbidden: TenantPolicy a: its value has to match eu|us"}},
		"a Collector of another ID":                           {judgement(collectorValidator, noCollector, collecting("b-1", region)), []string{"spec.id: Forbidden: TenantPolicy a: the collector has to match"}},
		"a Collector that keeps what another gave it":         {judge: judgement(collectorValidator, collecting("a-1", team), collecting("a-1", attributes{"team": "b", "region": "eu"}))},
		"a Collector whose status says that it may":           {judge: judgement(collectorValidator, registered(collecting("a-1", nil), "linux"), registered(collecting("a-1", region), "linux"))},
		"a Collector whose status says that it must not":      {judgement(collectorValidator, registered(collecting("a-1", nil), "windows"), registered(collecting("a-1", region), "windows")), []string{"spec.id: Forbidden"}},
		"a RemoteAttributePolicy of what is allowed":          {judge: judgement(remoteAttributePolicyValidator, noPolicy, giving(region, selecting(a, nil)))},
		"a RemoteAttributePolicy of another matcher":          {judgement(remoteAttributePolicyValidator, noPolicy, giving(region, selecting([]string{"team=~a"}, nil))), []string{matchers}},
		"a RemoteAttributePolicy of IDs":                      {judgement(remoteAttributePolicyValidator, noPolicy, giving(region, selecting(a, []string{"a-1"}))), []string{ids}},
		"a RemoteAttributePolicy of another attribute":        {judgement(remoteAttributePolicyValidator, noPolicy, giving(team, selecting(a, nil))), []string{"spec.attributes[team]: Forbidden"}},
		"a RemoteAttributePolicy that moves another's values": {judgement(remoteAttributePolicyValidator, giving(team, selecting([]string{"os=linux"}, nil)), giving(team, selecting(a, nil))), []string{"spec.attributes[team]: Forbidden"}},
		"an ExternalAttributeSync of what is allowed":         {judge: judgement(externalAttributeSyncValidator, noSync, syncing("region", selecting(a, nil)))},
		"an ExternalAttributeSync of all that is forbidden":   {judgement(externalAttributeSyncValidator, noSync, syncing("team", selecting(nil, []string{"a-1"}))), []string{matchers, ids, "spec.mapping.attributeFields[team]: Forbidden"}},
		"an ExternalAttributeSync that is as it was":          {judge: judgement(externalAttributeSyncValidator, syncing("team", selecting(nil, []string{"a-1"})), syncing("team", selecting(nil, []string{"a-1"})))},
		"a CollectorDiscovery of what is allowed":             {judge: judgement(collectorDiscoveryValidator, noDiscovery, discovering("", a, nil))},
		"a CollectorDiscovery of IDs":                         {judgement(collectorDiscoveryValidator, noDiscovery, discovering("", a, []string{"a-1"})), []string{ids}},
		"a CollectorDiscovery of the whole stack":             {judgement(collectorDiscoveryValidator, noDiscovery, discovering("", nil, nil)), []string{matchers}},
		"a PipelineDiscovery":                                 {judgement(pipelineDiscoveryValidator, noMirrors, mirroring("")), []string{"spec: Forbidden: TenantPolicy a: whom it binds must not see every pipeline of the stack"}},
		"a PipelineDiscovery that is as it was":               {judge: judgement(pipelineDiscoveryValidator, mirroring(""), mirroring(""))},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := Options{Tenancy: tenancy(t), Self: operator}
			err := test.judge(by(t, "ann"), o)
			if len(test.want) == 0 {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
				for _, want := range test.want {
					g.Expect(err).To(MatchError(ContainSubstring(want)))
				}
			}
			g.Expect(test.judge(by(t, "bob"), o)).To(Succeed(), "whom no policy names is free")
			g.Expect(test.judge(by(t, operator, "system:serviceaccounts"), o)).To(Succeed(), "this operator is no tenant")
			g.Expect(test.judge(t.Context(), Options{})).To(Succeed(), "nothing is enforced")
			if len(test.want) > 0 {
				g.Expect(test.judge(by(t, "system:serviceaccount:candor:other", "system:serviceaccounts"), o)).NotTo(Succeed(), "another service account")
			}
		})
	}
}

func TestWhatCannotBeFoundOutAboutTenantsIsNoPermission(t *testing.T) {
	now := matching("team=a")
	t.Run("policies that cannot be listed", func(t *testing.T) {
		g := NewWithT(t)
		err := ask(by(t, "bob"), pipelineValidator(Options{Tenancy: &policies{err: errors.New("no cache")}}), nil, now)
		g.Expect(apierrors.IsInternalError(err)).To(BeTrue(), "%v", err)
		g.Expect(err).To(MatchError("Internal error occurred: refused, since it cannot be told what TenantPolicies allow in the namespace team-a; try again: no cache"))
	})
	t.Run("a request that names nobody", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(ask(t.Context(), pipelineValidator(Options{Tenancy: tenancy(t)}), nil, now)).To(MatchError(ContainSubstring("refused, since it cannot be told whom TenantPolicies bind")))
	})
	t.Run("an operator that does not know itself is nobody special", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(ask(by(t, "", "system:serviceaccounts"), pipelineValidator(Options{Tenancy: tenancy(t)}), nil, matching())).NotTo(Succeed())
	})
	t.Run("a policy that cannot be read, once for the object", func(t *testing.T) {
		g := NewWithT(t)
		broken := tenancy(t, func(s *fleetmanagementv1alpha1.TenantPolicySpec) { s.RequiredMatchers = []string{"a==b"} })
		v := collectorValidator(Options{Tenancy: broken})
		g.Expect(ask(by(t, "ann"), v, nil, collecting("a-1", map[string]string{"region": "eu", "team": "a"}))).To(MatchError(And(
			HavePrefix(`Collector.fleetmanagement.grafana.com "x" is invalid: spec: Forbidden: TenantPolicy a cannot be read: spec.requiredMatchers[0]`),
			HaveSuffix(": have it mended"))))
		g.Expect(ask(by(t, "bob"), v, nil, collecting("a-1", nil))).To(Succeed(), "it names others only")
	})
	t.Run("a namespace that is not there for two seconds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			began, all := time.Now(), tenancy(t)
			all.missing, all.times = "team-b", 1000
			err := ask(by(t, "bob"), collectorDiscoveryValidator(Options{Tenancy: all}), nil, discovering("team-b", []string{"a=b"}, nil))
			g.Expect(apierrors.IsInternalError(err)).To(BeTrue(), "%v", err)
			g.Expect(time.Since(began)).To(Equal(2 * time.Second))
		})
	})
	t.Run("a namespace of which no watch has told yet", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			all := tenancy(t)
			all.missing, all.times = "team-a", 10
			g.Expect(ask(by(t, "bob"), pipelineValidator(Options{Tenancy: all}), nil, now)).To(Succeed())
		})
	})
}

func TestADiscoveryIsJudgedInBothOfItsNamespaces(t *testing.T) {
	g := NewWithT(t)
	for target, want := range map[string][]string{"": {"team-a"}, "team-a": {"team-a"}, "team-b": {"team-a", "team-b"}} {
		all := tenancy(t)
		g.Expect(ask(by(t, "bob"), pipelineDiscoveryValidator(Options{Tenancy: all}), nil, mirroring(target))).To(Succeed())
		g.Expect(all.asked).To(Equal(want))
	}
}

func TestAnObjectOnItsWayOutIsNobodysToJudge(t *testing.T) {
	g := NewWithT(t)
	gone := matching("team=b")
	gone.Spec.Paused, gone.DeletionTimestamp = true, &metav1.Time{}
	g.Expect(ask(by(t, "ann"), pipelineValidator(Options{Tenancy: &policies{err: errors.New("no cache")}}), matching("team=b"), gone)).To(Succeed())
}
