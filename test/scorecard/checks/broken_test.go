// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const digest = "ghcr.io/candor-dev/candor@sha256:0f8712a36f0a800ea929f7ee8289889c6ea14c378fad17c6782121cdb44bb8fb"

// Each breaks a bundle that passes.
func TestABrokenBundleFails(t *testing.T) {
	cases := []struct {
		name, check, says string
		breaks            func(*Bundle)
	}{
		{
			"Trivy Operator as a dependency", "optional-dependency", "dependency of type olm.package",
			func(b *Bundle) { b.Dependencies = []property{{Type: "olm.package"}} },
		},
		{
			"Trivy's kind as a requirement", "optional-dependency", "olm.gvk.required",
			func(b *Bundle) { b.Properties = append(b.Properties, property{Type: "olm.gvk.required"}) },
		},
		{
			"a constraint, which OLM v1 refuses", "optional-dependency", "olm.constraint",
			func(b *Bundle) { b.Properties = append(b.Properties, property{Type: "olm.constraint"}) },
		},
		{
			"a required definition", "optional-dependency", "required has vulnerabilityreports",
			func(b *Bundle) {
				b.CSV.Spec.CustomResourceDefinitions.Required = []operatorsv1alpha1.CRDDescription{{Name: "vulnerabilityreports.aquasecurity.github.io"}}
			},
		},
		{
			"Trivy Operator not listed", "optional-dependency", "Trivy Operator is not listed",
			func(b *Bundle) { b.Properties = nil; b.CSV.Annotations[optionalAnnotation] = "[]" },
		},
		{
			"two lists that differ", "optional-dependency", "the properties of type",
			func(b *Bundle) { b.Properties[0].Value = json.RawMessage(`{"packageName":"trivy-operator"}`) },
		},
		{
			"a ServiceMonitor", "optional-dependency", "Prometheus Operator mandatory",
			func(b *Bundle) { b.add("monitoring.coreos.com/v1", "ServiceMonitor", "metrics") },
		},
		{
			"a right that config/rbac does not have", "rbac", `allows "delete nodes."`,
			func(b *Bundle) { b.grant("", "nodes", "delete") },
		},
		{
			"a right that is missing", "rbac", `lacks "watch namespaces."`,
			func(b *Bundle) {
				b.strategy().ClusterPermissions[0].Rules = b.strategy().ClusterPermissions[0].Rules[1:]
			},
		},
		{
			"a lease that is missing", "rbac", `permissions lacks "create leases.coordination.k8s.io"`,
			func(b *Bundle) { b.strategy().Permissions = nil },
		},
		{
			"rights of somebody else", "rbac", "the ServiceAccount default gets rights",
			func(b *Bundle) { b.strategy().ClusterPermissions[0].ServiceAccountName = "default" },
		},
		{
			"no role to look at Findings", "rbac", "lacks ClusterRole candor-finding-viewer-role",
			func(b *Bundle) { b.drop("candor-finding-viewer-role") },
		},
		{
			"a role that aggregates to nothing", "rbac", "lacks the label rbac.authorization.k8s.io/aggregate-to-view=true",
			func(b *Bundle) { b.find("candor-finding-viewer-role").SetLabels(nil) },
		},
		{
			"a role that config/rbac does not have", "rbac", "ClusterRole candor-more",
			func(b *Bundle) { b.add("rbac.authorization.k8s.io/v1", "ClusterRole", "candor-more") },
		},
		{
			"a binding of its own", "rbac", "the bundle holds ClusterRoleBinding more",
			func(b *Bundle) { b.add("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "more") },
		},
		{"any verb", "least-privilege", "wildcard", func(b *Bundle) { b.grant("apps", "deployments", "*") }},
		{"any resource", "least-privilege", "wildcard", func(b *Bundle) { b.grant("apps", "*", "get") }},
		{"any group", "least-privilege", "wildcard", func(b *Bundle) { b.grant("*", "deployments", "get") }},
		{"Secrets", "least-privilege", "right on Secrets", func(b *Bundle) { b.grant("", "secrets", "get") }},
		{"more rights by a right", "least-privilege", "rights that nobody gave", func(b *Bundle) { b.grant("rbac.authorization.k8s.io", "clusterroles", "bind") }},
		{
			"pipelines for everybody who may edit", "least-privilege", "brings rights on fleetmanagement.grafana.com to a standard role",
			func(b *Bundle) {
				b.find("candor-pipeline-editor-role").SetLabels(map[string]string{"rbac.authorization.k8s.io/aggregate-to-edit": "true"})
			},
		},
		{
			"policies for those whom they bind", "least-privilege", "tenants would get them",
			func(b *Bundle) {
				role := b.find("candor-tenantpolicy-viewer-role")
				rule := map[string]any{
					"apiGroups": []any{"fleetmanagement.grafana.com"}, "resources": []any{"pipelines", "tenantpolicies"}, "verbs": []any{"get"},
				}
				role.Object["rules"] = []any{rule}
			},
		},
		{
			"ConfigMaps in every namespace by the lift", "least-privilege", `"update configmaps."`,
			func(b *Bundle) {
				b.strategy().Permissions[0].Rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"update"}}}
			},
		},
		{
			"an unknown severity", "examples", "spec.minSeverity: Unsupported value",
			func(b *Bundle) { b.exemplify("SignalPolicy", "HUGE", "spec", "minSeverity") },
		},
		{
			"a field that nobody knows", "examples", "spec.colour is no field",
			func(b *Bundle) { b.exemplify("SignalPolicy", "red", "spec", "colour") },
		},
		{
			"what a rule of the definition refuses", "examples", "a reason is required",
			func(b *Bundle) { b.exemplify("Suppression", " ", "spec", "reason") },
		},
		{
			"an example without a status", "examples", "for Finding",
			func(b *Bundle) { b.exemplify("Finding", nil, "status") },
		},
		{
			"an example of a kind of somebody else", "examples", "does not own",
			func(b *Bundle) { b.exemplify("Finding", "Pod", "kind") },
		},
		{
			"a first object that is none", "examples", initializationAnnotation,
			func(b *Bundle) { b.CSV.Annotations[initializationAnnotation] = "{}" },
		},
		{
			"a webhook less", "webhooks", "lacks webhook",
			func(b *Bundle) { b.CSV.Spec.WebhookDefinitions = b.CSV.Spec.WebhookDefinitions[1:] },
		},
		{
			"a webhook that lets everything pass when nobody answers", "webhooks", "differs from config/webhook",
			func(b *Bundle) { *b.CSV.Spec.WebhookDefinitions[0].FailurePolicy = "Ignore" },
		},
		{
			"a webhook for all groups", "webhooks", "OLM refuses",
			func(b *Bundle) { b.CSV.Spec.WebhookDefinitions[0].Rules[0].APIGroups = []string{"*"} },
		},
		{
			"a port where nobody listens", "webhooks", "does not listen there",
			func(b *Bundle) { *b.CSV.Spec.WebhookDefinitions[0].TargetPort = intstr.FromInt32(9999) },
		},
		{
			"a controller that is off", "webhooks", "CANDOR_ENABLE_REPORT_CONTROLLER=false",
			func(b *Bundle) {
				b.container().Env = append(b.container().Env, corev1.EnvVar{Name: "CANDOR_ENABLE_REPORT_CONTROLLER", Value: "false"})
			},
		},
		{"an image that no mirror has", "images", "lacks another:1", func(b *Bundle) { b.container().Image = "another:1" }},
		{
			"an image by a variable that no mirror has", "images", "lacks operand:1",
			func(b *Bundle) {
				b.container().Env = append(b.container().Env, corev1.EnvVar{Name: "RELATED_IMAGE_OPERAND", Value: "operand:1"})
			},
		},
		{
			"an image that nothing runs", "images", "trivy:1, which nothing runs",
			func(b *Bundle) {
				b.CSV.Spec.RelatedImages = append(b.CSV.Spec.RelatedImages, operatorsv1alpha1.RelatedImage{Image: "trivy:1"})
			},
		},
		{
			"disconnected with a tag", "images", "a mirror serves digests",
			func(b *Bundle) { b.pin("ghcr.io/candor-dev/candor:v0.1.0", "true") },
		},
		{"a digest without the claim", "images", "every image has a digest", func(b *Bundle) { b.pin(digest, "false") }},
		{"root", "restricted", "runAsNonRoot", func(b *Bundle) { b.pod().SecurityContext.RunAsNonRoot = nil }},
		{"a fixed user", "restricted", "OpenShift assigns", func(b *Bundle) { b.pod().SecurityContext.RunAsUser = new(int64(65532)) }},
		{"a folder of the node", "restricted", "hostPath", func(b *Bundle) {
			b.pod().Volumes = []corev1.Volume{{Name: "node", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		}},
		{"a root file system to write to", "restricted", "readOnlyRootFilesystem", func(b *Bundle) { b.container().SecurityContext.ReadOnlyRootFilesystem = nil }},
		{"no limit", "restricted", "no limit for memory", func(b *Bundle) { delete(b.container().Resources.Limits, "memory") }},
		{"a range that holds itself", "upgrade", "itself", func(b *Bundle) { b.CSV.Annotations[skipRangeAnnotation] = "<=" + b.CSV.Spec.Version.String() }},
		{"a range that begins late", "upgrade", "leaves out the first", func(b *Bundle) { b.CSV.Annotations[skipRangeAnnotation] = ">=0.0.5 <" + b.CSV.Spec.Version.String() }},
		{"no range", "upgrade", skipRangeAnnotation, func(b *Bundle) { b.CSV.Annotations[skipRangeAnnotation] = "" }},
		{"a name of another version", "upgrade", "its version makes it", func(b *Bundle) { b.CSV.Name = "candor.v0.0.9" }},
		{"it replaces what is newer", "upgrade", "which is not older", func(b *Bundle) { b.CSV.Spec.Replaces = "candor.v99.0.0" }},
		{"it replaces no version", "upgrade", `"candor.vv0.0.9" is not`, func(b *Bundle) { b.CSV.Spec.Replaces = "candor.vv0.0.9" }},
		{"versions of OpenShift that are too old", "metadata", "minKubeVersion 1.30.0 makes it v4.17", func(b *Bundle) { b.Annotations[openshiftAnnotation] = "v4.12" }},
		{"no versions of OpenShift", "metadata", openshiftAnnotation, func(b *Bundle) { delete(b.Annotations, openshiftAnnotation) }},
		{"a namespace of its own", "metadata", "OwnNamespace is true", func(b *Bundle) { b.CSV.Spec.InstallModes[0].Supported = true }},
		{"an architecture less", "metadata", "arch.arm64", func(b *Bundle) { delete(b.CSV.Labels, "operatorframework.io/arch.arm64") }},
		{"no word on FIPS", "metadata", "fips-compliant", func(b *Bundle) { delete(b.CSV.Annotations, featurePrefix+"fips-compliant") }},
		{"another channel", "metadata", "the default channel", func(b *Bundle) { b.DefaultChannel = "alpha" }},
	}
	for _, c := range cases {
		t.Run(c.check+": "+c.name, func(t *testing.T) {
			g, b := NewWithT(t), bundle(t)
			c.breaks(b)
			g.Expect(findings(b, c.check).errors).To(ContainElement(ContainSubstring(c.says)))
		})
	}
}

func TestAReleaseHasNothingToSay(t *testing.T) {
	g, b := NewWithT(t), bundle(t)
	b.pin(digest, "true")
	b.CSV.Spec.Replaces = "candor.v0.0.9"
	for _, name := range Names() {
		g.Expect(findings(b, name)).To(Equal(notes{}), name) // no remark either
	}
}

func findings(b *Bundle, name string) notes {
	var n notes
	for _, c := range all {
		if c.name == name {
			c.find(b, &n)
		}
	}
	return n
}

func (b *Bundle) pod() *corev1.PodSpec { return &b.strategy().DeploymentSpecs[0].Spec.Template.Spec }

func (b *Bundle) container() *corev1.Container { return &b.pod().Containers[0] }

func (b *Bundle) pin(image, disconnected string) {
	b.container().Image, b.CSV.Annotations[imageAnnotation] = image, image
	b.CSV.Spec.RelatedImages = []operatorsv1alpha1.RelatedImage{{Name: "manager", Image: image}}
	b.CSV.Annotations[disconnectedAnnotation] = disconnected
}

func (b *Bundle) grant(group, resource, verb string) {
	rules := &b.strategy().ClusterPermissions[0].Rules
	*rules = append(*rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}})
}

func (b *Bundle) add(version, kind, name string) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(version)
	object.SetKind(kind)
	object.SetName(name)
	b.Objects = append(b.Objects, object)
}

func (b *Bundle) find(name string) *unstructured.Unstructured {
	for _, o := range b.Objects {
		if o.GetName() == name {
			return o
		}
	}
	return nil
}

func (b *Bundle) drop(name string) { b.find(name).SetKind("Nothing") }

// exemplify sets a field in the example of a kind; nil removes it.
func (b *Bundle) exemplify(kind string, value any, path ...string) {
	examples, _ := b.Examples()
	for _, object := range examples {
		if object.GetKind() != kind {
			continue
		}
		if value == nil {
			unstructured.RemoveNestedField(object.Object, path...)
		} else if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
			panic(err)
		}
	}
	raw := make([]map[string]any, 0, len(examples))
	for _, object := range examples {
		raw = append(raw, object.Object)
	}
	text, _ := json.Marshal(raw)
	b.CSV.Annotations[examplesAnnotation] = string(text)
}
