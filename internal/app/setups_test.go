// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"crypto/tls"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

func TestEveryRowOfTheTableCanBeTurnedOnAndOff(t *testing.T) {
	g := NewWithT(t)
	names := map[string]bool{}
	for _, s := range setups() {
		g.Expect(validation.IsDNS1123Label(s.name)).To(BeEmpty(), "it is part of a flag")
		g.Expect(names).NotTo(HaveKey(s.name))
		names[s.name] = true
		g.Expect(s.does).NotTo(BeEmpty())
		g.Expect(Rows()[s.half]).To(ContainElement(s.name))
		g.Expect(s.workers).To(BeNumerically(">=", 1))
		g.Expect(s.add).NotTo(BeNil())
	}
}

func TestARowIsOffWithoutTheOneThatItNeeds(t *testing.T) {
	g := NewWithT(t)
	before := map[string]bool{"": true}
	for _, s := range setups() {
		g.Expect(before).To(HaveKey(s.needs), "it stands before %s", s.name)
		before[s.name] = true
		o := DefaultOptions()
		g.Expect(o.offBecause(s)).To(BeEmpty())
		if s.needs != "" {
			o.Controllers[s.needs].Enabled = false
			g.Expect(o.offBecause(s)).To(Equal("--enable-" + s.needs + "-controller=false"))
		}
		o.Controllers[s.name].Enabled = false
		g.Expect(o.offBecause(s)).To(Equal("--enable-" + s.name + "-controller=false"))
	}
}

func TestAManagerOfRowsThatNeedOthersHasNothingToDo(t *testing.T) {
	o := DefaultOptions()
	for _, s := range setups() {
		o.Controllers[s.name].Enabled = s.needs != ""
	}
	NewWithT(t).Expect(o.Validate()).To(MatchError(ContainSubstring("every controller is turned off")))
}

func TestEveryProviderSaysHowItsReportsComeToBe(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Classes().Providers()).To(Equal([]string{"trivy", "trivy/config", "trivy/rbac", "trivy/secrets", "openreports", "policyreport"}))
	for _, class := range Classes() {
		g.Expect(class.CRD).To(HaveSuffix("." + class.Kind.Group))
		g.Expect(class.Install).To(HavePrefix("install "))
		g.Expect(class.Many).NotTo(BeEmpty())
	}
}

func TestTheSchemeKnowsEveryKindOfTheGroup(t *testing.T) {
	known := NewScheme().KnownTypes(candorv1alpha1.GroupVersion)
	for _, kind := range []string{"SignalPolicy", "SignalPolicyList", "Finding", "FindingList", "Suppression", "SuppressionList"} {
		NewWithT(t).Expect(known).To(HaveKey(kind))
	}
}

func TestHTTP2IsOffUnlessItIsAskedFor(t *testing.T) {
	g := NewWithT(t)
	for enabled, want := range map[bool][]string{false: {"http/1.1"}, true: nil} {
		var config tls.Config
		for _, change := range tlsOptions(Options{EnableHTTP2: enabled}) {
			change(&config)
		}
		g.Expect(config.NextProtos).To(Equal(want))
		g.Expect(config.MinVersion).To(BeEquivalentTo(tls.VersionTLS12))
	}
}

func TestMetricsAreGuardedUnlessTheyAreServedInTheClear(t *testing.T) {
	g := NewWithT(t)
	options := DefaultOptions()
	g.Expect(metricsOptions(options).FilterProvider).NotTo(BeNil())
	options.MetricsSecure = false
	g.Expect(metricsOptions(options).FilterProvider).To(BeNil())
}
