// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sparse decodes of a JSON document only the fields that somebody reads. Most of a report is prose, and making maps of
// all of it is most of what reading it costs.
package sparse

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Fields is a tree of the fields to keep. Below a field without any of its own, everything is kept.
type Fields map[string]Fields

// Of makes Fields of paths such as "report.artifact". A path looks through lists. Of a path and a longer one that starts with
// it, the shorter one wins.
func Of(paths ...string) Fields {
	root := Fields{}
	for _, path := range paths {
		root.add(strings.Split(path, "."))
	}
	return root
}

func (f Fields) add(path []string) {
	below, known := f[path[0]]
	switch {
	case len(path) == 1:
		f[path[0]] = nil
	case known && below == nil:
		// A shorter path keeps all of it already.
	default:
		if !known {
			below = Fields{}
			f[path[0]] = below
		}
		below.add(path[1:])
	}
}

// NewDecoder returns a decoder for what an API server sends. Like the decoders of Kubernetes, it lets invalid UTF-8 and
// repeated names pass.
func NewDecoder(r io.Reader) *jsontext.Decoder {
	return jsontext.NewDecoder(r, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// Decode reads the next value and keeps the fields of its objects that f names. Where a value is no object although f goes
// deeper, it is kept as it is. Whole numbers are int64, others float64, as in unstructured objects.
func (f Fields) Decode(d *jsontext.Decoder) (any, error) {
	switch d.PeekKind() {
	case '{':
		return f.object(d)
	case '[':
		return f.list(d)
	default:
		return scalar(d)
	}
}

// Each calls read with the name of each field of the next value, an object. read reads or skips the value.
func Each(d *jsontext.Decoder, read func(name string) error) error {
	if err := enter(d, '{'); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		if err := read(name.String()); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// EachItem calls read for each item of the next value, a list. read reads or skips the item.
func EachItem(d *jsontext.Decoder, read func() error) error {
	if err := enter(d, '['); err != nil {
		return err
	}
	for d.PeekKind() != ']' {
		if err := read(); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

func enter(d *jsontext.Decoder, kind jsontext.Kind) error {
	token, err := d.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() != kind {
		return fmt.Errorf("at %s: %s instead of %s", d.StackPointer(), token.Kind(), kind)
	}
	return nil
}

func (f Fields) object(d *jsontext.Decoder) (any, error) {
	object := map[string]any{}
	err := Each(d, func(name string) (err error) {
		below, wanted := f[name]
		if !wanted && len(f) > 0 {
			return d.SkipValue()
		}
		object[name], err = below.Decode(d)
		return err
	})
	return object, err
}

func (f Fields) list(d *jsontext.Decoder) (any, error) {
	items := []any{}
	err := EachItem(d, func() error {
		item, err := f.Decode(d)
		items = append(items, item)
		return err
	})
	return items, err
}

func scalar(d *jsontext.Decoder) (any, error) {
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case 't', 'f':
		return token.Bool(), nil
	case '0':
		if whole, err := strconv.ParseInt(token.String(), 10, 64); err == nil {
			return whole, nil
		}
		return strconv.ParseFloat(token.String(), 64)
	case '"':
		return token.String(), nil
	default:
		return nil, nil
	}
}
