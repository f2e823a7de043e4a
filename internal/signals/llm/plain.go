// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llm

import (
	"html"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/candor-dev/candor/internal/signals"
)

// printable puts text on one line of at most limit bytes, in which a person sees every character: without control,
// formatting, zero-width and private characters, variation selectors and whatever is no UTF-8.
func printable(text string, limit int) string {
	shown := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r) || r == utf8.RuneError || unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
			return -1
		default:
			return r
		}
	}, text)
	return signals.Cut(strings.Join(strings.Fields(shown), " "), limit)
}

const (
	// maxRead bounds what is looked at of a text before it is cleaned, in bytes.
	maxRead = 4 << 10
	// maxNested is how deep links in links are read. What is left of deeper ones is defused.
	maxNested = 3
	// removed stands for an address.
	removed = "(link removed)"
)

var (
	markdownLink = regexp.MustCompile(`!?\[([^\[\]]*)\]\([^()]*\)`)
	htmlTag      = regexp.MustCompile(`<[A-Za-z/!?][^<>]*>`)
	address      = regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*://[^\s…()'"]*` +
		`|(?:javascript|vbscript|mailto):[^\s…()'"]*|\bdata:[^\s…,]*,[^\s…()'"]*|\bwww\.[^\s…()'"]+` +
		`|[a-z0-9._%+-]+@[a-z][a-z0-9-]*(?:\.[a-z0-9-]+)*\.[a-z]{2,}`)
	// live is what a viewer might still make a link, a tag, a mention or a character of; a blank after the first character
	// prevents it.
	live = regexp.MustCompile(`(\])(\()|(:)(//)|(<)([A-Za-z/!?@#])|(&)(#?[A-Za-z0-9]+;)`)
)

// plain makes one line of foreign words that nobody can click: links are reduced to their text, tags and addresses are gone.
// It holds at most that many runes and bytes.
//
// Only the text of a link joins what was around it, so links come first; the later steps write a blank or a word where they
// take something out. What any step leaves or brings together, the last one takes apart.
func plain(text string, runes, bytes int) string {
	text = printable(html.UnescapeString(text), maxRead)
	for range maxNested {
		text = markdownLink.ReplaceAllString(text, "$1")
	}
	text = htmlTag.ReplaceAllString(text, " ")
	text = address.ReplaceAllString(text, removed)
	text = live.ReplaceAllString(text, "$1$3$5$7 $2$4$6$8")
	return shorten(strings.Join(strings.Fields(text), " "), runes, bytes)
}

// shorten cuts text at a rune, and marks that it did.
func shorten(text string, runes, bytes int) string {
	n := 0
	for i := range text {
		if n++; n > runes {
			bytes = min(bytes, i)
			break
		}
	}
	return signals.Cut(text, bytes)
}
