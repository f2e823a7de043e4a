// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/candor-dev/candor/internal/signals"
)

const fixturesVariable = "CANDOR_TRIVY_FIXTURES"

// Every file of the folder is either read or left out for a reason that can be told.
func TestReportsOfTheRealOperatorAreReadOrRejected(t *testing.T) {
	folder := os.Getenv(fixturesVariable)
	if folder == "" {
		t.Skipf("set %s to a folder of reports of Trivy Operator, one in a YAML file, to read them", fixturesVariable)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(files).NotTo(BeEmpty(), "%s=%s holds no file named *.yaml", fixturesVariable, folder)
	seen := map[string]int{}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			g := NewWithT(t)
			object := readYAML(t, file)
			reports, class, err := classes.Reports(object)
			var drop *signals.Drop
			if errors.As(err, &drop) {
				g.Expect(drop.Reason).NotTo(BeEmpty())
				g.Expect(drop.Detail).NotTo(BeEmpty())
				t.Logf("left out: %s", drop)
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(reports).To(HaveLen(1))
			report := reports[0]
			seen[class.Provider]++
			again, err := read(class, compact(t, class, object).(*unstructured.Unstructured))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(again).To(BeComparableTo(report), "from memory")
			expectWithinBounds(t, report)
			t.Logf("read as %s: %s %s/%s[%s], %d entries, superseded %t", class.Provider, report.Subject.Kind, report.Subject.Namespace,
				report.Subject.Name, report.Subject.Container, len(report.Entries), report.Superseded)
		})
	}
	NewWithT(t).Expect(seen).To(And(HaveKey("trivy"), HaveKey("trivy/config"), HaveKey("trivy/rbac"), HaveKey("trivy/secrets")))
}

func readYAML(t *testing.T, file string) *unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(file)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	object := &unstructured.Unstructured{}
	NewWithT(t).Expect(yaml.Unmarshal(content, &object.Object)).To(Succeed())
	return object
}
