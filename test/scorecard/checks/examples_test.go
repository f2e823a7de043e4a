// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/trivy"
)

func example(t *testing.T, kind string, into any) {
	t.Helper()
	g := NewWithT(t)
	examples, err := bundle(t).Examples()
	g.Expect(err).NotTo(HaveOccurred())
	for _, object := range examples {
		if object.GetKind() == kind {
			g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into)).To(Succeed())
			return
		}
	}
	t.Fatal("no example of a " + kind)
}

func TestTheExampleOfAFindingIsWhatTheManagerWrites(t *testing.T) {
	g := NewWithT(t)
	var finding candorv1alpha1.Finding
	example(t, "Finding", &finding)
	evidence := signals.Evidence{Worst: signals.RankOf(string(finding.Spec.Severity))}
	for _, e := range finding.Spec.Evidence.Top {
		evidence.Entries = append(evidence.Entries, signals.Entry{
			Rank: signals.RankOf(e.Severity), ID: e.ID, Package: e.Package, Installed: e.Installed, Fixed: e.Fixed,
		})
	}
	report := signals.Report{
		Subject:  signals.Subject{Namespace: finding.Namespace, Kind: "ReplicaSet", Name: "web-7d9f8c6b5", Container: "nginx"},
		Artifact: finding.Spec.Evidence.Artifact,
	}
	id := signals.IdentityOf(&finding)
	g.Expect(finding.Spec).To(Equal(signals.Spec(trivy.Vulnerabilities(), id, report, evidence)))
	g.Expect(finding.Name).To(Equal(id.FindingName()))
	g.Expect(finding.Status.Fingerprint).To(Equal(signals.Fingerprint(signals.Of(&finding))))
	g.Expect(finding.Status.Brief).To(Equal(signals.Brief(finding.Spec.Evidence)))

	var suppression candorv1alpha1.Suppression
	example(t, "Suppression", &suppression)
	g.Expect(suppression.Spec.Fingerprint).To(Equal(finding.Status.Fingerprint))
	g.Expect(suppression.Status.Finding).To(Equal(finding.Name))
}
