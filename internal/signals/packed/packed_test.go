// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package packed

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/internal/signals"
)

func TestAHeaderAndEntriesAreReadAsTheyWereWritten(t *testing.T) {
	g := NewWithT(t)
	entries := []signals.Entry{
		{Rank: signals.Low, ID: "b", Message: "m"}, {Rank: signals.Critical, ID: "a", Package: "p", Installed: "1", Fixed: "2"},
	}
	fields, lines, ok := ReadHeader(Header("one\ttab", "", "three\n")+Lines(entries), 3)
	g.Expect(ok).To(BeTrue())
	g.Expect(fields).To(Equal([]string{"one tab", "", "three"}))
	read, ok := Entries(lines)
	g.Expect(ok).To(BeTrue())
	g.Expect(read).To(Equal([]signals.Entry{entries[0], entries[1]}), "worst first, in the order that writing gave them")
	g.Expect(read[0].Rank).To(Equal(signals.Critical))
	_, _, ok = ReadHeader(Header("one"), 2)
	g.Expect(ok).To(BeFalse())
}

func TestAnItemTellsTheFirstFieldOfAWrongType(t *testing.T) {
	object := map[string]any{"text": "a\x1b", "number": int64(1), "flag": true, "list": []any{"x", 1}, "null": nil, "empty": ""}
	for name, test := range map[string]struct {
		read func(Item) any
		want any
		says string
	}{
		"a text":                       {func(i Item) any { return i.Text("text") }, "a", ""},
		"a text that is missing":       {func(i Item) any { return i.Text("none") }, "", ""},
		"a text that is null":          {func(i Item) any { return i.Text("null") }, "", ""},
		"a text that is a number":      {func(i Item) any { return i.Text("number") }, "", "number is not a string"},
		"a text that must be there":    {func(i Item) any { return i.Required("empty") }, "", "empty is empty"},
		"a flag":                       {func(i Item) any { return i.Flag("flag") }, true, ""},
		"a flag that is a text":        {func(i Item) any { return i.Flag("text") }, false, "text is not a boolean"},
		"a list":                       {func(i Item) any { return len(i.List("list")) }, 2, ""},
		"a list that is a text":        {func(i Item) any { return len(i.List("text")) }, 0, "text is not a list"},
		"the first of a list":          {func(i Item) any { return i.First("list") }, "x", ""},
		"the first of what is no list": {func(i Item) any { return i.First("text") }, "", ""},
		"the first of two problems":    {func(i Item) any { i.Text("number"); return i.Flag("text") }, false, "number is not a string"},
	} {
		t.Run(name, func(t *testing.T) {
			item := NewItem(object)
			NewWithT(t).Expect(test.read(item)).To(Equal(test.want))
			NewWithT(t).Expect(item.Problem()).To(Equal(test.says))
		})
	}
}

func TestTextIsBounded(t *testing.T) {
	NewWithT(t).Expect(Clean(strings.Repeat("x", 2*FieldBytes))).To(HaveLen(FieldBytes))
}
