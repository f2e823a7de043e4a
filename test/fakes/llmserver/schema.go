// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llmserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// refusedKeywords are those that the Messages API compiles into no grammar, by the type that they stand at.
var refusedKeywords = map[string][]string{
	"integer": {"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"},
	"number":  {"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"},
	"string":  {"maxLength", "minLength"},
	"array":   {"maxItems", "uniqueItems", "contains", "prefixItems"},
	"object":  {"maxProperties", "minProperties", "patternProperties"},
}

// anthropicSchema returns why the Messages API refuses a schema; empty when it takes it.
func anthropicSchema(schema object) string {
	kind, _ := schema["type"].(string)
	var refused []string
	for name := range schema {
		tooMany := name == "minItems" && schema[name] != 0.0 && schema[name] != 1.0
		if slices.Contains(refusedKeywords[kind], name) || tooMany {
			refused = append(refused, name)
		}
	}
	slices.Sort(refused)
	switch {
	case len(refused) == 1:
		return fmt.Sprintf("For '%s' type, property '%s' is not supported", kind, refused[0])
	case len(refused) > 1:
		return fmt.Sprintf("For '%s' type, properties %s are not supported", kind, strings.Join(refused, ", "))
	case schema["oneOf"] != nil || schema["not"] != nil:
		return "Schema type 'oneOf' is not supported"
	case kind == "object" && schema["additionalProperties"] != false:
		return "For 'object' type, 'additionalProperties' must be explicitly set to false"
	}
	return firstMistake(schema, anthropicSchema)
}

// strictSchema returns why strict structured output of OpenAI refuses a schema; empty when it takes it.
func strictSchema(schema object, path []string) string {
	context := "In context=(" + strings.Join(path, ", ") + "), "
	properties, _ := schema["properties"].(object)
	if schema["type"] == "object" || properties != nil {
		if schema["additionalProperties"] != false {
			return context + "'additionalProperties' is required to be supplied and to be false."
		}
		required := names(schema["required"])
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if !slices.Contains(required, name) {
				return context + "'required' is required to be supplied and to be an array including every key in properties. Missing '" + name + "'."
			}
		}
		for _, name := range required {
			if properties[name] == nil {
				return context + "'required' is required to be supplied and to be an array including every key in properties. Extra required key '" + name + "' supplied."
			}
		}
	}
	for _, name := range []string{"allOf", "dependentRequired", "else", "if", "not", "oneOf", "then"} {
		if schema[name] != nil {
			return context + "'" + name + "' is not permitted."
		}
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		child, _ := properties[name].(object)
		if message := strictSchema(child, append(slices.Clone(path), "'properties'", "'"+name+"'")); message != "" {
			return message
		}
	}
	if items, ok := schema["items"].(object); ok {
		return strictSchema(items, append(slices.Clone(path), "'items'"))
	}
	return ""
}

func names(list any) []string {
	items, _ := list.([]any)
	found := make([]string, 0, len(items))
	for _, item := range items {
		name, _ := item.(string)
		found = append(found, name)
	}
	return found
}

// firstMistake looks at the schemas below a schema.
func firstMistake(schema object, check func(object) string) string {
	properties, _ := schema["properties"].(object)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		child, _ := properties[name].(object)
		if message := check(child); message != "" {
			return message
		}
	}
	if items, ok := schema["items"].(object); ok {
		return check(items)
	}
	return ""
}
