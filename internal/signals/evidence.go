// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package signals

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

const (
	// topEntries bounds the entries that a Finding shows.
	topEntries = 25
	// specBytes bounds the JSON of a spec, so that a Finding stays under 16 KiB whatever the report and the model say, and however
	// many sinks are to be told.
	specBytes = 6<<10 + 512
	// messageBytes bounds a message that is shown.
	messageBytes = 256
	// summaryBytes bounds the JSON of a summary that was posted.
	summaryBytes = 2 << 10
)

// Evidence is the set of entries that the policies ask for.
type Evidence struct {
	// Entries are sorted worst first.
	Entries []Entry
	// Worst is the highest rank that an entry counts as.
	Worst Rank
}

// Digest returns the SHA-256 of the set. Messages are not part of it, nor is anything else that changes between two
// scans of the same content.
func (e Evidence) Digest() string {
	h := sha256.New()
	for _, entry := range e.Entries {
		writeFields(h, entry.ID, entry.Package, entry.Installed, entry.Fixed, entry.Rank.String())
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Counts counts the entries by the severity that the scanner gave them.
func (e Evidence) Counts() candorv1alpha1.SeverityCounts {
	var n [len(rankNames)]int32
	for _, entry := range e.Entries {
		n[entry.Rank]++
	}
	return candorv1alpha1.SeverityCounts{Critical: n[Critical], High: n[High], Medium: n[Medium], Low: n[Low], Unknown: n[Unknown]}
}

// Fixable counts the entries that a released version fixes.
func (e Evidence) Fixable() int32 {
	var n int32
	for _, entry := range e.Entries {
		if entry.Fixed != "" {
			n++
		}
	}
	return n
}

// top returns the worst entries as a Finding shows them, in room bytes of JSON. renamed is written for each mention of
// original in a message.
func (e Evidence) top(original, renamed string, room int) []candorv1alpha1.Entry {
	shown := make([]candorv1alpha1.Entry, 0, min(topEntries, len(e.Entries)))
	room -= len(`,"top":[]`)
	for _, entry := range e.Entries[:min(topEntries, len(e.Entries))] {
		entry.Message = strings.ReplaceAll(entry.Message, original, renamed)
		line := Show(entry)
		text, err := json.Marshal(line)
		if room -= len(text) + len(","); err != nil || room < 0 {
			break
		}
		shown = append(shown, line)
	}
	return shown
}

// TopMark tells apart two lists of shown entries by everything but their messages: scanners reword those, which is no news.
func TopMark(top []candorv1alpha1.Entry) string {
	h := sha256.New()
	for _, e := range top {
		writeFields(h, e.ID, e.Severity, e.Package, e.Installed, e.Fixed)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Show returns an entry as a Finding holds it.
func Show(entry Entry) candorv1alpha1.Entry {
	return candorv1alpha1.Entry{
		ID: Cut(entry.ID, 64), Severity: entry.Rank.String(), Package: Cut(entry.Package, 128),
		Installed: Cut(entry.Installed, 64), Fixed: Cut(entry.Fixed, 64), Message: Cut(entry.Message, messageBytes),
	}
}

// Cut shortens text to at most limit bytes, at a rune boundary, and marks that it did.
func Cut(text string, limit int) string {
	const mark = "…"
	if len(text) <= limit {
		return text
	}
	end := limit - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// CutJSON shortens text until its JSON takes at most limit bytes: some characters are escaped with six. limit is 32 or more.
func CutJSON(text string, limit int) string {
	for {
		content, _ := json.Marshal(text)
		over := len(content) - limit
		if over <= 0 {
			return text
		}
		text = Cut(text, len(text)-(over+5)/6)
	}
}
