// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package source is where the attributes of an ExternalAttributeSync come from.
package source

import (
	"context"
	"encoding/json"
	"strconv"
)

// MaxRecords is how many records a fetch may return; more are an error, since a part of a truth would take away the rest.
const MaxRecords = 50_000

// MaxValues is how many fields the records of a fetch may have in all: each costs memory, however short it is.
const MaxValues = 1_000_000

// Record is one thing that a source tells of: a string, bool, json.Number, int64, uint64, float64 or nil by the name of its field.
// Lists and objects stay as they are written, a json.RawMessage, and have no text.
type Record map[string]any

// Result is what a fetch returns.
type Result struct {
	Records []Record
	// Skipped is how many things the source lists that are no records, such as a number in a list of objects.
	Skipped int
	// Version stands for the records, for the next fetch to say what it knows; empty where the source has no such thing.
	Version string
	// Unchanged says that the records are those of the version that the fetch was told; Records is nil then.
	Unchanged bool
}

// Source returns records. Its errors are *fault.Fault; they show nothing that is secret: no credentials, no query of an address, no
// row.
type Source interface {
	// Fetch reads all records. known is the Version of a Result whose records the caller still has; empty for none.
	Fetch(ctx context.Context, known string) (Result, error)
	// Close ends what the source holds open.
	Close() error
}

// Text returns a value as an attribute has it: numbers as they were written, booleans as true and false. It reports false for what
// has no text: nothing, lists and objects.
func Text(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case uint64:
		return strconv.FormatUint(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	default:
		return "", false
	}
}
