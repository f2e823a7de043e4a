// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/mirror"
	"github.com/candor-dev/candor/internal/fleet/pipelines"
)

func TestTheIntervalOfADiscoveryIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want time.Duration
		err  string
	}{
		"by default every five minutes": {"", 5 * time.Minute, ""},
		"as it is written":              {"90s", 90 * time.Second, ""},
		"once a minute at most":         {"59s", 0, `spec.pollInterval is "59s": set it to a duration of at least 1m0s, such as 5m`},
		"not without a unit":            {"5", 0, `spec.pollInterval is "5": set it to a duration of at least 1m0s, such as 5m`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := readPoll(c.text)
			g.Expect(got).To(Equal(c.want))
			if c.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(c.err))
			}
		})
	}
}

func TestWhoMadeAnObject(t *testing.T) {
	marks := (&discoveredCollectors{}).words().marks
	long := strings.Repeat("a", 200)
	for name, c := range map[string]struct {
		label, namespace, by string
		want                 mirror.Key
	}{
		"nobody without labels":                          {by: "team-a/all"},
		"a discovery by both labels":                     {"all", "team-a", "", mirror.Key{Namespace: "team-a", Name: "all"}},
		"by the annotation where the namespace lacks":    {"all", "", "team-a/all", mirror.Key{Namespace: "team-a", Name: "all"}},
		"by the annotation where the label is too short": {mirror.LabelValue(long), "team-a", "team-a/" + long, mirror.Key{Namespace: "team-a", Name: long}},
		"by the labels where the annotation differs":     {"all", "team-a", "team-b/all", mirror.Key{Namespace: "team-a", Name: "all"}},
		"somebody where the annotation tells of another": {"all", "", "team-a/other", mirror.Key{Name: "all"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &fleetmanagementv1alpha1.Collector{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}, Annotations: map[string]string{}}}
			for key, value := range map[string]string{marks.labelName: c.label, marks.labelNamespace: c.namespace} {
				if value != "" {
					o.Labels[key] = value
				}
			}
			o.Annotations[marks.discoveredBy] = c.by
			NewWithT(t).Expect(madeBy(o, marks)).To(Equal(c.want))
		})
	}
}

func TestWhatCountsAsAnEditOfACollector(t *testing.T) {
	for name, c := range map[string]struct {
		spec   fleetmanagementv1alpha1.CollectorSpec
		edited bool
	}{
		"not its ID": {spec: fleetmanagementv1alpha1.CollectorSpec{ID: "edge"}},
		"not the defaults of the API server": {spec: fleetmanagementv1alpha1.CollectorSpec{
			ID: "edge", ConflictPolicy: fleetmanagementv1alpha1.ConflictOverwrite, ReleasePolicy: fleetmanagementv1alpha1.ReleaseRestore,
		}},
		"not an empty map": {spec: fleetmanagementv1alpha1.CollectorSpec{ID: "edge", RemoteAttributes: map[string]string{}}},
		"an attribute":     {fleetmanagementv1alpha1.CollectorSpec{ID: "edge", RemoteAttributes: map[string]string{"a": ""}}, true},
		"a name":           {fleetmanagementv1alpha1.CollectorSpec{ID: "edge", Name: "Edge"}, true},
		"whether it is on": {fleetmanagementv1alpha1.CollectorSpec{ID: "edge", Enabled: new(bool)}, true},
		"a policy":         {fleetmanagementv1alpha1.CollectorSpec{ID: "edge", ConflictPolicy: fleetmanagementv1alpha1.ConflictSkip}, true},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(isEdited(c.spec)).To(Equal(c.edited)) })
	}
}

func TestWhatAPipelineIsMadeOf(t *testing.T) {
	live := fleetclient.Pipeline{
		ID: "1", Name: "x", Contents: "logging {}", Matchers: []string{"a=b"}, Enabled: true, ConfigType: fleetmanagementv1alpha1.ConfigTypeAlloy,
	}
	from := func(kind fleetmanagementv1alpha1.SourceType, namespace string) *fleetclient.Source {
		return &fleetclient.Source{Type: kind, Namespace: namespace}
	}
	for name, c := range map[string]struct {
		source *fleetclient.Source
		mode   fleetmanagementv1alpha1.ImportMode
		shown  *fleetmanagementv1alpha1.PipelineSource
		mirror bool
	}{
		"a mirror by default":   {mirror: true},
		"a mirror":              {mode: fleetmanagementv1alpha1.ImportReadOnly, mirror: true},
		"one that manages":      {mode: fleetmanagementv1alpha1.ImportAdopt},
		"a mirror of Grafana's": {from(fleetmanagementv1alpha1.SourceGrafana, "app"), fleetmanagementv1alpha1.ImportAdopt, &fleetmanagementv1alpha1.PipelineSource{Type: "Grafana", Namespace: "app"}, true},
		"a mirror of Grafana's, which names no app":     {from(fleetmanagementv1alpha1.SourceGrafana, ""), fleetmanagementv1alpha1.ImportAdopt, nil, true},
		"one that manages what is of a repository":      {from(fleetmanagementv1alpha1.SourceGit, "repo"), fleetmanagementv1alpha1.ImportAdopt, &fleetmanagementv1alpha1.PipelineSource{Type: "Git", Namespace: "repo"}, false},
		"one whose source names no repository":          {from(fleetmanagementv1alpha1.SourceGit, " "), fleetmanagementv1alpha1.ImportAdopt, nil, false},
		"one whose source is of a type nobody knows of": {from(fleetmanagementv1alpha1.SourceUnspecified, "x"), fleetmanagementv1alpha1.ImportAdopt, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			found := live
			found.Source = c.source
			d := &fleetmanagementv1alpha1.PipelineDiscovery{Spec: fleetmanagementv1alpha1.PipelineDiscoverySpec{ImportMode: c.mode}}
			p := (&discoveredPipelines{}).build(d, found).(*fleetmanagementv1alpha1.Pipeline)
			want := fleetmanagementv1alpha1.PipelineSpec{
				Name: "x", Contents: "logging {}", Matchers: []string{"a=b"}, Enabled: new(true), ConfigType: fleetmanagementv1alpha1.ConfigTypeAlloy, Source: c.shown,
			}
			if !c.mirror {
				want.AdoptionPolicy, want.DeletionPolicy = fleetmanagementv1alpha1.AdoptAlways, fleetmanagementv1alpha1.DeletionOrphan
			}
			g.Expect(p.Spec).To(Equal(want))
			g.Expect(pipelines.IsMirror(p)).To(Equal(c.mirror))
		})
	}
}

func TestAStatusHoldsNoMoreThanItTakes(t *testing.T) {
	g := NewWithT(t)
	ids := []string{strings.Repeat("x", 513)}
	for range 150 {
		ids = append(ids, "id")
	}
	g.Expect(told(ids)).To(HaveLen(100))
	g.Expect(told(ids)).To(HaveEach("id"))
	g.Expect(told(ids[:1])).To(BeNil())
	g.Expect(firstOf([]string{"a", "b"}, 2)).To(Equal("a, b"))
	g.Expect(firstOf([]string{"a", "b", "c"}, 2)).To(Equal("a, b and 1 more"))
}
