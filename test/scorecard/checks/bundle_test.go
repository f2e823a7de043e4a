// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"encoding/base64"
	"os"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/operator-framework/api/pkg/apis/scorecard/v1alpha3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	root      = "../../.."
	committed = root + "/bundle"
)

// folder is that of the bundle that has to pass: make bundle-validate may name another than the committed one.
var folder = cmp.Or(os.Getenv("BUNDLE_DIR"), committed)

func bundle(t *testing.T) *Bundle {
	t.Helper()
	b, err := Read(committed)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return b
}

func TestTheBundlePasses(t *testing.T) {
	results := Run(folder).Results
	NewWithT(t).Expect(results).To(HaveLen(len(all)))
	for _, result := range results {
		t.Run(result.Name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(result.State).To(Equal(v1alpha3.PassState), "%v", result.Errors)
			g.Expect(result.Errors).To(BeEmpty())
			g.Expect(result.Suggestions).To(BeEmpty())
		})
	}
}

func TestARunThatCannotBeHadIsAnError(t *testing.T) {
	g := NewWithT(t)
	unknown := Run(folder, "icons").Results
	g.Expect(unknown).To(HaveExactElements(And(HaveField("State", v1alpha3.ErrorState),
		HaveField("Errors", ConsistOf(ContainSubstring("known: optional-dependency, rbac"))))))
	g.Expect(Run(t.TempDir(), "rbac").Results).To(HaveExactElements(And(HaveField("State", v1alpha3.ErrorState),
		HaveField("Errors", ConsistOf(ContainSubstring("unable to find a csv"))))))
}

func TestTheScorecardRunsEveryCheck(t *testing.T) {
	g := NewWithT(t)
	var configuration v1alpha3.Configuration
	content, err := os.ReadFile(folder + "/tests/scorecard/config.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(yaml.Unmarshal(content, &configuration)).To(Succeed())
	g.Expect(configuration.Stages).To(HaveLen(1))
	var run []string
	builtIn := 0
	for _, test := range configuration.Stages[0].Tests {
		if test.Labels["suite"] != "candor" {
			builtIn++
			continue
		}
		g.Expect(test.Entrypoint).To(HaveLen(2))
		g.Expect(test.Entrypoint[0]).To(Equal("candor-scorecard"))
		g.Expect(test.Labels).To(HaveKeyWithValue("test", test.Entrypoint[1]+"-test"))
		run = append(run, test.Entrypoint[1])
	}
	g.Expect(run).To(Equal(Names()))
	g.Expect(builtIn).To(Equal(6))
}

func TestTheImageOfTheBundleIsLabelledAsItsAnnotationsSay(t *testing.T) {
	g := NewWithT(t)
	recipe, err := os.ReadFile(committed + ".Dockerfile")
	g.Expect(err).NotTo(HaveOccurred())
	labels := map[string]string{}
	for _, label := range regexp.MustCompile(`(?m)^LABEL ([^=]+)=(.*)$`).FindAllStringSubmatch(string(recipe), -1) {
		labels[label[1]] = label[2]
	}
	g.Expect(labels).To(Equal(bundle(t).Annotations))
}

func TestTheIconIsTheOneInTheDocumentation(t *testing.T) {
	g := NewWithT(t)
	drawn, err := os.ReadFile(root + "/docs/icon.svg")
	g.Expect(err).NotTo(HaveOccurred())
	icons := bundle(t).CSV.Spec.Icon
	g.Expect(icons).To(HaveExactElements(HaveField("MediaType", "image/svg+xml")))
	shown, err := base64.StdEncoding.DecodeString(icons[0].Data)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(shown)).To(Equal(string(drawn)))
}

func TestTheConsoleAsksForTheSampleOfAPolicy(t *testing.T) {
	g := NewWithT(t)
	var sample map[string]any
	content, err := os.ReadFile(root + "/config/samples/candor_v1alpha1_signalpolicy.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(yaml.Unmarshal(content, &sample)).To(Succeed())
	var asked unstructured.Unstructured
	g.Expect(asked.UnmarshalJSON([]byte(bundle(t).CSV.Annotations[initializationAnnotation]))).To(Succeed())
	g.Expect(asked.Object).To(Equal(sample))
}
