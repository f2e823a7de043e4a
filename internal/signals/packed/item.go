// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package packed

// Item reads typed values of an object in a report, and keeps the first problem.
type Item struct {
	object  map[string]any
	problem *string
}

// NewItem returns a reader of an object.
func NewItem(object map[string]any) Item { return Item{object: object, problem: new(string)} }

// Problem names the first field that did not have the type that was asked for, and says why; empty when all did.
func (i Item) Problem() string { return *i.problem }

func (i Item) fail(key, problem string) {
	if *i.problem == "" {
		*i.problem = key + " " + problem
	}
}

// Text reads a text, empty when it is missing.
func (i Item) Text(key string) string {
	value, ok := i.object[key]
	if !ok || value == nil {
		return ""
	}
	text, ok := value.(string)
	if !ok {
		i.fail(key, "is not a string")
	}
	return Clean(text)
}

// Required reads a text that must be there.
func (i Item) Required(key string) string {
	text := i.Text(key)
	if text == "" {
		i.fail(key, "is empty")
	}
	return text
}

// Flag reads a boolean, false when it is missing.
func (i Item) Flag(key string) bool {
	value, ok := i.object[key]
	if !ok || value == nil {
		return false
	}
	flag, ok := value.(bool)
	if !ok {
		i.fail(key, "is not a boolean")
	}
	return flag
}

// First reads the first text of a list, empty when there is no such.
func (i Item) First(key string) string {
	if list, ok := i.object[key].([]any); ok && len(list) > 0 {
		text, _ := list[0].(string)
		return Clean(text)
	}
	return ""
}

// List reads a list, nil when it is missing.
func (i Item) List(key string) []any {
	value, ok := i.object[key]
	if !ok || value == nil {
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		i.fail(key, "is not a list")
	}
	return list
}
