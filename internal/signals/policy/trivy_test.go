// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

func TestWhatOtherToolsPassOnOfTrivyCountsOnlyWhereNobodyAsksForTrivyItself(t *testing.T) {
	ended := asking(nothing, "trivy")
	ended.DeletionTimestamp = &metav1.Time{Time: metav1.Unix(1, 0).Time}
	for name, test := range map[string]struct {
		policies []candorv1alpha1.SignalPolicy
		leftOut  bool
	}{
		"nobody asks for Trivy":                          {[]candorv1alpha1.SignalPolicy{asking(nothing, "openreports")}, false},
		"the same policy asks for it":                    {[]candorv1alpha1.SignalPolicy{asking(nothing, "openreports", "trivy")}, true},
		"another policy does":                            {[]candorv1alpha1.SignalPolicy{asking(nothing, "openreports"), asking(nothing, "trivy")}, true},
		"one asks for another kind of Trivy's reports":   {[]candorv1alpha1.SignalPolicy{asking(nothing, "trivy/config"), asking(nothing, "openreports")}, true},
		"one that is being deleted does":                 {[]candorv1alpha1.SignalPolicy{asking(nothing, "openreports"), ended}, false},
		"a provider only begins with the same letters":   {[]candorv1alpha1.SignalPolicy{asking(nothing, "openreports", "trivyish")}, false},
		"the other kind of shared reports is none of it": {[]candorv1alpha1.SignalPolicy{asking(nothing, "openreports", "policyreport")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ask, asked := For(test.policies, "openreports")
			g.Expect(asked).To(BeTrue())
			g.Expect(ask.NoTrivy).To(Equal(test.leftOut))
			for _, source := range []string{"Trivy Vulnerability", "trivy", "TRIVY ConfigAudit"} {
				g.Expect(ask.Wants(signals.Entry{Rank: signals.High, ID: "a", Source: source})).To(Equal(!test.leftOut), source)
			}
			for _, source := range []string{"", "kyverno", "not Trivy"} {
				g.Expect(ask.Wants(signals.Entry{Rank: signals.High, ID: "a", Source: source})).To(BeTrue(), source)
			}
		})
	}
}
