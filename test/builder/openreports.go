// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package builder

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// OpenReport makes a Report of openreports.io with results, as Kyverno names them: by the UID of the resource.
func OpenReport(namespace, name string, results []any, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	return ruleReport("openreports.io/v1alpha1", "Report", namespace, name, results, change)
}

// PolicyReport makes a PolicyReport of wgpolicyk8s.io with results.
func PolicyReport(namespace, name string, results []any, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	return ruleReport("wgpolicyk8s.io/v1alpha2", "PolicyReport", namespace, name, results, change)
}

func ruleReport(apiVersion, kind, namespace, name string, results []any, change []func(*unstructured.Unstructured)) *unstructured.Unstructured {
	report := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "results": results,
		"summary": map[string]any{"pass": int64(0), "fail": int64(len(results)), "warn": int64(0), "error": int64(0), "skip": int64(0)},
	}}
	report.SetNamespace(namespace)
	report.SetName(name)
	for _, c := range change {
		c(report)
	}
	return report
}

// Scope makes a report speak of one object.
func Scope(kind, name string) func(*unstructured.Unstructured) {
	return func(report *unstructured.Unstructured) {
		set(report, map[string]any{"apiVersion": apiVersions[kind], "kind": kind, "name": name, "namespace": report.GetNamespace()}, "scope")
	}
}

// Result is a result of a rule: pass, fail, warn, error or skip. It speaks of the scope of its report unless objects are given,
// each an object as Object makes it.
func Result(source, policy, rule, outcome, severity string, objects ...any) map[string]any {
	result := map[string]any{
		"source": source, "policy": policy, "rule": rule, "result": outcome, "scored": true, "category": "Best Practices",
		"message":    "validation error: rule " + rule + " failed",
		"timestamp":  map[string]any{"seconds": int64(1796040000), "nanos": int64(0)},
		"properties": map[string]any{"process": "background scan"},
	}
	if severity != "" {
		result["severity"] = severity
	}
	if len(objects) > 0 {
		result["resources"] = objects
	}
	return result
}

// Object refers to an object in a result.
func Object(namespace, kind, name string) map[string]any {
	return map[string]any{"apiVersion": apiVersions[kind], "kind": kind, "name": name, "namespace": namespace}
}

// Pod makes a pod of one container, controlled by an object of a kind; by none when owner is nil.
func Pod(namespace, name string, owner metav1.Object, kind string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx"}}},
	}
	if owner != nil {
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, schema.GroupVersionKind{
			Group: appsv1.GroupName, Version: "v1", Kind: kind,
		})}
	}
	return pod
}
