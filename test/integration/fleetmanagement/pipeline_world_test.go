// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"

	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

const contents = "logging {\n\tlevel = \"info\"\n}\n"

// pipelineCalls are the procedures that the pipeline controller uses, and pipelineWrites those that write.
var pipelineCalls = append([]string{"ListPipelines", "GetPipeline", "GetPipelineID"}, pipelineWrites...)

var pipelineWrites = []string{"CreatePipeline", "UpdatePipeline", "UpsertPipeline", "DeletePipeline", "SyncPipelines"}

type pipelineChange = func(*fleetmanagementv1alpha1.Pipeline)

// pipeline makes a Pipeline of the namespace.
func (w *world) pipeline(name string, change ...pipelineChange) *fleetmanagementv1alpha1.Pipeline {
	p := &fleetmanagementv1alpha1.Pipeline{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec:       fleetmanagementv1alpha1.PipelineSpec{Contents: contents, Matchers: []string{`env="prod"`}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func annotated(name, value string) pipelineChange {
	return func(p *fleetmanagementv1alpha1.Pipeline) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[name] = value
	}
}

func named(name string) pipelineChange {
	return func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.Name = name }
}

func drifting(policy fleetmanagementv1alpha1.DriftPolicy) pipelineChange {
	return func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.DriftPolicy = policy }
}

func adopting(policy fleetmanagementv1alpha1.AdoptionPolicy) pipelineChange {
	return func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.AdoptionPolicy = policy }
}

// change patches a Pipeline as a person would.
func (w *world) change(ctx context.Context, name, body string) {
	GinkgoHelper()
	patch(ctx, w.pipeline(name), body)
}

func (w *world) delete(ctx context.Context, names ...string) {
	GinkgoHelper()
	for _, name := range names {
		Expect(cluster.Client.Delete(ctx, w.pipeline(name))).To(Succeed())
	}
}

// get returns a Pipeline as it is, nil where there is none.
func (w *world) get(ctx context.Context, name string) *fleetmanagementv1alpha1.Pipeline {
	var p fleetmanagementv1alpha1.Pipeline
	if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, &p); err != nil {
		return nil
	}
	return &p
}

func (w *world) status(ctx context.Context, name string) fleetmanagementv1alpha1.PipelineStatus {
	if p := w.get(ctx, name); p != nil {
		return p.Status
	}
	return fleetmanagementv1alpha1.PipelineStatus{}
}

// says returns a function that reads a condition of a Pipeline as "status/reason", empty for none.
func (w *world) says(ctx context.Context, name, condition string) func() string {
	return func() string { return verdictOf(w.status(ctx, name).Conditions, condition) }
}

func (w *world) ready(ctx context.Context, name string) func() string {
	return w.says(ctx, name, fleetmanagementv1alpha1.ConditionReady)
}

func (w *world) drifted(ctx context.Context, name string) func() string {
	return w.says(ctx, name, fleetmanagementv1alpha1.ConditionDrifted)
}

// gone returns a function that reports whether a Pipeline is no more.
func (w *world) gone(ctx context.Context, name string) func() bool {
	return func() bool { return w.get(ctx, name) == nil }
}

// synced creates Pipelines and waits until they stand in Fleet Management.
func (w *world) synced(ctx context.Context, objects ...*fleetmanagementv1alpha1.Pipeline) {
	GinkgoHelper()
	for _, p := range objects {
		w.create(ctx, p)
		Eventually(w.ready(ctx, p.Name)).Should(Equal("True/Synced"), p.Name)
	}
}

// look has Pipelines looked at one after another, and waits for each.
func (w *world) look(names ...string) {
	GinkgoHelper()
	for _, name := range names {
		w.lookAt("pipeline", w.pipeline(name))
	}
}

// wake has a Pipeline looked at.
func (w *world) wake(name string) {
	GinkgoHelper()
	w.wakeRow("pipeline", w.pipeline(name))
}

// unwritten asserts that do writes nothing in Fleet Management.
func (w *world) unwritten(do func()) {
	GinkgoHelper()
	before := w.fleet.Count(pipelineWrites...)
	do()
	Expect(w.fleet.Calls(pipelineWrites...)[before:]).To(BeEmpty(), "writes in Fleet Management")
}

// poll lets the next list come.
func (w *world) poll() {
	GinkgoHelper()
	Eventually(w.clock.HasWaiters).Should(BeTrue())
	before := w.fleet.Count("ListPipelines")
	w.clock.Step(w.options.Fleet.DriftInterval)
	Eventually(func() int { return w.fleet.Count("ListPipelines") }).Should(BeNumerically(">", before))
}

// remote returns a function that reads the contents of a pipeline in Fleet Management, empty for none.
func (w *world) remote(idOrName string) func() string {
	return func() string { return w.fleet.Pipeline(idOrName).GetContents() }
}

// names returns the names of the pipelines in Fleet Management, in the order of their creation.
func (w *world) names() []string {
	var all []string
	for _, p := range w.fleet.Pipelines() {
		all = append(all, p.GetName())
	}
	return all
}

// put makes a pipeline in Fleet Management that nobody stamped and that says what Pipelines of this suite do.
func (w *world) put(name string, change ...func(*pipelinev1.Pipeline)) string {
	p := &pipelinev1.Pipeline{Name: name, Contents: contents, Matchers: []string{`env="prod"`}}
	for _, c := range change {
		c(p)
	}
	return w.fleet.PutPipeline(p).GetId()
}

func disabled(p *pipelinev1.Pipeline) { p.Enabled = new(false) }

func says(text string) func(*pipelinev1.Pipeline) {
	return func(p *pipelinev1.Pipeline) { p.Contents = text }
}

func stampOf(p *pipelinev1.Pipeline) map[string]any { return p.GetMetadata().AsMap() }

func message(status fleetmanagementv1alpha1.PipelineStatus, condition string) string {
	return messageOf(status.Conditions, condition)
}
