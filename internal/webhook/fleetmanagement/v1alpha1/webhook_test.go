// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

// known answers every question with the same words.
type known[T any] struct {
	by  string
	err error
}

func (k known[T]) Taken(context.Context, T) (string, error) { return k.by, k.err }

type (
	names = known[*fleetmanagementv1alpha1.Pipeline]
	ids   = known[*fleetmanagementv1alpha1.Collector]
)

func pipeline(contents string) *fleetmanagementv1alpha1.Pipeline {
	return &fleetmanagementv1alpha1.Pipeline{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "logs"},
		Spec:       fleetmanagementv1alpha1.PipelineSpec{Contents: contents},
	}
}

const off = "the controller of this kind is off: the object is stored, and has no effect until it is on"

func TestAPipelineWhoseNameIsTakenIsRefused(t *testing.T) {
	mirror := pipeline("loki.echo \"a\" { }")
	mirror.Annotations = map[string]string{fleetmanagementv1alpha1.AnnotationImportMode: fleetmanagementv1alpha1.ImportModeReadOnly}
	for name, test := range map[string]struct {
		names    Names
		pipeline *fleetmanagementv1alpha1.Pipeline
		want     string
	}{
		"a name that is free":       {names: names{}, pipeline: pipeline("loki.echo \"a\" { }")},
		"a name that is taken":      {names: names{by: "team-b/logs"}, pipeline: pipeline("loki.echo \"a\" { }"), want: `Pipeline.fleetmanagement.grafana.com "logs" is invalid: spec.name: Invalid value: "logs": the Pipeline team-b/logs has this name in Fleet Management: choose another name, or delete that one`},
		"a question without answer": {names: names{by: "team-b/logs", err: errors.New("the cache is not ready")}, pipeline: pipeline("loki.echo \"a\" { }")},
		"a mirror":                  {names: names{by: "team-b/logs"}, pipeline: mirror},
		"nobody to ask":             {pipeline: pipeline("loki.echo \"a\" { }")},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := pipelineValidator(Options{Names: test.names}).ValidateCreate(t.Context(), test.pipeline)
			if test.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(test.want))
			g.Expect(apierrors.IsInvalid(err)).To(BeTrue())
		})
	}
	t.Run("a changed name is warned of, since two may swap theirs", func(t *testing.T) {
		g := NewWithT(t)
		v, before, after := pipelineValidator(Options{Names: names{by: "team-b/logs"}}), pipeline("loki.echo \"a\" { }"), pipeline("loki.echo \"a\" { }")
		warnings, err := v.ValidateUpdate(t.Context(), before, after)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(warnings).To(BeEmpty(), "the name is as it was")
		after.Spec.Name = "other"
		warnings, err = v.ValidateUpdate(t.Context(), before, after)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(warnings).To(ConsistOf("spec.name: the Pipeline team-b/logs has this name in Fleet Management: this one keeps its former name until that one gives it up"))
	})
}

func TestACollectorWhoseIDIsTakenIsWarnedOf(t *testing.T) {
	c := &fleetmanagementv1alpha1.Collector{Spec: fleetmanagementv1alpha1.CollectorSpec{ID: "edge-1"}}
	for name, test := range map[string]struct {
		ids  CollectorIDs
		want []string
	}{
		"an ID that is free":        {ids: ids{}},
		"an ID that is taken":       {ids: ids{by: "team-b/edge"}, want: []string{"spec.id: the Collector team-b/edge is older and has the same ID, so that this one has no effect: delete one of them"}},
		"a question without answer": {ids: ids{by: "team-b/edge", err: errors.New("the cache is not ready")}},
		"nobody to ask":             {},
	} {
		t.Run(name, func(t *testing.T) {
			warnings, err := collectorValidator(Options{CollectorIDs: test.ids}).ValidateCreate(t.Context(), c)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect([]string(warnings)).To(Equal(test.want))
		})
	}
}

func TestAControllerThatIsOffIsSaid(t *testing.T) {
	g := NewWithT(t)
	v := pipelineValidator(Options{ControllerOff: true})
	warnings, err := v.ValidateCreate(t.Context(), pipeline("loki.echo \"a\" { }"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(warnings).To(ConsistOf(off))
	warnings, err = v.ValidateCreate(t.Context(), pipeline("{{{"))
	g.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "the rules hold all the same")
	g.Expect(warnings).To(ConsistOf(off))
	gone := pipeline("{{{")
	gone.DeletionTimestamp = &metav1.Time{}
	warnings, err = v.ValidateUpdate(t.Context(), pipeline("{{{"), gone)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(warnings).To(BeEmpty(), "nobody waits for an object that goes")
	warnings, err = v.ValidateDelete(t.Context(), gone)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(warnings).To(BeEmpty())
}

func TestAPolicyIsValidated(t *testing.T) {
	_, err := remoteAttributePolicyValidator(Options{}).ValidateCreate(t.Context(), &fleetmanagementv1alpha1.RemoteAttributePolicy{})
	g := NewWithT(t)
	g.Expect(apierrors.IsInvalid(err)).To(BeTrue())
	g.Expect(err).To(MatchError(And(ContainSubstring("spec.attributes"), ContainSubstring("spec.selector"))))
}
