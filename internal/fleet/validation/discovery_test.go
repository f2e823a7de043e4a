// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

const everyPipeline = "spec.selector: is empty, so that all pipelines of the stack are managed from here"

func aPipelineDiscovery(changes ...func(*fleetmanagementv1alpha1.PipelineDiscoverySpec)) *fleetmanagementv1alpha1.PipelineDiscovery {
	d := &fleetmanagementv1alpha1.PipelineDiscovery{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "all"}}
	d.Spec.Selector.Enabled = ptr.To(true)
	for _, change := range changes {
		change(&d.Spec)
	}
	return d
}

func TestAPipelineDiscovery(t *testing.T) {
	type spec = fleetmanagementv1alpha1.PipelineDiscoverySpec
	polls := func(text string) func(*spec) { return func(s *spec) { s.PollInterval = text } }
	into := func(namespace string) func(*spec) { return func(s *spec) { s.TargetNamespace = namespace } }
	var (
		brokenSpec = func(s *spec) {
			s.PollInterval, s.TargetNamespace, s.ImportMode, s.Policy.OnPipelineRemoved = "1s", "Team B", "Take", "Forget"
			s.Selector.ConfigType = ptr.To(fleetmanagementv1alpha1.ConfigType("Vector"))
		}
		deleted = aPipelineDiscovery(brokenSpec)
		touched = aPipelineDiscovery(brokenSpec)
	)
	deleted.DeletionTimestamp, touched.Labels = &metav1.Time{}, map[string]string{"team": "a"}
	for name, test := range map[string]struct {
		old, now *fleetmanagementv1alpha1.PipelineDiscovery
		want     []string
		warns    []string
	}{
		"that says nothing is fine": {now: aPipelineDiscovery()},
		"that says everything is fine": {now: aPipelineDiscovery(polls("1m"), into("team-b"), func(s *spec) {
			s.Selector.ConfigType = ptr.To(fleetmanagementv1alpha1.ConfigTypeOTel)
			s.ImportMode, s.Policy.OnPipelineRemoved = fleetmanagementv1alpha1.ImportAdopt, fleetmanagementv1alpha1.RemovalDelete
		})},
		"that shows the whole stack is fine": {now: aPipelineDiscovery(func(s *spec) { s.Selector.Enabled = nil })},
		"that manages the whole stack is warned of": {now: aPipelineDiscovery(func(s *spec) {
			s.Selector.Enabled, s.ImportMode = nil, fleetmanagementv1alpha1.ImportAdopt
		}), warns: []string{everyPipeline}},
		"of a configType that is none": {now: aPipelineDiscovery(func(s *spec) { s.Selector.ConfigType = ptr.To(fleetmanagementv1alpha1.ConfigType("Vector")) }), want: []string{
			`spec.selector.configType: Unsupported value: "Vector": supported values: "Alloy", "OpenTelemetryCollector"`,
		}},
		"that polls by a number alone": {now: aPipelineDiscovery(polls("300")), want: []string{
			`spec.pollInterval: Invalid value: "300": is no duration: write a number and a unit, such as 5m or 1h30m`,
		}},
		"that polls too often": {now: aPipelineDiscovery(polls("59s")), want: []string{`spec.pollInterval: Invalid value: "59s": is too often: write 1m or more`}},
		"that polls backwards": {now: aPipelineDiscovery(polls("-5m")), want: []string{`spec.pollInterval: Invalid value: "-5m": is too often: write 1m or more`}},
		"into what is no namespace": {now: aPipelineDiscovery(into("Team_B")), want: []string{
			`spec.targetNamespace: Invalid value: "Team_B": is no name of a namespace: write at most 63 lower case letters, digits and hyphens, ` +
				"or leave it out for the namespace of this object",
		}},
		"into a name that is too long": {now: aPipelineDiscovery(into(strings.Repeat("x", 64))), want: []string{
			`spec.targetNamespace: Invalid value: "` + strings.Repeat("x", 64) + `": is no name of a namespace: write at most 63 lower case letters, digits and hyphens, ` +
				"or leave it out for the namespace of this object",
		}},
		"that moves": {old: aPipelineDiscovery(into("team-b")), now: aPipelineDiscovery(into("team-c")), want: []string{
			`spec.targetNamespace: Invalid value: "team-c": cannot be changed from "team-b": create another discovery`,
		}},
		"of no known mode": {now: aPipelineDiscovery(func(s *spec) { s.ImportMode = "Take" }), want: []string{
			`spec.importMode: Unsupported value: "Take": supported values: "Adopt", "ReadOnly"`,
		}},
		"of no known policy": {now: aPipelineDiscovery(func(s *spec) { s.Policy.OnPipelineRemoved = "Forget" }), want: []string{
			`spec.policy.onPipelineRemoved: Unsupported value: "Forget": supported values: "Keep", "Delete"`,
		}},
		"that keeps its mistakes and gets a label": {old: aPipelineDiscovery(brokenSpec), now: touched},
		"that keeps its mistakes and changes what is fine": {
			old: aPipelineDiscovery(brokenSpec), now: aPipelineDiscovery(brokenSpec, func(s *spec) { s.ImportMode = fleetmanagementv1alpha1.ImportAdopt }),
		},
		"that is on its way out": {old: aPipelineDiscovery(), now: deleted},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			warnings, errs := PipelineDiscovery(test.old, test.now)
			g.Expect(said(errs)).To(Equal(test.want))
			g.Expect(warnings).To(Equal(test.warns))
		})
	}
}

func aCollectorDiscovery(changes ...func(*fleetmanagementv1alpha1.CollectorDiscoverySpec)) *fleetmanagementv1alpha1.CollectorDiscovery {
	d := &fleetmanagementv1alpha1.CollectorDiscovery{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "all"}}
	d.Spec.Selector.Matchers = []string{`collector.os="linux"`}
	for _, change := range changes {
		change(&d.Spec)
	}
	return d
}

func TestACollectorDiscovery(t *testing.T) {
	type spec = fleetmanagementv1alpha1.CollectorDiscoverySpec
	selects := func(ids []string, matchers ...string) func(*spec) {
		return func(s *spec) { s.Selector.CollectorIDs, s.Selector.Matchers = ids, matchers }
	}
	invalid := func(s *spec) {
		selects([]string{" "}, "a==b")(s)
		s.PollInterval, s.Policy.OnConflict = "soon", "Overwrite"
	}
	touched := aCollectorDiscovery(invalid)
	touched.Finalizers = []string{"a/b"}
	for name, test := range map[string]struct {
		old, now *fleetmanagementv1alpha1.CollectorDiscovery
		want     []string
		warns    []string
	}{
		"of matchers is fine": {now: aCollectorDiscovery()},
		"that says everything is fine": {now: aCollectorDiscovery(selects([]string{"edge-1", strings.Repeat("ä", 512)}, `a=~"x|y"`), func(s *spec) {
			s.PollInterval, s.TargetNamespace, s.IncludeInactive = "1h", "team-b", true
			s.Policy.OnCollectorRemoved, s.Policy.OnConflict = fleetmanagementv1alpha1.RemovalDelete, fleetmanagementv1alpha1.ConflictHandlingSkip
		})},
		"of the whole stack is warned of": {now: aCollectorDiscovery(selects(nil)), warns: []string{"spec.selector: is empty, so that all collectors of the stack are in scope"}},
		"of a matcher that is none":       {now: aCollectorDiscovery(selects(nil, "a==b")), want: []string{`spec.selector.matchers[0]: Invalid value: "a==b": there is no operator ==: write a="b"`}},
		"of too many matchers":            {now: aCollectorDiscovery(selects(nil, make([]string, 101)...)), want: []string{"spec.selector.matchers: Too many: 101: must have at most 100 items"}},
		"of a blank ID": {now: aCollectorDiscovery(selects([]string{"a", " "})), want: []string{
			`spec.selector.collectorIDs[1]: Invalid value: " ": an ID must not be blank: write one, or remove the item`,
		}},
		"of an ID that is too long": {now: aCollectorDiscovery(selects([]string{strings.Repeat("ä", 513)})), want: []string{
			"spec.selector.collectorIDs[0]: Too long: may not be more than 512 characters",
		}},
		"of too many IDs": {now: aCollectorDiscovery(selects(make([]string, 1001))), want: []string{
			"spec.selector.collectorIDs: Too many: 1001: must have at most 1000 items",
		}},
		"that polls too often":                            {now: aCollectorDiscovery(func(s *spec) { s.PollInterval = "1s" }), want: []string{`spec.pollInterval: Invalid value: "1s": is too often: write 1m or more`}},
		"that moves to its own":                           {old: aCollectorDiscovery(func(s *spec) { s.TargetNamespace = "team-b" }), now: aCollectorDiscovery(), want: []string{`spec.targetNamespace: Invalid value: "": cannot be changed from "team-b": create another discovery`}},
		"of no known removal":                             {now: aCollectorDiscovery(func(s *spec) { s.Policy.OnCollectorRemoved = "x" }), want: []string{`spec.policy.onCollectorRemoved: Unsupported value: "x": supported values: "Keep", "Delete"`}},
		"of no known way to settle":                       {now: aCollectorDiscovery(func(s *spec) { s.Policy.OnConflict = "x" }), want: []string{`spec.policy.onConflict: Unsupported value: "x": supported values: "Skip"`}},
		"that keeps its mistakes and gets a finalizer":    {old: aCollectorDiscovery(invalid), now: touched},
		"that keeps its mistakes and selects one more":    {old: aCollectorDiscovery(invalid), now: aCollectorDiscovery(invalid, selects([]string{"b", " "}, "c=d", "a==b"))},
		"that keeps its mistakes and adds another of one": {old: aCollectorDiscovery(invalid), now: aCollectorDiscovery(invalid, selects([]string{" "}, "a==b", "c==d")), want: []string{`spec.selector.matchers[1]: Invalid value: "c==d": there is no operator ==: write c="d"`}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			warnings, errs := CollectorDiscovery(test.old, test.now)
			g.Expect(said(errs)).To(Equal(test.want))
			g.Expect(warnings).To(Equal(test.warns))
		})
	}
}
