// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package openreports

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/packed"
	"github.com/candor-dev/candor/test/builder"
)

func put(value any, key string) func(*unstructured.Unstructured) {
	return func(report *unstructured.Unstructured) { report.Object[key] = value }
}

func with(key string, value any) map[string]any {
	result := kyverno("cpu", "fail", "high")
	result[key] = value
	return result
}

func TestBadInputIsRejectedWholeWithWhatIsWrong(t *testing.T) {
	changed := func(change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
		return builder.OpenReport("team-a", "r-1", []any{kyverno("cpu", "fail", "high")}, append([]func(*unstructured.Unstructured){builder.Scope("Deployment", "web")}, change...)...)
	}
	for name, test := range map[string]struct {
		report *unstructured.Unstructured
		detail string
	}{
		"results that are an object":   {changed(put(map[string]any{}, "results")), "the field results is not a list"},
		"results that are text":        {changed(put("none", "results")), "the field results is not a list"},
		"a source that is a number":    {changed(put(int64(1), "source")), "the field source is not a string"},
		"a result that is null":        {web(kyverno("a", "fail", "low"), nil), "results[1] is not an object"},
		"a result that is text":        {web("fail"), "results[0] is not an object"},
		"a result without policy":      {web(with("policy", nil)), "results[0].policy is empty"},
		"a policy of nothing visible":  {web(with("policy", " \u200b")), "results[0].policy is empty"},
		"a rule that is a list":        {web(with("rule", []any{})), "results[0].rule is not a string"},
		"a severity that is a number":  {web(with("severity", 9.8)), "results[0].severity is not a string"},
		"an outcome that is a boolean": {web(with("result", true)), "results[0].result is not a string"},
		"a message that is an object":  {web(with("message", map[string]any{})), "results[0].message is not a string"},
		"resources that are an object": {web(with("resources", map[string]any{})), "results[0].resources is not a list"},
	} {
		t.Run(name, func(t *testing.T) {
			reports, err := read(t, test.report)
			NewWithT(t).Expect(err).To(BeComparableTo(&signals.Drop{Reason: signals.DropMalformed, Detail: test.detail}))
			NewWithT(t).Expect(reports).To(BeEmpty())
			subjects, _ := Reports().Subjects(test.report)
			NewWithT(t).Expect(subjects).To(Equal([]signals.Subject{subject("Deployment", "web")}), "what it spoke of no longer has evidence")
		})
	}
}

func TestWhatCannotBeGivenToAnObjectIsLeftOutAndTheRestIsRead(t *testing.T) {
	rest := kyverno("rest", "fail", "low", builder.Object("team-a", "Deployment", "web"))
	odd := func(reference any) map[string]any { return kyverno("odd", "fail", "high", reference) }
	for name, test := range map[string]struct {
		result any
		want   signals.Drop
	}{
		"no resource and no scope":      {kyverno("odd", "fail", "high"), signals.Drop{Reason: signals.DropNoResourceName, Detail: "results[0] names no resource, and the report has no scope"}},
		"a resource without a name":     {odd(map[string]any{"kind": "Pod"}), signals.Drop{Reason: signals.DropNoResourceName, Detail: "a resource has no kind or no name"}},
		"a resource without a kind":     {odd(map[string]any{"name": "web"}), signals.Drop{Reason: signals.DropNoResourceName, Detail: "a resource has no kind or no name"}},
		"a resource that is text":       {odd("web"), signals.Drop{Reason: signals.DropMalformed, Detail: "a resource is not an object"}},
		"a resource whose kind is none": {odd(map[string]any{"kind": int64(1), "name": "web"}), signals.Drop{Reason: signals.DropMalformed, Detail: "of a resource, kind is not a string"}},
		"a name that is a path":         {odd(builder.Object("team-a", "Pod", "../../secrets")), signals.Drop{Reason: signals.DropMalformed, Detail: `"../../secrets" of kind "Pod" can be no object`}},
		"a kind with a slash":           {odd(builder.Object("team-a", "apps/Pod", "web")), signals.Drop{Reason: signals.DropMalformed, Detail: `"web" of kind "apps/Pod" can be no object`}},
		"a name that is too long":       {odd(builder.Object("team-a", "Pod", strings.Repeat("x", 254))), signals.Drop{Reason: signals.DropMalformed, Detail: fmt.Sprintf("%q of kind %q can be no object", strings.Repeat("x", 254), "Pod")}},
		"another namespace":             {odd(builder.Object("team-b", "Pod", "web")), signals.Drop{Reason: signals.DropOtherNamespace, Detail: "Pod web is in the namespace team-b"}},
	} {
		t.Run(name, func(t *testing.T) {
			reports, err := read(t, builder.PolicyReport("team-a", "r-1", []any{test.result, rest}))
			g := NewWithT(t)
			g.Expect(err).To(BeComparableTo(&test.want))
			g.Expect(reports).To(HaveLen(1))
			g.Expect(reports[0].Subject).To(Equal(subject("Deployment", "web")))
			g.Expect(reports[0].Entries).To(HaveLen(1))
			g.Expect(reports[0].Entries[0].ID).To(Equal("require-limits/rest"))
		})
	}
}

func TestAReportOfNothingIsRejected(t *testing.T) {
	reports, err := read(t, builder.OpenReport("team-a", "r-1", []any{}))
	NewWithT(t).Expect(err).To(BeComparableTo(&signals.Drop{Reason: signals.DropNoResourceName, Detail: "the report has neither results nor a scope"}))
	NewWithT(t).Expect(reports).To(BeEmpty())
}

func TestAReportOfTooManyResourcesIsRejectedWhole(t *testing.T) {
	var results []any
	for i := range maxSections + 1 {
		results = append(results, kyverno("cpu", "fail", "high", builder.Object("team-a", "Pod", fmt.Sprintf("web-%d", i))))
	}
	reports, err := read(t, builder.PolicyReport("team-a", "r-1", results))
	NewWithT(t).Expect(err).To(BeComparableTo(&signals.Drop{Reason: signals.DropTooManyResources, Detail: "it speaks of more than 1000 resources"}))
	NewWithT(t).Expect(reports).To(BeEmpty())
	reports, err = read(t, builder.PolicyReport("team-a", "r-1", results[1:]))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(reports).To(HaveLen(maxSections))
}

func TestAReportThatSaysMuchOfManyResourcesIsRejectedWhole(t *testing.T) {
	var objects, results []any
	for i := range maxSections {
		objects = append(objects, builder.Object("", "Pod", fmt.Sprint(i)))
	}
	for i := range 20 {
		results = append(results, builder.Result("x", fmt.Sprint(i, strings.Repeat("p", 512)), "", "fail", "high", objects...))
	}
	report := builder.PolicyReport("team-a", "r-1", results)
	reports, err := read(t, report)
	g := NewWithT(t)
	g.Expect(err).To(BeComparableTo(&signals.Drop{Reason: signals.DropTooManyResources, Detail: "what it says of 1000 resources takes more than 4 MiB"}))
	g.Expect(reports).To(BeEmpty())
	report.Object["results"] = results[1:8]
	reports, err = read(t, report)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(reports).To(HaveLen(maxSections))
}

func TestAnOutcomeThatNobodyKnowsIsNeitherPassedNorFailed(t *testing.T) {
	for _, outcome := range []any{"", "maybe", nil} {
		reports, err := read(t, web(with("result", outcome)))
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(reports[0].Entries).To(HaveLen(1))
		NewWithT(t).Expect(reports[0].Entries[0].Rank).To(Equal(signals.Unknown))
	}
}

func TestWhatLooksCompactedAndIsNotSaysNothing(t *testing.T) {
	head := packed.Mark + "\t\t\t\n"
	for name, text := range map[string]string{
		"a header alone":             packed.Mark + "\t",
		"a header of many words":     packed.Mark + strings.Repeat("\tx", 9) + "\n",
		"a section cut short":        head + "@\tDeployment\n",
		"a line that is no section":  head + "3\ta\tb\tc\td\te\n",
		"an entry of another's form": head + "@\tDeployment\tweb\tkyverno\nno entry\n",
	} {
		t.Run(name, func(t *testing.T) {
			report := web()
			report.Object[packed.Key] = text
			reports, _ := Reports().Reports(report)
			NewWithT(t).Expect(reports).To(BeEmpty())
		})
	}
}

func TestAReportOfTheOtherKindIsRejected(t *testing.T) {
	reports, err := PolicyReports().Reports(web(kyverno("cpu", "fail", "high")))
	NewWithT(t).Expect(err).To(BeComparableTo(&signals.Drop{Reason: signals.DropMalformed, Detail: "this is no PolicyReport"}))
	NewWithT(t).Expect(reports).To(BeEmpty())
}
