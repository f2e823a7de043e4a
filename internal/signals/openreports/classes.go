// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package openreports reads the reports that policy engines and scanners share: Report of openreports.io, and its forerunner
// PolicyReport of wgpolicyk8s.io. It imports nothing of either: a report is data.
package openreports

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/packed"
)

// Reports is the provider "openreports": failed rules of a workload or another object, whichever tool checked them.
func Reports() signals.Class {
	return class("openreports", schema.GroupVersionKind{Group: "openreports.io", Version: "v1alpha1", Kind: "Report"}, "reports",
		"install a tool that writes Reports, such as Kyverno with --openreportsEnabled (https://openreports.io)")
}

// PolicyReports is the provider "policyreport": the same of the older kind.
func PolicyReports() signals.Class {
	return class("policyreport", schema.GroupVersionKind{Group: "wgpolicyk8s.io", Version: "v1alpha2", Kind: "PolicyReport"}, "policyreports",
		"install a tool that writes PolicyReports, such as Kyverno (https://kyverno.io)")
}

func class(provider string, kind schema.GroupVersionKind, plural, install string) signals.Class {
	r := reader{kind: kind}
	return signals.Class{
		Provider: provider, Kind: kind, CRD: plural + "." + kind.Group, Install: install,
		One: "failed rule", Many: "failed rules", NoFix: true, AddsUp: true,
		Fields: fields, Compact: packed.Transform(kind, r.keep), Subjects: r.subjects, Translate: r.translate,
	}
}

// fields are the paths of everything that keep reads, beside metadata.
var fields = []string{
	"source", "scope.kind", "scope.name", "scope.namespace",
	"results.source", "results.policy", "results.rule", "results.severity", "results.result", "results.message",
	"results.resources.kind", "results.resources.name", "results.resources.namespace",
}
