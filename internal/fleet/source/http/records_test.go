// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package http

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/internal/fleet/source"
)

func TestAT17ValuesStayAsTheyAreWritten(t *testing.T) {
	g := NewWithT(t)
	s := answering(t, "", `[{"id": "a", "million": 1000000, "big": 9007199254740993, "exact": 1.50, "tiny": 1e-7, "yes": true, "no": false, "nothing": null,
		"text": "gr\u00f6\u00dfe", "list": [1, {"b": 2.0}], "object": {"c": 3.10}}]`)
	result, err := s.Fetch(t.Context(), "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result).To(Equal(source.Result{Records: []source.Record{{
		"id": "a", "million": json.Number("1000000"), "big": json.Number("9007199254740993"), "exact": json.Number("1.50"), "tiny": json.Number("1e-7"),
		"yes": true, "no": false, "nothing": nil, "text": "größe", "list": json.RawMessage(`[1, {"b": 2.0}]`), "object": json.RawMessage(`{"c": 3.10}`),
	}}}))
	for field, want := range map[string]string{
		"million": "1000000", "big": "9007199254740993", "exact": "1.50", "yes": "true", "no": "false", "nothing": "", "list": "", "object": "", "missing": "",
	} {
		text, ok := source.Text(result.Records[0][field])
		g.Expect(text).To(Equal(want), field)
		g.Expect(ok).To(Equal(want != ""), field)
	}
}

func TestTheRecordsPathLeadsToAList(t *testing.T) {
	for name, test := range map[string]struct {
		path, body string
		records    int
		skipped    int
		want       string
	}{
		"the answer is the list":                    {"", `[{"id": 1}, {"id": 2}]`, 2, 0, ""},
		"a list inside":                             {"data.items", `{"data": {"items": [{"id": 1}]}, "next": null}`, 1, 0, ""},
		"an empty list":                             {"", ` [] `, 0, 0, ""},
		"a byte order mark before it":               {"", "\ufeff[{}]", 1, 0, ""},
		"things that are no records among some":     {"", `[1, {"id": 1}, null, [2], "a"]`, 1, 4, ""},
		"only things that are no records":           {"", `[1, 2]`, 0, 0, "none of the 2 elements of the list is an object with fields: check recordsPath"},
		"an object in place of the list":            {"", `{"items": []}`, 0, 0, "the answer is an object, but the records must be a list: check recordsPath"},
		"a list on the way":                         {"data.items", `[{"data": 1}]`, 0, 0, `recordsPath asks the answer for the field "data", but that is a list`},
		"a field that is missing":                   {"data.items", `{"data": {"hosts": []}}`, 0, 0, `recordsPath asks field 1 of recordsPath, "data", for the field "items", which is not there`},
		"a field of another case":                   {"Data", `{"data": []}`, 0, 0, `recordsPath asks the answer for the field "Data", which is not there`},
		"a text at the end":                         {"data.items", `{"data": {"items": "hunter2"}}`, 0, 0, `field 2 of recordsPath, "items", is a text, but the records must be a list: check recordsPath`},
		"null at the end":                           {"items", `{"items": null}`, 0, 0, `field 1 of recordsPath, "items", is null, but the records must be a list: check recordsPath`},
		"an empty answer":                           {"", " \n", 0, 0, "the answer is empty: it has to be JSON"},
		"HTML":                                      {"", "<!doctype html><p>hunter2", 0, 0, "the answer is no JSON but looks like HTML or XML: check http.url"},
		"no JSON":                                   {"", "hunter2", 0, 0, "the answer is no JSON: byte 1 of 7 is where it ends or goes wrong"},
		"JSON that ends early":                      {"", `[{"id": 1}`, 0, 0, "the answer is no JSON: byte 10 of 10 is where it ends or goes wrong"},
		"something behind the list":                 {"", `[{"id": 1}] hunter2`, 0, 0, "the answer is no JSON: byte 13 of 19 is where it ends or goes wrong"},
		"JSON that ends early after all of a list":  {"a", `{"a": [{"id": 1}], "b": `, 0, 0, "the answer is no JSON: byte 23 of 23 is where it ends or goes wrong"},
		"more nesting than anybody needs":           {"", strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), 0, 0, "the answer is no JSON"},
		"as many records as may be":                 {"", "[" + strings.Repeat("{},", source.MaxRecords-1) + "{}]", source.MaxRecords, 0, ""},
		"one record more":                           {"", "[" + strings.Repeat("{},", source.MaxRecords) + "{}]", 0, 0, "the answer has more than 50000 records: have the server return fewer"},
		"more things that are no records":           {"", "[" + strings.Repeat("0,", source.MaxRecords) + "0]", 0, 0, "the answer has more than 50000 records: have the server return fewer"},
		"a field that is there twice, the last one": {"a", `{"a": 1, "a": [{"id": 1}]}`, 1, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			result, err := answering(t, test.path, test.body).Fetch(t.Context(), "")
			if test.want != "" {
				g.Expect(err).To(MatchError(HavePrefix(test.want)))
				g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"))
				g.Expect(result).To(Equal(source.Result{}))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result.Records).To(HaveLen(test.records))
			g.Expect(result.Skipped).To(Equal(test.skipped))
		})
	}
}

func FuzzRecordsPath(f *testing.F) {
	for _, seed := range [][2]string{
		{"", "[]"}, {"a", `{"a":[{"b":1.50}]}`}, {"a.b", `{"a":{"b":[1,{},null]}}`}, {"a..b", "{}"}, {".", "{}"}, {"a", `{"a":1}`}, {"a", "\ufeff{\"a\":[{}]}"},
	} {
		f.Add(seed[0], []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		steps, err := ParseRecordsPath(path)
		if err != nil {
			return
		}
		if path != "" && strings.Join(steps, ".") != path {
			t.Fatalf("%q is read as %q", path, steps)
		}
		records, skipped, err := decode(body, steps)
		if err != nil {
			return
		}
		// What is accepted is what a plain decoder finds by the same names.
		var value any
		decoder := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))))
		decoder.UseNumber()
		if err := decoder.Decode(&value); err != nil {
			t.Fatalf("%q is accepted, and no JSON: %v", body, err)
		}
		for _, step := range steps {
			value = value.(map[string]any)[step]
		}
		if list := value.([]any); len(list) != len(records)+skipped {
			t.Fatalf("%d records and %d others of %d", len(records), skipped, len(list))
		}
		for _, record := range records {
			for field, value := range record {
				if number, ok := value.(json.Number); ok && !bytes.Contains(body, []byte(number)) {
					t.Fatalf("field %q is %s, which is not written anywhere", field, number)
				}
			}
		}
	})
}
