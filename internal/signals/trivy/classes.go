// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trivy reads the reports of Trivy Operator. It imports nothing of Trivy Operator's: a report is data.
package trivy

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/packed"
)

const install = "install Trivy Operator (https://github.com/aquasecurity/trivy-operator)"

// Vulnerabilities is the provider "trivy": vulnerable packages, a report for each container of each workload.
func Vulnerabilities() signals.Class {
	return class("trivy", "VulnerabilityReport", "vulnerabilityreports", "vulnerability", "vulnerabilities", vulnerability)
}

// ConfigAudits is the provider "trivy/config": failed checks of a workload's or another object's configuration.
func ConfigAudits() signals.Class {
	return class("trivy/config", "ConfigAuditReport", "configauditreports", "failed check", "failed checks", failedCheck)
}

// RBACAssessments is the provider "trivy/rbac": failed checks of a Role.
func RBACAssessments() signals.Class {
	return class("trivy/rbac", "RbacAssessmentReport", "rbacassessmentreports", "failed check", "failed checks", failedCheck)
}

// ExposedSecrets is the provider "trivy/secrets": secrets in the files of an image, a report for each container of each
// workload. Candor learns where a secret is and of which kind, never what it is.
func ExposedSecrets() signals.Class {
	c := class(signals.ExposedSecrets, "ExposedSecretReport", "exposedsecretreports", "exposed secret", "exposed secrets", exposedSecret)
	c.NoFix = true
	return c
}

func class(provider, kind, plural, one, many string, entry entryReader) signals.Class {
	gvk := schema.GroupVersionKind{Group: "aquasecurity.github.io", Version: "v1alpha1", Kind: kind}
	compact := compacter{kind: gvk, entry: entry}
	return signals.Class{
		Provider: provider, Kind: gvk, CRD: plural + "." + gvk.Group, Install: install, One: one, Many: many,
		Fields: compact.fields(), Compact: packed.Transform(gvk, compact.keep), Subjects: compact.subjects, Translate: compact.translate,
	}
}
