// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lint is how the checks of configurations say what is wrong, and where.
package lint

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Severity is how bad a problem is.
type Severity int

// Severities.
const (
	// Warning is about what is probably a mistake.
	Warning Severity = iota
	// Error is about what cannot work.
	Error
)

// Problem is one thing that is wrong with a text.
type Problem struct {
	Severity Severity
	// Line and Column count from 1, a column in bytes. They are zero where unknown, or where the whole text is meant.
	Line, Column int
	Message      string
	// Excerpt is the line with what may be secret left out; it is empty where it says nothing.
	Excerpt string
}

// String tells all of the problem in one line.
func (p Problem) String() string {
	var b strings.Builder
	switch {
	case p.Line > 0 && p.Column > 0:
		fmt.Fprintf(&b, "line %d, column %d: ", p.Line, p.Column)
	case p.Line > 0:
		fmt.Fprintf(&b, "line %d: ", p.Line)
	}
	b.WriteString(p.Message)
	if p.Excerpt != "" {
		fmt.Fprintf(&b, ": correct the line that reads: %s", p.Excerpt)
	}
	return b.String()
}

// Errors keeps those problems that are errors.
func Errors(problems []Problem) []Problem { return of(Error, problems) }

// Warnings keeps those problems that are warnings.
func Warnings(problems []Problem) []Problem { return of(Warning, problems) }

func of(s Severity, problems []Problem) []Problem {
	var some []Problem
	for _, p := range problems {
		if p.Severity == s {
			some = append(some, p)
		}
	}
	return some
}

const (
	// MaxProblems is how many problems of one severity are told of one text.
	MaxProblems = 10
	maxExcerpt  = 120
	maxLine     = 1000 // bytes of a line that are looked at
	elided      = "…"
)

var (
	// secretName is the name of something secret with what assigns a value to it.
	secretName = regexp.MustCompile(`(?i)[\w.\-"']*(passw|passphrase|secret|token|credential|bearer|auth|private|api_?-?key|access_?-?key|` +
		`account_?-?key|cookie|dsn|data_source|connection_?string)[\w.\-"']*\s*[:=]`)
	userinfo = regexp.MustCompile(`://[^/\s"']*@`)
	query    = regexp.MustCompile(`(://[^\s"'?]*\?)[^\s"']*`)
	// quoted is a quoted value, or the label of a block with the name before it, which hides nothing.
	quoted = regexp.MustCompile("[A-Za-z_][\\w.]*\\s+\"[A-Za-z_]\\w*\"|\"(\\\\.|[^\"\\\\])*(\"|$)|'[^']*('|$)|`[^`]*(`|$)")
)

// Excerpt returns a line of a text, counted from 1, with quoted values and whatever its name or form says is secret left out, and
// at most 120 characters of it. It is empty where there is no such line.
func Excerpt(text string, line int) string {
	for i := 1; i < line; i++ {
		_, rest, found := strings.Cut(text, "\n")
		if !found {
			return ""
		}
		text = rest
	}
	text, _, _ = strings.Cut(text, "\n")
	text = strings.TrimSpace(text)
	text = strings.TrimSpace(strings.ToValidUTF8(text[:min(len(text), maxLine)], "\uFFFD"))
	if at := secretName.FindStringIndex(text); at != nil && strings.TrimSpace(text[at[1]:]) != "" {
		text = text[:at[1]] + " " + elided
	}
	text = query.ReplaceAllString(userinfo.ReplaceAllString(text, "://"+elided+"@"), "${1}"+elided)
	text = quoted.ReplaceAllStringFunc(text, func(s string) string {
		if quote := s[:1]; strings.ContainsAny(quote, "\"'`") {
			return quote + elided + quote
		}
		return s
	})
	return Shorten(printable(text), maxExcerpt)
}

func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
}

// Shorten returns at most limit characters of a text, which ends in an ellipsis where some are missing.
func Shorten(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + elided
}

// Sorted returns problems in the order of their lines, at most MaxProblems of each severity.
func Sorted(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	kept, count := problems[:0], map[Severity]int{}
	for _, p := range problems {
		if count[p.Severity]++; count[p.Severity] <= MaxProblems {
			kept = append(kept, p)
		}
	}
	return kept
}
