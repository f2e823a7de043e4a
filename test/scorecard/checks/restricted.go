// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// restricted checks that the pods keep to the Pod Security Standard "restricted" and to OpenShift's restricted-v2, which sets user
// and groups itself, and that they say what they need.
func restricted(b *Bundle, n *notes) {
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		n.errorf("%v", err)
		return
	}
	for _, d := range b.strategy().DeploymentSpecs {
		pod := d.Spec.Template
		if result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec)); !result.Allowed {
			n.errorf("Deployment %s is not restricted: %s", d.Name, result.ForbiddenDetail())
		}
		if c := pod.Spec.SecurityContext; c != nil && (c.RunAsUser != nil || c.RunAsGroup != nil || c.FSGroup != nil) {
			n.errorf("Deployment %s sets a user or a group of the pod: OpenShift assigns them", d.Name)
		}
		for _, c := range pod.Spec.Containers {
			n.modestContainer(c)
		}
	}
}

func (n *notes) modestContainer(c corev1.Container) {
	context := c.SecurityContext
	if context == nil || context.ReadOnlyRootFilesystem == nil || !*context.ReadOnlyRootFilesystem {
		n.errorf("the container %s can write to its root file system: set readOnlyRootFilesystem", c.Name)
	}
	if context != nil && (context.RunAsUser != nil || context.RunAsGroup != nil) {
		n.errorf("the container %s sets a user or a group: OpenShift assigns them", c.Name)
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if c.Resources.Requests.Name(name, "").IsZero() || c.Resources.Limits.Name(name, "").IsZero() {
			n.errorf("the container %s has no request or no limit for %s", c.Name, name)
		}
	}
}
