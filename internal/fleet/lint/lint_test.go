// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestAnExcerptShowsTheLineAndNoSecret(t *testing.T) {
	for name, test := range map[string]struct {
		line, want string
	}{
		"a line of code stays as it is":               {"loki.write {{{", "loki.write {{{"},
		"space around it goes":                        {"\t  a = 1  \r", "a = 1"},
		"the label of a block stays":                  {`loki.write "cloud" {{`, `loki.write "cloud" {{`},
		"a quoted value goes":                         {`url = "https://example.com" +`, `url = "…" +`},
		"a quoted value with escaped quotes goes":     {`a = "x\"hunter2" +`, `a = "…" +`},
		"a quote without an end hides the rest":       {`a = "hunter2`, `a = "…"`},
		"single quotes and back quotes hide too":      {"a: 'hunter2' b: `hunter2`", "a: '…' b: `…`"},
		"the value of a secret's name goes":           {"password = hunter2 foo", "password = …"},
		"whatever its case and whatever is around it": {"  basic-AUTH-Token: hunter2", "basic-AUTH-Token: …"},
		"the name of a secret without a value stays":  {"password:", "password:"},
		"a name in quotes hides its value too":        {`"api_key": hunter2`, `"…": …`},
		"a user in a URL goes":                        {"endpoint: https://me:hunter2@host/path", "endpoint: https://…@host/path"},
		"a query in a URL goes":                       {"endpoint: https://host/path?key=hunter2 x", "endpoint: https://host/path?… x"},
		"what moves a terminal's cursor goes":         {"a\x1b[2Jb\x00c", "a [2Jb c"},
		"what is no text is marked":                   {"a\xff", "a\uFFFD"},
		"a long line is cut":                          {strings.Repeat("ä", 200), strings.Repeat("ä", 119) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(Excerpt("first\n"+test.line+"\nlast", 2)).To(Equal(test.want))
			g.Expect(Excerpt(test.line, 1)).To(Equal(test.want))
		})
	}
	t.Run("a line that does not exist is empty", func(t *testing.T) {
		NewWithT(t).Expect(Excerpt("one", 2)).To(BeEmpty())
	})
}

func TestAProblemTellsWhereItIs(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Problem{Message: "is wrong"}.String()).To(Equal("is wrong"))
	g.Expect(Problem{Message: "is wrong", Line: 3}.String()).To(Equal("line 3: is wrong"))
	g.Expect(Problem{Message: "is wrong", Line: 3, Column: 4, Excerpt: "a = }"}.String()).
		To(Equal("line 3, column 4: is wrong: correct the line that reads: a = }"))
}

func TestProblemsAreSortedAndFew(t *testing.T) {
	g := NewWithT(t)
	var many []Problem
	for line := 30; line > 0; line-- {
		many = append(many, Problem{Severity: Error, Line: line}, Problem{Severity: Warning, Line: line})
	}
	sorted := Sorted(many)
	g.Expect(Errors(sorted)).To(HaveLen(MaxProblems))
	g.Expect(Warnings(sorted)).To(HaveLen(MaxProblems))
	g.Expect(sorted[0].Line).To(Equal(1))
	g.Expect(sorted[len(sorted)-1].Line).To(Equal(10))
}
