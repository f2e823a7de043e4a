// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package otelcol

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/internal/fleet/lint"
)

func said(problems []lint.Problem) []string {
	var lines []string
	for _, p := range problems {
		lines = append(lines, p.String())
	}
	return lines
}

// components are lines 1 to 6 of a configuration.
const components = `receivers: {otlp: {protocols: {grpc: }}, otlp/2: }
processors: {batch: , filter: }
exporters: {debug: {verbosity: basic}, otlphttp/cloud: {endpoint: "https://example.com/otlp"}}
connectors: {spanmetrics: , count: }
extensions: {health_check: }
service:
`

func TestWhatCannotRunIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		contents         string
		errors, warnings []string
	}{
		"a configuration that is fine": {contents: components + `
  extensions: [health_check]
  telemetry: {logs: {level: info}}
  pipelines:
    traces: {receivers: [otlp], processors: [batch], exporters: [spanmetrics, debug]}
    metrics/spans: {receivers: [spanmetrics, otlp/2], processors: [batch], exporters: [otlphttp/cloud]}
`},
		"JSON, which is YAML too": {contents: `{"receivers": {"otlp": {}}, "exporters": {"debug": {}}, "service": {"pipelines": {"logs": {"receivers": ["otlp"], "exporters": ["debug"]}}}}`},
		"references to what is not defined": {contents: components + `  extensions: [pprof]
  pipelines:
    traces: {receivers: [jaeger], processors: [memory_limiter], exporters: [otlp]}
`, errors: []string{
			`line 7, column 16: the extension "pprof" is not defined: add it below extensions, or correct the reference`,
			`line 9, column 26: the receiver "jaeger" is not defined: add it below receivers or connectors, or correct the reference`,
			`line 9, column 48: the processor "memory_limiter" is not defined: add it below processors, or correct the reference`,
			`line 9, column 77: the exporter "otlp" is not defined: add it below exporters or connectors, or correct the reference`,
		}},
		"a connector that is used on one side": {contents: components + `  pipelines:
    traces: {receivers: [otlp], exporters: [spanmetrics]}
    metrics: {receivers: [count], exporters: [debug]}
`, errors: []string{
			`line 8, column 45: the connector "spanmetrics" is an exporter here, and a receiver nowhere: a connector joins two pipelines`,
			`line 9, column 27: the connector "count" is a receiver here, and an exporter nowhere: a connector joins two pipelines`,
		}},
		"a connector with the name of an exporter": {contents: `exporters: {a: }
connectors: {a: }
receivers: {b: }
service: {pipelines: {logs: {receivers: [b, a], exporters: [a]}}}
`, errors: []string{`line 2, column 14: the connector "a" is also one of the exporters: give one of them another name`}},
		"a pipeline without ends": {contents: components + `  pipelines:
    traces: {receivers: [], exporters: }
    metrics:
    logs: {processors: [batch, batch], receivers: otlp, exporters: [[debug]]}
    spans: [otlp]
`, errors: []string{
			`line 8, column 5: the pipeline "traces" needs at least one of its receivers`,
			`line 8, column 5: the pipeline "traces" needs at least one of its exporters`,
			`line 9, column 5: the pipeline "metrics" needs receivers and exporters`,
			`line 10, column 32: the processor "batch" stands twice in this pipeline: remove one`,
			`line 10, column 51: "receivers" must be a list`,
			`line 10, column 69: "exporters" must be a list of IDs`,
			`line 11, column 5: the pipeline "spans" needs receivers and exporters`,
			`line 11, column 12: "spans" must be a mapping`,
		}, warnings: []string{
			`line 11, column 5: the pipeline "spans" is of no known signal: its name starts with traces, metrics, logs or profiles`,
		}},
		"no service":                  {contents: "receivers: {otlp: }\n", errors: []string{"line 1, column 1: has no service section: add service.pipelines, without which nothing runs"}},
		"a service of nothing":        {contents: "service:\n", errors: []string{"line 1, column 1: service has no pipelines: add at least one below service.pipelines"}},
		"a service without pipelines": {contents: "service: {extensions: }\n", errors: []string{"line 1, column 1: service has no pipelines: add at least one below service.pipelines"}},
		"pipelines of nothing":        {contents: "service: {pipelines: {}}\n", errors: []string{"line 1, column 1: service has no pipelines: add at least one below service.pipelines"}},
		"pipelines in a list": {contents: "service: {pipelines: [traces]}\n", errors: []string{
			`line 1, column 22: "pipelines" must be a mapping`,
		}},
		"a section that is none": {contents: components + "  pipelines: {logs: {receivers: [otlp], exporters: [debug]}}\nreceivrs: {}\n", warnings: []string{
			`line 8, column 1: "receivrs" is no section of a collector's configuration: correct it, or take it out`,
		}},
		"a section that is no mapping": {contents: "processors: [batch]\n" + strings.Replace(components, "processors: {batch: , filter: }\n", "", 1) +
			"  pipelines: {logs: {receivers: [otlp], exporters: [debug]}}\n", errors: []string{`line 1, column 13: "processors" must be a mapping`}},
		"an ID of a component that is none": {contents: components + "  pipelines: {logs: {receivers: [otlp], exporters: [debug]}}\n" +
			"x: 1\n", warnings: []string{`line 8, column 1: "x" is no section of a collector's configuration: correct it, or take it out`}},
		"a key that stands twice": {contents: components + `  pipelines:
    logs: {receivers: [otlp], exporters: [debug]}
    logs: {receivers: [otlp/2], exporters: [debug]}
`, errors: []string{`line 9, column 5: the key "logs" stands already in line 8: remove one`}},
		"a reference that the environment fills in": {contents: components + `  extensions: ["${env:EXTENSION}"]
  pipelines:
    logs: {receivers: "${env:RECEIVERS}", exporters: [debug]}
    traces: ${file:traces.yaml}
`},
		"anchors, aliases and merges": {contents: `
exporters: &some
  debug: &settings {verbosity: basic}
x-more: &more
  debug/2: *settings
receivers: {otlp: }
connectors: {<<: [*more]}
service:
  pipelines:
    logs: &pipeline {receivers: [otlp], exporters: [debug, debug/2]}
    logs/2: {<<: *pipeline, receivers: [debug/2]}
`, warnings: []string{`line 4, column 1: "x-more" is no section of a collector's configuration: correct it, or take it out`}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			problems := Check(test.contents, 0)
			g.Expect(said(lint.Errors(problems))).To(Equal(test.errors))
			g.Expect(said(lint.Warnings(problems))).To(Equal(test.warnings))
		})
	}
}

func TestWhatIsNoConfigurationIsOneErrorWithItsPlace(t *testing.T) {
	const circle = "has aliases that lead in a circle, or to too much: write out what they stand for"
	for name, test := range map[string]struct {
		contents, want string
	}{
		"nothing":       {"", "is empty or holds only comments: a configuration needs at least service.pipelines"},
		"only comments": {"# a\n\n# b\n", "is empty or holds only comments: a configuration needs at least service.pipelines"},
		"a list":        {"- a\n", "line 1, column 1: is no YAML mapping: it starts with keys such as receivers: and service:"},
		"a word":        {"a\n", "line 1, column 1: is no YAML mapping: it starts with keys such as receivers: and service:"},
		"a mistake in the first line": {
			"a: b: c\n",
			"line 1: is no valid YAML, mapping values are not allowed in this context: correct the line that reads: a: b: c",
		},
		"a mistake beside a secret, which is not repeated": {
			"a:\n  password: hunter2: x\n",
			"line 2: is no valid YAML, mapping values are not allowed in this context: correct the line that reads: password: …",
		},
		"a fault of indentation, which the parser tells by where its block begins": {
			"receivers:\n  otlp:\n protocols:\n",
			"line 2: is no valid YAML, did not find expected key in the block that begins here: look at the indentation of what follows",
		},
		"an alias of nothing": {"a: *b\n", "is no valid YAML, unknown anchor 'b' referenced: define it, or write out what it stands for"},
		"two documents":       {"a: 1\n---\nb: 1\n", "line 2, column 1: a second YAML document starts here, and only one is allowed"},
		"Alloy": {
			"// logs\nloki.write \"cloud\" {\n  endpoint {\n    url = \"x\"\n  }\n}\n",
			"line 2: this is Alloy, which has a block here, and no YAML: set spec.configType to Alloy, or write YAML",
		},
		"Alloy without a label":       {"logging {\n}\n", "line 1: this is Alloy, which has a block here, and no YAML: set spec.configType to Alloy, or write YAML"},
		"a mapping beyond all reason": {strings.Repeat("{a: ", 200) + strings.Repeat("}", 200), "line 1, column 398: is nested too deeply: at most 100 levels are allowed"},
		"brackets beyond all reason": {
			"a: " + strings.Repeat("[", 20000),
			"line 1: is no valid YAML, exceeded max depth of 10000: correct the line that reads: a: " + strings.Repeat("[", 116) + "…",
		},
		"an alias of what holds it": {"a: &a [*a]\n", circle},
		"a merge of what holds it":  {"a: &a\n  <<: *a\n", circle},
		"aliases that multiply":     {bomb(), circle},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(said(Check(test.contents, 0))).To(Equal([]string{test.want}))
		})
	}
	t.Run("a text that is too long", func(t *testing.T) {
		NewWithT(t).Expect(said(Check(components, 100))).To(Equal([]string{fmt.Sprintf("has %d bytes, and at most 100 are allowed", len(components))}))
	})
}

// bomb has nine levels of ten aliases each.
func bomb() string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 10; i++ {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return text
}

// wide has a list of 100,000 references that 20,000 pipelines share.
func wide() string {
	return "x: &x [" + strings.Repeat("a, ", 100_000) + "]\nservice:\n  pipelines:\n" +
		strings.Repeat("    traces: {receivers: *x}\n", 20_000)
}

func TestALargeTextTakesBoundedTime(t *testing.T) {
	g := NewWithT(t)
	start := time.Now()
	g.Expect(said(Check(wide(), 0))).To(ConsistOf(HavePrefix("has aliases that lead")))
	g.Expect(time.Since(start)).To(BeNumerically("<", 4*time.Second))
}

func BenchmarkCheckOf1MiB(b *testing.B) {
	var receivers strings.Builder
	for i := 0; receivers.Len() < 1<<20-1000; i++ {
		fmt.Fprintf(&receivers, "  otlp/%d:\n    protocols:\n      grpc: {endpoint: \"0.0.0.0:4317\"}\n", i)
	}
	contents := "receivers:\n" + receivers.String() + "exporters: {debug: }\nservice: {pipelines: {logs: {receivers: [otlp/1], exporters: [debug]}}}\n"
	if problems := Check(contents, 0); len(problems) > 0 {
		b.Fatal(problems[0])
	}
	b.SetBytes(int64(len(contents)))
	for b.Loop() {
		Check(contents, 0)
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/check")
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		components, components + "  pipelines: {logs: {receivers: [otlp], exporters: [debug]}}", "a: &a [*a]", "a: {<<: *b}", "? [a]\n: b",
		"loki.write \"a\" {", "a: |\n  b\n# c", "--- a\n...\n--- b", "!!binary a: b", "a: \"\\q\"", "<<: [a, {b: c}]", "service: {pipelines: {a: *x}}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, contents string) {
		start := time.Now()
		for _, p := range Check(contents, 1<<20) {
			if p.Message == "" || p.Line < 0 || len([]rune(p.Excerpt)) > 120 {
				t.Fatalf("%+q", p)
			}
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Fatalf("a check of %d bytes took %s", len(contents), took)
		}
	})
}
