// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package signals

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

func TestAFindingHasTheNameOfItsIdentity(t *testing.T) {
	for name, test := range map[string]struct {
		id   Identity
		want string
	}{
		"of a container of a workload": {
			Identity{Provider: "trivy", Namespace: "team-a", Kind: "Deployment", Name: "web", Container: "nginx"}, "trivy-fa8dd5a24c3a3453cefb",
		},
		"of a provider with a slash and no container": {
			Identity{Provider: "trivy/config", Namespace: "team-a", Kind: "CronJob", Name: "backup"}, "trivy-config-a5c189db594858c5bced",
		},
		"of a signal that was posted": {PostedTo("team-a", "default", "disk", "Deployment", "web", ""), "webhook-cc46d2491c815a42528d"},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(test.id.FindingName()).To(Equal(test.want)) })
	}
}

func TestEveryIdentityHasANameThatTheAPITakes(t *testing.T) {
	for name, id := range map[string]Identity{
		"long-name: a name of 253 characters":       {Provider: "trivy", Namespace: "team-a", Kind: "ReplicaSet", Name: strings.Repeat("x", 253)},
		"rbac-colon-name: a name that holds colons": {Provider: "trivy/rbac", Namespace: "team-a", Kind: "Role", Name: "system::leader-locking:kube"},
		"a name of capitals and spaces":             {Provider: "trivy", Namespace: "team-a", Kind: "Role", Name: "A B"},
		"no name at all":                            {Provider: "trivy"},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(validation.IsDNS1123Subdomain(id.FindingName())).To(BeEmpty()) })
	}
}

func TestEachPartOfAnIdentityTellsFindingsApart(t *testing.T) {
	names := map[string]Identity{}
	for _, id := range []Identity{
		{"trivy", "team-a", "Deployment", "web", "nginx", ""},
		{"trivy/config", "team-a", "Deployment", "web", "nginx", ""},
		{"trivy", "team-b", "Deployment", "web", "nginx", ""},
		{"trivy", "team-a", "StatefulSet", "web", "nginx", ""},
		{"trivy", "team-a", "Deployment", "api", "nginx", ""},
		{"trivy", "team-a", "Deployment", "web", "envoy", ""},
		{"trivy", "team-a", "Deployment", "web", "", ""},
		{"trivy", "team-a", "Deployment", "webn", "ginx", ""},
		PostedTo("team-a", "default", "disk", "Deployment", "web", ""),
		PostedTo("team-a", "default", "disk", "Deployment", "web", "nginx"),
		PostedTo("team-a", "default", "disk/full", "Deployment", "web", ""),
		PostedTo("team-a", "other", "disk", "Deployment", "web", ""),
	} {
		other, taken := names[id.FindingName()]
		NewWithT(t).Expect(taken).To(BeFalse(), "%s and %s have one name", id, other)
		names[id.FindingName()] = id
	}
}

func TestTheIdentityOfAFindingIsThatOfItsSource(t *testing.T) {
	g := NewWithT(t)
	id := IdentityOf(&candorv1alpha1.Finding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "whatever"},
		Spec: candorv1alpha1.FindingSpec{Source: candorv1alpha1.Source{
			Provider: "trivy", Kind: "Deployment", Name: "web", Container: "nginx", RefKind: "VulnerabilityReport", RefName: "web",
		}},
	})
	g.Expect(id).To(Equal(Identity{"trivy", "team-a", "Deployment", "web", "nginx", ""}))
	g.Expect(id.String()).To(Equal("trivy team-a/Deployment/web[nginx]"))
	id.Container = ""
	g.Expect(id.String()).To(Equal("trivy team-a/Deployment/web"))
	g.Expect(PostedTo("team-a", "default", "disk", "Deployment", "web", "").String()).To(Equal("webhook team-a/Deployment/web of default/disk"))
}

func TestSeveritiesAreOrdered(t *testing.T) {
	for word, want := range map[string]Rank{
		"UNKNOWN": Unknown, "LOW": Low, "MEDIUM": Medium, "HIGH": High, "CRITICAL": Critical,
		"": Unknown, "high": Unknown, "NEGLIGIBLE": Unknown, "CRITICAL!": Unknown,
	} {
		NewWithT(t).Expect(RankOf(word)).To(Equal(want), "%q", word)
	}
	for rank := Unknown; rank <= Critical; rank++ {
		NewWithT(t).Expect(RankOf(rank.String())).To(Equal(rank))
	}
	NewWithT(t).Expect(Critical.Severity()).To(Equal(candorv1alpha1.SeverityCritical))
}

func TestAReportIsReadByTheClassOfItsKind(t *testing.T) {
	g := NewWithT(t)
	read := vulnerabilities
	one, two, three := Subject{Name: "one"}, Subject{Name: "two"}, Subject{Name: "three"}
	read.Subjects = func(*unstructured.Unstructured) ([]Subject, error) { return []Subject{one, two, three}, nil }
	read.Translate = func(u *unstructured.Unstructured, of Subject) (Report, error) {
		if of == two {
			return Report{}, &Drop{Reason: DropMalformed}
		}
		return Report{Subject: of, Name: u.GetName()}, nil
	}
	other := Class{Provider: "other"}
	classes := Classes{other, read}
	g.Expect(classes.Providers()).To(Equal([]string{"other", "trivy"}))
	g.Expect(classes.Known()).To(Equal([]string{"other", "trivy", "webhook"}))

	report := &unstructured.Unstructured{}
	report.SetGroupVersionKind(read.Kind)
	report.SetName("web")
	reports, class, err := classes.Reports(report)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(reports).To(Equal([]Report{{Subject: one, Name: "web"}, {Subject: three, Name: "web"}}))
	g.Expect(class.Provider).To(Equal("trivy"))

	report.SetKind("SbomReport")
	_, _, err = classes.Reports(report)
	g.Expect(err).To(BeComparableTo(&Drop{
		Reason: DropUnsupportedKind, Detail: "no provider reads aquasecurity.github.io/v1alpha1, Kind=SbomReport",
	}))
	g.Expect(err).To(MatchError("unsupported_kind: no provider reads aquasecurity.github.io/v1alpha1, Kind=SbomReport"))

	_, known := classes.ByProvider("falco")
	g.Expect(known).To(BeFalse())
	class, known = classes.ByProvider("trivy")
	g.Expect(known).To(BeTrue())
	g.Expect(class.Kind).To(Equal(read.Kind))
}
