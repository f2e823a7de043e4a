// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package otelcol

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/candor-dev/candor/internal/fleet/lint"
)

// joints are the uses of connectors: where a pipeline hands on to one, and where a pipeline takes from one.
type joints struct{ to, from map[string]*yaml.Node }

func (c *checker) pipeline(id, value *yaml.Node, components defined, uses joints) {
	switch signal, _, _ := strings.Cut(id.Value, "/"); signal {
	case "traces", "metrics", "logs", "profiles":
	default:
		c.add(lint.Warning, id, "the pipeline %s is of no known signal: its name starts with traces, metrics, logs or profiles", quote(id.Value))
	}
	if !c.isMapping(id.Value, value) {
		if !filledIn(target(value).Value) {
			c.add(lint.Error, id, "the pipeline %s needs receivers and exporters", quote(id.Value))
		}
		return
	}
	for _, side := range []struct {
		kind, what string
		joins      map[string]*yaml.Node
	}{{receivers, "the receiver", uses.from}, {exporters, "the exporter", uses.to}} {
		if isMissing(value, side.kind) {
			c.add(lint.Error, id, "the pipeline %s needs at least one of its %s", quote(id.Value), side.kind)
		}
		for _, reference := range c.list(value, side.kind) {
			_, exists := components[side.kind][reference.Value]
			if _, isConnector := components[connectors][reference.Value]; isConnector {
				side.joins[reference.Value] = reference
			} else if !exists {
				c.undefined(reference, side.what, side.kind+" or "+connectors)
			}
		}
	}
	c.processors(value, components)
}

func (c *checker) processors(pipeline *yaml.Node, components defined) {
	seen := map[string]bool{}
	for _, reference := range c.list(pipeline, processors) {
		if _, exists := components[processors][reference.Value]; !exists {
			c.undefined(reference, "the processor", processors)
		}
		if seen[reference.Value] {
			c.add(lint.Error, reference, "the processor %s stands twice in this pipeline: remove one", quote(reference.Value))
		}
		seen[reference.Value] = true
	}
}

// joined reports each connector that is used on one side only.
func (c *checker) joined(uses joints) {
	for id, at := range uses.to {
		if _, taken := uses.from[id]; !taken {
			c.add(lint.Error, at, "the connector %s is an exporter here, and a receiver nowhere: a connector joins two pipelines", quote(id))
		}
	}
	for id, at := range uses.from {
		if _, fed := uses.to[id]; !fed {
			c.add(lint.Error, at, "the connector %s is a receiver here, and an exporter nowhere: a connector joins two pipelines", quote(id))
		}
	}
}

// list returns the references of a list, less those that the collector's environment fills in.
func (c *checker) list(mapping *yaml.Node, name string) []*yaml.Node {
	value := lookup(mapping, name)
	if value == nil || value.Tag == "!!null" || filledIn(value.Value) {
		return nil
	}
	if value.Kind != yaml.SequenceNode {
		c.add(lint.Error, value, "%s must be a list", quote(name))
		return nil
	}
	var references []*yaml.Node
	for _, item := range value.Content {
		if item = target(item); item.Kind != yaml.ScalarNode {
			c.add(lint.Error, item, "%s must be a list of IDs", quote(name))
		} else if !filledIn(item.Value) {
			references = append(references, item)
		}
	}
	return references
}

// isMissing says that a list is absent, or has nothing in it.
func isMissing(mapping *yaml.Node, name string) bool {
	value := lookup(mapping, name)
	return value == nil || value.Tag == "!!null" || value.Kind == yaml.SequenceNode && len(value.Content) == 0
}

// filledIn says that a value comes from the collector's environment, such as ${env:RECEIVERS}, and cannot be known here.
func filledIn(value string) bool { return strings.Contains(value, "${") }
