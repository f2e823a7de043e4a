// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package alloy

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/grafana/alloy/syntax/ast"
	"github.com/grafana/alloy/syntax/token"

	"github.com/candor-dev/candor/internal/fleet/lint"
)

// componentNames are those that Alloy's documentation knows, one a line. The list ages, so that a name that it lacks is no error.
//
//go:embed components.txt
var componentNames string

var (
	components = setOf(strings.Fields(componentNames)...)
	// configBlocks are the blocks that are no components.
	configBlocks = setOf("argument", "declare", "export", "foreach", "http", "import.file", "import.git", "import.http", "import.string",
		"livedebugging", "logging", "remotecfg", "tracing")
	// builtIn are the identifiers that exist without a block.
	builtIn = setOf("argument", "array", "base64_decode", "coalesce", "concat", "constants", "convert", "encoding", "env", "file", "format",
		"join", "json_decode", "json_path", "map", "module_path", "nonsensitive", "replace", "split", "string", "sys", "targets", "to_lower", "to_upper",
		"trim", "trim_prefix", "trim_space", "trim_suffix", "yaml_decode")
)

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// scope is what the expressions of a body can refer to.
type scope struct {
	// blocks are where the blocks start, by their name and label.
	blocks map[string]token.Pos
	// variables exist without a block.
	variables map[string]bool
	// custom are the components that the body declares, and the namespaces that it imports with a dot at their end.
	custom map[string]bool
	// outer is the scope of the body around it.
	outer *scope
	// closed says that blocks and variables of outer are out of reach.
	closed bool
}

func (s *scope) has(id string) bool {
	for ; s != nil; s = s.outer {
		if _, exists := s.blocks[id]; exists || s.variables[id] {
			return true
		}
		if s.closed {
			return false
		}
	}
	return false
}

func (s *scope) knows(component string) bool {
	namespace, _, _ := strings.Cut(component, ".")
	for ; s != nil; s = s.outer {
		if s.custom[component] || s.custom[namespace+"."] {
			return true
		}
	}
	return components[component] || configBlocks[component]
}

type checker struct{ problems []lint.Problem }

func check(body ast.Body) []lint.Problem {
	var c checker
	c.module(body, &scope{})
	return lint.Sorted(c.problems)
}

func (c *checker) add(s lint.Severity, at token.Pos, format string, args ...any) {
	c.problems = append(c.problems, problemAt(s, at.Position(), fmt.Sprintf(format, args...)))
}

// module checks a body whose blocks are components.
func (c *checker) module(body ast.Body, s *scope) {
	s.blocks, s.custom = make(map[string]token.Pos, len(body)), map[string]bool{}
	for _, statement := range body {
		switch statement := statement.(type) {
		case *ast.AttributeStmt:
			c.add(lint.Error, statement.Name.NamePos, "the attribute %s stands outside of any block: put it into one", quote(statement.Name.Name))
		case *ast.BlockStmt:
			c.define(statement, s)
		}
	}
	for _, statement := range body {
		if block, isBlock := statement.(*ast.BlockStmt); isBlock {
			c.component(block, s)
		}
	}
}

func (c *checker) define(block *ast.BlockStmt, s *scope) {
	name := block.GetBlockName()
	id := name
	if block.Label != "" {
		id += "." + block.Label
	}
	if first, exists := s.blocks[id]; exists {
		remedy := "remove one"
		if block.Label != "" {
			remedy = "give one of them another label"
		}
		c.add(lint.Error, block.NamePos, "%s exists already in line %d: %s", shown(block), first.Position().Line, remedy)
		return
	}
	s.blocks[id] = block.NamePos
	switch {
	case name == "declare":
		s.custom[block.Label] = true
	case strings.HasPrefix(name, "import."):
		s.custom[block.Label+"."] = true
	}
}

func (c *checker) component(block *ast.BlockStmt, s *scope) {
	name := block.GetBlockName()
	switch name {
	case "declare":
		c.module(block.Body, &scope{outer: s, closed: true})
		return
	case "foreach":
		c.foreach(block, s)
		return
	}
	switch {
	case !s.knows(name):
		c.add(lint.Warning, block.NamePos, "%s is no component that this version of Candor knows: correct the name, unless your Alloy is newer", quote(name))
	case components[name] && block.Label == "":
		c.add(lint.Warning, block.NamePos, "%s has no label, and Alloy wants one: %s \"default\" { … }", quote(name), name)
	}
	c.body(block.Body, s)
}

// foreach checks the template once for each name that its variable may have, which is one.
func (c *checker) foreach(block *ast.BlockStmt, s *scope) {
	inner := &scope{outer: s, variables: map[string]bool{}}
	for _, statement := range block.Body {
		switch statement := statement.(type) {
		case *ast.AttributeStmt:
			if value, isLiteral := statement.Value.(*ast.LiteralExpr); isLiteral && statement.Name.Name == "var" {
				inner.variables[strings.Trim(value.Value, "\"`")] = true
			}
			c.expression(statement.Value, s)
		case *ast.BlockStmt:
			if statement.GetBlockName() == "template" {
				defer c.module(statement.Body, inner)
			}
		}
	}
}

// body checks what stands in a component.
func (c *checker) body(body ast.Body, s *scope) {
	for _, statement := range body {
		switch statement := statement.(type) {
		case *ast.AttributeStmt:
			c.expression(statement.Value, s)
		case *ast.BlockStmt:
			c.body(statement.Body, s)
		}
	}
}

func (c *checker) expression(e ast.Expr, s *scope) {
	switch e := e.(type) {
	case *ast.IdentifierExpr, *ast.AccessExpr:
		c.reference(e, s)
	case *ast.ArrayExpr:
		for _, element := range e.Elements {
			c.expression(element, s)
		}
	case *ast.ObjectExpr:
		for _, f := range e.Fields {
			c.expression(f.Value, s)
		}
	case *ast.IndexExpr:
		c.expression(e.Value, s)
		c.expression(e.Index, s)
	case *ast.CallExpr:
		c.expression(e.Value, s)
		for _, argument := range e.Args {
			c.expression(argument, s)
		}
	case *ast.UnaryExpr:
		c.expression(e.Value, s)
	case *ast.BinaryExpr:
		c.expression(e.Left, s)
		c.expression(e.Right, s)
	case *ast.ParenExpr:
		c.expression(e.Inner, s)
	}
}

// reference checks that a chain of names starts with the name and label of a block, or with something that needs none.
func (c *checker) reference(e ast.Expr, s *scope) {
	var names []string
	for {
		access, isAccess := e.(*ast.AccessExpr)
		if !isAccess {
			break
		}
		names, e = append(names, access.Name.Name), access.Value
	}
	root, isName := e.(*ast.IdentifierExpr)
	if !isName {
		c.expression(e, s)
		return
	}
	names = append(names, root.Ident.Name)
	slices.Reverse(names)
	if builtIn[names[0]] {
		return
	}
	id, end := strings.Join(names, "."), -1
	for _, name := range names {
		if end += len(name) + 1; s.has(id[:end]) {
			return
		}
	}
	if len(names) == 1 {
		c.add(lint.Warning, root.Ident.NamePos, "nothing is called %s: put a text into double quotes", quote(id))
		return
	}
	c.add(lint.Warning, root.Ident.NamePos, "no block of this pipeline is what %s refers to: correct the reference, or add the block", quote(id))
}

func shown(block *ast.BlockStmt) string {
	if block.Label == "" {
		return lint.Shorten(block.GetBlockName(), maxName)
	}
	return lint.Shorten(fmt.Sprintf("%s %q", block.GetBlockName(), block.Label), maxName)
}

const maxName = 120

func quote(name string) string { return `"` + lint.Shorten(name, maxName) + `"` }
