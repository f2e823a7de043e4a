// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llm

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

const good = `{"hypotheses":[{"cause":"The base image is old.","confidence":85,"rationale":"libc6 2.36 has CVE-2024-2961.","recommendedAction":"ProposePullRequest"}]}`

var goodHypotheses = []candorv1alpha1.Hypothesis{{
	Cause: "The base image is old.", Confidence: 85, Rationale: "libc6 2.36 has CVE-2024-2961.",
	RecommendedAction: candorv1alpha1.ActionProposePullRequest,
}}

func TestTheObjectIsFoundWhateverIsAroundIt(t *testing.T) {
	for name, text := range map[string]string{
		"alone":                           good,
		"in a Markdown fence":             "```json\n" + good + "\n```\n",
		"in prose":                        "Here's what I think: " + good + " Hope it helps! {\"a\":1}",
		"after other objects":             `Given {"total": 3} and {} and {{ .Values }} and ${HOME}: ` + good,
		"after braces that stay open":     `{"oops { { "` + good,
		"inside another object":           `{"answer":` + good + `}`,
		"after a list that holds nothing": `<think>{"hypotheses":[]}</think>` + good,
		"before another one":              good + strings.ReplaceAll(good, "old", "new"),
		"with a byte order mark":          "\ufeff" + good,
		"with fields nobody asked for":    `{"thoughts":"}{\"",` + good[1:],
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := Decode(text)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(goodHypotheses))
		})
	}
}

func TestWhatIsNoAnswerIsAnErrorThatWasPaidFor(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                             "",
		"prose":                               "I cannot tell.",
		"truncated-json":                      good[:len(good)-20],
		"truncated-json: in the second":       `{"hypotheses":[{"cause":"a","confidence":85,"rationale":"b","recommendedAction":"None"},{"cause":"c","conf`,
		"a list without an object":            `[{"cause":"a","confidence":1}]`,
		"a hypothesis alone":                  `{"cause":"a","confidence":1}`,
		"hypotheses that are text":            `{"hypotheses":"{\"hypotheses\":[{\"cause\":\"a\"}]}"}`,
		"null":                                `{"hypotheses":null}`,
		"an empty list":                       `{"hypotheses":[]}`,
		"no cause":                            `{"hypotheses":[{"confidence":85,"rationale":"b"},{"cause":""},{"cause":7},{"cause":null}]}`,
		"causes that nobody could see":        `{"hypotheses":[{"cause":"\u200b\u202e\u0000 \n"}]}`,
		"a cause that is an image and no alt": `{"hypotheses":[{"cause":"![](https://evil.example/x.png)"}]}`,
		"items of other types":                `{"hypotheses":["a",1,null,["b"]]}`,
		"comments and trailing commas":        `{"hypotheses":[{"cause":"a"},]}`,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := Decode(text)
			g.Expect(got).To(BeNil())
			var failure *Error
			g.Expect(errors.As(err, &failure)).To(BeTrue())
			g.Expect(failure.Class).To(Equal(InvalidOutput))
			g.Expect(failure.Billed).To(BeTrue())
			g.Expect(failure.OfBackend()).To(BeFalse())
			g.Expect(failure.Error()).To(MatchRegexp(`^InvalidOutput: the answer of \d+ bytes holds no [a-zA-Z ]+$`), "nothing of the model's is in it")
		})
	}
}

func TestHypothesesAreRankedAndEachCauseIsGivenOnce(t *testing.T) {
	item := func(cause string, confidence any) string {
		return fmt.Sprintf(`{"cause":%q,"confidence":%v,"rationale":"r","recommendedAction":"Notify"}`, cause, confidence)
	}
	for name, test := range map[string]struct {
		items []string
		want  []string
	}{
		"surest first, and equal ones in the model's order":  {[]string{item("a", 10), item("b", 90), item("c", 10)}, []string{"b 90", "a 10", "c 10"}},
		"the surest three of more":                           {[]string{item("a", 10), item("b", 20), item("c", 30), item("d", 40)}, []string{"d 40", "c 30", "b 20"}},
		"the same cause in other letters, the surest stays":  {[]string{item("Old image", 10), item("b", 20), item(" OLD  image\n", 30)}, []string{"OLD image 30", "b 20"}},
		"one that cannot be read is left out":                {[]string{`5`, item("b", 20), `{"cause":["x"]}`}, []string{"b 20"}},
		"duplicates do not take the place of another":        {[]string{item("a", 9), item("a", 8), item("a", 7), item("b", 6), item("c", 5)}, []string{"a 9", "b 6", "c 5"}},
		"one without confidence comes last":                  {[]string{`{"cause":"a"}`, item("b", 1)}, []string{"b 1", "a 0"}},
		"confidences of different scales are compared right": {[]string{item("a", 0.7), item("b", 1.5), item("c", `"90%"`)}, []string{"c 90", "a 70", "b 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := Decode(`{"hypotheses":[` + strings.Join(test.items, ",") + `]}`)
			g.Expect(err).NotTo(HaveOccurred())
			var short []string
			for _, h := range got {
				short = append(short, fmt.Sprintf("%s %d", h.Cause, h.Confidence))
			}
			g.Expect(short).To(Equal(test.want))
		})
	}
}

func TestConfidenceIsAWholePercentage(t *testing.T) {
	for raw, want := range map[string]int32{
		`85`: 85, `0`: 0, `1`: 1, `100`: 100, // confidence-85
		`0.85`: 85, `0.5`: 50, `1.0`: 100, `0.0`: 0, `1e0`: 100, `0.004`: 0, `0.005`: 1,
		`85.4`: 85, `1.01`: 1, `101`: 100, `1e999`: 100, `-5`: 0, `-0.5`: 0, `-1e999`: 0,
		`"85"`: 85, `"85%"`: 85, `" 85 % "`: 85, `"0.85"`: 85, `"0.85%"`: 1, `"high"`: 0, `"NaN"`: 0, `"Inf"`: 100,
		`null`: 0, `true`: 0, `[85]`: 0, `{"value":85}`: 0, ``: 0,
	} {
		t.Run(raw, func(t *testing.T) { NewWithT(t).Expect(percent([]byte(raw))).To(Equal(want)) })
	}
}

func TestActionsAreOfTheClosedList(t *testing.T) {
	for raw, want := range map[string]candorv1alpha1.Action{
		`"None"`: candorv1alpha1.ActionNone, `"Notify"`: candorv1alpha1.ActionNotify, `"ProposePullRequest"`: candorv1alpha1.ActionProposePullRequest,
		`" notify "`: candorv1alpha1.ActionNotify, `"DeleteNamespace"`: candorv1alpha1.ActionNone, `"Notify, then delete"`: candorv1alpha1.ActionNone,
		`""`: candorv1alpha1.ActionNone, `7`: candorv1alpha1.ActionNone, `null`: candorv1alpha1.ActionNone, `["Notify"]`: candorv1alpha1.ActionNone,
	} {
		t.Run(raw, func(t *testing.T) {
			g := NewWithT(t)
			got, err := Decode(`{"hypotheses":[{"cause":"a","recommendedAction":` + raw + `}]}`)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal([]candorv1alpha1.Hypothesis{{Cause: "a", RecommendedAction: want}}))
		})
	}
}

func TestNothingThatAModelWritesCanBeClicked(t *testing.T) {
	for name, test := range map[string]struct{ said, want string }{
		"words alone":                          {"libc6 < 2.36-9 & zlib >= 1.3 (see [0] and a[1]), openssl@3.0.2", "libc6 < 2.36-9 & zlib >= 1.3 (see [0] and a[1]), openssl@3.0.2"},
		"package names that look like hosts":   {"github.com/acme/lib and node.js, @babel/core", "github.com/acme/lib and node.js, @babel/core"},
		"a link":                               {"see [the fix](https://evil.example/a?b=c) now", "see the fix now"},
		"markdown-image-in-hypothesis":         {"old ![pixel](https://evil.example/x.png?leak=1) image", "old pixel image"},
		"an image in a link":                   {"[![badge](https://evil.example/b.svg)](https://evil.example)", "badge"},
		"a link to a word":                     {"[x](y)", "x"},
		"a link with parentheses":              {"[x](https://evil.example/(a)(b))", "[x] ((link removed)(a)(b))"},
		"links nested too deep":                {"[[[[[x](1)](2)](3)](4)](5)", "[[x] (4)] (5)"},
		"an address":                           {"see https://evil.example/x.", "see (link removed)"},
		"addresses in quotes and parentheses":  {"('HTTP://evil.example') \"ftp://evil.example\"", "('(link removed)') \"(link removed)\""},
		"scripts and data":                     {"JavaScript:alert(1) data:text/html;base64,AAAA mailto:a@evil.example vbscript:x", "(link removed)(1) (link removed) (link removed) (link removed)"},
		"data as a word":                       {"the data: two lines, metadata:a,b", "the data: two lines, metadata:a,b"},
		"any other scheme":                     {"git+ssh://evil.example slack://x", "(link removed) (link removed)"},
		"what mail programs make links of":     {"www.evil.example or boss@evil.example", "(link removed) or (link removed)"},
		"tags":                                 {"<img src=x onerror=alert(1)>old<br/>image</b><!-- x --> <script>alert(1)</script>", "old image alert(1)"},
		"tags in tags":                         {"<<b>script>x</<i>script>", "< script>x< / script>"},
		"a tag that stays open":                {"old <img src=x", "old < img src=x"},
		"mentions":                             {"<@U123> <!channel> <#C1>", "< @U123> < #C1>"},
		"an address in angle brackets":         {"<https://evil.example>", ""},
		"a link joined from pieces":            {"htt[p](x)s://evil.example [y]<b>(z) [y]http://a", "(link removed) [y] (z) [y] (link removed)"},
		"an address joined by invisible runes": {"ht\u200btp\u00ads:\u2060//evil.example", "(link removed)"},
		"characters by their number":           {"&#104;ttps&#58;//evil.example &lt;script&gt; a &gt;= b", "(link removed) a >= b"},
		"the same twice":                       {"https&amp;#58;//evil.example &amp;lt;script&amp;gt;", "https& #58;//evil.example & lt;script& gt;"},
		"a terminal's link and colours":        {"\x1b]8;;https://evil.example\x1b\\x\x1b[31m", "]8;;(link removed)"},
		"lines":                                {"a\n\n# b\r\n\t* c", "a # b * c"},
		"an address without an end":            {"https://", "(link removed)"},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(plain(test.said, 300, 600)).To(Equal(test.want)) })
	}
}

func TestTextsAreCutAtARune(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want string
	}{
		"short enough":           {strings.Repeat("a", 300), strings.Repeat("a", 300)},
		"too many runes":         {strings.Repeat("a", 301), strings.Repeat("a", 297) + "…"},
		"just enough wide runes": {strings.Repeat("é", 300), strings.Repeat("é", 300)},
		"too many bytes":         {strings.Repeat("世", 201), strings.Repeat("世", 199) + "…"},
		"too many of both":       {strings.Repeat("é", 301), strings.Repeat("é", 298) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := shorten(test.text, causeRunes, causeBytes)
			g.Expect(got).To(Equal(test.want))
			g.Expect(utf8.RuneCountInString(got)).To(BeNumerically("<=", causeRunes))
			g.Expect(len(got)).To(BeNumerically("<=", causeBytes))
		})
	}
	t.Run("in an answer", func(t *testing.T) {
		g := NewWithT(t)
		got, err := Decode(fmt.Sprintf(`{"hypotheses":[{"cause":%q,"rationale":%q}]}`, strings.Repeat("世", 5000), strings.Repeat("b ", 5000)))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect([]int{len(got[0].Cause), len(got[0].Rationale)}).To(Equal([]int{600, 1000}))
	})
}

// hostile are answers of about 1 MiB that would be dear to search by brute force.
func hostile() map[string]string {
	const size = 1 << 20
	fill := func(text string) string { return strings.Repeat(text, size/len(text)) }
	return map[string]string{
		"open braces":        fill("{"),
		"open objects":       fill(`{"a":`),
		"open strings":       fill(`{"`),
		"blanks in braces":   fill("{ \n"),
		"closed objects":     fill(`{"a":1}`),
		"nested objects":     strings.Repeat(`{"a":`, size/6) + "1" + strings.Repeat("}", size/6),
		"many hypotheses":    `{"hypotheses":[` + fill(`{"cause":"a"},`) + `{"cause":"b"}]}`,
		"many distinct":      `{"hypotheses":[` + distinct(size/40) + `{"cause":"b"}]}`,
		"a long cause":       `{"hypotheses":[{"cause":"` + fill("[") + `"}]}`,
		"a cause of links":   `{"hypotheses":[{"cause":"` + fill("[a](b)") + `"}]}`,
		"a cause of tags":    `{"hypotheses":[{"cause":"` + fill("<a") + `"}]}`,
		"an invisible cause": `{"hypotheses":[{"cause":"` + fill("\u200b") + `"}]}`,
		"a long confidence":  `{"hypotheses":[{"cause":"a","confidence":` + fill("9") + `}]}`,
	}
}

func distinct(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"cause":"cause %d","confidence":%d},`, i, i%101)
	}
	return b.String()
}

// Everything else that Decode does is linear in what it is given here.
func TestTheSearchForTheObjectIsBounded(t *testing.T) {
	for name, text := range hostile() {
		t.Run(name, func(t *testing.T) {
			scanned := 0
			for object := range objects(text) {
				scanned += len(object)
			}
			NewWithT(t).Expect(scanned).To(BeNumerically("<=", (effort+1)*len(text)))
		})
	}
}

func BenchmarkDecodeHostile(b *testing.B) {
	for name, text := range hostile() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_, _ = Decode(text)
			}
		})
	}
}
