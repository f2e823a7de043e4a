// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/operator-framework/api/pkg/apis/scorecard/v1alpha3"
	"sigs.k8s.io/yaml"
)

func bundleFolder() string { return cmp.Or(os.Getenv("BUNDLE_DIR"), "../../bundle") }

func tool(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Skip(variable + " is not set: make bundle-validate runs this")
	}
	return path
}

func TestOperatorSDKFindsNoErrorAndNoWarning(t *testing.T) {
	sdk := tool(t, "OPERATOR_SDK")
	for _, suite := range []string{"suite=operatorframework", "name=good-practices", "name=community"} {
		t.Run(suite, func(t *testing.T) {
			g := NewWithT(t)
			out, err := exec.Command(sdk, "bundle", "validate", bundleFolder(), "--select-optional", suite,
				"--optional-values", "k8s-version=1.26", "-o", "json-alpha1").Output()
			var verdict struct {
				Passed  bool
				Outputs []any
			}
			g.Expect(json.Unmarshal(out, &verdict)).To(Succeed(), "%s %v", out, err)
			g.Expect(verdict.Outputs).To(BeEmpty())
			g.Expect(verdict.Passed).To(BeTrue())
		})
	}
}

// The scorecard of Operator SDK runs its tests in pods, each of which finds the bundle in /bundle. Here that is a folder to which
// the process is confined.
func TestTheTestsOfOperatorSDKPassWithoutASuggestion(t *testing.T) {
	g, confinement := NewWithT(t), t.TempDir()
	const program = "/scorecard-test"
	copyFile(t, tool(t, "SCORECARD_TEST"), confinement+program)
	g.Expect(os.CopyFS(confinement+"/bundle", os.DirFS(bundleFolder()))).To(Succeed())
	content, err := os.ReadFile(filepath.Join(bundleFolder(), "tests/scorecard/config.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	var configuration v1alpha3.Configuration
	g.Expect(yaml.Unmarshal(content, &configuration)).To(Succeed())
	ran := 0
	for _, test := range configuration.Stages[0].Tests {
		if !strings.Contains(test.Image, "/operator-framework/scorecard-test:") {
			continue
		}
		ran++
		t.Run(test.Entrypoint[1], func(t *testing.T) {
			g := NewWithT(t)
			command := exec.Command(program, test.Entrypoint[1:]...)
			command.Dir, command.SysProcAttr = "/", confined(confinement)
			out, err := command.Output()
			g.Expect(err).NotTo(HaveOccurred(), "confining a process needs root or user namespaces")
			var status v1alpha3.TestStatus
			g.Expect(json.Unmarshal(out, &status)).To(Succeed(), "%s", out)
			g.Expect(status.Results).To(HaveExactElements(And(
				HaveField("State", v1alpha3.PassState), HaveField("Errors", BeEmpty()), HaveField("Suggestions", BeEmpty()))))
		})
	}
	g.Expect(ran).To(Equal(6))
}

func confined(folder string) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Chroot: folder}
	if user := os.Geteuid(); user != 0 {
		attributes.Cloneflags = syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: user, Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attributes
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	g := NewWithT(t)
	source, err := os.Open(from)
	g.Expect(err).NotTo(HaveOccurred())
	defer source.Close()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o700)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = io.Copy(target, source)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(target.Close()).To(Succeed())
}

// The image runs the program as the scorecard does: by a name, with the bundle where a variable says.
func TestTheProgramPrintsAStatus(t *testing.T) {
	g := NewWithT(t)
	program := filepath.Join(t.TempDir(), "candor-scorecard")
	g.Expect(exec.Command("go", "build", "-o", program, ".").Run()).To(Succeed())
	command := exec.Command(program, "rbac")
	command.Env = append(os.Environ(), "BUNDLE_DIR="+bundleFolder())
	out, err := command.Output()
	g.Expect(err).NotTo(HaveOccurred())
	var status v1alpha3.TestStatus
	g.Expect(json.Unmarshal(out, &status)).To(Succeed())
	g.Expect(status.Results).To(HaveExactElements(And(HaveField("Name", "rbac"), HaveField("State", v1alpha3.PassState))))
}
