// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

type pipelineEdit = func(*fleetmanagementv1alpha1.Pipeline)

// ours is a Pipeline of team a.
func ours(edits ...pipelineEdit) *fleetmanagementv1alpha1.Pipeline {
	p := matching("team=a")
	p.Annotations = map[string]string{}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func says(key, value string) pipelineEdit {
	return func(p *fleetmanagementv1alpha1.Pipeline) { p.Annotations[key] = value }
}

func adopts(policy fleetmanagementv1alpha1.AdoptionPolicy) pipelineEdit {
	return func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.AdoptionPolicy = policy }
}

func called(name string) pipelineEdit {
	return func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.Name = name }
}

func ofGrafana(p *fleetmanagementv1alpha1.Pipeline) {
	p.Spec.Source = &fleetmanagementv1alpha1.PipelineSource{Type: fleetmanagementv1alpha1.SourceGrafana, Namespace: "g"}
}

// unselected leaves the policy without a namespaceSelector, so that nothing is judged again.
func unselected(s *fleetmanagementv1alpha1.TenantPolicySpec) { s.NamespaceSelector = nil }

func TestWhatNobodyJudgesLaterIsRefused(t *testing.T) {
	type attributes = map[string]string
	mirrors := says(fleetmanagementv1alpha1.AnnotationImportMode, fleetmanagementv1alpha1.ImportModeReadOnly)
	standsFor := func(id string) pipelineEdit { return says(fleetmanagementv1alpha1.AnnotationPipelineID, id) }
	scope := says(fleetmanagementv1alpha1.AnnotationNameScope, fleetmanagementv1alpha1.NameScopeNone)
	paused := func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.Paused = true }
	disabled := collecting("a-1", nil)
	disabled.Spec.Enabled = ptr.To(false)
	byOS := func(s *fleetmanagementv1alpha1.TenantPolicySpec) { s.AllowedCollectors = []string{"os=linux"} }
	byID := func(s *fleetmanagementv1alpha1.TenantPolicySpec) {
		s.AllowedCollectors = []string{`collector.ID=~"a-.*"`}
	}
	free := func(s *fleetmanagementv1alpha1.TenantPolicySpec) { s.AllowedCollectors = nil }
	everyValue := func(s *fleetmanagementv1alpha1.TenantPolicySpec) {
		s.AllowedAttributes = []fleetmanagementv1alpha1.AllowedAttribute{{Key: "region"}}
	}
	region, mine := attributes{"region": "eu"}, []string{"team=a"}
	const (
		stranger   = "spec: Forbidden: TenantPolicy a: it cannot be told before it is applied whose pipeline it would show or take over"
		collector  = "spec.id: Forbidden: TenantPolicy a: it cannot be told before it is applied whether allowedCollectors allows the collector"
		collectors = "spec.selector: Forbidden: TenantPolicy a: it cannot be told before it is applied whether allowedCollectors allows what it reaches"
		values     = "spec.mapping.attributeFields[region]: Forbidden: TenantPolicy a: it cannot be told before it is applied whether its values are allowed"
	)
	var (
		noPipeline  *fleetmanagementv1alpha1.Pipeline
		noCollector *fleetmanagementv1alpha1.Collector
		noPolicy    *fleetmanagementv1alpha1.RemoteAttributePolicy
		noSync      *fleetmanagementv1alpha1.ExternalAttributeSync
	)
	for name, test := range map[string]struct {
		policy func(*fleetmanagementv1alpha1.TenantPolicySpec)
		judge  func(context.Context, Options) error
		want   string
	}{
		"a Pipeline that looks for none":                {free, judgement(pipelineValidator, noPipeline, ours()), ""},
		"a mirror of an ID":                             {free, judgement(pipelineValidator, noPipeline, ours(mirrors, standsFor("7"))), stranger},
		"a mirror of a name":                            {free, judgement(pipelineValidator, noPipeline, ours(mirrors, called("theirs"))), stranger},
		"a mirror by its source":                        {free, judgement(pipelineValidator, noPipeline, ours(ofGrafana)), stranger},
		"a mirror of another ID than before":            {free, judgement(pipelineValidator, ours(mirrors, standsFor("7")), ours(mirrors, standsFor("8"))), stranger},
		"a mirror of another name than before":          {free, judgement(pipelineValidator, ours(mirrors), ours(mirrors, called("theirs"))), stranger},
		"a mirror that is as it was":                    {free, judgement(pipelineValidator, ours(mirrors, standsFor("7")), ours(mirrors, standsFor("7"), says("a", "b"))), ""},
		"a mirror whose spec is edited":                 {free, judgement(pipelineValidator, ours(mirrors), ours(mirrors, paused)), ""},
		"a Pipeline that becomes a mirror":              {free, judgement(pipelineValidator, ours(), ours(mirrors)), stranger},
		"a mirror that is to be managed":                {free, judgement(pipelineValidator, ours(mirrors), ours()), ""},
		"a mirror of an ID that is to be managed":       {free, judgement(pipelineValidator, ours(mirrors, standsFor("7")), ours(standsFor("7"))), stranger},
		"a Pipeline that takes over by its name":        {free, judgement(pipelineValidator, noPipeline, ours(adopts(fleetmanagementv1alpha1.AdoptAlways))), stranger},
		"a Pipeline that takes over what is equal":      {free, judgement(pipelineValidator, noPipeline, ours(adopts(fleetmanagementv1alpha1.AdoptIfUnmanaged))), ""},
		"a Pipeline that gets an ID":                    {free, judgement(pipelineValidator, ours(), ours(standsFor("7"))), stranger},
		"a Pipeline that takes over in another scope":   {free, judgement(pipelineValidator, ours(adopts(fleetmanagementv1alpha1.AdoptAlways)), ours(adopts(fleetmanagementv1alpha1.AdoptAlways), scope)), stranger},
		"a Pipeline that was let take over":             {free, judgement(pipelineValidator, ours(adopts(fleetmanagementv1alpha1.AdoptAlways)), ours(adopts(fleetmanagementv1alpha1.AdoptAlways), paused)), ""},
		"a Collector that an ID allows":                 {byID, judgement(collectorValidator, noCollector, collecting("a-1", region)), ""},
		"a Collector that asks for nothing yet":         {byOS, judgement(collectorValidator, noCollector, collecting("b-1", nil)), ""},
		"a Collector that asks for an attribute":        {byOS, judgement(collectorValidator, noCollector, collecting("b-1", region)), collector},
		"a Collector that disables":                     {byOS, judgement(collectorValidator, noCollector, disabled), collector},
		"a Collector that asks before it registers":     {byOS, judgement(collectorValidator, collecting("b-1", nil), collecting("b-1", region)), collector},
		"a Collector whose status tells enough":         {byOS, judgement(collectorValidator, registered(collecting("b-1", nil), "linux"), registered(collecting("b-1", region), "linux")), ""},
		"a RemoteAttributePolicy to any collectors":     {byID, judgement(remoteAttributePolicyValidator, noPolicy, giving(region, selecting(mine, nil))), collectors},
		"a RemoteAttributePolicy where all are allowed": {free, judgement(remoteAttributePolicyValidator, noPolicy, giving(region, selecting(mine, nil))), ""},
		"an ExternalAttributeSync to any collectors":    {byID, judgement(externalAttributeSyncValidator, noSync, syncing("region", selecting(mine, nil))), collectors},
		"an ExternalAttributeSync of any values":        {free, judgement(externalAttributeSyncValidator, noSync, syncing("region", selecting(mine, nil))), values},
		"an ExternalAttributeSync where all may be": {func(s *fleetmanagementv1alpha1.TenantPolicySpec) {
			free(s)
			everyValue(s)
		}, judgement(externalAttributeSyncValidator, noSync, syncing("region", selecting(mine, nil))), ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := test.judge(by(t, "ann"), Options{Tenancy: tenancy(t, unselected, test.policy), Self: operator})
			if test.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
				g.Expect(err).To(MatchError(And(ContainSubstring(test.want), ContainSubstring("namespaceSelector selects: have an administrator add one"))))
			}
			g.Expect(test.judge(by(t, "ann"), Options{Tenancy: tenancy(t, test.policy), Self: operator})).To(Succeed(), "what is judged again passes")
			g.Expect(test.judge(by(t, operator, "system:serviceaccounts"), Options{Tenancy: tenancy(t, unselected, test.policy), Self: operator})).To(Succeed())
		})
	}
}
