// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package http

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/candor-dev/candor/internal/fleet/source"
)

// decode reads records from an answer. Numbers stay as they are written. It returns how many elements of the list are no records.
func decode(body []byte, path []string) (records []source.Record, skipped int, err error) {
	// Some servers mark their text as UTF-8 with a byte order mark.
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))
	if len(body) == 0 {
		return nil, 0, errors.New("the answer is empty: it has to be JSON")
	}
	if err := valid(body); err != nil {
		return nil, 0, err
	}
	list, err := find(body, path)
	if err != nil {
		return nil, 0, err
	}
	return readList(list)
}

// valid says where a text stops being JSON.
func valid(body []byte) error {
	var syntax *json.SyntaxError
	err := json.Unmarshal(body, new(json.RawMessage))
	switch {
	case err == nil:
		return nil
	case body[0] == '<':
		return errors.New("the answer is no JSON but looks like HTML or XML: check http.url")
	case errors.As(err, &syntax):
		return fmt.Errorf("the answer is no JSON: byte %d of %d is where it ends or goes wrong", syntax.Offset, len(body))
	default:
		return errors.New("the answer is no JSON")
	}
}

// find follows the names of fields to a list.
func find(value json.RawMessage, path []string) (json.RawMessage, error) {
	where := "the answer"
	for i, step := range path {
		if found := kindOf(value); found != "an object" {
			return nil, fmt.Errorf("recordsPath asks %s for the field %q, but that is %s", where, step, found)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(value, &fields); err != nil {
			return nil, fmt.Errorf("%s cannot be read", where)
		}
		next, found := fields[step]
		if !found {
			return nil, fmt.Errorf("recordsPath asks %s for the field %q, which is not there", where, step)
		}
		value, where = next, fmt.Sprintf("field %d of recordsPath, %q,", i+1, step)
	}
	if found := kindOf(value); found != "a list" {
		return nil, fmt.Errorf("%s is %s, but the records must be a list: check recordsPath", where, found)
	}
	return value, nil
}

// readList reads no more of a list than a fetch may return.
func readList(list json.RawMessage) (records []source.Record, skipped int, err error) {
	decoder, values := json.NewDecoder(bytes.NewReader(list)), 0
	if _, err := decoder.Token(); err != nil {
		return nil, 0, errors.New("the list of records cannot be read")
	}
	for decoder.More() {
		if len(records)+skipped == source.MaxRecords {
			return nil, 0, fmt.Errorf("the answer has more than %d records: have the server return fewer, and split the sync where more are needed", source.MaxRecords)
		}
		var element json.RawMessage
		if err := decoder.Decode(&element); err != nil {
			return nil, 0, errors.New("the list of records cannot be read")
		}
		if kindOf(element) != "an object" {
			skipped++
			continue
		}
		record, err := readRecord(element)
		if err != nil {
			return nil, 0, fmt.Errorf("record %d cannot be read", len(records)+skipped+1)
		}
		if values += len(record); values > source.MaxValues {
			return nil, 0, fmt.Errorf("the records have more than %d fields in all: have the server return only those that are mapped", source.MaxValues)
		}
		records = append(records, record)
	}
	if len(records) == 0 && skipped > 0 {
		return nil, 0, fmt.Errorf("none of the %d elements of the list is an object with fields: check recordsPath", skipped)
	}
	return records, skipped, nil
}

func readRecord(element json.RawMessage) (source.Record, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(element, &fields); err != nil {
		return nil, err
	}
	record := make(source.Record, len(fields))
	for name, raw := range fields {
		value, err := scalar(raw)
		if err != nil {
			return nil, err
		}
		record[name] = value
	}
	return record, nil
}

// scalar returns what a field holds; a list or an object as it is written.
func scalar(raw json.RawMessage) (any, error) {
	switch raw[0] {
	case '{', '[':
		return raw, nil
	case 'n':
		return nil, nil
	case 't', 'f':
		return raw[0] == 't', nil
	case '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return text, err
	default:
		return json.Number(raw), nil
	}
}

// kindOf names what a JSON value is.
func kindOf(value json.RawMessage) string {
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}
