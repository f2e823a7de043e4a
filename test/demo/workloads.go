// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/candor-dev/candor/internal/signals"
)

const (
	kindDeployment     = "Deployment"
	kindReplicaSet     = "ReplicaSet"
	revisionAnnotation = "deployment.kubernetes.io/revision"
)

//go:embed data/workloads.yaml
var workloadsFile []byte

//go:embed data/checks.yaml
var checksFile []byte

// workload is one that runs, in one release after the other.
type workload struct {
	Namespace  string       `json:"namespace"`
	Kind       string       `json:"kind"`
	Name       string       `json:"name"`
	Containers []*container `json:"containers"`

	release int
	object  client.Object
}

// container is an image and what a scanner finds in it.
type container struct {
	Name string `json:"name"`
	content
	Image string `json:"image"`
	// Tags are those of its releases; the last one lasts.
	Tags []string `json:"tags"`
	// Fixed is the content of the release that repairs it.
	Fixed *content `json:"fixed"`
	// Discovered is what a scanner finds later in the same image.
	Discovered string `json:"discovered"`
}

type content struct {
	Tag             string `json:"tag"`
	OS              string `json:"os"`
	Vulnerabilities string `json:"vulnerabilities"`
}

// checked is a report on the configuration of an object.
type checked struct {
	Report    string  `json:"report"`
	Namespace string  `json:"namespace"`
	Kind      string  `json:"kind"`
	Name      string  `json:"name"`
	Checks    []check `json:"checks"`
}

type check struct {
	ID       string `json:"id"`
	Severity string `json:"severity"`
	Title    string `json:"title"`
	Message  string `json:"message"`
	Success  bool   `json:"success"`
}

func readData() ([]*workload, []checked, error) {
	var workloads []*workload
	if err := yaml.UnmarshalStrict(workloadsFile, &workloads); err != nil {
		return nil, nil, fmt.Errorf("data/workloads.yaml: %w", err)
	}
	var checks []checked
	if err := yaml.UnmarshalStrict(checksFile, &checks); err != nil {
		return nil, nil, fmt.Errorf("data/checks.yaml: %w", err)
	}
	for _, w := range workloads {
		w.advance()
	}
	return workloads, checks, nil
}

// advance makes the workload's next release the current one.
func (w *workload) advance() {
	w.release++
	for _, c := range w.Containers {
		c.Tag = c.Tags[min(w.release, len(c.Tags))-1]
	}
}

// find returns a container by its path, such as shop/web/nginx.
func find(workloads []*workload, path string) (*workload, *container, error) {
	for _, w := range workloads {
		for _, c := range w.Containers {
			if w.Namespace+"/"+w.Name+"/"+c.Name == path {
				return w, c, nil
			}
		}
	}
	return nil, nil, fmt.Errorf("data/workloads.yaml has no container %s", path)
}

// findingOf returns the name of the Finding that speaks of a container.
func findingOf(w *workload, c *container) client.ObjectKey {
	id := signals.Identity{Provider: "trivy", Namespace: w.Namespace, Kind: w.Kind, Name: w.Name, Container: c.Name}
	return client.ObjectKey{Namespace: id.Namespace, Name: id.FindingName()}
}

// subject returns kind and name of what a scanner calls the workload: of a Deployment, it sees the current ReplicaSet.
func (w *workload) subject() (kind, name string) {
	if w.Kind != kindDeployment {
		return w.Kind, w.Name
	}
	return kindReplicaSet, w.Name + "-" + rand.SafeEncodeString(fmt.Sprint(hash(w.Namespace, w.Name, fmt.Sprint(w.release))))
}

// build returns the object of the current release.
func (w *workload) build() client.Object {
	meta := metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.Name}}
	switch w.Kind {
	case "StatefulSet":
		return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector, ServiceName: w.Name, Template: w.template()}}
	case "DaemonSet":
		return &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: w.template()}}
	case "CronJob":
		template := w.template()
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
		return &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{
			Schedule: "0 3 * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}},
		}}
	default:
		metav1.SetMetaDataAnnotation(&meta, revisionAnnotation, fmt.Sprint(w.release))
		return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Selector: selector, Template: w.template()}}
	}
}

// replicaSet returns the ReplicaSet of the current release.
func (w *workload) replicaSet() *appsv1.ReplicaSet {
	_, name := w.subject()
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Namespace, Name: name, Labels: map[string]string{"app": w.Name},
			Annotations:     map[string]string{revisionAnnotation: fmt.Sprint(w.release)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(w.object, appsv1.SchemeGroupVersion.WithKind(kindDeployment))},
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.Name}}, Template: w.template(),
		},
	}
}

func (w *workload) template() corev1.PodTemplateSpec {
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": w.Name}}}
	for _, c := range w.Containers {
		template.Spec.Containers = append(template.Spec.Containers, corev1.Container{Name: c.Name, Image: c.Image + ":" + c.Tag})
	}
	return template
}

// role returns the Role that the data's RbacAssessmentReport speaks of.
func role(c checked) *rbacv1.Role {
	return &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets", "pods"}, Verbs: []string{"create", "update"}}},
	}
}
