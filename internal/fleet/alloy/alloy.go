// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package alloy checks configurations in the language of Grafana Alloy, as far as one can without running them.
package alloy

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/grafana/alloy/syntax/diag"
	"github.com/grafana/alloy/syntax/parser"
	"github.com/grafana/alloy/syntax/token"

	"github.com/candor-dev/candor/internal/fleet/lint"
)

// Check returns what is wrong with a configuration, in the order of its lines: syntax, a block that exists twice, a reference to
// what does not exist, a component that nobody knows. No error means that Alloy can read it, not that it will run. Of each severity
// it returns at most lint.MaxProblems. A text of more than maxBytes is refused unread; 0 is no bound.
func Check(contents string, maxBytes int) []lint.Problem {
	if maxBytes > 0 && len(contents) > maxBytes {
		return []lint.Problem{{Severity: lint.Error, Message: fmt.Sprintf("has %d bytes, and at most %d are allowed", len(contents), maxBytes)}}
	}
	src := []byte(contents)
	tokens := scan(src)
	switch {
	case tokens.refusal != nil:
		return []lint.Problem{*tokens.refusal}
	case len(tokens.illegal) > 0:
		return explain(contents, tokens.illegal)
	case tokens.empty:
		return []lint.Problem{{Severity: lint.Error, Message: "is empty or holds only comments: a pipeline needs at least one block"}}
	}
	file, err := parser.ParseFile("", src)
	if err != nil {
		var diags diag.Diagnostics
		if !errors.As(err, &diags) {
			return []lint.Problem{{Severity: lint.Error, Message: err.Error()}}
		}
		return explain(contents, problemsOf(diags))
	}
	return check(file.Body)
}

// inWords says in words what the parser calls by the names of its tokens.
var inWords = strings.NewReplacer("TERMINATOR", "the end of the line", "IDENT", "a name",
	"expected identifier", "expected a name", "EOF", "the end of the text", "STRING", "a text in quotes", "NUMBER", "a number", "FLOAT", "a number", "BOOL", "true or false", "ILLEGAL", "something illegal")

func problemsOf(diags diag.Diagnostics) []lint.Problem {
	var problems []lint.Problem
	for _, d := range diags {
		severity := lint.Error
		if d.Severity == diag.SeverityLevelWarn {
			severity = lint.Warning
		}
		problems = append(problems, problemAt(severity, d.StartPos, inWords.Replace(d.Message)))
		if len(problems) == lint.MaxProblems {
			break
		}
	}
	return problems
}

func problemAt(s lint.Severity, at token.Position, message string) lint.Problem {
	return lint.Problem{Severity: s, Line: at.Line, Column: at.Column, Message: message}
}

// yamlKey is how a YAML mapping starts, and how nothing in Alloy does.
var yamlKey = regexp.MustCompile(`\A(?:\x{FEFF}|\s|#[^\n]*(?:\n|\z)|---[^\n]*(?:\n|\z))*("?[A-Za-z_][\w./-]*"?)\s*:(?:\s|\z)`)

// explain shows the lines of syntax errors. A YAML document gets one error that says what it is, since each of its lines has one.
func explain(contents string, problems []lint.Problem) []lint.Problem {
	if key := yamlKey.FindStringSubmatch(contents); key != nil {
		first := problems[0]
		first.Message = fmt.Sprintf("this is YAML, which starts with the key %s, and no Alloy: set spec.configType to OpenTelemetryCollector, or write Alloy",
			quote(strings.Trim(key[1], `"`)))
		return []lint.Problem{first}
	}
	visible := withoutStrings([]byte(contents))
	var told []lint.Problem
	for i, p := range problems {
		p.Excerpt = lint.Excerpt(visible, p.Line)
		if i > 0 && p.Excerpt == "" {
			continue // the end of the text, which is only where the parser gave up
		}
		p.Message = "is no valid Alloy, " + p.Message
		told = append(told, p)
	}
	return told
}
