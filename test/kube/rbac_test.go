// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
)

const checkout = "testdata/checkout"

func TestRightsAreThoseThatKustomizeInstalls(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(checkout, "built.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	built, err := parseObjects(content)
	g.Expect(err).NotTo(HaveOccurred())
	var want []any
	for _, object := range built {
		if object.GetKind() != "Service" { // no right
			want = append(want, object)
		}
	}

	got, err := readRights(checkout)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.objects).To(ConsistOf(want...))
	g.Expect(got.namespace).To(Equal("candor-system"))
	g.Expect(got.account).To(Equal("candor-controller-manager"))
}

func TestOneRightOfEachBoundRoleIsWaitedFor(t *testing.T) {
	g := NewWithT(t)
	r, err := readRights(checkout)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sampleRights(r.objects)).To(ConsistOf(
		authorizationv1.ResourceAttributes{Verb: "patch", Resource: "configmaps", Subresource: "status", Name: "known"},
		authorizationv1.ResourceAttributes{Verb: "create", Group: "coordination.k8s.io", Resource: "leases", Namespace: "candor-system"},
	))
}

func TestAKustomizationThatCouldChangeRightsIsRefused(t *testing.T) {
	g := NewWithT(t)
	_, err := readObjects("testdata/unknown-field")
	g.Expect(err).To(MatchError(ContainSubstring(`unknown field "patches"`)))
}

func TestAMissingFileIsNamed(t *testing.T) {
	g := NewWithT(t)
	_, err := readRights("testdata")
	g.Expect(err).To(MatchError(ContainSubstring("testdata/config/default/kustomization.yaml")))
}

func TestTrivyCRDsCarryTheirSource(t *testing.T) {
	g := NewWithT(t)
	names, err := crdNames(trivyCRDs)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(names).To(ConsistOf("vulnerabilityreports", "configauditreports", "rbacassessmentreports", "exposedsecretreports"))
	for _, name := range names {
		crd, err := readCRD(trivyCRDs, name)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(crd.GetName()).To(Equal(name + ".aquasecurity.github.io"))
		content, err := crdFiles.ReadFile(trivyCRDs + "/" + name + ".yaml")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(content)).To(HavePrefix("# Source: github.com/aquasecurity/trivy-operator"))
	}
}
