// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package otelcol

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/candor-dev/candor/internal/fleet/lint"
)

type checker struct{ problems []lint.Problem }

func (c *checker) add(s lint.Severity, at *yaml.Node, format string, args ...any) {
	c.problems = append(c.problems, lint.Problem{Severity: s, Line: at.Line, Column: at.Column, Message: fmt.Sprintf(format, args...)})
}

// Kinds of components, by the names of their sections.
const (
	receivers  = "receivers"
	processors = "processors"
	exporters  = "exporters"
	connectors = "connectors"
	extensions = "extensions"
	service    = "service"
	pipelines  = "pipelines"
)

// defined are the components of a configuration: the node of each, by its kind and ID.
type defined map[string]map[string]*yaml.Node

func (c *checker) document(root *yaml.Node) {
	c.duplicates(root)
	components := defined{}
	var settings *yaml.Node
	for key, value := range entries(root) {
		switch key.Value {
		case receivers, processors, exporters, connectors, extensions:
			components[key.Value] = c.section(key, value)
		case service:
			settings = key
		default:
			c.add(lint.Warning, key, "%s is no section of a collector's configuration: correct it, or take it out", quote(key.Value))
		}
	}
	c.ambiguous(components)
	if settings == nil {
		c.add(lint.Error, root, "has no service section: add service.pipelines, without which nothing runs")
		return
	}
	c.service(settings, lookup(root, service), components)
}

// duplicates reports each key that stands twice in a mapping, anywhere in the document.
func (c *checker) duplicates(n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		lines := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
				continue
			}
			if line, exists := lines[key.Value]; exists {
				c.add(lint.Error, key, "the key %s stands already in line %d: remove one", quote(key.Value), line)
				continue
			}
			lines[key.Value] = key.Line
		}
	}
	for _, child := range n.Content {
		c.duplicates(child)
	}
}

// section returns the components that a section defines.
func (c *checker) section(key, value *yaml.Node) map[string]*yaml.Node {
	ids := map[string]*yaml.Node{}
	if !c.isMapping(key.Value, value) {
		return ids
	}
	for id := range entries(value) {
		if !validID(id.Value) {
			c.add(lint.Error, id, "%s is no ID of a component: write it as type or type/name", quote(id.Value))
		}
		ids[id.Value] = id
	}
	return ids
}

func validID(id string) bool {
	kind, name, named := strings.Cut(id, "/")
	return strings.TrimSpace(kind) != "" && (!named || strings.TrimSpace(name) != "") || filledIn(id)
}

// ambiguous reports a connector that has the ID of a receiver or exporter.
func (c *checker) ambiguous(components defined) {
	for id, at := range components[connectors] {
		for _, kind := range []string{receivers, exporters} {
			if _, exists := components[kind][id]; exists {
				c.add(lint.Error, at, "the connector %s is also one of the %s: give one of them another name", quote(id), kind)
			}
		}
	}
}

func (c *checker) service(key, value *yaml.Node, components defined) {
	if !c.isMapping(key.Value, value) {
		c.add(lint.Error, key, "service has no pipelines: add at least one below service.pipelines")
		return
	}
	for _, reference := range c.list(value, extensions) {
		if _, exists := components[extensions][reference.Value]; !exists {
			c.undefined(reference, "the extension", extensions)
		}
	}
	all := lookup(value, pipelines)
	if all == nil || c.isMapping(pipelines, all) && len(all.Content) == 0 || all.Tag == "!!null" {
		c.add(lint.Error, key, "service has no pipelines: add at least one below service.pipelines")
		return
	}
	uses := joints{from: map[string]*yaml.Node{}, to: map[string]*yaml.Node{}}
	for id, pipeline := range entries(all) {
		c.pipeline(id, pipeline, components, uses)
	}
	c.joined(uses)
}

func (c *checker) undefined(reference *yaml.Node, what, section string) {
	c.add(lint.Error, reference, "%s %s is not defined: add it below %s, or correct the reference", what, quote(reference.Value), section)
}

// isMapping says whether there is anything to look into. Null is an empty mapping; anything else is an error.
func (c *checker) isMapping(name string, value *yaml.Node) bool {
	value = target(value)
	switch {
	case value.Kind == yaml.MappingNode:
		return true
	case value.Tag != "!!null" && !filledIn(value.Value):
		c.add(lint.Error, value, "%s must be a mapping", quote(name))
	}
	return false
}

const maxName = 100

func quote(name string) string { return fmt.Sprintf("%q", lint.Shorten(name, maxName)) }
