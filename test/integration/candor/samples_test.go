// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

var _ = Describe("The samples", func() {
	It("are accepted, each with every field that it has", func(ctx SpecContext) {
		files, err := filepath.Glob("../../../config/samples/candor_*.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(files).To(HaveLen(6))
		for _, file := range files {
			content, err := os.ReadFile(file) //nolint:gosec // a file of the checkout
			Expect(err).NotTo(HaveOccurred())
			Expect(tryToCreate(ctx, string(content))).To(Succeed(), file)
		}
	})

	DescribeTable("An OperatingPolicy is refused, with the field or the remedy named,",
		func(ctx SpecContext, name, spec, said string) {
			Expect(tryToCreate(ctx, "apiVersion: candor.dev/v1alpha1\nkind: OperatingPolicy\nmetadata: {name: "+name+"}\nspec: "+spec)).To(MatchError(ContainSubstring(said)))
		},
		Entry("that has another name", "other", "{}", "there is one OperatingPolicy, named default: give it that name"),
		Entry("that bounds a cost without prices", "default", "{budget: {maxCostMicros: 5}}", "maxCostMicros needs prices"),
		Entry("that bounds a namespace's cost without prices", "default", "{namespaceBudget: {maxCostMicros: 5}, model: {provider: OpenAI, name: m}}", "maxCostMicros needs prices"),
		Entry("that names a model without a protocol", "default", "{model: {name: m}}", "spec.model.provider: Required value"),
		Entry("that speaks a protocol that is not known", "default", "{model: {provider: Ollama, name: m}}", `supported values: "Anthropic", "OpenAI"`),
		Entry("that has a password in its address", "default", "{model: {provider: OpenAI, name: m, baseURL: 'https://u:p@models.example/v1'}}", "spec.model.baseURL"),
		Entry("that has a query in its address", "default", "{model: {provider: OpenAI, name: m, baseURL: 'https://models.example/v1?key=k'}}", "spec.model.baseURL"),
		Entry("that has an address of another scheme", "default", "{model: {provider: OpenAI, name: m, baseURL: 'file:///etc/passwd'}}", "spec.model.baseURL"),
		Entry("that allows less than nothing", "default", "{budget: {maxCalls: -1}}", "spec.budget.maxCalls"),
		Entry("that has a window of less than a minute", "default", "{budget: {windowSeconds: 59}}", "spec.budget.windowSeconds"),
		Entry("that waits longer for an answer than the pod may take to end", "default", "{model: {provider: OpenAI, name: m, timeoutSeconds: 241}}", "spec.model.timeoutSeconds"),
		Entry("that has a mode that is not known", "default", "{mode: Pause}", `supported values: "Active", "Audit"`),
		Entry("that misspells a field", "default", "{budget: {maxCall: 5}}", `unknown field "spec.budget.maxCall"`),
	)
})

// tryToCreate asks the API server what it would say, as kubectl apply does.
func tryToCreate(ctx SpecContext, manifest string) error {
	GinkgoHelper()
	var object unstructured.Unstructured
	Expect(yaml.Unmarshal([]byte(strings.TrimSpace(manifest)), &object.Object)).To(Succeed())
	if object.GetKind() != "OperatingPolicy" {
		object.SetNamespace("default")
	}
	return cluster.Client.Create(ctx, &object, client.DryRunAll, client.FieldValidation("Strict"))
}
