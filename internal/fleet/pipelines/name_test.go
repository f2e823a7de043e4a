// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package pipelines

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

func TestTheNameInFleetManagement(t *testing.T) {
	const (
		scope     = fleetmanagementv1alpha1.AnnotationNameScope
		none      = fleetmanagementv1alpha1.NameScopeNone
		namespace = fleetmanagementv1alpha1.NameScopeNamespace
		cluster   = fleetmanagementv1alpha1.NameScopeCluster
	)
	for name, test := range map[string]struct {
		specName, scope string
		annotations     map[string]string
		source          *fleetmanagementv1alpha1.PipelineSource
		want            string
	}{
		"the object's name by default":                     {scope: none, want: "logs"},
		"spec.name wins":                                   {specName: "other", scope: none, want: "other"},
		"no scope at all is none":                          {want: "logs"},
		"the scope of a namespace":                         {scope: namespace, want: "team-a.logs"},
		"the scope of a namespace, for spec.name too":      {specName: "other", scope: namespace, want: "team-a.other"},
		"the scope of a cluster":                           {scope: cluster, want: "c1.team-a.logs"},
		"an annotation that chooses none":                  {scope: namespace, annotations: map[string]string{scope: none}, want: "logs"},
		"an annotation that chooses a namespace":           {scope: none, annotations: map[string]string{scope: namespace}, want: "team-a.logs"},
		"an annotation that says nothing known":            {scope: namespace, annotations: map[string]string{scope: "galaxy"}, want: "team-a.logs"},
		"a mirror":                                         {scope: namespace, annotations: map[string]string{fleetmanagementv1alpha1.AnnotationImportMode: fleetmanagementv1alpha1.ImportModeReadOnly}, want: "logs"},
		"a pipeline that a discovery found":                {scope: namespace, annotations: map[string]string{fleetmanagementv1alpha1.AnnotationPipelineID: "1"}, want: "logs"},
		"a pipeline of Grafana, which is a mirror":         {scope: namespace, source: &fleetmanagementv1alpha1.PipelineSource{Type: fleetmanagementv1alpha1.SourceGrafana}, want: "logs"},
		"a pipeline of Git, which is one like every other": {scope: namespace, source: &fleetmanagementv1alpha1.PipelineSource{Type: fleetmanagementv1alpha1.SourceGit}, want: "team-a.logs"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &fleetmanagementv1alpha1.Pipeline{
				ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "logs", Annotations: test.annotations},
				Spec:       fleetmanagementv1alpha1.PipelineSpec{Name: test.specName, Source: test.source},
			}
			NewWithT(t).Expect(EffectiveName(p, test.scope, "c1")).To(Equal(test.want))
		})
	}
}
