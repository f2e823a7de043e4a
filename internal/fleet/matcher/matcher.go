// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package matcher reads and evaluates matchers, which say which collectors are meant: name="value", with one of the operators
// = != =~ !~. Grammar and meaning are those of Fleet Management, which are those of Alertmanager.
package matcher

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// MaxLength is how many characters a matcher may have, white space around it aside.
const MaxLength = 200

// CollectorID is the attribute that holds a collector's ID. A matcher may also spell it collector.id.
const CollectorID = "collector.ID"

const collectorIDLowerCase = "collector.id"

// Operator says how a matcher compares.
type Operator string

// Operators.
const (
	OpEqual     Operator = "="
	OpNotEqual  Operator = "!="
	OpRegexp    Operator = "=~"
	OpNotRegexp Operator = "!~"
)

// Matcher holds for some values of one attribute. The zero Matcher is no matcher; Parse makes one.
type Matcher struct {
	name   string
	op     Operator
	value  string
	regexp *regexp.Regexp // of OpRegexp and OpNotRegexp
	text   string
}

// Name is the attribute that is compared. It is CollectorID for either spelling of that.
func (m Matcher) Name() string { return m.name }

// Operator is how the attribute is compared.
func (m Matcher) Operator() Operator { return m.op }

// Value is what the attribute is compared with.
func (m Matcher) Value() string { return m.value }

// Matches reports whether the matcher holds for a value. An attribute that is absent has the empty value.
func (m Matcher) Matches(value string) bool {
	switch m.op {
	case OpNotEqual:
		return value != m.value
	case OpRegexp:
		return m.regexp.MatchString(value)
	case OpNotRegexp:
		return !m.regexp.MatchString(value)
	default:
		return value == m.value
	}
}

// Canonical is a text that equal matchers share, however they were written. Its quotes and escapes can make it longer than
// MaxLength: compare it, and show it, but send Text.
func (m Matcher) Canonical() string { return quoteName(m.name) + string(m.op) + strconv.Quote(m.value) }

// Text is the matcher as it was written, without white space around it, for Fleet Management. It spells CollectorID as Fleet
// Management does.
func (m Matcher) Text() string { return m.text }

// CanonicalSet returns the canonical texts of matchers, sorted, each once. A text that is no matcher stands for itself.
func CanonicalSet(texts []string) []string {
	set := make([]string, 0, len(texts))
	for _, text := range texts {
		if m, err := Parse(text); err == nil {
			text = m.Canonical()
		}
		set = append(set, text)
	}
	slices.Sort(set)
	return slices.Compact(set)
}

// reserved reports whether a character can stand only within quotes.
func reserved(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("{}!=~,\\\"'`", r) }

func quoteName(name string) string {
	if strings.ContainsFunc(name, reserved) || strings.ContainsFunc(name, unprintable) {
		return strconv.Quote(name)
	}
	return name
}

func unprintable(r rune) bool { return !strconv.IsPrint(r) }
