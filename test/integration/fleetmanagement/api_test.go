// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/validation"
)

// verdict says who refuses an object.
type verdict string

const (
	nobody verdict = "nobody"
	both   verdict = "the CRD and the webhook"
	// onlyWebhook is for what a CRD cannot say: it needs a parser, a flag or an annotation.
	onlyWebhook verdict = "the webhook alone"
)

// The CRDs and the webhook answer alike, so that an installation without webhooks lets through only what a CRD cannot say.
var _ = Describe("The CRDs and the webhook", func() {
	DescribeTable("a Pipeline is refused by", agree("Pipeline"), judged,
		Entry(nil, nobody, `{contents: "loki.echo \"a\" { }"}`),
		Entry(nil, nobody, `{contents: "logging { }", name: Team/Logs_v2, matchers: ["a=b"], enabled: false, paused: true, source: {type: Git, namespace: infra}}`),
		Entry(nil, nobody, `{contents: "logging { }", configType: Alloy, source: {type: Kubernetes, namespace: x}, adoptionPolicy: Never, deletionPolicy: Orphan, driftPolicy: Warn}`),
		Entry(nil, nobody, `{contents: "{receivers: {a: }, exporters: {b: }, service: {pipelines: {logs: {receivers: [a], exporters: [b]}}}}", configType: OpenTelemetryCollector}`),
		Entry(nil, nobody, `{contents: "logging { }", source: {}}`),
		Entry(nil, nobody, `{contents: "logging { }", source: {type: Unspecified, namespace: ""}}`),
		Entry(nil, both, `{contents: ""}`),
		Entry(nil, both, `{contents: " \n\t"}`),
		Entry(nil, both, `{contents: "receivers:\n  otlp: {}\n"}`),
		Entry(nil, both, `{contents: "# logs\n\nservice:\n  pipelines: {}\n", configType: Alloy}`),
		Entry(nil, both, `{contents: "logging { }", configType: Vector}`),
		Entry(nil, both, `{contents: "logging { }", name: `+strings.Repeat("x", 254)+`}`),
		Entry(nil, both, `{contents: "logging { }", matchers: [""]}`),
		Entry(nil, both, `{contents: "logging { }", matchers: [a=`+strings.Repeat("x", 199)+`]}`),
		Entry(nil, both, `{contents: "logging { }", matchers: [`+strings.Repeat("a=b, ", 101)+`]}`),
		Entry(nil, both, `{contents: "logging { }", source: {type: Git}}`),
		Entry(nil, both, `{contents: "logging { }", source: {type: Terraform, namespace: ""}}`),
		Entry(nil, both, `{contents: "logging { }", source: {type: Grafana, namespace: " "}}`),
		Entry(nil, both, `{contents: "logging { }", source: {namespace: infra}}`),
		Entry(nil, both, `{contents: "logging { }", source: {type: Unspecified, namespace: infra}}`),
		Entry(nil, both, `{contents: "logging { }", source: {type: Ansible, namespace: infra}}`),
		Entry(nil, onlyWebhook, `{contents: "invalid {{{"}`),
		Entry(nil, onlyWebhook, `{contents: "logging { }\nlogging { }"}`),
		Entry(nil, onlyWebhook, `{contents: "other:\n  key: 1\n"}`),
		Entry(nil, onlyWebhook, `{contents: "service: {}", configType: OpenTelemetryCollector}`),
		Entry(nil, onlyWebhook, `{contents: "logging { }", name: my logs}`),
		Entry(nil, onlyWebhook, `{contents: "logging { }", matchers: ["a==b"]}`),
		Entry(nil, onlyWebhook, `{contents: "`+strings.Repeat("/", 600_000)+`\nlogging { }"}`),
	)

	DescribeTable("a Collector is refused by", agree("Collector"), judged,
		Entry(nil, nobody, `{id: edge-1}`),
		Entry(nil, nobody, `{id: edge-1, name: Edge 1, enabled: false, remoteAttributes: {team: a, empty: "", collector: x, `+strings.Repeat("k", 100)+`: x}}`),
		Entry(nil, both, `{id: ""}`),
		Entry(nil, both, `{id: " "}`),
		Entry(nil, both, `{id: edge-1, remoteAttributes: {"": x}}`),
		Entry(nil, both, `{id: edge-1, remoteAttributes: {collector.os: x}}`),
		Entry(nil, both, `{id: edge-1, remoteAttributes: {`+strings.Repeat("k", 101)+`: x}}`),
		Entry(nil, both, `{id: edge-1, remoteAttributes: {k: `+strings.Repeat("v", 1025)+`}}`),
		Entry(nil, both, `{id: edge-1, remoteAttributes: `+numbered(101)+`}`),
		Entry(nil, onlyWebhook, `{id: edge-1, remoteAttributes: {k: `+strings.Repeat("v", 151)+`}}`),
	)

	DescribeTable("a RemoteAttributePolicy is refused by", agree("RemoteAttributePolicy"), judged,
		Entry(nil, nobody, `{selector: {matchers: ['os=~"linux|darwin"'], collectorIDs: [a], includeRemote: true}, attributes: {team: a}, priority: -5}`),
		Entry(nil, nobody, `{selector: {collectorIDs: [a]}, attributes: `+numbered(100)+`}`),
		Entry(nil, both, `{selector: {}, attributes: {team: a}}`),
		Entry(nil, both, `{selector: {matchers: [], collectorIDs: []}, attributes: {team: a}}`),
		Entry(nil, both, `{selector: {collectorIDs: [a]}, attributes: {}}`),
		Entry(nil, both, `{selector: {collectorIDs: [a, ""]}, attributes: {team: a}}`),
		Entry(nil, both, `{selector: {collectorIDs: [a, " "]}, attributes: {team: a}}`),
		Entry(nil, both, `{selector: {collectorIDs: [`+strings.Repeat("a, ", 1001)+`]}, attributes: {team: a}}`),
		Entry(nil, both, `{selector: {matchers: [""]}, attributes: {team: a}}`),
		Entry(nil, both, `{selector: {matchers: [`+strings.Repeat("a=b, ", 101)+`]}, attributes: {team: a}}`),
		Entry(nil, both, `{selector: {collectorIDs: [a]}, attributes: {collector.os: x}}`),
		Entry(nil, both, `{selector: {collectorIDs: [a]}, attributes: {`+strings.Repeat("k", 101)+`: x}}`),
		Entry(nil, both, `{selector: {collectorIDs: [a]}, attributes: `+numbered(101)+`}`),
		Entry(nil, onlyWebhook, `{selector: {matchers: [a]}, attributes: {team: a}}`),
		Entry(nil, onlyWebhook, `{selector: {matchers: ['a=~"("']}, attributes: {team: a}}`),
		Entry(nil, onlyWebhook, `{selector: {collectorIDs: [a]}, attributes: {k: `+strings.Repeat("v", 151)+`}}`),
	)

	It("say of a Collector's ID alike that it stays", func(ctx SpecContext) {
		c := &fleetmanagementv1alpha1.Collector{Spec: fleetmanagementv1alpha1.CollectorSpec{ID: "edge-1"}}
		c.Namespace, c.Name = "default", "moves"
		Expect(cluster.Client.Create(ctx, c)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(cluster.Client.Delete(ctx, c)).To(Succeed()) })
		moved := c.DeepCopy()
		moved.Spec.ID = "edge-2"
		Expect(cluster.Client.Update(ctx, moved)).To(MatchError(ContainSubstring("id cannot be changed: create another Collector")))
		_, errs := validation.Collector(c, moved, validation.Options{})
		Expect(errs).To(ConsistOf(HaveField("Field", "spec.id")))
	})

	It("take the samples, each with every field that it has", func(ctx SpecContext) {
		files, err := filepath.Glob("../../../config/samples/fleetmanagement_*.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(files).To(HaveLen(7))
		for _, file := range files {
			text, err := os.ReadFile(file) //nolint:gosec // a file of the checkout
			Expect(err).NotTo(HaveOccurred())
			var object unstructured.Unstructured
			Expect(yaml.Unmarshal(text, &object.Object)).To(Succeed())
			if object.GetKind() != "TenantPolicy" {
				object.SetNamespace("default")
			}
			Expect(cluster.Client.Create(ctx, &object, client.DryRunAll, client.FieldValidation("Strict"))).To(Succeed(), file)
		}
	})
})

// judged is the title of a case.
func judged(want verdict, spec string) string { return fmt.Sprintf("%s: %.120s", want, spec) }

// agree asks both about an object of a kind with a spec in YAML.
func agree(kind string) func(SpecContext, verdict, string) {
	return func(ctx SpecContext, want verdict, spec string) {
		var object unstructured.Unstructured
		Expect(yaml.Unmarshal([]byte("spec: "+spec), &object.Object)).To(Succeed())
		object.SetGroupVersionKind(fleetmanagementv1alpha1.GroupVersion.WithKind(kind))
		object.SetName("judged")
		if kind != "TenantPolicy" {
			object.SetNamespace("default")
		}
		webhook := refusals(kind, object.Object)
		crd := cluster.Client.Create(ctx, &object, client.DryRunAll, client.FieldValidation("Strict"))
		switch want {
		case nobody:
			Expect(crd).NotTo(HaveOccurred())
			Expect(webhook).To(BeEmpty())
		case both:
			Expect(crd).To(HaveOccurred())
			Expect(webhook).NotTo(BeEmpty())
		case onlyWebhook:
			Expect(crd).NotTo(HaveOccurred())
			Expect(webhook).NotTo(BeEmpty())
		}
	}
}

// refusals are the webhook's, as it is by default.
func refusals(kind string, object map[string]any) field.ErrorList {
	GinkgoHelper()
	o := validation.Options{MaxPipelineBytes: 512 << 10, AttributeValueMax: 150}
	var errs field.ErrorList
	switch kind {
	case "Pipeline":
		_, errs = validation.Pipeline(nil, typed[fleetmanagementv1alpha1.Pipeline](object), o)
	case "Collector":
		_, errs = validation.Collector(nil, typed[fleetmanagementv1alpha1.Collector](object), o)
	case "RemoteAttributePolicy":
		_, errs = validation.RemoteAttributePolicy(nil, typed[fleetmanagementv1alpha1.RemoteAttributePolicy](object), o)
	case "PipelineDiscovery":
		_, errs = validation.PipelineDiscovery(nil, typed[fleetmanagementv1alpha1.PipelineDiscovery](object))
	case "CollectorDiscovery":
		_, errs = validation.CollectorDiscovery(nil, typed[fleetmanagementv1alpha1.CollectorDiscovery](object))
	case "ExternalAttributeSync":
		_, errs = validation.ExternalAttributeSync(nil, typed[fleetmanagementv1alpha1.ExternalAttributeSync](object), o)
	case "TenantPolicy":
		_, errs = validation.TenantPolicy(nil, typed[fleetmanagementv1alpha1.TenantPolicy](object), o)
	default:
		Fail("no such kind: " + kind)
	}
	return errs
}

func typed[T any](object map[string]any) *T {
	GinkgoHelper()
	into := new(T)
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object, into)).To(Succeed())
	return into
}

// numbered is a map of n attributes in YAML.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: v, ", i)
	}
	return "{" + b.String() + "}"
}
