// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llm

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// FuzzDecode gives Decode any text, alone and as the fields of a hypothesis.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		good, "```json\n" + good + "\n```", good[:40], `{"hypotheses":[{}]}`, `{"a":{"hypotheses":[{"cause":"x","confidence":"85%"}]}}`,
		"![a](b)[c](d)", "<<b>a", "](", "htt[p](x)://y", "&lt;a&gt;", "a@b.cc", "javascript:", "www.a", "data:,a", "\u202e\u200b\xff\x00", "&amp;#58;", "世",
	} {
		f.Add(seed, uint16(1))
	}
	for _, attack := range attacks {
		f.Add(attack, uint16(90))
	}
	f.Fuzz(func(t *testing.T, text string, repeat uint16) {
		long := strings.Repeat(text, min(int(repeat), 1+1<<13/max(1, len(text))))
		wrapped, err := json.Marshal(map[string]any{"hypotheses": []any{
			map[string]any{"cause": text, "rationale": long, "confidence": repeat, "recommendedAction": text},
			map[string]any{"cause": long, "rationale": text, "confidence": text},
			map[string]any{"cause": "a" + text + "b"},
			map[string]any{"cause": text + text},
			text,
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, answer := range []string{text, long, string(wrapped), long + string(wrapped), `{"hypotheses":[{"cause":"` + text + `"}]}`} {
			got, err := Decode(answer)
			var failure *Error
			switch {
			case err == nil:
				expectFit(t, got)
			case !errors.As(err, &failure) || failure.Class != InvalidOutput || !failure.Billed || got != nil:
				t.Errorf("%v, %v is not how an answer is refused", got, err)
			}
		}
	})
}

// clickable is what a viewer of Markdown, of HTML or of plain text makes a link or an image of.
var clickable = regexp.MustCompile(`(?i)\]\(|://|javascript:|vbscript:|mailto:|\bdata:[^\s,]*,|\bwww\.[a-z0-9]|<[a-z/!?]|&#?[a-z0-9]+;`)

// expectFit checks that hypotheses are what the API server takes and a person may see.
func expectFit(t *testing.T, list []candorv1alpha1.Hypothesis) {
	t.Helper()
	if len(list) < 1 || len(list) > maxHypotheses {
		t.Errorf("%d hypotheses", len(list))
	}
	for i, h := range list {
		if h.Cause == "" || utf8.RuneCountInString(h.Cause) > 300 || len(h.Cause) > 600 || utf8.RuneCountInString(h.Rationale) > 1000 || len(h.Rationale) > 1500 {
			t.Errorf("%+v is out of bounds", h)
		}
		if h.Confidence < 0 || h.Confidence > 100 || (i > 0 && h.Confidence > list[i-1].Confidence) {
			t.Errorf("confidence %d stands at %d of %+v", h.Confidence, i, list)
		}
		if !slices.Contains(actions, h.RecommendedAction) {
			t.Errorf("%q is no action", h.RecommendedAction)
		}
		for _, text := range []string{h.Cause, h.Rationale} {
			if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || clickable.MatchString(text) {
				t.Errorf("%q is not plain", text)
			}
		}
		if slices.ContainsFunc(list[:i], func(other candorv1alpha1.Hypothesis) bool { return other.Cause == h.Cause }) {
			t.Errorf("%q is given twice", h.Cause)
		}
	}
}

// FuzzCompose puts any text into every field of a Finding.
func FuzzCompose(f *testing.F) {
	f.Add("CVE-2026-1", "nginx", "web", "team-a", uint8(3))
	f.Add("\u202e\x00\xff<>&\"\\", "a/b:c@d", "system:leader", "", uint8(255))
	for _, attack := range attacks {
		f.Add(attack, attack, "web", "team-a", uint8(40))
	}
	f.Fuzz(func(t *testing.T, text, repository, name, namespace string, n uint8) {
		spec := candorv1alpha1.FindingSpec{
			Source: candorv1alpha1.Source{Provider: text, Kind: text, Name: name, Container: repository, RefKind: text, RefName: text},
			Evidence: &candorv1alpha1.Evidence{
				Total: int32(n), Fixable: int32(n), Artifact: candorv1alpha1.Artifact{Registry: text, Repository: repository, Tag: text, Digest: text},
			},
		}
		long := strings.Repeat(text, min(int(n), 1+1<<10/max(1, len(text))))
		for range n {
			spec.Evidence.Top = append(spec.Evidence.Top, candorv1alpha1.Entry{ID: text, Severity: text, Package: repository, Installed: text, Fixed: long, Message: long})
		}
		for _, sharing := range []candorv1alpha1.Sharing{candorv1alpha1.SharingCluster, candorv1alpha1.SharingNone} {
			p := Compose(spec, namespace, sharing)
			if again := Compose(spec, namespace, sharing); again != p {
				t.Errorf("first %q, then %q", p.User, again.User)
			}
			if len(p.User) > maxUser || !utf8.ValidString(p.User) {
				t.Errorf("%d bytes: %q", len(p.User), p.User)
			}
			e := told(t, p)
			if len(e.Lines) > maxLines || int(e.More)+len(e.Lines) != int(n) {
				t.Errorf("%d lines and %d more of %d", len(e.Lines), e.More, n)
			}
			fields := []string{e.Provider, e.Kind, e.Container, e.Repository}
			for _, line := range e.Lines {
				fields = append(fields, line.ID, line.Package, line.Installed, line.Fixed, line.Message)
			}
			for _, field := range fields {
				if len(field) > 256 || strings.ContainsFunc(field, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("%q is too long or holds what no line may hold", field)
				}
			}
		}
	})
}
