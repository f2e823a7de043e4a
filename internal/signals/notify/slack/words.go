// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package slack

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/notify"
)

// verbs say what happened to a Finding, in the order of a title.
var verbs = []struct {
	kind notify.Kind
	said string
}{
	{notify.KindCreated, "new"},
	{notify.KindEscalated, "more severe"},
	{notify.KindRecurred, "came back"},
	{notify.KindSuppressionEnded, "no longer muted"},
	{notify.KindResolved, "resolved"},
}

func verb(kind notify.Kind) string {
	for _, v := range verbs {
		if v.kind == kind {
			return v.said
		}
	}
	return "changed"
}

// Bounds of foreign text in a paragraph, in bytes as it is written. Together they leave room in a block, which holds 3,000
// characters.
const (
	maxName    = 260
	maxSummary = 1200
)

// title says how many of the events are of which kind, such as "2 new, 1 resolved in".
func title(events []notify.Event) string {
	counts := map[notify.Kind]int{}
	for _, e := range events {
		counts[e.Kind]++
	}
	var parts []string
	for _, v := range verbs {
		if n := counts[v.kind]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v.said))
		}
	}
	return strings.Join(parts, ", ") + " in"
}

// told is the paragraph on one event.
func told(e notify.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%s*: %s", severity(e), verb(e.Kind))
	if e.Outcome == candorv1alpha1.OutcomeWorkloadGone {
		b.WriteString(", its workload is gone")
	}
	fmt.Fprintf(&b, "\n%s", code(e.Resource.Kind+"/"+e.Resource.Name, 2*maxName))
	if e.Resource.Container != "" {
		fmt.Fprintf(&b, " container %s", code(e.Resource.Container, maxName))
	}
	fmt.Fprintf(&b, "\n%s\nFinding %s in namespace %s", code(e.Summary, maxSummary), code(e.Finding, maxName), code(e.Namespace, maxName))
	return b.String()
}

func severity(e notify.Event) string {
	if e.PreviousSeverity != "" {
		return bare(string(e.PreviousSeverity)) + " → " + bare(string(e.Severity))
	}
	return bare(string(e.Severity))
}

func digest(d *notify.Digest) string {
	c := d.Changed
	lines := []string{
		fmt.Sprintf("*In %s*: %d new, %d more severe, %d resolved, %d came back", span(d.WindowSeconds), c.Created, c.Escalated, c.Resolved, c.Recurred),
		fmt.Sprintf("*Now*: %d open%s, %d stale, %d muted", d.StillPresent+d.Recurred, bySeverity(d.BySeverity), d.Stale, d.Muted),
	}
	if d.ResolvedHeldPercent != nil {
		lines = append(lines, fmt.Sprintf("*Resolved that held*: %d %%", *d.ResolvedHeldPercent))
	}
	s := d.Spent
	spent := fmt.Sprintf("*Models*: %d calls, %d tokens", s.Calls, s.Tokens)
	if s.CostMicros > 0 {
		spent += fmt.Sprintf(", cost %d.%02d", s.CostMicros/1_000_000, s.CostMicros%1_000_000/10_000)
	}
	return strings.Join(append(lines, fmt.Sprintf("%s; %d explained without a call", spent, s.Shared)), "\n")
}

func summary(m notify.Message) string {
	return fmt.Sprintf("%d open%s, %d muted. From now on this channel hears of each change.", m.Summary.Open, bySeverity(m.Summary.BySeverity), m.Summary.Muted)
}

func budget(m notify.Message) string {
	said := fmt.Sprintf("%d calls and %d tokens are used. Findings are reported without an explanation", m.Budget.Calls, m.Budget.Tokens)
	if at := m.Budget.NextFree; at != nil {
		return said + " until " + at.UTC().Format(time.RFC3339) + "."
	}
	return said + "."
}

func bySeverity(counts map[string]int) string {
	var parts []string
	for r := signals.Critical; r >= signals.Unknown; r-- {
		if n := counts[r.String()]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(r.String())))
		}
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// span says a time in days or hours.
func span(seconds int64) string {
	switch hours := (seconds + 1800) / 3600; {
	case hours == 1:
		return "1 hour"
	case hours < 72:
		return fmt.Sprintf("%d hours", hours)
	default:
		return fmt.Sprintf("%d days", (hours+12)/24)
	}
}

// code shows foreign text as it is, in limit bytes besides the marks: within backticks nothing is a link, a mention, an emoji or
// a style.
func code(foreign string, limit int) string {
	if foreign == "" {
		return ""
	}
	return "`" + escape(strings.ReplaceAll(foreign, "`", "'"), limit) + "`"
}

// bare shows a word of ours in whose place a foreign one may stand: letters and digits are all that is left of it.
func bare(word string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, word)
}

// escape writes the characters that Slack gives a meaning, and takes the meaning from an @ that a mention could begin with. It
// returns limit bytes at most.
func escape(foreign string, limit int) string {
	const cut = "…"
	var b strings.Builder
	before := ' '
	for _, r := range foreign {
		piece := string(r)
		switch {
		case r == '&':
			piece = "&amp;"
		case r == '<':
			piece = "&lt;"
		case r == '>':
			piece = "&gt;"
		case r == '@' && !unicode.IsLetter(before) && !unicode.IsDigit(before):
			piece = "＠"
		}
		if b.Len()+len(piece)+len(cut) > limit {
			return b.String() + cut
		}
		b.WriteString(piece)
		before = r
	}
	return b.String()
}
