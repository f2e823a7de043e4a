// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/test/kube"
)

// TestWalk keeps the promises that the demo makes to whoever watches it. Statuses of policies are not among the numbers: how
// many writes a burst of changes coalesces to depends on how fast the machine is.
func TestWalk(t *testing.T) {
	if os.Getenv(assetsVariable) == "" {
		t.Skip(assetsVariable + " is not set: make test sets it")
	}
	g := NewWithT(t)
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	var out bytes.Buffer
	results, err := run(t.Context(), options{once: true}, &screen{out: &out})
	t.Log(out.String())
	g.Expect(err).NotTo(HaveOccurred())

	g.Expect(results).To(HaveLen(16))
	for i, want := range []struct {
		step     string
		findings int
		changes  []string
		writes   kube.Counts
		asked    int
	}{
		{"arrival", 9, []string{"9 new"}, kube.Counts{"create findings": 9, "update findings/status": 9}, 9},
		{"rescan", 9, nil, kube.Counts{}, 0},
		{"rollout", 9, []string{"4 in a new image"}, kube.Counts{"patch findings": 4}, 0},
		{"fix", 9, []string{"1 Resolved"}, kube.Counts{"patch findings": 1, "update findings/status": 1}, 0},
		{"mute", 9, []string{"1 muted"}, kube.Counts{"update findings/status": 1, "update suppressions/status": 1}, 0},
		{
			"escalation", 9,
			[]string{"1 now CRITICAL, unmuted"},
			kube.Counts{"patch findings": 1, "update findings/status": 1, "update suppressions/status": 1},
			1,
		},
		{"audit", 9, []string{"8 with the digest of a request"}, kube.Counts{"update findings/status": 8}, 0},
		{"spread", 9 + teams, []string{"20 new"}, kube.Counts{"create findings": teams, "update findings/status": teams}, 0},
		// Three writes for each of the five that are paid for, and two for each that is told to wait.
		{
			"budget", 9 + teams,
			[]string{"5 explained by a call", "23 held back by the budget"},
			kube.Counts{"update findings/status": 3*callsAllowed + 2*23, "create ledgers": 1, "update ledgers/status": 2 * callsAllowed},
			callsAllowed,
		},
		{
			"freed window", 9 + teams,
			[]string{"20 explained by an equal answer", "3 explained by a call"},
			kube.Counts{"update findings/status": 2*3 + teams, "update ledgers/status": 2 * 3},
			3,
		},
		{"second rescan", 9 + teams, nil, kube.Counts{}, 0},
		{"sinks", 9 + teams, nil, kube.Counts{}, 0},
		{"third rescan", 9 + teams, nil, kube.Counts{}, 0},
		// One write with the event, and one for its delivery.
		{"told", 9 + teams, []string{"1 Resolved"}, kube.Counts{"patch findings": 1, "update findings/status": 2}, 0},
	} {
		got := results[i]
		g.Expect(got.reports).To(Equal(want.findings+5), want.step)
		g.Expect(got.findings).To(Equal(want.findings), want.step)
		g.Expect(got.changes).To(ConsistOf(want.changes), want.step)
		g.Expect(got.writes.Without("signalpolicies", "operatingpolicies")).To(Equal(want.writes), want.step)
		g.Expect(got.asked).To(Equal(want.asked), want.step)
	}
	posted, repeated := results[14], results[15]
	g.Expect(posted.changes).To(ContainElement("1 new"))
	g.Expect(posted.writes).To(HaveKeyWithValue("create findings", 1))
	g.Expect(posted.asked).To(Equal(1))
	g.Expect(repeated.writes.Without("signalpolicies")).To(BeEmpty())
	g.Expect(repeated.asked).To(BeZero())
	for _, quiet := range results[1:3] {
		g.Expect(quiet.writes).NotTo(HaveKey("update signalpolicies/status"), quiet.title)
	}

	g.Expect(out.String()).To(ContainSubstring("trivy-"), "a name of a Finding")
	g.Expect(out.String()).To(ContainSubstring("Worst first: explained are 5 CRITICAL. Held back are 23 HIGH;"))
	g.Expect(out.String()).To(ContainSubstring("28 Findings explained by 8 model calls; 20 took over an equal answer."))
	counted := regexp.MustCompile(`The fake counted 8 calls with 8 different requests, (\d+) tokens read and (\d+) written.\s+` +
		`The Ledger counted 8 calls and (\d+) tokens`).FindStringSubmatch(out.String())
	g.Expect(counted).To(HaveLen(4))
	g.Expect(number(g, counted[1]) + number(g, counted[2])).To(Equal(number(g, counted[3])))
	g.Expect(out.String()).To(ContainSubstring(`Answers: 202 {"result":"created"}, then 202 {"result":"unchanged"}, then 401 `))
	g.Expect(out.String()).To(ContainSubstring("23 messages for 28 open Findings in 23 namespaces."))
	g.Expect(out.String()).NotTo(ContainSubstring("\x1b"), "colors outside of a terminal")
	left, err := os.ReadDir(temporary)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(left).To(BeEmpty(), "what the demo leaves behind")
}

func number(g Gomega, text string) int {
	n, err := strconv.Atoi(text)
	g.Expect(err).NotTo(HaveOccurred())
	return n
}
