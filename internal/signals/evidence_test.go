// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package signals

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

func openssl() Entry {
	return Entry{Rank: High, ID: "CVE-2026-1", Package: "openssl", Installed: "3.0.1", Fixed: "3.0.2", Message: "a buffer overflow"}
}

func TestTheDigestChangesWithTheSetOnly(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Entry)
		same   bool
	}{
		"another identifier is another set":        {change: func(e *Entry) { e.ID = "CVE-2026-2" }},
		"another package is another set":           {change: func(e *Entry) { e.Package = "libssl3" }},
		"another installed version is another set": {change: func(e *Entry) { e.Installed = "3.0.0" }},
		"another fixed version is another set":     {change: func(e *Entry) { e.Fixed = "3.0.3" }},
		"a fix that is withdrawn is another set":   {change: func(e *Entry) { e.Fixed = "" }},
		"another severity is another set":          {change: func(e *Entry) { e.Rank = Critical }},
		"text that moves from one field to the next is another set": {change: func(e *Entry) {
			e.Package, e.Installed = "openss", "l3.0.1"
		}},
		"another message is the same set": {change: func(e *Entry) { e.Message = "reworded" }, same: true},
	} {
		t.Run(name, func(t *testing.T) {
			changed := openssl()
			test.change(&changed)
			before, after := Evidence{Entries: []Entry{openssl()}}, Evidence{Entries: []Entry{changed}}
			same := before.Digest() == after.Digest()
			NewWithT(t).Expect(same).To(Equal(test.same))
		})
	}
}

func TestTheDigestIsThatOfTheFormat(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Evidence{}.Digest()).To(Equal("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"), "the SHA-256 of nothing")
	g.Expect(Evidence{Entries: []Entry{openssl()}}.Digest()).To(Equal(digest("CVE-2026-1", "openssl", "3.0.1", "3.0.2", "HIGH")))
}

func TestEntriesAreCountedByTheirOwnSeverity(t *testing.T) {
	g := NewWithT(t)
	evidence := Evidence{Worst: Critical, Entries: []Entry{
		{Rank: Critical, ID: "1", Fixed: "2"}, {Rank: High, ID: "2"}, {Rank: High, ID: "3", Fixed: "2"}, {Rank: Medium, ID: "4"}, {Rank: Low, ID: "5"}, {ID: "6"},
	}}
	g.Expect(evidence.Counts()).To(Equal(candorv1alpha1.SeverityCounts{Critical: 1, High: 2, Medium: 1, Low: 1, Unknown: 1}))
	g.Expect(evidence.Fixable()).To(Equal(int32(2)))
}

func TestTheWorstEntriesAreShown(t *testing.T) {
	g := NewWithT(t)
	var evidence Evidence
	for i := range 40 {
		evidence.Entries = append(evidence.Entries, Entry{Rank: High, ID: fmt.Sprintf("CVE-2026-%d", i)})
	}
	shown := evidence.top("web-7d9f", "web", specBytes)
	g.Expect(shown).To(HaveLen(25))
	g.Expect(shown[0]).To(Equal(candorv1alpha1.Entry{ID: "CVE-2026-0", Severity: "HIGH"}))
	g.Expect(shown[24].ID).To(Equal("CVE-2026-24"))
	g.Expect(Evidence{}.top("a", "b", specBytes)).To(BeEmpty())
}

func TestOnlyEntriesThatFitAreShown(t *testing.T) {
	g := NewWithT(t)
	evidence := Evidence{Entries: []Entry{openssl(), openssl()}}
	line, err := json.Marshal(evidence.top("a", "b", specBytes)[0])
	g.Expect(err).NotTo(HaveOccurred())
	whole := len(`,"top":[,,]`) + 2*len(line)
	g.Expect(evidence.top("a", "b", whole)).To(HaveLen(2))
	g.Expect(evidence.top("a", "b", whole-1)).To(HaveLen(1))
	g.Expect(evidence.top("a", "b", 0)).To(BeEmpty())
}

func TestAMessageNamesTheWorkloadInPlaceOfItsReplicaSet(t *testing.T) {
	evidence := Evidence{Entries: []Entry{{Rank: High, ID: "KSV014", Message: "Container 'nginx' of ReplicaSet 'web-7d9f8c6b5' should be read-only; see 'web-7d9f8c6b5'"}}}
	NewWithT(t).Expect(evidence.top("web-7d9f8c6b5", "web", specBytes)).To(Equal([]candorv1alpha1.Entry{{
		ID: "KSV014", Severity: "HIGH", Message: "Container 'nginx' of ReplicaSet 'web' should be read-only; see 'web'",
	}}))
}

func TestCutKeepsWholeRunesAndMarksTheEnd(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"text that fits stays":                   {"abcdef", 6, "abcdef"},
		"empty text stays":                       {"", 4, ""},
		"longer text ends in a mark":             {"abcdefg", 6, "abc…"},
		"a rune of two bytes is not split":       {"abéééé", 6, "ab…"},
		"a rune of four bytes is not split":      {"a😀😀😀", 7, "a…"},
		"runes that fit exactly are kept":        {"ééééé", 7, "éé…"},
		"text of one rune that is too long goes": {"😀😀", 4, "…"},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(Cut(test.text, test.limit)).To(Equal(test.want)) })
	}
}

// No limit in the code is shorter than the mark.
func FuzzCutKeepsItsBounds(f *testing.F) {
	f.Add("abcdefghij", 6)
	f.Add("ééééééé", 6)
	f.Add("😀😀😀😀", 7)
	f.Add("\x80\x80\x80\x80\x80", 4)
	f.Add("日本語\xff\xfe日本語", 11)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < len("…") || limit > 1<<16 {
			t.Skip()
		}
		got := Cut(text, limit)
		switch {
		case len(got) > limit:
			t.Errorf("%q has %d bytes, the limit is %d", got, len(got), limit)
		case len(text) <= limit && got != text:
			t.Errorf("%q fits and became %q", text, got)
		case len(text) > limit && !strings.HasSuffix(got, "…"):
			t.Errorf("%q became %q without a mark", text, got)
		case !strings.HasPrefix(text, strings.TrimSuffix(got, "…")):
			t.Errorf("%q is not how %q starts", got, text)
		case utf8.ValidString(text) && !utf8.ValidString(got):
			t.Errorf("%q became %q, which splits a rune", text, got)
		case utf8.ValidString(text) && len(text) > limit && len(got) < limit-utf8.UTFMax+1:
			t.Errorf("%q became %q, which wastes more than a rune of %d", text, got, limit)
		case Cut(got, limit) != got:
			t.Errorf("%q is cut again", got)
		}
	})
}
