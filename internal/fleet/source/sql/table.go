// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/candor-dev/candor/internal/fleet/source"
)

// problem is an error in our own words, which show nothing of a row.
type problem struct{ error }

func problemf(format string, args ...any) error { return problem{fmt.Errorf(format, args...)} }

// table takes rows until they are too many.
type table struct {
	limits  limits
	columns []string
	records []source.Record
	size    int64
	values  int
}

// begin names the columns.
func (t *table) begin(columns []string) error {
	seen := make(map[string]bool, len(columns))
	for _, column := range columns {
		if seen[column] {
			return problemf("the query has two columns named %.60q: name one of them with AS", column)
		}
		seen[column] = true
	}
	t.columns = columns
	return nil
}

// room makes sure that a row of so many bytes may still come.
func (t *table) room(size int) error {
	if len(t.records) >= t.limits.records {
		return problemf("the query returns more than %d rows: narrow it, and split the sync where more are needed", t.limits.records)
	}
	if t.values += len(t.columns); t.values > source.MaxValues {
		return problemf("the query returns more than %d values: select only the columns that are mapped", source.MaxValues)
	}
	if t.size += int64(size); t.size > t.limits.bytes {
		return t.tooLarge()
	}
	return nil
}

func (t *table) tooLarge() error {
	return problemf("the query returns more than %d bytes: select only the columns that are mapped", t.limits.bytes)
}

// add takes a row. value tells what column i holds.
func (t *table) add(value func(i int) (any, error)) error {
	record := make(source.Record, len(t.columns))
	for i, column := range t.columns {
		v, err := value(i)
		if err != nil {
			return problemf("column %.60q %w", column, err)
		}
		record[column] = v
	}
	t.records = append(t.records, record)
	return nil
}

var errBinary = errors.New("holds bytes that are no UTF-8 text: select it as text, such as with encode() or hex()")

// text returns bytes that are text.
func text(raw []byte) (any, error) {
	if !utf8.Valid(raw) {
		return nil, errBinary
	}
	return string(raw), nil
}

// decimal returns a number as it is written; what is none, such as NaN, as text.
func decimal(raw []byte) any {
	if n := json.Number(raw); json.Valid(raw) {
		return n
	}
	return string(raw)
}

// float returns a number without an exponent as far as one is; what is none as text.
func float(written string) any {
	f, err := strconv.ParseFloat(written, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return written
	}
	return f
}

// moment returns a time as RFC 3339 writes it in UTC; what is none, such as infinity, as the database writes it.
func moment(layout, written string) any {
	t, err := time.Parse(layout, written)
	if err != nil {
		return written
	}
	return t.UTC().Format(time.RFC3339Nano)
}
