// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package builder makes objects for tests. A test says what matters to it; the rest is as the real tools write it.
package builder

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// Policy makes a SignalPolicy that asks for providers at HIGH and above.
func Policy(namespace, name string, providers []string, change ...func(*candorv1alpha1.SignalPolicy)) *candorv1alpha1.SignalPolicy {
	p := &candorv1alpha1.SignalPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       candorv1alpha1.SignalPolicySpec{Providers: providers},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

// Suppression mutes a fingerprint.
func Suppression(namespace, name, fingerprint string, change ...func(*candorv1alpha1.Suppression)) *candorv1alpha1.Suppression {
	s := &candorv1alpha1.Suppression{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       candorv1alpha1.SuppressionSpec{Fingerprint: fingerprint, Reason: "accepted by the security team"},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

// Deployment makes a Deployment of one container.
func Deployment(namespace, name string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: podTemplate(name),
		},
	}
}

// ReplicaSet makes the revision of a Deployment whose name ends in hash. The Deployment may be nil.
func ReplicaSet(owner *appsv1.Deployment, namespace, name string, revision int) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Annotations: map[string]string{"deployment.kubernetes.io/revision": fmt.Sprint(revision)},
		},
		Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: podTemplate(name)},
	}
	if owner != nil {
		rs.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	}
	return rs
}

// StatefulSet makes a StatefulSet of one container.
func StatefulSet(namespace, name string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: podTemplate(name),
		},
	}
}

func podTemplate(name string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx"}}},
	}
}

// Vulnerability is an entry of a VulnerabilityReport.
func Vulnerability(id, pkg, severity string) map[string]any {
	return map[string]any{
		"vulnerabilityID": id, "resource": pkg, "installedVersion": "1.0.0", "fixedVersion": "1.0.1", "severity": severity,
		"title": "A title that says nothing", "primaryLink": "https://avd.aquasec.com/nvd/" + strings.ToLower(id),
		"score": 7.5, "publishedDate": "", "lastModifiedDate": "", "links": []any{}, "target": "",
	}
}

// Vulnerabilities makes n entries of a severity with distinct identifiers.
func Vulnerabilities(n int, severity string) []any {
	entries := make([]any, n)
	for i := range entries {
		entries[i] = Vulnerability(fmt.Sprintf("CVE-2026-%05d", i), fmt.Sprintf("package-%d", i), severity)
	}
	return entries
}

// Check is an entry of a ConfigAuditReport or an RbacAssessmentReport.
func Check(id, severity string, success bool, message string) map[string]any {
	return map[string]any{
		"checkID": id, "severity": severity, "success": success, "title": id, "description": id, "remediation": "",
		"category": "Kubernetes Security Check", "messages": []any{message},
	}
}

// VulnerabilityReport makes a report as Trivy Operator writes it, of a container of an object.
func VulnerabilityReport(namespace, kind, name, container string, entries []any, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	report := Report("VulnerabilityReport", namespace, kind, name, map[string]any{
		"artifact":        map[string]any{"repository": "library/nginx", "tag": "1.27", "digest": "sha256:" + strings.Repeat("a", 64)},
		"registry":        map[string]any{"server": "index.docker.io"},
		"os":              map[string]any{"family": "debian", "name": "12.5"},
		"summary":         map[string]any{"criticalCount": int64(0), "highCount": int64(0), "mediumCount": int64(0), "lowCount": int64(0), "unknownCount": int64(0)},
		"vulnerabilities": entries,
	})
	report.SetName(strings.ToLower(kind) + "-" + name + "-" + container)
	label(report, "trivy-operator.container.name", container)
	for _, c := range change {
		c(report)
	}
	return report
}

// CheckReport makes a ConfigAuditReport or an RbacAssessmentReport of an object.
func CheckReport(reportKind, namespace, kind, name string, checks []any, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	report := Report(reportKind, namespace, kind, name, map[string]any{
		"summary": map[string]any{"criticalCount": int64(0), "highCount": int64(0), "mediumCount": int64(0), "lowCount": int64(0)},
		"checks":  checks,
	})
	for _, c := range change {
		c(report)
	}
	return report
}

// Secret is an entry of an ExposedSecretReport. match is what Trivy Operator shows of the secret.
func Secret(ruleID, target, severity, match string) map[string]any {
	return map[string]any{
		"ruleID": ruleID, "target": target, "severity": severity, "match": match, "category": "Stripe", "title": "Stripe Secret Key",
	}
}

// SecretReport makes an ExposedSecretReport of a container of an object.
func SecretReport(namespace, kind, name, container string, secrets []any, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	report := Report("ExposedSecretReport", namespace, kind, name, map[string]any{
		"artifact": map[string]any{"repository": "shop/web", "tag": "1.27"},
		"registry": map[string]any{"server": "index.docker.io"},
		"summary":  map[string]any{"criticalCount": int64(0), "highCount": int64(0), "mediumCount": int64(0), "lowCount": int64(0)},
		"secrets":  secrets,
	})
	report.SetName(strings.ToLower(kind) + "-" + name + "-" + container)
	label(report, "trivy-operator.container.name", container)
	for _, c := range change {
		c(report)
	}
	return report
}

// Report makes a report of any kind of Trivy Operator with a body.
func Report(reportKind, namespace, kind, name string, body map[string]any) *unstructured.Unstructured {
	body["updateTimestamp"] = "2026-11-01T10:00:00Z"
	body["scanner"] = map[string]any{"name": "Trivy", "vendor": "Aqua Security", "version": "0.72.0"}
	report := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "aquasecurity.github.io/v1alpha1", "kind": reportKind, "report": body,
	}}
	report.SetNamespace(namespace)
	report.SetName(strings.ToLower(kind) + "-" + name)
	report.SetLabels(map[string]string{
		"trivy-operator.resource.kind": kind, "trivy-operator.resource.name": name, "trivy-operator.resource.namespace": namespace,
		"app.kubernetes.io/managed-by": "trivy-operator",
	})
	report.SetAnnotations(map[string]string{"trivy-operator.aquasecurity.github.io/report-ttl": "24h0m0s"})
	yes := true
	report.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: apiVersions[kind], Kind: kind, Name: name, UID: types.UID("00000000-0000-4000-8000-000000000000"), Controller: &yes,
	}})
	return report
}

var apiVersions = map[string]string{
	"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1", "CronJob": "batch/v1",
	"Deployment": "apps/v1", "Pod": "v1", "ReplicationController": "v1", "Service": "v1", "Role": "rbac.authorization.k8s.io/v1",
}

func label(report *unstructured.Unstructured, key, value string) {
	labels := report.GetLabels()
	labels[key] = value
	report.SetLabels(labels)
}

// Superseded marks a report as Trivy Operator marks those of old revisions.
func Superseded(report *unstructured.Unstructured) {
	report.SetAnnotations(map[string]string{"trivy-operator.aquasecurity.github.io/report-ttl": "0s"})
}

// HashNamed gives a report the shape that it has when the name of its object is no label value.
func HashNamed(report *unstructured.Unstructured) {
	labels, annotations := report.GetLabels(), report.GetAnnotations()
	annotations["trivy-operator.resource.name"] = labels["trivy-operator.resource.name"]
	delete(labels, "trivy-operator.resource.name")
	labels["trivy-operator.resource.name-hash"] = "7d9f8c6b5"
	report.SetLabels(labels)
	report.SetAnnotations(annotations)
	report.SetName("replicaset-7d9f8c6b5")
}

// Tag changes the image tag of a report, and with it the image's digest.
func Tag(tag string) func(*unstructured.Unstructured) {
	return func(report *unstructured.Unstructured) {
		set(report, tag, "report", "artifact", "tag")
		set(report, "sha256:"+tag, "report", "artifact", "digest")
	}
}

// UpdatedAt changes when the scanner says it wrote the report.
func UpdatedAt(at time.Time) func(*unstructured.Unstructured) {
	return func(report *unstructured.Unstructured) {
		set(report, at.UTC().Format(time.RFC3339), "report", "updateTimestamp")
	}
}

func set(report *unstructured.Unstructured, value any, path ...string) {
	if err := unstructured.SetNestedField(report.Object, value, path...); err != nil {
		panic(err)
	}
}
