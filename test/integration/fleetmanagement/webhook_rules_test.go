// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("The CRDs and the webhook, of what is discovered, fetched and bounded", func() {
	DescribeTable("a PipelineDiscovery is refused by", agree("PipelineDiscovery"), judged,
		Entry(nil, nobody, `{}`),
		Entry(nil, nobody, `{pollInterval: 1m, selector: {configType: Alloy, enabled: false}, targetNamespace: team-b, importMode: Adopt, policy: {onPipelineRemoved: Delete}}`),
		Entry(nil, nobody, `{pollInterval: "", targetNamespace: ""}`),
		Entry(nil, nobody, `{pollInterval: "+.5h30.5m"}`),
		Entry(nil, both, `{pollInterval: 59s}`),
		Entry(nil, both, `{pollInterval: -5m}`),
		Entry(nil, both, `{pollInterval: "300"}`),
		Entry(nil, both, `{pollInterval: soon}`),
		Entry(nil, both, `{pollInterval: "5m "}`),
		Entry(nil, both, `{pollInterval: 99999999999999h}`),
		Entry(nil, both, `{targetNamespace: Team-B}`),
		Entry(nil, both, `{targetNamespace: team.b}`),
		Entry(nil, both, `{targetNamespace: -b}`),
		Entry(nil, both, `{targetNamespace: `+strings.Repeat("x", 64)+`}`),
		Entry(nil, both, `{selector: {configType: Vector}}`),
		Entry(nil, both, `{importMode: Take}`),
		Entry(nil, both, `{policy: {onPipelineRemoved: Forget}}`),
	)

	DescribeTable("a CollectorDiscovery is refused by", agree("CollectorDiscovery"), judged,
		Entry(nil, nobody, `{}`),
		Entry(nil, nobody, `{pollInterval: 1h, selector: {matchers: ['os=~"a|b"'], collectorIDs: [a]}, targetNamespace: b, includeInactive: true, policy: {onCollectorRemoved: Delete, onConflict: Skip}}`),
		Entry(nil, both, `{pollInterval: 1s}`),
		Entry(nil, both, `{targetNamespace: "b "}`),
		Entry(nil, both, `{selector: {matchers: [""]}}`),
		Entry(nil, both, `{selector: {matchers: [`+strings.Repeat("a=b, ", 101)+`]}}`),
		Entry(nil, both, `{selector: {matchers: [a=`+strings.Repeat("x", 199)+`]}}`),
		Entry(nil, both, `{selector: {collectorIDs: [a, " "]}}`),
		Entry(nil, both, `{selector: {collectorIDs: [`+strings.Repeat("a, ", 1001)+`]}}`),
		Entry(nil, both, `{selector: {collectorIDs: [`+strings.Repeat("x", 513)+`]}}`),
		Entry(nil, both, `{policy: {onCollectorRemoved: Forget}}`),
		Entry(nil, both, `{policy: {onConflict: Overwrite}}`),
		Entry(nil, onlyWebhook, `{selector: {matchers: ["a==b"]}}`),
	)

	const (
		server = `kind: HTTP, http: {url: "https://a.example.com"}`
		rest   = `selector: {matchers: [a=b]}, mapping: {collectorIDField: id, attributeFields: {a: b}}`
	)
	source := func(source string) string { return `{source: {` + source + `}, schedule: 1h, ` + rest + `}` }
	every := func(schedule string) string {
		return `{source: {` + server + `}, schedule: ` + schedule + `, ` + rest + `}`
	}
	mapped := func(mapping string) string {
		return `{source: {` + server + `}, schedule: 1h, selector: {matchers: [a=b]}, mapping: {` + mapping + `}}`
	}
	DescribeTable("an ExternalAttributeSync is refused by", agree("ExternalAttributeSync"), judged,
		Entry(nil, nobody, source(server)),
		Entry(nil, nobody, source(`kind: HTTP, http: {url: "HTTPS://a.example.com/?q=1", method: POST, recordsPath: data.items}, secretRef: {name: cm.db}`)),
		Entry(nil, nobody, source(`kind: HTTP, http: {url: "http://a.example.com"}`)),
		Entry(nil, nobody, source(`kind: SQL, sql: {driver: mysql, query: "SELECT 1"}, secretRef: {name: db, namespace: default}`)),
		Entry(nil, both, source(`kind: LDAP, http: {url: "https://a.example.com"}`)),
		Entry(nil, both, source(`kind: HTTP`)),
		Entry(nil, both, source(`kind: HTTP, sql: {driver: mysql, query: "SELECT 1"}, secretRef: {name: db}`)),
		Entry(nil, both, source(`kind: SQL, sql: {driver: mysql, query: "SELECT 1"}`)),
		Entry(nil, both, source(`kind: SQL, sql: {query: "SELECT 1"}, secretRef: {name: db}`)),
		Entry(nil, both, source(`kind: SQL, sql: {driver: oracle, query: "SELECT 1"}, secretRef: {name: db}`)),
		Entry(nil, both, source(`kind: SQL, sql: {driver: mysql}, secretRef: {name: db}`)),
		Entry(nil, both, source(`kind: SQL, sql: {driver: mysql, query: " "}, secretRef: {name: db}`)),
		Entry(nil, both, source(server+`, secretRef: {}`)),
		Entry(nil, both, source(server+`, secretRef: {name: CMDB}`)),
		Entry(nil, both, source(server+`, secretRef: {name: a..b}`)),
		Entry(nil, both, source(`kind: HTTP, http: {url: ""}`)),
		Entry(nil, both, source(`kind: HTTP, http: {url: "ftp://a.example.com"}`)),
		Entry(nil, both, source(`kind: HTTP, http: {url: "https:///hosts"}`)),
		Entry(nil, both, source(`kind: HTTP, http: {url: "http://a.example.com"}, secretRef: {name: cmdb}`)),
		Entry(nil, both, source(`kind: HTTP, http: {url: "https://a.example.com", method: PUT}`)),
		Entry(nil, both, source(`kind: HTTP, http: {url: "https://a.example.com", recordsPath: a..b}`)),
		Entry(nil, both, source(`kind: HTTP, http: {url: "https://a.example.com", recordsPath: .}`)),
		Entry(nil, onlyWebhook, source(`kind: HTTP, http: {url: "https://me@a.example.com"}`)),
		Entry(nil, onlyWebhook, source(`kind: HTTP, http: {url: "https://a.example.com", caBundle: none}`)),
		Entry(nil, onlyWebhook, source(`kind: SQL, sql: {driver: mysql, query: "DELETE FROM a"}, secretRef: {name: db}`)),
		Entry(nil, onlyWebhook, source(server+`, secretRef: {name: cmdb, namespace: elsewhere}`)),
		Entry(nil, nobody, every(`"*/5 * * * *"`)),
		Entry(nil, nobody, every(`30s, timeZone: ""`)),
		Entry(nil, both, every(`""`)),
		Entry(nil, both, every(`" "`)),
		Entry(nil, both, every(`29s`)),
		Entry(nil, both, every(`1ns`)),
		Entry(nil, onlyWebhook, every(`-10m`)),
		Entry(nil, onlyWebhook, every(`hourly`)),
		Entry(nil, onlyWebhook, every(`"@every 1h"`)),
		Entry(nil, onlyWebhook, every(`"0 * * * *", timeZone: Mars/Olympus`)),
		Entry(nil, both, mapped(`collectorIDField: " ", attributeFields: {a: b}`)),
		Entry(nil, both, mapped(`collectorIDField: id, attributeFields: {}`)),
		Entry(nil, both, mapped(`collectorIDField: id, attributeFields: {collector.os: b}`)),
		Entry(nil, both, mapped(`collectorIDField: id, attributeFields: {`+strings.Repeat("k", 101)+`: b}`)),
		Entry(nil, both, mapped(`collectorIDField: id, attributeFields: {a: ""}`)),
		Entry(nil, both, mapped(`collectorIDField: id, attributeFields: {a: `+strings.Repeat("x", 1025)+`}`)),
		Entry(nil, both, mapped(`collectorIDField: id, attributeFields: `+numbered(101))),
		Entry(nil, both, mapped(`collectorIDField: id, attributeFields: {a: b}, requiredKeys: [" "]`)),
		Entry(nil, both, mapped(`collectorIDField: id, attributeFields: {a: b}, requiredKeys: [`+strings.Repeat("a, ", 101)+`]`)),
		Entry(nil, both, every(`1h, onDuplicate: Merge`)),
		Entry(nil, both, every(`1h, maxShrinkPercent: 101`)),
		Entry(nil, both, `{source: {`+server+`}, schedule: 1h, selector: {}, mapping: {collectorIDField: id, attributeFields: {a: b}}}`),
	)

	DescribeTable("a TenantPolicy is refused by", agree("TenantPolicy"), judged,
		Entry(nil, nobody, `{subjects: [{kind: User, name: ann}], requiredMatchers: [a=b]}`),
		Entry(nil, nobody, `{subjects: [{kind: ServiceAccount, name: a, namespace: b}, {kind: Group, name: c, apiGroup: rbac.authorization.k8s.io}], requiredMatchers: ['a="b"'],
			namespaceSelector: {matchLabels: {a: b}}, allowedAttributes: [{key: a, value: 'b|c'}, {key: d}], allowedCollectors: ['os!=windows']}`),
		Entry(nil, both, `{subjects: [], requiredMatchers: [a=b]}`),
		Entry(nil, both, `{subjects: [{kind: Team, name: ann}], requiredMatchers: [a=b]}`),
		Entry(nil, both, `{subjects: [{kind: User, name: ""}], requiredMatchers: [a=b]}`),
		Entry(nil, both, `{subjects: [{kind: User, name: ann, namespace: b}], requiredMatchers: [a=b]}`),
		Entry(nil, both, `{subjects: [{kind: ServiceAccount, name: a}], requiredMatchers: [a=b]}`),
		Entry(nil, both, `{subjects: [{kind: User, name: ann}], requiredMatchers: []}`),
		Entry(nil, both, `{subjects: [{kind: User, name: ann}], requiredMatchers: [""]}`),
		Entry(nil, both, `{subjects: [{kind: User, name: ann}], requiredMatchers: [`+strings.Repeat("a=b, ", 101)+`]}`),
		Entry(nil, both, `{subjects: [{kind: User, name: ann}], requiredMatchers: [a=b], allowedAttributes: [{key: ""}]}`),
		Entry(nil, both, `{subjects: [{kind: User, name: ann}], requiredMatchers: [a=b], allowedAttributes: [{key: collector.os}]}`),
		Entry(nil, both, `{subjects: [{kind: User, name: ann}], requiredMatchers: [a=b], allowedAttributes: [{key: `+strings.Repeat("k", 101)+`}]}`),
		Entry(nil, both, `{subjects: [{kind: User, name: ann}], requiredMatchers: [a=b], allowedAttributes: [{key: a, value: `+strings.Repeat("x", 1025)+`}]}`),
		Entry(nil, both, `{subjects: [{kind: User, name: ann}], requiredMatchers: [a=b], allowedCollectors: [""]}`),
		Entry(nil, onlyWebhook, `{subjects: [{kind: User, name: " "}], requiredMatchers: [a=b]}`),
		Entry(nil, onlyWebhook, `{subjects: [{kind: User, name: ann}], requiredMatchers: [a==b]}`),
		Entry(nil, onlyWebhook, `{subjects: [{kind: User, name: ann}], requiredMatchers: [a=b], allowedAttributes: [{key: a, value: "("}]}`),
		Entry(nil, onlyWebhook, `{subjects: [{kind: User, name: ann}], requiredMatchers: [a=b], allowedCollectors: [a]}`),
		Entry(nil, onlyWebhook, `{subjects: [{kind: User, name: ann}], requiredMatchers: [a=b], namespaceSelector: {matchExpressions: [{key: a, operator: Is}]}}`),
	)

	It("say of a discovery's target alike that it stays", func(ctx SpecContext) {
		w := newWorld(ctx)
		collectors, pipelines := aCollectorDiscovery(w.namespace, "", nil, nil), aPipelineDiscovery(w.namespace, "team-b")
		cluster.Create(ctx, collectors, pipelines)
		Expect(cluster.Client.Patch(ctx, collectors, merge(`{"spec": {"targetNamespace": "team-b"}}`))).To(MatchError(ContainSubstring("targetNamespace cannot be changed: create another discovery")))
		Expect(cluster.Client.Patch(ctx, pipelines, merge(`{"spec": {"targetNamespace": null}}`))).To(MatchError(ContainSubstring("targetNamespace cannot be changed: create another discovery")))
		Expect(cluster.Client.Patch(ctx, pipelines, merge(`{"spec": {"pollInterval": "1h"}}`))).To(Succeed())
	})
})

var _ = Describe("The webhooks of what is discovered, fetched and bounded", func() {
	It("AT-10: let every change pass that leaves a mistake as it is, and the deletion", func(ctx SpecContext) {
		w := newWorld(ctx)
		discovery := aCollectorDiscovery(w.namespace, "", []string{"a==b"}, nil)
		sync := anExternalSync(w.namespace, "a", []string{"a=b"}, nil)
		sync.Spec.Schedule, sync.Spec.Source.HTTP.URL = "hourly", "https://10.0.0.1"
		policy := aTenantPolicy(w.namespace, rbacv1.Subject{Kind: rbacv1.UserKind, Name: "ann"}, "a==b")
		older := []client.Object{discovery, sync, policy}
		cluster.Create(ctx, older...)
		w.enableOnly()
		w.served(ctx, w.options.Fleet.WebhookRemoteValidate)

		for _, o := range older {
			Expect(cluster.Client.Patch(ctx, o, merge(`{"metadata": {"annotations": {"touched": "yes"}, "finalizers": ["example.com/held"]}}`))).To(Succeed(), "%T", o)
		}
		Expect(cluster.Client.Patch(ctx, discovery, merge(`{"spec": {"selector": {"matchers": ["a==b", "c=d"]}}}`))).To(Succeed())
		Expect(cluster.Client.Patch(ctx, discovery, merge(`{"spec": {"selector": {"matchers": ["c==d"]}}}`))).To(MatchError(ContainSubstring("spec.selector.matchers[0]: Invalid value")))
		Expect(cluster.Client.Patch(ctx, sync, merge(`{"spec": {"suspend": true}}`))).To(Succeed())
		Expect(cluster.Client.Patch(ctx, sync, merge(`{"spec": {"schedule": "daily"}}`))).To(MatchError(ContainSubstring("spec.schedule: Invalid value")))
		Expect(cluster.Client.Patch(ctx, sync, merge(`{"spec": {"source": {"http": {"url": "https://169.254.169.254"}}}}`))).To(MatchError(ContainSubstring("spec.source.http.url: Invalid value")))
		Expect(cluster.Client.Patch(ctx, policy, merge(`{"spec": {"requiredMatchers": ["c=d", "a==b"]}}`))).To(Succeed())
		Expect(cluster.Client.Patch(ctx, policy, merge(`{"spec": {"requiredMatchers": ["a=="]}}`))).To(MatchError(ContainSubstring("spec.requiredMatchers[0]: Invalid value")))
		for _, o := range older {
			Expect(cluster.Client.Delete(ctx, o)).To(Succeed(), "%T", o)
			Expect(cluster.Client.Patch(ctx, o, merge(`{"metadata": {"finalizers": null}}`))).To(Succeed(), "%T", o)
			Expect(apierrors.IsNotFound(cluster.Client.Get(ctx, client.ObjectKeyFromObject(o), o))).To(BeTrue(), "%T", o)
		}
	})

	It("say while their controllers are off that nothing comes of what is stored", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.enableOnly("pipeline-discovery", "collector-discovery", "external-sync")
		person := w.served(ctx, w.options.Fleet.WebhookRemoteValidate)
		for _, o := range []client.Object{
			aPipelineDiscovery(w.namespace, ""), aCollectorDiscovery(w.namespace, "", []string{"a=b"}, nil), anExternalSync(w.namespace, "a", []string{"a=b"}, nil),
			aTenantPolicy(w.namespace, rbacv1.Subject{Kind: rbacv1.UserKind, Name: "ann"}, "a=b"),
		} {
			Expect(try(ctx, person, o)()).To(Succeed(), "%T", o)
			Expect(person.warnings()).To(ContainElement("the controller of this kind is off: the object is stored, and has no effect until it is on"),
				"%T, whose row is off or needs one that is", o)
		}
	})
})
