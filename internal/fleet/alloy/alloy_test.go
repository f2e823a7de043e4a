// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package alloy

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

const scrape = `
prometheus.scrape "nginx" {
	targets    = [{__address__ = "nginx:9113"}]
	forward_to = [prometheus.remote_write.cloud.receiver]
}
`

const remoteWrite = `
prometheus.remote_write "cloud" {
	endpoint {
		url = "http://prometheus:9090/api/v1/write"
	}
}
`

func TestWhatAlloyCannotReadIsAnErrorWithItsPlace(t *testing.T) {
	for name, test := range map[string]struct {
		contents string
		want     []string
	}{
		"braces without a name": {"invalid {{{", []string{
			"line 1, column 10: is no valid Alloy, expected a name, got {: correct the line that reads: invalid {{{",
		}},
		"a brace that is missing": {"loki.echo \"a\" {\n", []string{
			"line 2, column 1: is no valid Alloy, expected }, got the end of the text",
		}},
		"a text without its closing quote, which is not repeated": {"loki.echo \"a\" {\n  x = \"hunter2\n}\n", []string{
			`line 2, column 7: is no valid Alloy, string literal not terminated: correct the line that reads: x = "…"`,
		}},
		"a second line of a text in back quotes, which is not repeated": {"a {\n b = `x\nhunter2` c\n}\n", []string{
			"line 3, column 10: is no valid Alloy, expected the end of the line, got a name: correct the line that reads: `…`",
		}},
		"a mistake beside a comment, which is not repeated": {"a { // password is hunter2\n b = = /* hunter2 \r\n hunter2 */ 1\n}", []string{
			"line 2, column 6: is no valid Alloy, expected expression, got =: correct the line that reads: b = = //…",
		}},
		"two lines that are wrong": {"a = 'x'\nb = 1 ? 2\n", []string{
			"line 1, column 5: is no valid Alloy, illegal single-quoted string; use double quotes: correct the line that reads: a = '…'",
			"line 2, column 7: is no valid Alloy, illegal character U+003F '?': correct the line that reads: b = 1 ? 2",
		}},
		"nothing":                    {"", []string{"is empty or holds only comments: a pipeline needs at least one block"}},
		"only space and comments":    {" \n// a\n/* b */\n\n", []string{"is empty or holds only comments: a pipeline needs at least one block"}},
		"an attribute outside":       {"a = 1\n", []string{`line 1, column 1: the attribute "a" stands outside of any block: put it into one`}},
		"a configuration in YAML":    {"receivers:\n  otlp: {}\n", []string{thisIsYAML(1, 10, "receivers")}},
		"YAML that starts otherwise": {"# config\n---\n\"service\":\n  pipelines: {}\n", []string{thisIsYAML(1, 1, "service")}},
		"brackets beyond all reason": {"a { b = " + strings.Repeat("[", 500) + strings.Repeat("]", 500) + "}", []string{
			"line 1, column 208: is nested too deeply: at most 200 brackets may be open, and a value may have at most 1000 operators",
		}},
		"operators beyond all reason": {"a { b = " + strings.Repeat("-", 5000) + "1 }", []string{
			"line 1, column 1009: is nested too deeply: at most 200 brackets may be open, and a value may have at most 1000 operators",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			problems := Check(test.contents, 0)
			g.Expect(said(problems)).To(Equal(test.want))
			g.Expect(lint.Warnings(problems)).To(BeEmpty())
			g.Expect(fmt.Sprint(said(problems))).NotTo(ContainSubstring("hunter2"))
		})
	}
	t.Run("a text that is too long", func(t *testing.T) {
		NewWithT(t).Expect(said(Check(scrape, 100))).To(Equal([]string{fmt.Sprintf("has %d bytes, and at most 100 are allowed", len(scrape))}))
	})
	t.Run("no more errors than help", func(t *testing.T) {
		NewWithT(t).Expect(Check(strings.Repeat("a = )\n", 1000), 0)).To(HaveLen(lint.MaxProblems))
	})
}

func thisIsYAML(line, column int, key string) string {
	return fmt.Sprintf("line %d, column %d: this is YAML, which starts with the key %q, and no Alloy: "+
		"set spec.configType to OpenTelemetryCollector, or write Alloy", line, column, key)
}

func TestWhatCannotRunIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		contents         string
		errors, warnings []string
	}{
		"a pipeline that is fine": {contents: scrape + remoteWrite},
		"a block that exists twice": {contents: scrape + remoteWrite + remoteWrite, errors: []string{
			`line 13, column 1: prometheus.remote_write "cloud" exists already in line 7: give one of them another label`,
		}},
		"settings that exist twice": {contents: "logging {}\nlogging {}\n", errors: []string{
			`line 2, column 1: logging exists already in line 1: remove one`,
		}},
		"blocks within a component may repeat": {contents: "discovery.relabel \"a\" {\n targets = []\n rule {}\n rule {}\n}"},
		"a reference to a block that is missing": {contents: scrape, warnings: []string{
			`line 4, column 16: no block of this pipeline is what "prometheus.remote_write.cloud.receiver" refers to: correct the reference, or add the block`,
		}},
		"a reference inside of a call, an index and an operator": {
			contents: "loki.echo \"a\" {\n x = string.format(\"%s\", local.file.x.content)[local.file.y.content] + -local.file.z.content\n}",
			warnings: []string{
				`line 2, column 26: no block of this pipeline is what "local.file.x.content" refers to: correct the reference, or add the block`,
				`line 2, column 48: no block of this pipeline is what "local.file.y.content" refers to: correct the reference, or add the block`,
				`line 2, column 73: no block of this pipeline is what "local.file.z.content" refers to: correct the reference, or add the block`,
			},
		},
		"a text without quotes": {contents: "loki.echo \"a\" {\n level = info\n}", warnings: []string{
			`line 2, column 10: nothing is called "info": put a text into double quotes`,
		}},
		"the standard library": {contents: `local.file "a" { filename = sys.env("HOME") + constants.hostname + encoding.from_json("{}").x + concat([], [])[0] }`},
		"a component that nobody knows": {contents: `promethues.scrape "a" { }`, warnings: []string{
			`line 1, column 1: "promethues.scrape" is no component that this version of Candor knows: correct the name, unless your Alloy is newer`,
		}},
		"a component without a label": {contents: `loki.echo { }`, warnings: []string{
			`line 1, column 1: "loki.echo" has no label, and Alloy wants one: loki.echo "default" { … }`,
		}},
		"a component of its own": {contents: `
declare "add" {
	argument "a" {}
	export "sum" { value = argument.a.value + 1 }
}
add "one" { a = 1 }
local.file "b" { filename = add.one.sum }
`},
		"a declaration that looks outside": {contents: remoteWrite + `
declare "x" {
	export "y" { value = prometheus.remote_write.cloud.receiver }
}
`, warnings: []string{
			`line 9, column 23: no block of this pipeline is what "prometheus.remote_write.cloud.receiver" refers to: correct the reference, or add the block`,
		}},
		"a component that is imported": {contents: `
import.git "math" { repository = "https://example.com/math.git" }
math.add "one" { a = 1 }
local.file "b" { filename = math.add.one.sum }
`},
		"a loop with its variable and what stands around it": {contents: remoteWrite + `
foreach "targets" {
	collection = [1, 2]
	var        = "each"
	template {
		prometheus.scrape "x" {
			targets    = [{__address__ = each}]
			forward_to = [prometheus.remote_write.cloud.receiver]
		}
		loki.echo "y" { z = nobody }
	}
}
`, warnings: []string{`line 16, column 23: nothing is called "nobody": put a text into double quotes`}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			problems := Check(test.contents, 0)
			g.Expect(said(lint.Errors(problems))).To(Equal(test.errors))
			g.Expect(said(lint.Warnings(problems))).To(Equal(test.warnings))
		})
	}
}

func TestTheListOfComponents(t *testing.T) {
	g := NewWithT(t)
	names := strings.Fields(componentNames)
	g.Expect(len(names)).To(BeNumerically(">", 150))
	g.Expect(components).To(HaveLen(len(names)), "each once")
	g.Expect(names).To(HaveEach(MatchRegexp(`^[a-z_]+(\.[a-z0-9_]+)+$`)))
}

// large is a configuration of 1 MiB without a mistake.
func large() string {
	var b strings.Builder
	b.WriteString(remoteWrite)
	for i := 0; b.Len() < 1<<20-len(scrape)-100; i++ {
		fmt.Fprintf(&b, "\n// The scrape of the %d. group.\n%s", i, strings.Replace(scrape, "nginx", fmt.Sprintf("nginx_%d", i), 1))
	}
	return b.String()
}

func BenchmarkCheckOf1MiB(b *testing.B) {
	contents := large()
	if problems := Check(contents, 0); len(problems) > 0 {
		b.Fatal(problems[0])
	}
	b.SetBytes(int64(len(contents)))
	for b.Loop() {
		Check(contents, 0)
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/check")
}

func TestALargeTextTakesBoundedTime(t *testing.T) {
	const size = 1 << 20
	for name, part := range map[string]string{
		"illegal characters": "?", "names": "a ", "blocks that do not end": "a {\n", "brackets": "[", "comments": "a /* */ ", "mistakes": "a = )\n",
		"one block again and again": "a {}\n", "references to nothing": "a { b = c.d }\n", "operators": "a = 1 + 1 ^ 1\n", "quotes": "\"",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			start := time.Now()
			g.Expect(Check(strings.Repeat(part, size/len(part)), 0)).NotTo(BeEmpty())
			g.Expect(time.Since(start)).To(BeNumerically("<", 4*time.Second), "the API server waits for five")
		})
	}
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		scrape, remoteWrite, "invalid {{{", "a: b", "a = `\n", "/* */ a /* */ {}", "declare \"a\" { b = c.d[e](f) }",
		"foreach \"x\" { var = \"y\"\n template { z = y } }", "\ufeffa {}", "a {\r\n}\r\n", "'", "\xff", "a { b = \"\\q\" }",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, contents string) {
		start := time.Now()
		for _, p := range Check(contents, 1<<20) {
			if p.Message == "" || p.Line < 0 || len([]rune(p.Excerpt)) > 120 || strings.ContainsAny(p.String(), "\n\x1b") {
				t.Fatalf("%+q", p)
			}
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Fatalf("a check of %d bytes took %s", len(contents), took)
		}
	})
}
