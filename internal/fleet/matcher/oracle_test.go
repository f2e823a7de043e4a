// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package matcher

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	"github.com/prometheus/alertmanager/matcher/parse"
)

var (
	names      = []string{"env", "team", "app.kubernetes.io/name", "a-b", "région", "a b", `q"q`, "a=b", "x,y", "!", "host:port"}
	values     = []string{"", "prod", "preprod", "production", "dev", "a b", "a.b", "axb", `a\b`, "é", "prod\n", "\nprod", "PROD", "a=b", "{}", ".*", "aa", "10.0.0.1"}
	patterns   = []string{"", ".*", ".+", "prod", "pre.*", "prod|dev", "(prod|dev).*", "[a-z]+", `a\.b`, "a.b", "(?i)prod", "^prod$", "a{2}", "(?s).*", "prod$|x", "[^p].*", `\d+(\.\d+){3}`, "(", "[a-", "a**", "é?"}
	operators  = []string{"=", "!=", "=~", "!~"}
	separators = []string{"", "", "", " ", "\t", "\u00a0"}
)

func pick(random *rand.Rand, from []string) string { return from[random.IntN(len(from))] }

// written returns a text as a literal: in quotes, unless it may and by chance does stand for itself.
func written(random *rand.Rand, text string) string {
	if text != "" && !strings.ContainsFunc(text, reserved) && random.IntN(2) == 0 {
		return text
	}
	return strconv.Quote(text)
}

func randomMatcher(random *rand.Rand) string {
	operator := pick(random, operators)
	value := pick(random, values)
	if strings.Contains(operator, "~") {
		value = pick(random, patterns)
	}
	text := pick(random, separators) + written(random, pick(random, names)) + pick(random, separators) + operator +
		pick(random, separators) + written(random, value) + pick(random, separators)
	if random.IntN(10) > 0 {
		return text
	}
	// One in ten is damaged somewhere.
	runes := []rune(text)
	at := random.IntN(len(runes))
	return string(runes[:at]) + pick(random, []string{"", "=", "!", "~", `"`, `\`, " ", "'", "x"}) + string(runes[at+1:])
}

// agree parses a text with Alertmanager's parser too, and fails unless both give the same answer.
func agree(g *WithT, text string) (ours Matcher, matches func(string) bool, ok bool) {
	ours, err := Parse(text)
	theirs, theirErr := parse.Matcher(text)
	if stricter(text) {
		return ours, nil, false
	}
	if err != nil && strings.Contains(err.Error(), "too costly") {
		return ours, nil, false
	}
	if theirErr != nil || theirs.Name == "" || escapes(theirs.Value, theirs.Type.String()) {
		g.Expect(err).To(HaveOccurred(), "%q", text)
		return ours, nil, false
	}
	g.Expect(err).NotTo(HaveOccurred(), "%q", text)
	name := theirs.Name
	if name == collectorIDLowerCase {
		name = CollectorID
	}
	g.Expect([]string{ours.Name(), string(ours.Operator()), ours.Value()}).To(Equal([]string{name, theirs.Type.String(), theirs.Value}), "%q", text)
	return ours, theirs.Matches, true
}

// stricter reports whether a text may be refused though Alertmanager takes it: it has other limits, and takes braces around a list
// and a comma after it.
func stricter(text string) bool {
	trimmed := strings.TrimSpace(text)
	return !utf8.ValidString(text) || utf8.RuneCountInString(trimmed) > MaxLength ||
		strings.HasPrefix(trimmed, "{") || strings.HasSuffix(trimmed, ",")
}

// escapes reports whether an expression is one only together with the anchors around it, such as a)|(b.
func escapes(value, operator string) bool {
	if !strings.Contains(operator, "~") {
		return false
	}
	_, err := regexp.Compile(value)
	return err != nil
}

func TestAMatcherIsThatOfAlertmanagerAT19(t *testing.T) {
	g, random := NewWithT(t), rand.New(rand.NewPCG(19, 0))
	parsed, compared, matched := 0, 0, 0
	for range 8000 {
		text := randomMatcher(random)
		ours, theirs, ok := agree(g, text)
		if !ok {
			continue
		}
		parsed++
		for range 2 {
			value := pick(random, values)
			g.Expect(ours.Matches(value)).To(Equal(theirs(value)), "%q against %q", text, value)
			compared++
			if ours.Matches(value) {
				matched++
			}
		}
	}
	t.Logf("%d matchers, %d pairs, of which %d match", parsed, compared, matched)
	g.Expect(compared).To(BeNumerically(">=", 10000))
	g.Expect(matched).To(And(BeNumerically(">", compared/10), BeNumerically("<", compared*9/10)))
}

func TestEqualMatchersAndNoOthersShareACanonicalText(t *testing.T) {
	g, random := NewWithT(t), rand.New(rand.NewPCG(43, 0))
	type parts struct{ name, operator, value string }
	seen := map[string]parts{}
	texts := map[parts]string{}
	for range 8000 {
		m, err := Parse(randomMatcher(random))
		if err != nil {
			continue
		}
		p := parts{m.Name(), string(m.Operator()), m.Value()}
		if other, known := seen[m.Canonical()]; known {
			g.Expect(other).To(Equal(p))
		}
		if other, known := texts[p]; known {
			g.Expect(other).To(Equal(m.Canonical()))
		}
		seen[m.Canonical()], texts[p] = p, m.Canonical()
	}
	g.Expect(len(seen)).To(BeNumerically(">", 300))
}

func FuzzParse(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 0))
	for range 100 {
		f.Add(randomMatcher(random), pick(random, values))
	}
	for _, text := range []string{"", "=", `"`, `{a="b"}`, "a=b,", "a==b", `collector.id=x`, "a=\xff", `a="\x00"`, `a=~"a)|(b"`, `"\n"=x`, "\u00a0a=b", "a\u0085=b"} {
		f.Add(text, "x")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		g := NewWithT(t)
		m, theirs, ok := agree(g, text)
		if ok {
			g.Expect(m.Matches(value)).To(Equal(theirs(value)))
		}
		if m.Name() == "" {
			return
		}
		for _, again := range []string{m.Text(), m.Canonical()} {
			same, err := Parse(again)
			if utf8.RuneCountInString(again) > MaxLength {
				continue
			}
			g.Expect(err).NotTo(HaveOccurred(), "%q", again)
			g.Expect(same.Canonical()).To(Equal(m.Canonical()))
			g.Expect(same.Matches(value)).To(Equal(m.Matches(value)))
		}
	})
}
