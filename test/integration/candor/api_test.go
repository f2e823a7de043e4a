// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/builder"
)

const oldPolicy = `
apiVersion: candor.dev/v1alpha1
kind: SignalPolicy
metadata:
  name: signalpolicy-sample
spec:
  providers: [trivy]
  minSeverity: HIGH
  budget:
    maxCalls: 100
  webhook:
    url: https://hooks.example.com/candor
  gitOpsRepo:
    owner: example
    repo: gitops
    path: apps/api/values.yaml
    yamlPath: image.tag
    secretRef:
      name: gitops-token
  pullRequestBudget:
    maxPullRequests: 5
  webhookReceiver:
    secretRef:
      name: receiver
`

const oldFinding = `
apiVersion: candor.dev/v1alpha1
kind: Finding
metadata:
  name: finding-sample
spec:
  source:
    provider: trivy
    kind: Deployment
    name: api
    refKind: VulnerabilityReport
    refName: api-abc123
  severity: CRITICAL
  summary: "3 critical, 5 high, 2 medium, 1 low vulnerabilities in ghcr.io/example/api:v1.2.3"
`

const oldSuppression = `
apiVersion: candor.dev/v1alpha1
kind: Suppression
metadata:
  name: suppression-sample
spec:
  fingerprint: REPLACE_WITH_FINDING_STATUS_FINGERPRINT
  reason: "accepted until the next base image"
`

var _ = Describe("The API", Ordered, ContinueOnFailure, func() {
	var w *world
	BeforeAll(func(ctx SpecContext) {
		w = newWorld(ctx)
		w.startWithWeb(ctx)
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(HavePrefix("True/Active"))
	})

	It("compat: takes the manifests of the first Candor as they are, and says in words what became of each", func(ctx SpecContext) {
		strict := client.WithFieldValidation(cluster.Client, metav1.FieldValidationStrict)
		for _, manifest := range []string{oldPolicy, oldFinding, oldSuppression} {
			Expect(strict.Create(ctx, w.parse(manifest))).To(Succeed())
		}
		Eventually(w.policy(ctx, "signalpolicy-sample", candorv1alpha1.ConditionReady)).Should(HavePrefix("True/Active"))
		Expect(w.policy(ctx, "signalpolicy-sample", candorv1alpha1.ConditionFieldsWithoutEffect)()).To(Equal(
			"True/NoEffect: Accepted for compatibility, without effect in this version: " +
				"spec.gitOpsRepo, spec.pullRequestBudget."))
		Expect(w.policy(ctx, "signalpolicy-sample", candorv1alpha1.ConditionReceiving)()).To(Equal(
			"False/ProviderNotNamed: spec.webhookReceiver is there, and spec.providers does not name webhook: add it."))
		id := signals.Identity{Provider: "trivy", Namespace: w.namespace, Kind: "Deployment", Name: "api"}
		Eventually(w.verified(ctx, "finding-sample")).Should(Equal("Stale, False/Foreign: Nothing keeps this Finding up to date, " +
			"since it does not have the name of its identity, " + id.FindingName() + ": delete it."))
		Eventually(w.suppression(ctx, "suppression-sample")).Should(Equal(noMatch))
	})

	It("compat-strict: refuses a field that nobody knows", func(ctx SpecContext) {
		strict := client.WithFieldValidation(cluster.Client, metav1.FieldValidationStrict)
		typo := w.parse(strings.Replace(oldPolicy, "minSeverity", "minimumSeverity", 1))
		typo.SetName("typo")
		Expect(strict.Create(ctx, typo)).To(MatchError(ContainSubstring(`unknown field "spec.minimumSeverity"`)))
	})

	DescribeTable("bounds: refuse a policy, and say why",
		func(ctx SpecContext, change func(spec map[string]any), words string) {
			p := w.parse(oldPolicy)
			p.SetName("refused")
			change(p.Object["spec"].(map[string]any))
			Expect(cluster.Client.Create(ctx, p)).To(MatchError(ContainSubstring(words)))
		},
		Entry("with 17 providers", seventeenProviders, "spec.providers: Too many: 17: must have at most 16 items"),
		Entry("that names a provider twice", setTo("providers", []any{"trivy", "trivy"}), `spec.providers[1]: Duplicate value: "trivy"`),
		Entry("without a provider", setTo("providers", []any{}), "spec.providers in body should have at least 1 items"),
		Entry("that leaves providers out", leftOut("providers"), "spec.providers: Required value"),
		Entry("with an empty provider", setTo("providers", []any{""}), "spec.providers[0] in body should be at least 1 chars long"),
		Entry("with a provider of 64 characters", setTo("providers", []any{strings.Repeat("x", 64)}), "spec.providers[0]: Too long: may not be more than 63"),
		Entry("with a severity that there is not", setTo("minSeverity", "SEVERE"),
			`spec.minSeverity: Unsupported value: "SEVERE": supported values: "LOW", "MEDIUM", "HIGH", "CRITICAL"`),
		Entry("with a treatment of unrated entries that there is not", setTo("unknownSeverity", "Medium"),
			`spec.unknownSeverity: Unsupported value: "Medium": supported values: "Ignore", "Low", "High"`),
		Entry("with a budget of nothing", setTo("budget", map[string]any{"maxCalls": int64(0)}),
			"spec.budget.maxCalls in body should be greater than or equal to 1"),
		Entry("with a window of a second", setTo("budget", map[string]any{"maxCalls": int64(1), "windowSeconds": int64(1)}),
			"spec.budget.windowSeconds in body should be greater than or equal to 60"),
		Entry("with an endless URL", setTo("webhook", map[string]any{"url": "https://" + strings.Repeat("x", 2048)}), "spec.webhook.url: Too long"),
	)

	DescribeTable("identity: of a Finding never changes",
		func(ctx SpecContext, source string) {
			f := w.finding(ctx, "trivy", "Deployment", "web", "nginx")()
			Expect(cluster.Client.Patch(ctx, f, merge(`{"spec": {"source": `+source+`}}`))).To(MatchError(ContainSubstring(
				"the identity of a Finding (provider, kind, name, container) never changes: create another Finding instead")))
		},
		Entry("in its provider", `{"provider": "other"}`), Entry("in its kind", `{"kind": "Other"}`), Entry("in its name", `{"name": "other"}`),
		Entry("in its container", `{"container": "other"}`), Entry("by losing its container", `{"container": null}`),
	)

	It("identity: may stay while what points to the report changes, which is then put right", func(ctx SpecContext) {
		f := w.finding(ctx, "trivy", "Deployment", "web", "nginx")
		Expect(cluster.Client.Patch(ctx, f(), merge(`{"spec": {"source": {"refName": "something-else"}}}`))).To(Succeed())
		Eventually(func() string { return f().Spec.Source.RefName }).Should(Equal("web"))
	})

	It("table: says in a row what a person wants to know of each kind", func(ctx SpecContext) {
		f := w.finding(ctx, "trivy", "Deployment", "web", "nginx")()
		w.apply(ctx, builder.Suppression(w.namespace, "quiet", f.Status.Fingerprint))
		Eventually(muteOf(w.finding(ctx, "trivy", "Deployment", "web", "nginx"))).Should(HavePrefix("Muted"))
		Eventually(w.suppression(ctx, "quiet")).Should(HavePrefix("True"))

		columns, rows := w.table(ctx, "findings")
		Expect(columns).To(Equal([]string{"Name", "Severity", "Resource", "Container", "Outcome", "Explained", "Summary", "Age"}))
		Expect(rows[f.Name]).To(Equal([]any{f.Name, "HIGH", "Deployment/web", "nginx", "StillPresent", "Muted", "3 high"}))

		columns, rows = w.table(ctx, "signalpolicies")
		Expect(columns).To(Equal([]string{"Name", "Providers", "Min", "Findings", "Open", "Calls", "Left", "Ready", "Reason", "Notifying", "Age"}))
		Expect(rows["default"]).To(HaveLen(10))
		Expect(rows["default"][:3]).To(Equal([]any{"default", `["trivy"]`, "HIGH"}))
		Expect(rows["default"][5:]).To(Equal([]any{nil, nil, "True", "Active", nil}), "there is no model to spend on")

		columns, rows = w.table(ctx, "suppressions")
		Expect(columns).To(Equal([]string{"Name", "Muted", "Finding", "Until", "Ready", "State", "Why", "Age"}))
		Expect(rows["quiet"]).To(Equal([]any{"quiet", float64(1), f.Name, nil, "True", "Active", accepted}))
	})

	It("category: finds every kind under candor, and by a short name", func() {
		clients, err := discovery.NewDiscoveryClientForConfig(cluster.Config)
		Expect(err).NotTo(HaveOccurred())
		list, err := clients.ServerResourcesForGroupVersion(candorv1alpha1.GroupVersion.String())
		Expect(err).NotTo(HaveOccurred())
		found := map[string]string{}
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				found[r.Name] = fmt.Sprint(r.Categories, r.ShortNames)
			}
		}
		Expect(found).To(Equal(map[string]string{
			"findings": "[candor] [fnd]", "signalpolicies": "[candor] [sigpol]", "suppressions": "[candor] [suppr]",
			"operatingpolicies": "[candor] [oppol]", "ledgers": "[] []",
		}))
	})
})

// parse reads a manifest into this namespace.
func (w *world) parse(manifest string) *unstructured.Unstructured {
	GinkgoHelper()
	u := &unstructured.Unstructured{}
	Expect(yaml.Unmarshal([]byte(manifest), &u.Object)).To(Succeed())
	u.SetNamespace(w.namespace)
	return u
}

// verified returns a function that puts what a Finding says about being true into one line.
func (w *world) verified(ctx context.Context, name string) func() string {
	return func() string {
		var f candorv1alpha1.Finding
		if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, &f); err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%s, %s", f.Status.VerificationOutcome, spoken(f.Status.Conditions, candorv1alpha1.ConditionVerified))
	}
}

// table returns what kubectl get prints of a resource in this namespace: its columns, and by name its rows without the last
// column, which is the age.
func (w *world) table(ctx context.Context, resource string) (columns []string, rows map[string][]any) {
	GinkgoHelper()
	clients, err := discovery.NewDiscoveryClientForConfig(cluster.Config)
	Expect(err).NotTo(HaveOccurred())
	answer, err := clients.RESTClient().Get().AbsPath("apis", candorv1alpha1.GroupVersion.String(), "namespaces", w.namespace, resource).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	var table metav1.Table
	Expect(json.Unmarshal(answer, &table)).To(Succeed())
	var shown []int
	for i, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			columns, shown = append(columns, column.Name), append(shown, i)
		}
	}
	rows = map[string][]any{}
	for _, row := range table.Rows {
		var cells []any
		for _, i := range shown[:len(shown)-1] {
			cells = append(cells, row.Cells[i])
		}
		rows[row.Cells[0].(string)] = cells
	}
	return columns, rows
}

func seventeenProviders(spec map[string]any) {
	providers := make([]any, 17)
	for i := range providers {
		providers[i] = fmt.Sprint("provider-", i)
	}
	spec["providers"] = providers
}

func setTo(field string, value any) func(map[string]any) {
	return func(spec map[string]any) { spec[field] = value }
}

func leftOut(field string) func(map[string]any) {
	return func(spec map[string]any) { delete(spec, field) }
}
