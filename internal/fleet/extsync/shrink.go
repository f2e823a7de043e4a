// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package extsync

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
)

const (
	// DefaultMaxShrinkPercent is how much may go at once where the spec does not say.
	DefaultMaxShrinkPercent = 25
	// fewCollectors may lose what they have whatever the percentage, as long as others keep theirs.
	fewCollectors = 5
	// wordLength is how many characters an approval has.
	wordLength = 8
)

// Loss is what applying new claims would take away from collectors that are there.
type Loss struct {
	// Collectors is how many have attributes, and LostCollectors how many would have none.
	Collectors, LostCollectors int
	// Attributes is how many they have in all, and LostAttributes how many would go.
	Attributes, LostAttributes int
	// Losing is how many collectors would lose an attribute; IDs are the first few of them.
	Losing int
	IDs    []string
	// Word stands for exactly what would go, and for when that was first held back; empty for nothing.
	Word string
	// left says that some collector would have attributes afterwards.
	left bool
}

// Lose compares what collectors have with what they would have, whatever makes the difference. since is when the loss was first held
// back, to the second, so that who agreed to an earlier one has not agreed to it.
func Lose(before, after Claims, since time.Time) Loss {
	type pair struct{ id, key string }
	var loss Loss
	var gone []pair
	for id, attributes := range before {
		lost := 0
		for key := range attributes {
			if _, stays := after[id][key]; !stays {
				lost++
				gone = append(gone, pair{id, key})
			}
		}
		loss.Collectors++
		loss.Attributes += len(attributes)
		loss.LostAttributes += lost
		if lost > 0 {
			loss.Losing++
			loss.IDs = append(loss.IDs, id)
		}
		if len(after[id]) == 0 {
			loss.LostCollectors++
		}
	}
	loss.left = len(after) > 0
	slices.Sort(loss.IDs)
	loss.IDs = loss.IDs[:min(len(loss.IDs), maxShown)]
	if len(gone) > 0 {
		slices.SortFunc(gone, func(a, b pair) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.key, b.key)) })
		h := sha256.New()
		_, _ = fmt.Fprintln(h, since.Unix())
		for _, p := range gone {
			_, _ = fmt.Fprintf(h, "%q %q\n", p.id, p.key)
		}
		loss.Word = hex.EncodeToString(h.Sum(nil))[:wordLength]
	}
	return loss
}

// TooMuch reports whether a loss needs a person: more than maxPercent of the collectors or of the attributes, at five collectors or
// more, or so that nothing is left. With 0 any loss does, with 100 none.
func (l Loss) TooMuch(maxPercent int) bool {
	if l.LostAttributes == 0 {
		return false
	}
	over := l.LostCollectors*100 > maxPercent*l.Collectors || l.LostAttributes*100 > maxPercent*l.Attributes
	return over && (maxPercent == 0 || l.Losing >= fewCollectors || !l.left)
}
