// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/notify"
	"github.com/candor-dev/candor/internal/signals/notify/render"
)

// hostile are pieces of what strangers may write.
var hostile = []string{
	"<!channel>", "<!here|x>", "<@U024BE7LH>", "<#C024BE7LR>", "<https://evil.example|click>", "@here", "@channel", "@all ", "x @everyone", "@@here",
	"[click](https://evil.example)", "![](https://evil.example/?leak)", "https://evil.example", "`", "```", "*", "_", "~", "\n", "\r\n", "\n# ", "\n> ", "| a |",
	"\x00", "\x1b[31m", "\u202e", "\u2028", "\u200b", "\xff\xfe", `"`, `\`, `","severity":"LOW`, `"}],"x":[{"`, "&lt;!channel&gt;", "&", "&amp;", ":boom:",
	"{{ .Labels }}", "</script>", "＠", "é", "漢字", "😀", "'", "%0a", " ", "a",
}

// spite returns a text of hostile pieces.
func spite(r *rand.Rand, longest int) string {
	var b strings.Builder
	for length := 1 + r.IntN(longest); b.Len() < length; {
		b.WriteString(hostile[r.IntN(len(hostile))])
	}
	return b.String()
}

// spiteful returns Findings that strangers wrote each text of.
func spiteful(r *rand.Rand, longest int) func(...func(*candorv1alpha1.Finding)) *candorv1alpha1.Finding {
	return func(change ...func(*candorv1alpha1.Finding)) *candorv1alpha1.Finding {
		f := finding(change...)
		word := func() string { return "a" + spite(r, longest) + "z" }
		f.Name, f.Spec.Summary = word(), word()
		f.Spec.Source = candorv1alpha1.Source{Provider: word(), Kind: word(), Name: word(), Container: word()}
		f.Namespace = word()
		return f
	}
}

// everyText hands over each string in a JSON value, the names of fields too, with its path.
func everyText(value any, path string, yield func(path, text string)) {
	switch v := value.(type) {
	case string:
		yield(path, v)
	case []any:
		for _, item := range v {
			everyText(item, path+"[]", yield)
		}
	case map[string]any:
		for name, item := range v {
			yield(path, name)
			everyText(item, path+"."+name, yield)
		}
	}
}

// shape is the paths of a JSON value, which data must not change. It fails where a text is long or holds more than one line of
// printable characters; what Slack shows is made of lines, and bounded as a whole.
func shape(t *testing.T, body []byte) []string {
	t.Helper()
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		t.Fatal(err)
	}
	var paths []string
	everyText(value, "", func(path, text string) {
		paths = append(paths, path)
		if !strings.HasSuffix(path, "ext") && len(text) > 1024 {
			t.Fatalf("%s holds %d bytes", path, len(text))
		}
		for _, r := range text {
			if unicode.IsControl(r) && (r != '\n' || !strings.HasSuffix(path, "ext")) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar {
				t.Fatalf("%s holds %q: %q", path, r, text)
			}
		}
	})
	slices.Sort(paths)
	return paths
}

func TestNoDataBreaksOutOfItsField(t *testing.T) {
	for form, sink := range forms {
		for seed := range uint64(15) {
			r := rand.New(rand.NewPCG(seed, 0))
			bad := messages(spiteful(r, []int{10, 100, 10 << 10}[seed%3]))
			for name, good := range messages(finding) {
				g := NewWithT(t)
				m := bad[name]
				m.Sink, good.Sink = sink.name, sink.name
				m.Namespace, m.Policy = "a"+spite(r, 30)+"z", "a"+spite(r, 30)+"z"
				got, err := render.Requests(sink.sink, m, notify.Options{})
				g.Expect(err).NotTo(HaveOccurred())
				want, err := render.Requests(sink.sink, good, notify.Options{})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(got).To(HaveLen(len(want)))
				for i := range got {
					g.Expect(shape(t, got[i].Body)).To(Equal(shape(t, want[i].Body)), "%s %s, seed %d", form, name, seed)
					g.Expect(len(got[i].Body)).To(BeNumerically("<", 64<<10))
				}
			}
		}
	}
}

// quoted is foreign text as Slack is told to show it.
var quoted = regexp.MustCompile("`[^`\n]+`")

// own returns what of a text for Slack is ours, and fails where foreign text has a meaning there.
func own(t *testing.T, text string) string {
	t.Helper()
	g := NewWithT(t)
	g.Expect(text).NotTo(ContainSubstring("<"))
	g.Expect(text).NotTo(ContainSubstring(">"))
	g.Expect(text).NotTo(MatchRegexp(`(^|[^\pL\pN])@`), "a mention")
	g.Expect(regexp.MustCompile(`&(amp|lt|gt);`).ReplaceAllString(text, "")).NotTo(ContainSubstring("&"))
	g.Expect(len(utf16.Encode([]rune(text)))).To(BeNumerically("<=", 3000*notify.MaxEvents))
	return quoted.ReplaceAllString(text, "``")
}

func TestNothingForeignHasAMeaningInSlack(t *testing.T) {
	type payload struct {
		Text   string
		Blocks []struct{ Text struct{ Type, Text string } }
	}
	read := func(g Gomega, m notify.Message) payload {
		requests, err := render.Requests(candorv1alpha1.SinkSlack, m, notify.Options{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(requests).To(HaveLen(1))
		var p payload
		g.Expect(json.Unmarshal(requests[0].Body, &p)).To(Succeed())
		return p
	}
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 0))
		bad := messages(spiteful(r, []int{10, 100, 10 << 10}[seed%3]))
		for name, good := range messages(finding) {
			g := NewWithT(t)
			m := bad[name]
			m.Namespace = "a" + spite(r, 200) + "z"
			got, want := read(g, m), read(g, good)
			g.Expect(own(t, got.Text)).To(Equal(own(t, want.Text)), "%s, seed %d: %s", name, seed, got.Text)
			g.Expect(len(got.Blocks)).To(And(Equal(len(want.Blocks)), BeNumerically("<=", 50)))
			for i, b := range got.Blocks {
				g.Expect(b.Text.Type).To(Equal(want.Blocks[i].Text.Type))
				limit := 3000
				if b.Text.Type == "plain_text" {
					limit = 150
					own(t, b.Text.Text)
				} else {
					g.Expect(own(t, b.Text.Text)).To(Equal(own(t, want.Blocks[i].Text.Text)))
				}
				g.Expect(len(utf16.Encode([]rune(b.Text.Text)))).To(BeNumerically("<=", limit))
			}
		}
	}
}

func TestAWordInPlaceOfASeverityHasNoMeaning(t *testing.T) {
	for _, sink := range forms {
		g := NewWithT(t)
		m := messages(finding)["several"]
		m.Sink = sink.name
		for i := range m.Events {
			m.Events[i].Severity, m.Events[i].PreviousSeverity = "<!channel>*`x`*\n@here", "[a](b)"
			m.Events[i].Outcome, m.Events[i].Fingerprint = "<!channel>\n", "<!channel>\n"
		}
		requests, err := render.Requests(sink.sink, m, notify.Options{})
		g.Expect(err).NotTo(HaveOccurred())
		for _, r := range requests {
			shape(t, r.Body)
			if sink.sink == candorv1alpha1.SinkSlack {
				g.Expect(string(r.Body)).To(ContainSubstring("*ab → channelxhere*"))
				g.Expect(string(r.Body)).NotTo(ContainSubstring("@here"))
			}
		}
	}
}
