// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package otelcol checks configurations of the OpenTelemetry Collector, as far as one can without running them.
package otelcol

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/candor-dev/candor/internal/fleet/lint"
)

// maxNesting is how deep a document may be. None that means something comes near it.
const maxNesting = 100

// Check returns what is wrong with a configuration, in the order of its lines: syntax, a key that stands twice, pipelines that are
// missing or empty, a reference to what is not defined, a connector that joins nothing. No error means that a collector can read
// it, not that it will run. Of each severity it returns at most lint.MaxProblems. A text of more than maxBytes is refused unread;
// 0 is no bound.
func Check(contents string, maxBytes int) []lint.Problem {
	if maxBytes > 0 && len(contents) > maxBytes {
		return failure(0, 0, "has %d bytes, and at most %d are allowed", len(contents), maxBytes)
	}
	root, problems := parse(contents)
	if problems != nil {
		if at := alloyBlock.FindStringIndex(contents); at != nil {
			line := strings.Count(contents[:at[0]], "\n") + 1
			return failure(line, 0, "this is Alloy, which has a block here, and no YAML: set spec.configType to Alloy, or write YAML")
		}
		return problems
	}
	c := checker{}
	c.document(root)
	return lint.Sorted(c.problems)
}

func failure(line, column int, format string, args ...any) []lint.Problem {
	return []lint.Problem{{Severity: lint.Error, Line: line, Column: column, Message: fmt.Sprintf(format, args...)}}
}

var (
	// alloyBlock is how a block of Alloy starts, and how nothing does in a YAML mapping.
	alloyBlock = regexp.MustCompile(`(?m)^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*([ \t]+"\w*")?[ \t]*\{`)
	// yamlLine is how errors of the parser tell their line.
	yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)
)

// parse returns the top of the document, a mapping, or why there is none.
func parse(contents string) (*yaml.Node, []lint.Problem) {
	decoder := yaml.NewDecoder(strings.NewReader(contents))
	var document yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, failure(0, 0, "is empty or holds only comments: a configuration needs at least service.pipelines")
	case err != nil:
		return nil, syntaxError(contents, err)
	}
	var second yaml.Node
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, failure(second.Line, second.Column, "a second YAML document starts here, and only one is allowed")
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(contents, err)
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, failure(root.Line, root.Column, "is no YAML mapping: it starts with keys such as receivers: and service:")
	}
	if at := tooDeep(root, maxNesting); at != nil {
		return nil, failure(at.Line, at.Column, "is nested too deeply: at most %d levels are allowed", maxNesting)
	}
	if weight(root, map[*yaml.Node]int{}) > maxNodes {
		return nil, failure(0, 0, "has aliases that lead in a circle, or to too much: write out what they stand for")
	}
	return root, nil
}

func syntaxError(contents string, err error) []lint.Problem {
	text, line := err.Error(), 1 // the parser does not tell the first line
	if match := yamlLine.FindStringSubmatch(text); match != nil {
		text = text[len(match[0]):]
		if match[1] != "" {
			line, _ = strconv.Atoi(match[1])
		}
	}
	if strings.HasPrefix(text, "unknown anchor") {
		return failure(0, 0, "is no valid YAML, %s: define it, or write out what it stands for", lint.Shorten(text, 200))
	}
	if strings.HasPrefix(text, "did not find expected") { // the parser tells where the block begins, not where it goes wrong
		return failure(line, 0, "is no valid YAML, %s in the block that begins here: look at the indentation of what follows", lint.Shorten(text, 200))
	}
	problems := failure(line, 0, "is no valid YAML, %s", lint.Shorten(text, 200))
	problems[0].Excerpt = lint.Excerpt(contents, line)
	return problems
}

func tooDeep(n *yaml.Node, levels int) *yaml.Node {
	if levels == 0 {
		return n
	}
	for _, child := range n.Content {
		if at := tooDeep(child, levels-1); at != nil {
			return at
		}
	}
	return nil
}
