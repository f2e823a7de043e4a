// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llm

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

// name is a name and the word that is written for it.
type name struct{ text, word string }

// names are what must not be read in a message, longest first.
type names []name

func namesOf(source candorv1alpha1.Source, namespace string) names {
	var all names
	for _, n := range []name{{source.Name, "OBJECT"}, {source.Container, "CONTAINER"}, {namespace, "NAMESPACE"}} {
		if n.text = printable(n.text, 4*signals.MaxName); n.text != "" {
			all = append(all, n)
		}
	}
	slices.SortStableFunc(all, func(a, b name) int { return cmp.Compare(len(b.text), len(a.text)) })
	return all
}

// Reports of checks speak of a whole workload, so that no field of them names the containers. Their messages do.
var (
	quotedContainer = regexp.MustCompile(`(?i)\b(container )(?:'[^']*(?:'|$)|"[^"]*(?:"|$))`)
	bareContainer   = regexp.MustCompile(
		`(?i)\b(container )[-.a-z0-9]+( (?:of|in) ['"]?(?:pod|deployment|replicaset|replicationcontroller|statefulset|daemonset|cronjob|job)\b)`)
)

// hide writes words for the names in a message. A name is left alone inside a longer word.
func (n names) hide(message string) string {
	message = quotedContainer.ReplaceAllString(message, "$1'CONTAINER'")
	message = bareContainer.ReplaceAllString(message, "${1}CONTAINER$2")
	message = n.trim(message)
	var b strings.Builder
	for i := 0; i < len(message); {
		if found, ok := n.at(message, i); ok {
			b.WriteString(found.word)
			i += len(found.text)
			continue
		}
		_, size := utf8.DecodeRuneInString(message[i:])
		b.WriteString(message[i : i+size])
		i += size
	}
	return b.String()
}

// at returns the name that stands at a position as a whole word.
func (n names) at(message string, i int) (name, bool) {
	for _, known := range n {
		if strings.HasPrefix(message[i:], known.text) && !inWord(message, i) && !inWord(message, i+len(known.text)) {
			return known, true
		}
	}
	return name{}, false
}

// trim removes the beginning of a name from the end of a message that was cut.
func (n names) trim(message string) string {
	body, shortened := strings.CutSuffix(message, "…")
	if !shortened {
		return message
	}
	for _, known := range n {
		for size := min(len(known.text)-1, len(body)); size > 0; size-- {
			if start := len(body) - size; strings.HasSuffix(body, known.text[:size]) && !inWord(body, start) {
				return body[:start] + "…"
			}
		}
	}
	return message
}

// inWord reports whether position i is inside a word.
func inWord(text string, i int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	after, _ := utf8.DecodeRuneInString(text[i:])
	return ofWord(before) && ofWord(after)
}

func ofWord(r rune) bool {
	return r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
}
