// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/test/needs"
)

func TestAT08RealConfigurationsAreAccepted(t *testing.T) {
	folder := needs.Variable(t, "CANDOR_ALLOY_FIXTURES", "to a folder of real configurations: *.alloy, and *-otel.yaml of the OpenTelemetry Collector")
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(files).NotTo(BeEmpty(), folder)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			g := NewWithT(t)
			text, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			p := aPipeline(contents(string(text)))
			if strings.HasSuffix(file, "-otel.yaml") {
				p.Spec.ConfigType = fleetmanagementv1alpha1.ConfigTypeOTel
			}
			warnings, errs := Pipeline(nil, p, Options{MaxPipelineBytes: 512 << 10})
			g.Expect(said(errs)).To(BeEmpty())
			g.Expect(warnings).To(BeEmpty())
		})
	}
}

func TestAT08WhatIsNoAlloyIsRefusedWithItsPlace(t *testing.T) {
	for file, want := range map[string]string{
		"braces.yaml":        "spec.contents: Invalid value: line 1, column 10: is no valid Alloy, expected a name, got {: correct the line that reads: invalid {{{",
		"yaml-as-alloy.yaml": `spec.contents: Invalid value: line 1, column 10: this is YAML, which starts with the key "receivers", and no Alloy`,
		"alloy-as-yaml.yaml": "spec.contents: Invalid value: line 1: this is Alloy, which has a block here, and no YAML",
		"undefined.yaml":     `spec.contents: Invalid value: line 9, column 26: the exporter "otlphttp" is not defined: add it below exporters or connectors`,
	} {
		t.Run(file, func(t *testing.T) {
			g := NewWithT(t)
			text, err := os.ReadFile(filepath.Join("testdata", file))
			g.Expect(err).NotTo(HaveOccurred())
			var p fleetmanagementv1alpha1.Pipeline
			g.Expect(yaml.UnmarshalStrict(text, &p)).To(Succeed())
			_, errs := Pipeline(nil, &p, options)
			g.Expect(said(errs)).To(ConsistOf(HavePrefix(want)))
		})
	}
}

func TestTheSamplesAreFine(t *testing.T) {
	read := func(kind string, into any) {
		text, err := os.ReadFile("../../../config/samples/fleetmanagement_v1alpha1_" + kind + ".yaml")
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(yaml.UnmarshalStrict(text, into)).To(Succeed(), kind)
	}
	var (
		p  fleetmanagementv1alpha1.Pipeline
		c  fleetmanagementv1alpha1.Collector
		r  fleetmanagementv1alpha1.RemoteAttributePolicy
		pd fleetmanagementv1alpha1.PipelineDiscovery
		cd fleetmanagementv1alpha1.CollectorDiscovery
		e  fleetmanagementv1alpha1.ExternalAttributeSync
		tp fleetmanagementv1alpha1.TenantPolicy
	)
	for kind, sample := range map[string]struct {
		into  any
		judge func() ([]string, field.ErrorList)
	}{
		"pipeline":              {&p, func() ([]string, field.ErrorList) { return Pipeline(nil, &p, Options{}) }},
		"collector":             {&c, func() ([]string, field.ErrorList) { return Collector(nil, &c, Options{}) }},
		"remoteattributepolicy": {&r, func() ([]string, field.ErrorList) { return RemoteAttributePolicy(nil, &r, Options{}) }},
		"pipelinediscovery":     {&pd, func() ([]string, field.ErrorList) { return PipelineDiscovery(nil, &pd) }},
		"collectordiscovery":    {&cd, func() ([]string, field.ErrorList) { return CollectorDiscovery(nil, &cd) }},
		"externalattributesync": {&e, func() ([]string, field.ErrorList) { return ExternalAttributeSync(nil, &e, Options{}) }},
		"tenantpolicy":          {&tp, func() ([]string, field.ErrorList) { return TenantPolicy(nil, &tp, Options{}) }},
	} {
		t.Run(kind, func(t *testing.T) {
			read(kind, sample.into)
			warnings, errs := sample.judge()
			NewWithT(t).Expect(said(errs)).To(BeEmpty())
			NewWithT(t).Expect(warnings).To(BeEmpty())
		})
	}
}
