// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package matcher

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxInstructions bounds what evaluating an expression costs: some milliseconds for the longest value. Repetitions such as
// (a?){1000}, of which many fit into MaxLength, would cost a hundred times that, for each collector.
const maxInstructions = 3000

// Parse reads one matcher. Its error says what is wrong and what to write; it names neither the field nor the whole text.
func Parse(text string) (Matcher, error) {
	text = strings.TrimSpace(text)
	switch length := utf8.RuneCountInString(text); {
	case text == "":
		return Matcher{}, errors.New(`a matcher must not be empty: write name="value"`)
	case !utf8.ValidString(text):
		return Matcher{}, errors.New("a matcher must be valid UTF-8")
	case length > MaxLength:
		return Matcher{}, fmt.Errorf("a matcher has at most %d characters, and this one has %d", MaxLength, length)
	}
	name, rest, err := parseName(text)
	if err != nil {
		return Matcher{}, err
	}
	end := len(text) - len(rest)
	op, rest, err := parseOperator(name, rest)
	if err != nil {
		return Matcher{}, err
	}
	value, err := parseValue(name, op, rest)
	if err != nil {
		return Matcher{}, err
	}
	m := Matcher{name: name, op: op, value: value, text: text}
	if name == collectorIDLowerCase {
		m.name, m.text = CollectorID, CollectorID+text[end:]
	}
	if op == OpRegexp || op == OpNotRegexp {
		if m.regexp, err = Anchored(value); err != nil {
			return Matcher{}, err
		}
	}
	return m, nil
}

// ParseAll reads matchers. Its error names each that is none by its place in the list, from 0 on.
func ParseAll(texts []string) ([]Matcher, error) {
	matchers := make([]Matcher, 0, len(texts))
	var wrong []error
	for i, text := range texts {
		m, err := Parse(text)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("matchers[%d] %q: %w", i, text, err))
			continue
		}
		matchers = append(matchers, m)
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return matchers, nil
}

func parseName(text string) (name, rest string, err error) {
	switch {
	case strings.ContainsRune("{}", rune(text[0])):
		return "", "", errors.New(`one matcher has no braces around it: write name="value"`)
	case strings.ContainsRune("=!~", rune(text[0])):
		return "", "", errors.New(`a matcher starts with the name of an attribute: write name="value"`)
	}
	name, rest, err = literal(text)
	switch {
	case err != nil:
		return "", "", fmt.Errorf("the name %w", err)
	case name == "" && rest == text:
		return "", "", fmt.Errorf("a name that starts with %s is written in double quotes", firstOf(text))
	case name == "":
		return "", "", errors.New("the name must not be empty")
	}
	return name, rest, nil
}

func parseOperator(name, text string) (op Operator, rest string, err error) {
	text = trimLeft(text)
	for _, op := range []Operator{OpRegexp, OpNotRegexp, OpNotEqual, OpEqual} {
		if rest, found := strings.CutPrefix(text, string(op)); found {
			if op == OpEqual && strings.HasPrefix(rest, "=") {
				return "", "", fmt.Errorf("there is no operator ==: write %s", example(name, OpEqual, unquoted(rest[1:])))
			}
			return op, trimLeft(rest), nil
		}
	}
	if text == "" || text[0] == '!' || text[0] == '~' {
		return "", "", fmt.Errorf("the name is followed by one of = != =~ !~ and a value: write %s", example(name, OpEqual, "value"))
	}
	return "", "", fmt.Errorf("%s cannot follow the name: one of = != =~ !~ does, and a name with other characters is written in double quotes",
		firstOf(text))
}

func parseValue(name string, op Operator, text string) (string, error) {
	if text == "" {
		return "", fmt.Errorf("a value is missing: write %s for an attribute that is empty or absent", example(name, op, ""))
	}
	value, rest, err := literal(text)
	if err != nil {
		return "", fmt.Errorf("the value %w", err)
	}
	if rest = trimLeft(rest); rest == "" {
		return value, nil
	}
	if text[0] == '"' {
		return "", fmt.Errorf(`%s cannot follow the quoted value: write " within quotes as \", and each matcher as an item of its own`, firstOf(rest))
	}
	return "", fmt.Errorf("%s can stand in a value only within double quotes: write %s, and each matcher as an item of its own",
		firstOf(rest), example(name, op, text))
}

// literal reads a word or a quoted text, and returns what follows. A word is empty where text starts with a reserved character.
func literal(text string) (value, rest string, err error) {
	if text[0] != '"' {
		if end := strings.IndexFunc(text, reserved); end >= 0 {
			return text[:end], text[end:], nil
		}
		return text, "", nil
	}
	end := closingQuote(text)
	if end < 0 {
		return "", "", errors.New("has no closing double quote")
	}
	value, err = strconv.Unquote(text[:end+1])
	switch {
	case err != nil:
		return "", "", errors.New(`holds an escape that does not exist: within double quotes, write a backslash as \\, a double quote as \" and a line break as \n`)
	case !utf8.ValidString(value):
		return "", "", errors.New("is not valid UTF-8 once its escapes are read")
	}
	return value, text[end+1:], nil
}

// closingQuote returns where the quote that text starts with ends, -1 for nowhere.
func closingQuote(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// Anchored compiles an expression that has to match a whole value, as that of a matcher does; it refuses one that is too costly. The
// expression is read by itself first: a)|(b would fit into the anchors and escape from them.
func Anchored(expression string) (*regexp.Regexp, error) {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("the value is no regular expression of RE2: %w", err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, fmt.Errorf("the value is no regular expression of RE2: %w", err)
	}
	if len(program.Inst) > maxInstructions {
		return nil, errors.New("the value is too costly a regular expression: repeat less in it than some thousand times")
	}
	return regexp.Compile("^(?:" + expression + ")$")
}

func trimLeft(text string) string { return strings.TrimLeftFunc(text, unicode.IsSpace) }

func firstOf(text string) string {
	first, _ := utf8.DecodeRuneInString(text)
	return strconv.QuoteRune(first)
}

// unquoted returns what a value most likely means that may be in quotes.
func unquoted(text string) string {
	text = strings.TrimSpace(text)
	if value, err := strconv.Unquote(text); err == nil {
		return value
	}
	return text
}

func example(name string, op Operator, value string) string {
	return quoteName(name) + string(op) + strconv.Quote(strings.TrimSpace(value))
}
