// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package signals

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

func TestAFindingOfAPostedSignalLeadsBackToItsIdentity(t *testing.T) {
	for name, id := range map[string]Identity{
		"of a container":             PostedTo("team-a", "default", "disk", "Deployment", "web", "nginx"),
		"of a node":                  PostedTo("team-a", "default", "disk", "Node", "worker-1", ""),
		"with a slash in its id":     PostedTo("team-a", "default", "disk/full/now", "Deployment", "web", ""),
		"of a policy of a long name": PostedTo("team-a", strings.Repeat("p", 253), strings.Repeat("i", 128), "Deployment", "web", ""),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			spec, evidence := PostedSpec(id, High, "The disk is full.")
			f := &candorv1alpha1.Finding{Spec: spec}
			f.Namespace = id.Namespace
			g.Expect(IdentityOf(f)).To(Equal(id))
			g.Expect(len(spec.Source.RefKind)).To(BeNumerically("<=", 266))
			bare := PostedEvidence(IdentityOf(f), RankOf(string(spec.Severity)))
			g.Expect(bare.Digest()).To(Equal(evidence.Digest()))
		})
	}
}

func TestAPostedSignalSpeaksForItself(t *testing.T) {
	g := NewWithT(t)
	id := PostedTo("team-a", "default", "disk", "Deployment", "web", "")
	spec, _ := PostedSpec(id, High, "The disk is full.")
	g.Expect(spec).To(Equal(candorv1alpha1.FindingSpec{
		Source:   candorv1alpha1.Source{Provider: "webhook", Kind: "Deployment", Name: "web", RefKind: "WebhookEvent/default", RefName: "disk"},
		Severity: candorv1alpha1.SeverityHigh, Summary: "The disk is full.", Observed: candorv1alpha1.ObservedPresent,
		Evidence: &candorv1alpha1.Evidence{
			Digest: PostedEvidence(id, High).Digest(), Total: 1, BySeverity: candorv1alpha1.SeverityCounts{High: 1},
			Top: []candorv1alpha1.Entry{{ID: "disk", Severity: "HIGH", Message: "The disk is full."}},
		},
	}))
	silent, _ := PostedSpec(id, High, "")
	g.Expect(silent.Summary).To(HavePrefix("1 HIGH signal: disk [evidence "))
}

func TestWhateverIsPostedAFindingStaysSmall(t *testing.T) {
	for name, summary := range map[string]string{
		"of characters that JSON escapes": strings.Repeat("<", 1024), "of long runes": strings.Repeat("語", 341), "of nothing special": strings.Repeat("a", 1024),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			spec, _ := PostedSpec(PostedTo("team-a", strings.Repeat("p", 253), strings.Repeat("i", 128), "Deployment", strings.Repeat("w", 253), strings.Repeat("c", 253)), High, summary)
			text, err := json.Marshal(spec)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(len(text)).To(BeNumerically("<=", specBytes))
			g.Expect(len(spec.Summary)).To(BeNumerically("<=", 1024))
			g.Expect(spec.Evidence.Top).To(HaveLen(1))
		})
	}
}
