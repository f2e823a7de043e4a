// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package openreports

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/sparse"
	"github.com/candor-dev/candor/test/builder"
)

var classes = signals.Classes{Reports(), PolicyReports()}

// read returns what a report says, once it has been through the decoder of the cache and been compacted.
func read(t *testing.T, report *unstructured.Unstructured) ([]signals.Report, error) {
	t.Helper()
	g := NewWithT(t)
	class := classOf(report)
	want, wantErr := class.Reports(report)
	text, err := json.Marshal(report.Object)
	g.Expect(err).NotTo(HaveOccurred())
	fields := sparse.Of(append([]string{"apiVersion", "kind", "metadata"}, class.Fields...)...)
	decoded, err := fields.Decode(sparse.NewDecoder(bytes.NewReader(text)))
	g.Expect(err).NotTo(HaveOccurred())
	slim, err := class.Compact(&unstructured.Unstructured{Object: decoded.(map[string]any)})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(class.Compact(slim)).To(BeIdenticalTo(slim))
	got, gotErr := class.Reports(slim.(*unstructured.Unstructured))
	g.Expect(got).To(BeComparableTo(want), "from memory")
	if wantErr == nil {
		g.Expect(gotErr).NotTo(HaveOccurred())
	} else {
		g.Expect(gotErr).To(BeComparableTo(wantErr), "from memory")
	}
	return want, wantErr
}

func classOf(report *unstructured.Unstructured) signals.Class {
	for _, class := range classes {
		if class.Kind == report.GroupVersionKind() {
			return class
		}
	}
	panic("no class reads " + report.GetKind())
}

func web(results ...any) *unstructured.Unstructured {
	return builder.OpenReport("team-a", "r-1", results, builder.Scope("Deployment", "web"))
}

func kyverno(rule, outcome, severity string, objects ...any) map[string]any {
	return builder.Result("kyverno", "require-limits", rule, outcome, severity, objects...)
}

func subject(kind, name string) signals.Subject {
	return signals.Subject{Namespace: "team-a", Kind: kind, Name: name}
}

func TestFailedRulesOfAScopeBecomeEntries(t *testing.T) {
	for name, build := range map[string]func(string, string, []any, ...func(*unstructured.Unstructured)) *unstructured.Unstructured{
		"a Report": builder.OpenReport, "a PolicyReport": builder.PolicyReport,
	} {
		t.Run(name, func(t *testing.T) {
			reports, err := read(t, build("team-a", "r-1", []any{
				kyverno("memory", "fail", "medium"), kyverno("cpu", "pass", "high"), kyverno("pids", "skip", "high"),
				kyverno("disk", "warn", "critical"), kyverno("net", "error", "critical"), kyverno("label", "fail", ""), kyverno("owner", "fail", "info"),
			}, builder.Scope("Deployment", "web")))
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			entry := func(rank signals.Rank, rule string) signals.Entry {
				return signals.Entry{Rank: rank, ID: "require-limits/" + rule, Source: "kyverno", Message: "validation error: rule " + rule + " failed"}
			}
			NewWithT(t).Expect(reports).To(BeComparableTo([]signals.Report{{
				Subject: subject("Deployment", "web"), Name: "r-1", Entries: []signals.Entry{
					entry(signals.Critical, "disk"), entry(signals.Medium, "memory"), entry(signals.Low, "owner"),
					entry(signals.Unknown, "label"), entry(signals.Unknown, "net"),
				},
			}}))
		})
	}
}

func TestARuleIsNamedByItsPolicy(t *testing.T) {
	for name, test := range map[string]struct{ source, policy, rule, want string }{
		"with a rule":                               {"kyverno", "p", "r", "p/r"},
		"without a rule":                            {"Falco", "Terminal shell", "", "Terminal shell"},
		"with a rule of the same name":              {"kubewarden", "no-privileged", "no-privileged", "no-privileged"},
		"of Kyverno, made for a workload":           {"kyverno", "p", "autogen-r", "p/r"},
		"of Kyverno, made for a CronJob":            {"Kyverno", "p", "autogen-cronjob-r", "p/r"},
		"of Kyverno's newer policies, for one":      {"KyvernoValidatingPolicy", "p", "autogen-r", "p/r"},
		"of another tool, whatever its name":        {"kubewarden", "p", "autogen-r", "p/autogen-r"},
		"of a policy of a namespace":                {"kyverno", "team-a/p", "r", "team-a/p/r"},
		"with characters that no line may hold":     {"x", "p\n", "\tr\x1b", "p/r"},
		"that is longer than what is taken of text": {"x", strings.Repeat("p", 512), "r", strings.Repeat("p", 509) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			reports, err := read(t, web(builder.Result(test.source, test.policy, test.rule, "fail", "high")))
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(reports[0].Entries[0].ID).To(Equal(test.want))
		})
	}
}

func TestTheSourceOfAReportHoldsWhereAResultHasNone(t *testing.T) {
	mixed := web(builder.Result("", "p", "a", "fail", "high"), builder.Result("falco", "p", "b", "fail", "high"))
	mixed.Object["source"] = "kubewarden"
	reports, err := read(t, mixed)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(reports).To(HaveLen(1))
	NewWithT(t).Expect([]string{reports[0].Entries[0].Source, reports[0].Entries[1].Source}).To(Equal([]string{"kubewarden", "falco"}))
}

func TestAReportOfManyResourcesSpeaksForEach(t *testing.T) {
	api, job := builder.Object("team-a", "Deployment", "api"), builder.Object("", "Job", "backup")
	reports, err := read(t, builder.PolicyReport("team-a", "falco-policy-report", []any{
		builder.Result("Falco", "Shell in container", "", "fail", "high", api),
		builder.Result("Falco", "Write below etc", "", "fail", "low", api, job),
		kyverno("cpu", "fail", "medium", api), kyverno("cpu", "pass", "medium", builder.Object("team-a", "Deployment", "clean")),
	}))
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	ids := map[signals.Subject][]string{}
	for _, report := range reports {
		ids[report.Subject] = []string{}
		for _, entry := range report.Entries {
			ids[report.Subject] = append(ids[report.Subject], entry.ID)
		}
	}
	g.Expect(ids).To(Equal(map[signals.Subject][]string{
		subject("Deployment", "api"):   {"Shell in container", "require-limits/cpu", "Write below etc"},
		subject("Job", "backup"):       {"Write below etc"},
		subject("Deployment", "clean"): {},
	}))
	g.Expect(reports).To(HaveLen(3))
}

func TestAReportThatOnlyPassesProvesThatItsResourceIsClean(t *testing.T) {
	for name, report := range map[string]*unstructured.Unstructured{
		"of passed rules": web(kyverno("cpu", "pass", "high")), "of no rules": web(),
	} {
		t.Run(name, func(t *testing.T) {
			reports, err := read(t, report)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(reports).To(HaveLen(1))
			NewWithT(t).Expect(reports[0].Entries).To(BeEmpty())
		})
	}
}

func TestWhatCandorSaysItselfIsNoEvidence(t *testing.T) {
	own := &signals.Drop{Reason: signals.DropOwnReport, Detail: "a result says that its source is Candor"}
	for _, source := range []string{"candor", "Candor", "CANDOR"} {
		t.Run("of the source "+source, func(t *testing.T) {
			g := NewWithT(t)
			reports, err := read(t, web(builder.Result(source, "p", "r", "fail", "critical")))
			g.Expect(err).To(BeComparableTo(own))
			g.Expect(reports).To(BeEmpty())

			reports, err = read(t, web(builder.Result(source, "p", "r", "fail", "critical"), kyverno("cpu", "fail", "low")))
			g.Expect(err).To(BeComparableTo(own))
			g.Expect(reports).To(HaveLen(1))
			g.Expect(reports[0].Entries).To(HaveLen(1))
		})
	}
}

func TestWhatARescanChangesIsNoNews(t *testing.T) {
	results := func() []any {
		var all []any
		for i := range 20 {
			all = append(all, kyverno(fmt.Sprint("rule-", i), "fail", "high"))
		}
		return all
	}
	want, err := read(t, web(results()...))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, change := range map[string]func([]any) []any{
		"the order": func(all []any) []any {
			rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			return all
		},
		"the times, categories and properties": func(all []any) []any {
			for _, each := range all {
				result := each.(map[string]any)
				result["timestamp"] = map[string]any{"seconds": int64(1), "nanos": int64(2)}
				result["category"], result["properties"], result["scored"] = "x", map[string]any{"a": "b"}, false
			}
			return all
		},
		"duplicates":          func(all []any) []any { return append(all, results()...) },
		"a rule that it pass": func(all []any) []any { return append(all, kyverno("new", "pass", "high")) },
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(t, web(change(results())...))
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(got).To(BeComparableTo(want))
		})
	}
}

func TestAMessageIsShownUpToALengthAndHoldsNothingStrange(t *testing.T) {
	long := kyverno("cpu", "fail", "high")
	long["message"] = "\x1b[31mred\n" + strings.Repeat("x", 600)
	reports, err := read(t, web(long))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(reports[0].Entries[0].Message).To(And(HavePrefix("[31mred x"), HaveLen(messageBytes)))
}

func TestACompactedReportOfAThousandResourcesIsSmallAndReadByResource(t *testing.T) {
	g := NewWithT(t)
	var results []any
	for i := range maxSections {
		for range 2 {
			results = append(results, kyverno("cpu", "fail", "high", builder.Object("team-a", "Pod", fmt.Sprintf("web-%d", i))))
		}
	}
	slim, err := PolicyReports().Compact(builder.PolicyReport("team-a", "r-1", results))
	g.Expect(err).NotTo(HaveOccurred())
	text, err := json.Marshal(slim)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(text)).To(BeNumerically("<", 100*maxSections))
	report, err := PolicyReports().Translate(slim.(*unstructured.Unstructured), subject("Pod", "web-99"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(report.Entries).To(HaveLen(1))
}
