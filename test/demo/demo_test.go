// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
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

	g.Expect(results).To(HaveLen(6))
	for i, want := range []struct {
		step    string
		changes []string
		writes  kube.Counts
		asked   int
	}{
		{"arrival", []string{"9 new"}, kube.Counts{"create findings": 9, "update findings/status": 9}, 9},
		{"rescan", nil, kube.Counts{}, 0},
		{"rollout", []string{"4 in a new image"}, kube.Counts{"patch findings": 4}, 0},
		{"fix", []string{"1 Resolved"}, kube.Counts{"patch findings": 1, "update findings/status": 1}, 0},
		{"mute", []string{"1 muted"}, kube.Counts{"update findings/status": 1, "update suppressions/status": 1}, 0},
		{
			"escalation",
			[]string{"1 now CRITICAL, unmuted"},
			kube.Counts{"patch findings": 1, "update findings/status": 1, "update suppressions/status": 1},
			1,
		},
	} {
		got := results[i]
		g.Expect(got.reports).To(Equal(14), want.step)
		g.Expect(got.findings).To(Equal(9), want.step)
		g.Expect(got.changes).To(Equal(want.changes), want.step)
		g.Expect(got.writes.Without("signalpolicies")).To(Equal(want.writes), want.step)
		g.Expect(got.asked).To(Equal(want.asked), want.step)
	}
	for _, quiet := range results[1:3] {
		g.Expect(quiet.writes).NotTo(HaveKey("update signalpolicies/status"), quiet.title)
	}

	g.Expect(out.String()).To(ContainSubstring("trivy-"), "a name of a Finding")
	g.Expect(out.String()).NotTo(ContainSubstring("\x1b"), "colors outside of a terminal")
	left, err := os.ReadDir(temporary)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(left).To(BeEmpty(), "what the demo leaves behind")
}
