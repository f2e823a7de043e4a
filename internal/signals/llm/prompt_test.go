// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llm

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/policy"
	"github.com/candor-dev/candor/internal/signals/trivy"
	"github.com/candor-dev/candor/test/builder"
)

var update = flag.Bool("update", false, "write the golden files of prompts anew")

// image is the Finding of an nginx image in the container proxy of the Deployment storefront.
func image(change ...func(*candorv1alpha1.FindingSpec)) candorv1alpha1.FindingSpec {
	spec := candorv1alpha1.FindingSpec{
		Source: candorv1alpha1.Source{
			Provider: "trivy", Kind: "Deployment", Name: "storefront", Container: "proxy", RefKind: "VulnerabilityReport", RefName: "storefront",
		},
		Severity: candorv1alpha1.SeverityCritical,
		Summary:  "1 CRITICAL, 2 HIGH vulnerabilities in library/nginx (container proxy)",
		Evidence: &candorv1alpha1.Evidence{
			Digest: strings.Repeat("ab", 32), Total: 3, Fixable: 2, BySeverity: candorv1alpha1.SeverityCounts{Critical: 1, High: 2},
			Artifact: candorv1alpha1.Artifact{Registry: "registry.corp.example", Repository: "library/nginx", Tag: "1.25.3", Digest: "sha256:4c0f"},
			Top: []candorv1alpha1.Entry{
				{ID: "CVE-2023-45853", Severity: "CRITICAL", Package: "zlib1g", Installed: "1:1.2.13.dfsg-1"},
				{ID: "CVE-2024-2961", Severity: "HIGH", Package: "libc6", Installed: "2.36-9+deb12u4", Fixed: "2.36-9+deb12u6"},
				{ID: "CVE-2024-33599", Severity: "HIGH", Package: "libc6", Installed: "2.36-9+deb12u4", Fixed: "< 2.36-9+deb12u7 & newer"},
			},
		},
	}
	for _, c := range change {
		c(&spec)
	}
	return spec
}

// checks is a Finding about failed checks, one for each message.
func checks(provider, kind, name string, messages ...string) candorv1alpha1.FindingSpec {
	spec := candorv1alpha1.FindingSpec{
		Source:   candorv1alpha1.Source{Provider: provider, Kind: kind, Name: name, RefKind: "ConfigAuditReport", RefName: name},
		Severity: candorv1alpha1.SeverityHigh,
		Evidence: &candorv1alpha1.Evidence{Total: int32(len(messages)), BySeverity: candorv1alpha1.SeverityCounts{High: int32(len(messages))}},
	}
	for i, message := range messages {
		spec.Evidence.Top = append(spec.Evidence.Top, candorv1alpha1.Entry{ID: fmt.Sprintf("KSV%03d", i+1), Severity: "HIGH", Message: message})
	}
	return spec
}

// postedSpec is a Finding about a signal that another tool posted.
func postedSpec(name, summary string) candorv1alpha1.FindingSpec {
	spec, _ := signals.PostedSpec(signals.PostedTo("team-a", "default", "slow", "Deployment", name, ""), signals.High, summary)
	return spec
}

// largest is a Finding whose every field is as large as the API lets it be, in bytes of JSON too.
func largest() candorv1alpha1.FindingSpec {
	return image(func(s *candorv1alpha1.FindingSpec) {
		s.Source.Container, s.Source.Kind = strings.Repeat("c", 253), strings.Repeat("K", 63)
		s.Evidence.Total, s.Evidence.Artifact.Repository = 5000, strings.Repeat("<", 256)
		s.Evidence.Top = nil
		for i := range 25 {
			s.Evidence.Top = append(s.Evidence.Top, candorv1alpha1.Entry{
				ID: fmt.Sprintf("CVE-%02d-%s", i, strings.Repeat("&", 57)), Severity: "CRITICAL", Package: strings.Repeat("世", 128),
				Installed: strings.Repeat(`"`, 64), Fixed: strings.Repeat("<", 64), Message: strings.Repeat("m ", 128),
			})
		}
	})
}

// fenced returns what stands between the marks. It fails the test unless the marks stand once each, on lines of their own.
func fenced(t testing.TB, p Prompt) string {
	t.Helper()
	g := NewWithT(t)
	lines := strings.Split(p.User, "\n")
	g.Expect(lines).To(HaveLen(5))
	mark := strings.TrimSuffix(strings.TrimPrefix(lines[1], "<evidence-"), ">")
	g.Expect(mark).To(MatchRegexp(`^[0-9a-f]{32}$`))
	g.Expect(lines[1]).To(Equal("<evidence-" + mark + ">"))
	g.Expect(lines[3]).To(Equal("</evidence-" + mark + ">"))
	g.Expect(strings.Count(p.User, mark)).To(Equal(2), "the mark stands at the beginning and at the end only")
	g.Expect(lines[2]).NotTo(ContainSubstring("<"), "no data can begin a mark")
	return lines[2]
}

// told returns the evidence in a prompt.
func told(t testing.TB, p Prompt) evidence {
	t.Helper()
	var e evidence
	decoder := json.NewDecoder(strings.NewReader(fenced(t, p)))
	decoder.DisallowUnknownFields()
	NewWithT(t).Expect(decoder.Decode(&e)).To(Succeed())
	return e
}

func TestPromptsAreThoseOfTheGoldenFiles(t *testing.T) {
	for name, prompt := range map[string]Prompt{
		"image":       Compose(image(), "team-a", candorv1alpha1.SharingCluster),
		"image-alone": Compose(image(), "team-a", candorv1alpha1.SharingNone),
		"workload": Compose(checks("trivy/config", "ReplicaSet", "coredns",
			"Container 'dns' of ReplicaSet 'coredns' should set 'resources.requests.memory'",
			"Container dns in replicaset coredns (namespace: kube-system) uses an image from an untrusted registry.",
			"Either Pod or Container should set 'securityContext.seccompProfile.type' to 'RuntimeDefault'",
		), "kube-system", candorv1alpha1.SharingCluster),
		"role": Compose(checks("trivy/rbac", "Role", "system:proxy",
			"Role 'system:proxy' shouldn't have access to manage secrets in namespace 'default'"), "default", candorv1alpha1.SharingNamespace),
		"signal":  Compose(postedSpec("checkout", "Checkout of checkout answers slowly in team-a."), "team-a", candorv1alpha1.SharingCluster),
		"largest": Compose(largest(), "team-a", candorv1alpha1.SharingNone),
		"nothing": Compose(candorv1alpha1.FindingSpec{}, "", candorv1alpha1.SharingCluster),
	} {
		t.Run(name, func(t *testing.T) {
			fenced(t, prompt)
			expectGolden(t, name, prompt.User)
		})
	}
	t.Run("system", func(t *testing.T) {
		expectGolden(t, "system", Compose(image(), "", candorv1alpha1.SharingCluster).System)
	})
}

// A golden file that has to change asks for another PromptVersion, which is part of its path.
func expectGolden(t *testing.T, name, got string) {
	t.Helper()
	g := NewWithT(t)
	file := filepath.Join("testdata", "prompt-v"+PromptVersion, name+".txt")
	if *update {
		g.Expect(os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())
		g.Expect(os.WriteFile(file, []byte(got+"\n"), 0o644)).To(Succeed())
	}
	want, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred(), "run the test with -update to write it")
	g.Expect(got+"\n").To(Equal(string(want)), "what a model is asked has changed: raise PromptVersion and run the test with -update")
}

func TestTheSystemTextNamesEveryAction(t *testing.T) {
	for _, action := range actions {
		NewWithT(t).Expect(system).To(ContainSubstring(string(action)))
	}
	NewWithT(t).Expect(len(system)).To(BeNumerically("<", 4<<10))
}

func TestEqualEvidenceAsksTheSameWhoeverHasIt(t *testing.T) {
	elsewhere := func(s *candorv1alpha1.FindingSpec) {
		s.Source.Kind, s.Source.Name, s.Source.Container, s.Source.RefName = "StatefulSet", "ledger-of-team-b", "sidecar", "statefulset-ledger"
		s.Summary = "in other words"
		s.Evidence.Artifact.Registry, s.Evidence.Artifact.Tag, s.Evidence.Artifact.Digest = "mirror.team-b.example", "1.25.4", "sha256:77aa"
	}
	for _, sharing := range []candorv1alpha1.Sharing{candorv1alpha1.SharingCluster, candorv1alpha1.SharingNamespace} {
		t.Run(string(sharing), func(t *testing.T) {
			g := NewWithT(t)
			mine, theirs := Compose(image(), "team-a", sharing), Compose(image(elsewhere), "team-b", sharing)
			g.Expect(mine).To(Equal(theirs))
			for _, private := range []string{"storefront", "proxy", "team-a", "Deployment", "registry.corp", "1.25.3", "4c0f", "team-b", "ledger", "sidecar", "StatefulSet", "abab"} {
				g.Expect(mine.User).NotTo(ContainSubstring(private))
			}
		})
	}
	t.Run("failed checks too, though messages have names in them", func(t *testing.T) {
		g := NewWithT(t)
		of := func(workload, container, namespace string) Prompt {
			return Compose(checks("trivy/config", "ReplicaSet", workload,
				fmt.Sprintf("Container '%s' of ReplicaSet '%s' should set 'securityContext.runAsNonRoot' to true", container, workload),
				fmt.Sprintf(`container "%s" of replicaset "%s" in "%s" namespace should specify a seccomp profile`, container, workload, namespace),
				fmt.Sprintf("Container %s in replicaset %s (namespace: %s) uses an image from an untrusted registry.", container, workload, namespace),
				fmt.Sprintf("replicaset %s in %s namespace is using the default security context", workload, namespace),
			), namespace, candorv1alpha1.SharingCluster)
		}
		mine, theirs := of("storefront", "storefront", "team-a"), of("ledger", "app", "team-b")
		g.Expect(mine).To(Equal(theirs))
		g.Expect(mine.User).NotTo(MatchRegexp("storefront|team-a|ledger|team-b"))
	})
	t.Run("large entries too, of which a Finding with long names shows fewer", func(t *testing.T) {
		g := NewWithT(t)
		evidence := signals.Evidence{Worst: signals.High}
		for i := range 100 {
			evidence.Entries = append(evidence.Entries, signals.Entry{
				Rank: signals.High, ID: fmt.Sprintf("CVE-2026-%055d", i), Package: strings.Repeat("p", 128),
				Installed: strings.Repeat("1", 64), Fixed: strings.Repeat("2", 64), Message: strings.Repeat("m", 256),
			})
		}
		of := func(length int) candorv1alpha1.FindingSpec {
			id := signals.Identity{Provider: "trivy", Namespace: "team-a", Kind: "Deployment", Name: strings.Repeat("w", length), Container: strings.Repeat("c", length)}
			report := signals.Report{Subject: signals.Subject{Kind: "ReplicaSet", Name: id.Name + "-7d9f"}, Artifact: candorv1alpha1.Artifact{Registry: "index.docker.io", Repository: "library/nginx", Tag: strings.Repeat("t", length/2)}}
			return signals.Spec(trivy.Vulnerabilities(), id, report, evidence)
		}
		short, long := of(1), of(253)
		g.Expect(len(short.Evidence.Top)).To(BeNumerically(">", len(long.Evidence.Top)))
		g.Expect(Compose(short, "team-a", candorv1alpha1.SharingCluster)).To(Equal(Compose(long, "team-a", candorv1alpha1.SharingCluster)))
	})
	t.Run("sharing None names kind and container, and nothing else of the workload", func(t *testing.T) {
		g := NewWithT(t)
		e := told(t, Compose(image(), "team-a", candorv1alpha1.SharingNone))
		g.Expect([]string{e.Kind, e.Container}).To(Equal([]string{"Deployment", "proxy"}))
		e.Kind, e.Container = "", ""
		g.Expect(e).To(Equal(told(t, Compose(image(), "team-a", candorv1alpha1.SharingCluster))))
	})
}

func TestNamesAreTakenOutOfMessages(t *testing.T) {
	source := candorv1alpha1.Source{Name: "web", Container: "web-proxy"}
	for name, test := range map[string]struct{ message, want string }{
		"quoted, longest first":                   {`'web-proxy' of "web" in 'prod'`, `'CONTAINER' of "OBJECT" in 'NAMESPACE'`},
		"at both ends and before punctuation":     {"web, web: prod (prod). web", "OBJECT, OBJECT: NAMESPACE (NAMESPACE). OBJECT"},
		"in a dotted name":                        {"web.prod.svc", "OBJECT.NAMESPACE.svc"},
		"not inside a longer word":                {"webhook cobweb web-server my_web product prod2", "webhook cobweb web-server my_web product prod2"},
		"not inside a word of another script":     {"web世 éweb", "web世 éweb"},
		"twice in a row":                          {"web web/web", "OBJECT OBJECT/OBJECT"},
		"a container that only the message knows": {"Container 'x9' of Pod 'web' and container \"y\"", "Container 'CONTAINER' of Pod 'OBJECT' and container 'CONTAINER'"},
		"such a container without quotes":         {"Container x9.y in replicaset web", "Container CONTAINER in replicaset OBJECT"},
		"no container at all":                     {"Either Pod or Container should set it; the container image in use", "Either Pod or Container should set it; the container image in use"},
		"a message cut inside a name":             {"should not be in namespace pro…", "should not be in namespace …"},
		"a message cut inside the longest name":   {"see web-pr…", "see …"},
		"a message cut inside a quoted container": {"Container 'x9…", "Container 'CONTAINER'"},
		"a message cut inside another word":       {"should se…", "should se…"},
		"a message cut after a name":              {"see prod…", "see NAMESPACE…"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(namesOf(source, "prod").hide(test.message)).To(Equal(test.want))
		})
	}
	t.Run("a name with blanks and colons", func(t *testing.T) {
		odd := namesOf(candorv1alpha1.Source{Name: "system:leader  election"}, "")
		NewWithT(t).Expect(odd.hide("Role 'system:leader election' of system:leader")).To(Equal("Role 'OBJECT' of system:leader"))
	})
}

func TestTheRepositoryIsTheNameOfAnImageAlone(t *testing.T) {
	for image, want := range map[string]string{
		"library/nginx":       "library/nginx",
		"nginx":               "nginx",
		"nginx:1.25":          "nginx",
		"acme/app@sha256:abc": "acme/app",
		"registry.corp.example:5000/acme/app:v1@x": "acme/app",
		"localhost/acme/app":                       "acme/app",
		"acme/app.v2":                              "acme/app.v2",
		"":                                         "",
	} {
		t.Run(image, func(t *testing.T) { NewWithT(t).Expect(repository(image)).To(Equal(want)) })
	}
}

func TestTheLargestFindingFitsByDroppingLines(t *testing.T) {
	g := NewWithT(t)
	p := Compose(largest(), strings.Repeat("n", 63), candorv1alpha1.SharingNone)
	g.Expect(len(p.User)).To(And(BeNumerically("<=", maxUser), BeNumerically(">", maxUser-2048)))
	e := told(t, p)
	g.Expect(len(e.Lines)).To(And(BeNumerically(">", 1), BeNumerically("<", 25)))
	g.Expect(int(e.More)+len(e.Lines)).To(Equal(5000), "it says how many are not listed")
	g.Expect(e.Lines[0].ID).To(HavePrefix("CVE-00"), "the mildest are dropped")
}

func TestForeignTextIsOneBoundedVisibleLine(t *testing.T) {
	g := NewWithT(t)
	hostile := "a\x00b\x1b[31mc\u202ed\u200be\ufefff\u00adg\u2028h\r\n\ti\xff\xfej\U000E0041k\uFE0Fl\u3164m\uE000n\u00a0o"
	e := told(t, Compose(image(func(s *candorv1alpha1.FindingSpec) {
		s.Evidence.Artifact.Repository = hostile
		s.Evidence.Top = []candorv1alpha1.Entry{{ID: hostile, Severity: "severe", Package: hostile, Installed: hostile, Fixed: hostile, Message: hostile}}
	}), "team-a", candorv1alpha1.SharingCluster))
	const clean = "ab[31mcdefg h ijklmn o"
	g.Expect(e.Repository).To(Equal(clean))
	g.Expect(e.Lines).To(Equal([]candorv1alpha1.Entry{{ID: clean, Severity: "UNKNOWN", Package: clean, Installed: clean, Fixed: clean, Message: clean}}))
}

// G16: whatever the order of a report of 5,000 entries, the prompt is the same and bounded.
func TestAReportOfFiveThousandEntriesAsksABoundedQuestion(t *testing.T) {
	g := NewWithT(t)
	entries := append(builder.Vulnerabilities(4990, "HIGH"), builder.Vulnerabilities(10, "CRITICAL")...)
	for i, entry := range entries {
		entry.(map[string]any)["vulnerabilityID"] = fmt.Sprintf("CVE-2026-%05d", i)
	}
	var first Prompt
	for round := range 5 {
		report := builder.VulnerabilityReport("team-a", "ReplicaSet", "web-7d9f", "nginx", slices.Clone(entries))
		p := Compose(specOf(t, report, "web"), "team-a", candorv1alpha1.SharingCluster)
		if round == 0 {
			first = p
		}
		g.Expect(p).To(Equal(first))
		rand.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	}
	e := told(t, first)
	g.Expect(len(first.User)).To(BeNumerically("<=", maxUser))
	g.Expect([]int{len(e.Lines), int(e.Total), int(e.More)}).To(Equal([]int{25, 5000, 4975}))
	g.Expect(e.Lines[9].Severity + " " + e.Lines[10].Severity).To(Equal("CRITICAL HIGH"))
}

// specOf is what becomes of a report of a Deployment where LOW and above is asked for.
func specOf(t *testing.T, report *unstructured.Unstructured, owner string) candorv1alpha1.FindingSpec {
	t.Helper()
	classes := signals.Classes{trivy.Vulnerabilities(), trivy.ConfigAudits(), trivy.RBACAssessments(), trivy.ExposedSecrets()}
	reports, class, err := classes.Reports(report)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	translated := reports[0]
	id := signals.Identity{Provider: class.Provider, Namespace: report.GetNamespace(), Kind: "Deployment", Name: owner, Container: translated.Subject.Container}
	return signals.Spec(class, id, translated, policy.Ask{MinRank: signals.Low}.Select(translated.Entries))
}

const fixturesVariable = "CANDOR_TRIVY_FIXTURES"

func TestReportsOfTheRealOperatorNameNobody(t *testing.T) {
	folder := os.Getenv(fixturesVariable)
	if folder == "" {
		t.Skipf("set %s to a folder of reports of Trivy Operator, one in a YAML file, to read them", fixturesVariable)
	}
	asked := 0
	for _, kind := range []string{"vulnerabilityreport-*.yaml", "configauditreport-*.yaml", "rbacassessmentreport-*.yaml"} {
		files, err := filepath.Glob(filepath.Join(folder, kind))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(files).NotTo(BeEmpty(), "%s=%s holds no %s", fixturesVariable, folder, kind)
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				g := NewWithT(t)
				content, err := os.ReadFile(file)
				g.Expect(err).NotTo(HaveOccurred())
				report := &unstructured.Unstructured{}
				g.Expect(yaml.Unmarshal(content, &report.Object)).To(Succeed())
				report.SetNamespace("tenant-seven")
				labels := report.GetLabels()
				if labels["trivy-operator.resource.name"] == "" {
					t.Skip("it is named by an annotation")
				}
				spec := specOf(t, report, "shop-floor")
				p := Compose(spec, "tenant-seven", candorv1alpha1.SharingCluster)
				e := told(t, p)
				g.Expect(p.User).NotTo(MatchRegexp("tenant-seven|shop-floor|" + labels["trivy-operator.resource.name"]))
				g.Expect(int(e.More) + len(e.Lines)).To(Equal(int(spec.Evidence.Total)))
				g.Expect(e.Lines).To(HaveLen(len(spec.Evidence.Top)), "there is room for every line of a real report")
				asked++
			})
		}
	}
	NewWithT(t).Expect(asked).To(BeNumerically(">=", 8))
}
