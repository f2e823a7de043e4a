// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package matcher

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestParseReadsTheGrammarOfFleetManagement(t *testing.T) {
	for name, test := range map[string]struct {
		text      string
		canonical string
	}{
		"a word and a word":                             {`env=prod`, `env="prod"`},
		"a quoted value":                                {`env="prod"`, `env="prod"`},
		"a quoted name":                                 {`"env"=prod`, `env="prod"`},
		"white space around each part":                  {"  env\t!=  \"prod\" \n", `env!="prod"`},
		"a regular expression":                          {`env=~prod|dev.+`, `env=~"prod|dev.+"`},
		"a negated regular expression":                  {`env!~"dev.*"`, `env!~"dev.*"`},
		"a key of Kubernetes":                           {`app.kubernetes.io/name=web`, `app.kubernetes.io/name="web"`},
		"a key with a dash and a colon":                 {`a-b:c=d`, `a-b:c="d"`},
		"a name that has to be quoted":                  {`"a b"=c`, `"a b"="c"`},
		"a quoted value with the look of an operator":   {`token="YQ=="`, `token="YQ=="`},
		"an empty value in quotes":                      {`env=""`, `env=""`},
		"letters of any language":                       {`région="île-de-france"`, `région="île-de-france"`},
		"escapes within quotes":                         {`a="\"\\\n\u00e9"`, `a="\"\\\né"`},
		"braces and commas within quotes":               {`a=~"x{1,2}"`, `a=~"x{1,2}"`},
		"a value with characters of other languages":    {`a=b>c;d`, `a="b>c;d"`},
		"the ID as the existing operator spells it":     {`collector.id=edge-1`, `collector.ID="edge-1"`},
		"the ID as Grafana documents it":                {`collector.ID=~"edge-.*"`, `collector.ID=~"edge-.*"`},
		"exactly as many characters as are allowed":     {`k=` + strings.Repeat("é", 198), `k="` + strings.Repeat("é", 198) + `"`},
		"white space around counts for nothing":         {"  k=" + strings.Repeat("x", 198) + "  ", `k="` + strings.Repeat("x", 198) + `"`},
		"a name that holds characters none can see":     {"a\u200bb=c", `"a\u200bb"="c"`},
		"an operator of which a character is a value's": {`a=~"=~"`, `a=~"=~"`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			m, err := Parse(test.text)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(m.Canonical()).To(Equal(test.canonical))
		})
	}
}

func TestParseSaysWhatIsWrongAndWhatToWrite(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"nothing":                              {" ", `a matcher must not be empty: write name="value"`},
		"no UTF-8":                             {"a=\xff", `a matcher must be valid UTF-8`},
		"no UTF-8 once unescaped":              {`a="\xff"`, `the value is not valid UTF-8 once its escapes are read`},
		"too long":                             {"k=" + strings.Repeat("é", 199), `a matcher has at most 200 characters, and this one has 201`},
		"no operator":                          {`env`, `the name is followed by one of = != =~ !~ and a value: write env="value"`},
		"half an operator":                     {`env!prod`, `the name is followed by one of = != =~ !~ and a value: write env="value"`},
		"no name":                              {`="prod"`, `a matcher starts with the name of an attribute: write name="value"`},
		"an empty name":                        {`""=prod`, `the name must not be empty`},
		"no value":                             {`env=`, `a value is missing: write env="" for an attribute that is empty or absent`},
		"two equals signs":                     {`env=="prod"`, `there is no operator ==: write env="prod"`},
		"two equals signs and a word":          {`env== prod`, `there is no operator ==: write env="prod"`},
		"braces of a selector":                 {`{env="prod"}`, `one matcher has no braces around it: write name="value"`},
		"a name of two words":                  {`my env=prod`, `'e' cannot follow the name: one of = != =~ !~ does, and a name with other characters is written in double quotes`},
		"a value of two words":                 {`env=prod eu`, `'e' can stand in a value only within double quotes: write env="prod eu", and each matcher as an item of its own`},
		"two matchers":                         {`env=prod,a=b`, `',' can stand in a value only within double quotes: write env="prod,a=b", and each matcher as an item of its own`},
		"two quoted matchers":                  {`env="prod",a="b"`, `',' cannot follow the quoted value: write " within quotes as \", and each matcher as an item of its own`},
		"a bare backslash":                     {`env=~a\.b`, `'\\' can stand in a value only within double quotes: write env=~"a\\.b", and each matcher as an item of its own`},
		"a single backslash in quotes":         {`env=~"a\.b"`, `the value holds an escape that does not exist: within double quotes, write a backslash as \\, a double quote as \" and a line break as \n`},
		"an equals sign in a bare value":       {`token=YQ=`, `'=' can stand in a value only within double quotes: write token="YQ=", and each matcher as an item of its own`},
		"single quotes":                        {`env='prod'`, `'\'' can stand in a value only within double quotes: write env="'prod'", and each matcher as an item of its own`},
		"a single-quoted name":                 {`'env'=prod`, `a name that starts with '\'' is written in double quotes`},
		"no closing quote of a value":          {`env="prod`, `the value has no closing double quote`},
		"no closing quote of a name":           {`"env=prod`, `the name has no closing double quote`},
		"an open group":                        {`env=~"(a"`, "the value is no regular expression of RE2: error parsing regexp: missing closing ): `(a`"},
		"a class that never ends":              {`k=~[a-`, "the value is no regular expression of RE2: error parsing regexp: missing closing ]: `[a-`"},
		"an expression of many thousand steps": {`env=~"` + strings.Repeat(`(a?){1000}`, 18) + `"`, `the value is too costly a regular expression: repeat less in it than some thousand times`},
		"an escape from the anchors":           {`env=~"a)|(b"`, "the value is no regular expression of RE2: error parsing regexp: unexpected ): `a)|(b`"},
		"what only other engines know":         {`env=~"(?=a)"`, "the value is no regular expression of RE2: error parsing regexp: invalid or unsupported Perl syntax: `(?=`"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(test.text)
			NewWithT(t).Expect(err).To(MatchError(test.want))
		})
	}
}

func TestMatchesComparesTheWholeValue(t *testing.T) {
	for name, test := range map[string]struct {
		matcher, value string
		want           bool
	}{
		"an equal value":                                  {`env=prod`, "prod", true},
		"another value":                                   {`env=prod`, "preprod", false},
		"case counts":                                     {`env=prod`, "Prod", false},
		"another value, negated":                          {`env!=prod`, "dev", true},
		"an absent attribute, negated":                    {`env!=prod`, "", true},
		"an absent attribute is empty":                    {`env=""`, "", true},
		"an expression has to match the end (AT-19)":      {`env=~prod`, "production", false},
		"an expression has to match the start (AT-19)":    {`env=~prod`, "preprod", false},
		"an alternative is anchored on both sides":        {`env=~"a|b"`, "ab", false},
		"an expression that matches all, absent included": {`env=~".*"`, "", true},
		"an expression that needs a character":            {`env=~".+"`, "", false},
		"a negated expression":                            {`env!~"dev.*"`, "dev-1", false},
		"a negated expression on an absent attribute":     {`env!~"dev.*"`, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			m, err := Parse(test.matcher)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(m.Matches(test.value)).To(Equal(test.want))
		})
	}
}

func TestTextIsWhatWasWrittenWithTheIDAsGrafanaSpellsIt(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"as written":                        {` env =~ prod `, `env =~ prod`},
		"the ID in lower case":              {` collector.id =~ "collector.id.*" `, `collector.ID =~ "collector.id.*"`},
		"the ID in quotes":                  {`"collector.id"=a`, `collector.ID=a`},
		"the ID in quotes with an escape":   {`"collector\u002eid"=a`, `collector.ID=a`},
		"a name that starts like the ID's":  {`collector.idle=a`, `collector.idle=a`},
		"a value that is the ID's spelling": {`a=collector.id`, `a=collector.id`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			m, err := Parse(test.text)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(m.Text()).To(Equal(test.want))
		})
	}
}

func TestParseAllNamesEachThatIsWrong(t *testing.T) {
	g := NewWithT(t)
	_, err := ParseAll([]string{"a=b", "a==b", "c"})
	g.Expect(err).To(MatchError(`matchers[1] "a==b": there is no operator ==: write a="b"` + "\n" +
		`matchers[2] "c": the name is followed by one of = != =~ !~ and a value: write c="value"`))
	all, err := ParseAll([]string{"a=b", "c!=d"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all).To(HaveLen(2))
	g.Expect(all[1].Name()).To(Equal("c"))
	g.Expect(all[1].Operator()).To(Equal(OpNotEqual))
	g.Expect(all[1].Value()).To(Equal("d"))
}

func TestCanonicalSetIgnoresOrderSpellingAndRepetition(t *testing.T) {
	g := NewWithT(t)
	set := CanonicalSet([]string{`team = x`, `env="prod"`, `team="x"`, `"team"=x`, `no matcher`})
	g.Expect(set).To(Equal([]string{`env="prod"`, `no matcher`, `team="x"`}))
	g.Expect(CanonicalSet([]string{`no matcher`, `env=prod`, `team=x`})).To(Equal(set))
	g.Expect(CanonicalSet(nil)).To(BeEmpty())
}
