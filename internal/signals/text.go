// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package signals

import (
	"regexp"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/validate/content"
)

// The longest kind and name that a Finding holds.
const (
	MaxKind = 63
	MaxName = 253
)

var kindPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)

// ValidObject reports whether a kind and a name can be those of an object. Reports and owner references hold free text, and a
// name becomes part of the path of a request.
func ValidObject(kind, name string) bool {
	return len(kind) <= MaxKind && kindPattern.MatchString(kind) && name != "" && len(name) <= MaxName &&
		len(content.IsPathSegmentName(name)) == 0 && Clean(name, MaxName) == name
}

// Clean makes foreign text fit to stand in a line, a status and a terminal: without control and formatting characters, and
// of limit bytes at most.
func Clean(text string, limit int) string {
	mapped := strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) || r == unicode.ReplacementChar:
			return -1
		default:
			return r
		}
	}, text)
	return strings.Clone(Cut(strings.TrimSpace(mapped), limit))
}
