// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
)

// webhooks checks that OLM registers the webhooks of config/webhook, that OLM accepts them, and that the Deployment serves them,
// with every controller on.
func webhooks(b *Bundle, n *notes) {
	want, err := configuredWebhooks()
	if err != nil {
		n.errorf("%v", err)
		return
	}
	for _, each := range b.CSV.Spec.WebhookDefinitions {
		if each.Type != operatorsv1alpha1.ValidatingAdmissionWebhook {
			n.errorf("webhook %s is of type %s, which config/webhook does not have", each.GenerateName, each.Type)
			continue
		}
		got := placeless(each.GetValidatingWebhook("", nil, nil))
		expected, known := want[each.GenerateName]
		switch {
		case !known:
			n.errorf("config/webhook has no webhook %s", each.GenerateName)
		case !equality.Semantic.DeepEqual(got, expected):
			n.errorf("webhook %s differs from config/webhook: it is %v, and there %v", each.GenerateName, got, expected)
		}
		delete(want, each.GenerateName)
		b.serves(n, each)
	}
	for name := range want {
		n.errorf("the bundle lacks webhook %s of config/webhook", name)
	}
	for _, d := range b.strategy().DeploymentSpecs {
		for _, c := range d.Spec.Template.Spec.Containers {
			n.enabled(c)
		}
	}
}

// configuredWebhooks returns those of config/webhook by name.
func configuredWebhooks() (map[string]admissionregistrationv1.ValidatingWebhook, error) {
	objects, err := configured("webhook")
	if err != nil {
		return nil, err
	}
	found := map[string]admissionregistrationv1.ValidatingWebhook{}
	for _, o := range objects {
		var configuration admissionregistrationv1.ValidatingWebhookConfiguration
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &configuration); err != nil {
			return nil, err
		}
		for _, w := range configuration.Webhooks {
			found[w.Name] = placeless(w)
		}
	}
	return found, nil
}

// placeless leaves out where the server is, which OLM decides.
func placeless(w admissionregistrationv1.ValidatingWebhook) admissionregistrationv1.ValidatingWebhook {
	w.ClientConfig = admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Path: w.ClientConfig.Service.Path}}
	return w
}

func (b *Bundle) serves(n *notes, w operatorsv1alpha1.WebhookDescription) {
	for _, rule := range w.Rules {
		if slices.ContainsFunc(rule.APIGroups, func(group string) bool { return strings.Contains(group, "*") }) {
			n.errorf("webhook %s is for all groups: OLM refuses that", w.GenerateName)
		}
	}
	for _, d := range b.strategy().DeploymentSpecs {
		if d.Name == w.DeploymentName && w.TargetPort != nil && listens(d.Spec, w.TargetPort.IntVal) {
			return
		}
	}
	n.errorf("webhook %s goes to port %v of Deployment %s, which does not listen there", w.GenerateName, w.TargetPort, w.DeploymentName)
}

func listens(deployment appsv1.DeploymentSpec, port int32) bool {
	return slices.ContainsFunc(deployment.Template.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == port })
	})
}

// enabled finds what turns something off that the bundle ships.
func (n *notes) enabled(c corev1.Container) {
	for _, argument := range c.Args {
		if strings.HasPrefix(argument, "--enable-") && strings.HasSuffix(argument, "=false") {
			n.errorf("the container %s runs with %s: the bundle turns nothing off", c.Name, argument)
		}
	}
	for _, variable := range c.Env {
		if strings.HasPrefix(variable.Name, "CANDOR_ENABLE_") {
			n.errorf("the container %s runs with %s=%s: that is for a Subscription to set", c.Name, variable.Name, variable.Value)
		}
	}
}
