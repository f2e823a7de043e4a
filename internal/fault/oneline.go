// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// OneLine makes the words of others fit to be told: one line of up to limit bytes, which is at least 3, and only what can be printed.
func OneLine(text string, limit int) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if len(text) <= limit {
		return text
	}
	const more = "…"
	end := limit - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}
