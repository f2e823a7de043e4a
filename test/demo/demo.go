// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/trivy"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/llmserver"
	"github.com/candor-dev/candor/test/kube"
)

const samples = "config/samples"

// demo is a cluster with workloads and a scanner, both played, and a manager that is real.
type demo struct {
	cluster   *kube.Cluster
	manager   *manager
	screen    *screen
	home      string
	classes   signals.Classes
	workloads []*workload
	checked   []checked
	scan      scan
	markers   int
	questions questions
	// model is nil until one is configured.
	model *llmserver.Server
	// reasons are what every open Finding has to say about its explanation before the demo goes on; empty for anything.
	reasons []string
}

// newDemo fills the cluster with workloads and starts the manager beside them.
func newDemo(ctx context.Context, cluster *kube.Cluster, home string, screen *screen) (*demo, error) {
	d := &demo{
		cluster: cluster, screen: screen, home: home, questions: questions{}, scan: scan{number: 1, at: time.Now()},
		classes: signals.Classes{trivy.Vulnerabilities(), trivy.ConfigAudits(), trivy.RBACAssessments()},
	}
	var err error
	if d.workloads, d.checked, err = readData(); err != nil {
		return nil, err
	}
	for _, namespace := range d.namespaces() {
		if err := cluster.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
			return nil, err
		}
	}
	if d.manager, err = startManager(ctx, cluster, home); err != nil {
		return nil, err
	}
	if err = d.deployAll(ctx); err == nil {
		err = d.serving(ctx)
	}
	if err != nil {
		return nil, errors.Join(d.manager.explain(err), d.stop())
	}
	return d, nil
}

// namespaces returns those of the data, in its order.
func (d *demo) namespaces() []string {
	var names []string
	for _, w := range d.workloads {
		if len(names) == 0 || names[len(names)-1] != w.Namespace {
			names = append(names, w.Namespace)
		}
	}
	return names
}

func (d *demo) deployments() []*workload {
	var all []*workload
	for _, w := range d.workloads {
		if w.Kind == kindDeployment {
			all = append(all, w)
		}
	}
	return all
}

func (d *demo) deployAll(ctx context.Context) error {
	for _, c := range d.checked {
		if c.Kind != "Role" {
			continue
		}
		if err := d.cluster.Client.Create(ctx, role(c)); err != nil {
			return err
		}
	}
	for _, w := range d.workloads {
		if err := d.deploy(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// deploy brings the workload's current release into the cluster.
func (d *demo) deploy(ctx context.Context, w *workload) error {
	object := w.build()
	if w.object == nil {
		if err := d.cluster.Client.Create(ctx, object); err != nil {
			return err
		}
	} else {
		object.SetResourceVersion(w.object.GetResourceVersion())
		if err := d.cluster.Client.Update(ctx, object); err != nil {
			return err
		}
	}
	w.object = object
	if w.Kind != kindDeployment {
		return nil
	}
	// A scan takes longer than news of a ReplicaSet: no report comes before the manager knows what it speaks of.
	rs := w.replicaSet()
	if err := d.cluster.Client.Create(ctx, rs); err != nil {
		return err
	}
	return d.wait(ctx, "the manager to see ReplicaSet "+rs.Name, func(ctx context.Context) (bool, error) {
		known := &metav1.PartialObjectMetadata{}
		known.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(kindReplicaSet))
		err := d.manager.cache.Get(ctx, client.ObjectKeyFromObject(rs), known)
		return err == nil, client.IgnoreNotFound(err)
	})
}

// publish writes the scanner's present word on a workload, and on what was checked of it.
func (d *demo) publish(ctx context.Context, w *workload) error {
	reports, err := d.scan.reports(w)
	if err != nil {
		return err
	}
	for _, c := range d.checked {
		if c.Namespace == w.Namespace && c.Kind == w.Kind && c.Name == w.Name {
			reports = append(reports, d.scan.checks(c, w))
		}
	}
	return d.write(ctx, reports)
}

// publishAll publishes every workload, every other scan from the last to the first, and what is no workload.
func (d *demo) publishAll(ctx context.Context) error {
	for i := range d.workloads {
		if d.scan.number%2 == 0 {
			i = len(d.workloads) - 1 - i
		}
		if err := d.publish(ctx, d.workloads[i]); err != nil {
			return err
		}
	}
	for _, c := range d.checked {
		if c.Kind != "Role" {
			continue
		}
		if err := d.write(ctx, []*unstructured.Unstructured{d.scan.checks(c, nil)}); err != nil {
			return err
		}
	}
	return nil
}

// write creates reports, or puts them in place of those there are.
func (d *demo) write(ctx context.Context, reports []*unstructured.Unstructured) error {
	for _, report := range reports {
		there := report.DeepCopy()
		err := d.cluster.Client.Get(ctx, client.ObjectKeyFromObject(report), there)
		if err == nil {
			report.SetResourceVersion(there.GetResourceVersion())
			err = d.cluster.Client.Update(ctx, report)
		} else if client.IgnoreNotFound(err) == nil {
			err = d.cluster.Client.Create(ctx, report)
		}
		if err != nil {
			return fmt.Errorf("writing %s %s/%s: %w", report.GetKind(), report.GetNamespace(), report.GetName(), err)
		}
	}
	return nil
}

// allReports lists what the scanner has published.
func (d *demo) allReports(ctx context.Context) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	for _, class := range d.classes {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(class.Kind)
		if err := d.cluster.Client.List(ctx, list); err != nil {
			return nil, err
		}
		all = append(all, list.Items...)
	}
	return all, nil
}

// rescan is what happens once the reports have lived for their 24 hours: they go, and the scanner makes others.
func (d *demo) rescan(ctx context.Context) error {
	old, err := d.allReports(ctx)
	if err != nil {
		return err
	}
	for i := range old {
		if err := d.cluster.Client.Delete(ctx, &old[i]); err != nil {
			return err
		}
	}
	if err := d.heard(ctx); err != nil {
		return err
	}
	d.scan.number++
	d.scan.at = d.scan.at.Add(24 * time.Hour)
	return d.publishAll(ctx)
}

// rollOut is what happens when a Deployment changes: a ReplicaSet comes, then its reports; the old ReplicaSet stays, and its
// reports are marked as superseded and go.
func (d *demo) rollOut(ctx context.Context, w *workload) error {
	_, oldName := w.subject()
	old, err := d.allReports(ctx)
	if err != nil {
		return err
	}
	w.advance()
	if err := d.deploy(ctx, w); err != nil {
		return err
	}
	if err := d.publish(ctx, w); err != nil {
		return err
	}
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: oldName}}
	if err := d.cluster.Client.Patch(ctx, rs, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))); err != nil {
		return err
	}
	for i := range old {
		report := &old[i]
		if report.GetNamespace() != w.Namespace || report.GetLabels()["trivy-operator.resource.name"] != oldName {
			continue
		}
		builder.Superseded(report)
		if err := d.cluster.Client.Update(ctx, report); err != nil {
			return err
		}
		if err := d.cluster.Client.Delete(ctx, report); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) rollOutAll(ctx context.Context) error {
	for _, w := range d.deployments() {
		if err := d.rollOut(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// applyPolicies applies the sample policy in every namespace.
func (d *demo) applyPolicies(ctx context.Context) error {
	for _, namespace := range d.namespaces() {
		if err := d.applyPolicy(ctx, namespace); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) applyPolicy(ctx context.Context, namespace string) error {
	var p candorv1alpha1.SignalPolicy
	if err := readSample("candor_v1alpha1_signalpolicy.yaml", &p); err != nil {
		return err
	}
	p.Namespace = namespace
	if err := d.cluster.Client.Create(ctx, &p); err != nil {
		return fmt.Errorf("applying the sample policy: %w", err)
	}
	return nil
}

// mute applies the sample Suppression to a Finding, by the fingerprint that it has now.
func (d *demo) mute(ctx context.Context, key client.ObjectKey) error {
	var f candorv1alpha1.Finding
	if err := d.cluster.Client.Get(ctx, key, &f); err != nil {
		return err
	}
	var s candorv1alpha1.Suppression
	if err := readSample("candor_v1alpha1_suppression.yaml", &s); err != nil {
		return err
	}
	s.Namespace, s.Spec.Fingerprint = key.Namespace, f.Status.Fingerprint
	if err := d.cluster.Client.Create(ctx, &s); err != nil {
		return fmt.Errorf("applying the sample Suppression: %w", err)
	}
	return nil
}

// readSample reads a manifest that the project ships, from the checkout in which this runs.
func readSample(name string, into any) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, samples, name)) //nolint:gosec // a file of the checkout
		if err == nil {
			return yaml.UnmarshalStrict(content, into)
		}
		if dir == filepath.Dir(dir) {
			return fmt.Errorf("no %s/%s here or above: run this from inside the checkout", samples, name)
		}
		dir = filepath.Dir(dir)
	}
}
