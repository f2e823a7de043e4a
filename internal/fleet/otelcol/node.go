// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package otelcol

import (
	"iter"

	"go.yaml.in/yaml/v3"
)

// maxNodes bounds a document with its aliases written out. A text of 1 MiB without aliases does not reach it.
const maxNodes = 1 << 20

// weight returns how many nodes there are below a node, itself included, with aliases written out. A circle, like whatever is larger,
// has more than maxNodes.
func weight(n *yaml.Node, known map[*yaml.Node]int) int {
	if n.Kind == yaml.AliasNode {
		anchor := n.Alias
		if _, seen := known[anchor]; !seen {
			known[anchor] = maxNodes + 1 // as long as it is being weighed
			known[anchor] = weight(anchor, known)
		}
		return known[anchor]
	}
	total := 1
	for _, child := range n.Content {
		total = min(total+weight(child, known), maxNodes+1)
	}
	return total
}

// target returns what an alias stands for.
func target(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// entries are the keys and values of a mapping, with those that it merges in, each key once.
func entries(mapping *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(*yaml.Node, *yaml.Node) bool) {
		seen := map[string]bool{}
		visit(target(mapping), func(key, value *yaml.Node) bool {
			if seen[key.Value] {
				return true
			}
			seen[key.Value] = true
			return yield(key, target(value))
		})
	}
}

// visit calls yield for what a mapping holds itself, and then for what it merges in, until it returns false.
func visit(mapping *yaml.Node, yield func(key, value *yaml.Node) bool) bool {
	if mapping.Kind != yaml.MappingNode {
		return true
	}
	var merged []*yaml.Node
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		switch {
		case key.Tag == "!!merge":
			merged = append(merged, sources(target(value))...)
		case key.Kind == yaml.ScalarNode && !yield(key, value):
			return false
		}
	}
	for _, source := range merged {
		if !visit(target(source), yield) {
			return false
		}
	}
	return true
}

func sources(merge *yaml.Node) []*yaml.Node {
	if merge.Kind == yaml.SequenceNode {
		return merge.Content
	}
	return []*yaml.Node{merge}
}

// lookup returns the value of a key, nil for none.
func lookup(mapping *yaml.Node, name string) *yaml.Node {
	for key, value := range entries(mapping) {
		if key.Value == name {
			return value
		}
	}
	return nil
}
