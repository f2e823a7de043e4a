// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"crypto/sha256"
	"encoding/base32"
	"iter"
	"strings"
)

const (
	// maxBase is how many characters of an object's name are taken from what it is named after.
	maxBase = 53
	// digestFrom is how many characters of the digest tell apart what would have the same name, and digestStep how many more it
	// takes when that is not enough.
	digestFrom = 10
	digestStep = 6
)

var lowerCase = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Names yields the names that an object may have which is named after raw, a pipeline's name or a collector's ID, from the best one
// on. Each is one that the API server takes, of at most 106 characters. The first is raw itself where that is such a name already; the others end with a
// digest of raw, each with more of it. empty stands for a raw of which nothing can be kept.
func Names(raw, empty string) iter.Seq[string] {
	return func(yield func(string) bool) {
		base := sanitised(raw)
		if base == raw && base != "" && !yield(base) {
			return
		}
		if base == "" {
			base = empty
		}
		sum := digest(raw)
		for length := digestFrom; length <= len(sum); length += digestStep {
			if !yield(base + "-" + sum[:length]) {
				return
			}
		}
	}
}

// LabelValue returns the value of a label that stands for the name of an object: the name where it fits.
func LabelValue(name string) string {
	const longest = 63
	if len(name) <= longest {
		return name
	}
	return name[:longest-1-digestFrom] + "-" + digest(name)[:digestFrom]
}

// sanitised returns raw in lower case, with one dash for each run of characters other than letters and digits of ASCII.
func sanitised(raw string) string {
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(raw) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			if dash && b.Len() > 0 {
				b.WriteByte('-')
			}
			b.WriteRune(r)
			dash = false
		} else {
			dash = true
		}
	}
	return strings.TrimRight(b.String()[:min(b.Len(), maxBase)], "-")
}

func digest(raw string) string {
	sum := sha256.Sum256([]byte(raw))
	return lowerCase.EncodeToString(sum[:])
}
