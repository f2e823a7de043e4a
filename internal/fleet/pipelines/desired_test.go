// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package pipelines

import (
	"testing"

	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
)

func TestDesired(t *testing.T) {
	source := func(kind fleetmanagementv1alpha1.SourceType) *fleetmanagementv1alpha1.PipelineSource {
		return &fleetmanagementv1alpha1.PipelineSource{Type: kind, Namespace: "repo"}
	}
	for name, test := range map[string]struct {
		spec fleetmanagementv1alpha1.PipelineSpec
		want fleetclient.Pipeline
	}{
		"what is not said is Alloy and enabled": {
			fleetmanagementv1alpha1.PipelineSpec{Contents: "a {}"}, fleetclient.Pipeline{Name: "x", Contents: "a {}", Enabled: true, ConfigType: "Alloy"},
		},
		"what is said is sent": {
			fleetmanagementv1alpha1.PipelineSpec{
				Contents: "a: b", Enabled: new(false), ConfigType: "OpenTelemetryCollector", Matchers: []string{` env = "prod" `, "not a matcher"}, Source: source("Git"),
			},
			fleetclient.Pipeline{
				Name: "x", Contents: "a: b", ConfigType: "OpenTelemetryCollector", Matchers: []string{`env = "prod"`, "not a matcher"},
				Source: &fleetclient.Source{Type: "Git", Namespace: "repo"},
			},
		},
		"Kubernetes is no source that Fleet Management knows": {
			fleetmanagementv1alpha1.PipelineSpec{Contents: "a {}", Source: source("Kubernetes")}, fleetclient.Pipeline{Name: "x", Contents: "a {}", Enabled: true, ConfigType: "Alloy"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Desired(&fleetmanagementv1alpha1.Pipeline{Spec: test.spec}, "x")).To(Equal(test.want))
		})
	}
}

func TestDiffAndHashAgreeOnWhatMeansTheSame(t *testing.T) {
	git := &fleetclient.Source{Type: "Git", Namespace: "repo"}
	for name, test := range map[string]struct {
		change func(want, live *fleetclient.Pipeline)
		want   []string
	}{
		"the same":                            {func(_, _ *fleetclient.Pipeline) {}, nil},
		"another name":                        {func(_, l *fleetclient.Pipeline) { l.Name = "other" }, []string{"name"}},
		"other contents":                      {func(_, l *fleetclient.Pipeline) { l.Contents = "x" }, []string{"contents"}},
		"carriage returns":                    {func(_, l *fleetclient.Pipeline) { l.Contents = "logging {\r\n}\r\n" }, nil},
		"no line break at the end":            {func(_, l *fleetclient.Pipeline) { l.Contents = "logging { \n}" }, nil},
		"white space at the start of a line":  {func(_, l *fleetclient.Pipeline) { l.Contents = "logging {\n }\n" }, []string{"contents"}},
		"a matcher that is written otherwise": {func(_, l *fleetclient.Pipeline) { l.Matchers = []string{"env=prod"} }, nil},
		"matchers in another order, twice": {func(w, l *fleetclient.Pipeline) {
			w.Matchers, l.Matchers = []string{"a=1", "b=2"}, []string{"b=2", "a=1", "b=2"}
		}, nil},
		"another matcher":            {func(_, l *fleetclient.Pipeline) { l.Matchers = nil }, []string{"matchers"}},
		"disabled":                   {func(_, l *fleetclient.Pipeline) { l.Enabled = false }, []string{"enabled"}},
		"another language":           {func(_, l *fleetclient.Pipeline) { l.ConfigType = "OpenTelemetryCollector" }, []string{"configType"}},
		"metadata of others":         {func(_, l *fleetclient.Pipeline) { l.Metadata = map[string]any{"a": "b"} }, nil},
		"a source that is asked for": {func(w, _ *fleetclient.Pipeline) { w.Source = git }, []string{"source"}},
		"a source that is there as well": {func(w, l *fleetclient.Pipeline) {
			w.Source, l.Source = git, &fleetclient.Source{Type: "Git", Namespace: "repo"}
		}, nil},
		"several, in the order of the spec": {func(_, l *fleetclient.Pipeline) { l.Enabled, l.Contents = false, "x" }, []string{"contents", "enabled"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			want, live := wanted(), wanted()
			test.change(&want, &live)
			g.Expect(Diff(want, live)).To(Equal(test.want))
			same := Equal(Hash(want))
			if test.want != nil {
				same = Not(same)
			}
			g.Expect(Hash(live)).To(same)
			g.Expect(Hash(want)).To(HaveLen(64))
		})
	}
}

func otel(p *fleetclient.Pipeline) { p.ConfigType = fleetmanagementv1alpha1.ConfigTypeOTel }

func TestAWriteBringsContentsThatDoNotStandThereYet(t *testing.T) {
	for name, test := range map[string]struct {
		in   Input
		want bool
	}{
		"a new pipeline":                     {input(nil), true},
		"other contents":                     {input(shelf{live("1", by(us), saying("logging {}"))}, formerly("1", "metrics")), true},
		"contents that somebody changed":     {input(shelf{live("1", by(us), saying("logging {}"))}, synced("1")), true},
		"contents of another type":           {input(shelf{live("1", by(us), otel)}, formerly("1", "metrics")), true},
		"a pipeline that is taken over":      {input(shelf{live("1")}), false},
		"a name, with the contents as it is": {input(shelf{live("1", by(us), called("old"))}, formerly("1", "old")), false},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(Decide(test.in).BringsContents()).To(Equal(test.want)) })
	}
}
