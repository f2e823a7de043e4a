// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

const (
	fine = "loki.echo \"a\" { }\n"
	otel = "receivers: {otlp: }\nexporters: {debug: }\nservice: {pipelines: {logs: {receivers: [otlp], exporters: [debug]}}}\n"
)

var options = Options{MaxPipelineBytes: 1000, AttributeValueMax: 20, NameScope: fleetmanagementv1alpha1.NameScopeNone}

type change = func(*fleetmanagementv1alpha1.Pipeline)

func aPipeline(changes ...change) *fleetmanagementv1alpha1.Pipeline {
	p := &fleetmanagementv1alpha1.Pipeline{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "logs", Annotations: map[string]string{}},
		Spec: fleetmanagementv1alpha1.PipelineSpec{
			Contents: fine, ConfigType: fleetmanagementv1alpha1.ConfigTypeAlloy, Matchers: []string{`collector.os="linux"`},
		},
	}
	for _, c := range changes {
		c(p)
	}
	return p
}

func name(text string) change {
	return func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.Name = text }
}

func contents(text string) change {
	return func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.Contents = text }
}

func language(l fleetmanagementv1alpha1.ConfigType) change {
	return func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.ConfigType = l }
}

func matchers(texts ...string) change {
	return func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.Matchers = texts }
}

func source(t fleetmanagementv1alpha1.SourceType, namespace string) change {
	return func(p *fleetmanagementv1alpha1.Pipeline) {
		p.Spec.Source = &fleetmanagementv1alpha1.PipelineSource{Type: t, Namespace: namespace}
	}
}

func annotated(key, value string) change {
	return func(p *fleetmanagementv1alpha1.Pipeline) { p.Annotations[key] = value }
}
func paused(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.Paused = true }

func said(errs field.ErrorList) []string {
	var lines []string
	for _, err := range errs {
		lines = append(lines, err.Error())
	}
	return lines
}

const (
	mode      = fleetmanagementv1alpha1.AnnotationImportMode
	scope     = fleetmanagementv1alpha1.AnnotationNameScope
	git       = fleetmanagementv1alpha1.SourceGit
	grafana   = fleetmanagementv1alpha1.SourceGrafana
	otelType  = fleetmanagementv1alpha1.ConfigTypeOTel
	gitDelete = "spec.source: a job that synchronises Git pipelines of this namespace with Fleet Management deletes those that it does not know, this one included"
)

func TestANewPipeline(t *testing.T) {
	inNamespaces := options
	inNamespaces.NameScope = fleetmanagementv1alpha1.NameScopeNamespace
	for name, test := range map[string]struct {
		pipeline       *fleetmanagementv1alpha1.Pipeline
		options        *Options
		errs, warnings []string
	}{
		"that is fine":                  {pipeline: aPipeline()},
		"of OpenTelemetry that is fine": {pipeline: aPipeline(language(otelType), contents(otel))},
		"without a type is Alloy":       {pipeline: aPipeline(language(""))},
		"of no known type": {pipeline: aPipeline(language("Vector")), errs: []string{
			`spec.configType: Unsupported value: "Vector": supported values: "Alloy", "OpenTelemetryCollector"`,
		}},
		"of blank contents": {pipeline: aPipeline(contents(" \n")), errs: []string{
			"spec.contents: Required value: write the configuration that collectors get",
		}},
		"that is too long": {pipeline: aPipeline(contents(strings.Repeat("x", 1001))), errs: []string{
			"spec.contents: Invalid value: has 1001 bytes, and at most 1000 are allowed: split the pipeline, or have --max-pipeline-bytes raised",
		}},
		"of YAML as Alloy": {pipeline: aPipeline(contents(otel)), errs: []string{
			`spec.contents: Invalid value: line 1, column 10: this is YAML, which starts with the key "receivers", and no Alloy: ` +
				"set spec.configType to OpenTelemetryCollector, or write Alloy",
		}},
		"of Alloy as YAML": {pipeline: aPipeline(language(otelType), contents("loki.echo \"a\" {\n}\n")), errs: []string{
			"spec.contents: Invalid value: line 1: this is Alloy, which has a block here, and no YAML: set spec.configType to Alloy, or write YAML",
		}},
		"of more than one mistake, and something odd": {
			pipeline: aPipeline(contents("a = 1\nloki.ecko \"a\" { }\n")),
			errs:     []string{`spec.contents: Invalid value: line 1, column 1: the attribute "a" stands outside of any block: put it into one`},
			warnings: []string{
				`spec.contents: line 2, column 1: "loki.ecko" is no component that this version of Candor knows: correct the name, unless your Alloy is newer`,
			},
		},
		"with a name in any letters":                       {pipeline: aPipeline(name("Team/Logs_v2.β"))},
		"with white space in the name that it has already": {pipeline: aPipeline(name("my logs"), func(p *fleetmanagementv1alpha1.Pipeline) { p.Status.SyncedName = "my logs" })},
		"with white space in its name":                     {pipeline: aPipeline(name("my logs")), errs: []string{`spec.name: Invalid value: "my logs": must not have white space: write - or _ in its place`}},
		"with a line break in its name": {pipeline: aPipeline(name("my\nlogs")), errs: []string{
			`spec.name: Invalid value: "my\nlogs": must not have control characters: remove them`,
		}},
		"with a long name":            {pipeline: aPipeline(name(strings.Repeat("x", 254))), errs: []string{"spec.name: Too long: may not be more than 253 bytes"}},
		"with matchers of every kind": {pipeline: aPipeline(matchers(`a=b`, `a!="b c"`, `a=~"x|y"`, `"team-a/b"!~z`, `a=""`, `h="a=="`))},
		"with matchers that are none": {pipeline: aPipeline(matchers(`a==b`, `a=~"[a-"`, `=b`, strings.Repeat("a", 201))), errs: []string{
			`spec.matchers[0]: Invalid value: "a==b": there is no operator ==`,
			`spec.matchers[1]: Invalid value: "a=~\"[a-\"": the value is no regular expression of RE2`,
			`spec.matchers[2]: Invalid value: "=b": a matcher starts with the name of an attribute`,
			`spec.matchers[3]: Invalid value: "` + strings.Repeat("a", 99) + `…": a matcher has at most 200 characters, and this one has 201`,
		}},
		"with too many matchers": {pipeline: aPipeline(matchers(make([]string, 101)...)), errs: []string{"spec.matchers: Too many: 101: must have at most 100 items"}},
		"of Git":                 {pipeline: aPipeline(source(git, "infra")), warnings: []string{gitDelete}},
		"of Git without a namespace": {pipeline: aPipeline(source(git, " ")), errs: []string{
			"spec.source.namespace: Required value: write it for the types Git, Terraform and Grafana, or leave source out",
		}},
		"of a namespace without a source": {pipeline: aPipeline(source("", "infra")), errs: []string{
			`spec.source.namespace: Invalid value: "infra": must be empty without a type: set type, or leave namespace out`,
		}},
		"of Kubernetes": {pipeline: aPipeline(source(fleetmanagementv1alpha1.SourceKubernetes, "")), warnings: []string{
			"spec.source.type: Kubernetes is deprecated and not sent, since Fleet Management has no such source: leave source out",
		}},
		"of no known source": {pipeline: aPipeline(source("Ansible", "x")), errs: []string{
			`spec.source.type: Unsupported value: "Ansible": supported values: "Git", "Terraform", "Grafana", "Kubernetes", "Unspecified"`,
		}},
		"of Grafana that is to be adopted": {pipeline: aPipeline(source(grafana, "ui"), annotated(mode, "adopt")), errs: []string{
			`metadata.annotations[fleetmanagement.grafana.com/import-mode]: Invalid value: "adopt": ` +
				"a pipeline of Grafana is never written, so that it cannot be adopted: remove the annotation, or spec.source",
		}},
		"that mirrors what is there, whatever that is": {pipeline: aPipeline(annotated(mode, "read-only"), name("my logs"), contents("{{{"), matchers("==", ""))},
		"with an annotation that means nothing": {
			pipeline: aPipeline(annotated(mode, "ReadOnly"), annotated(fleetmanagementv1alpha1.AnnotationDryRun, "True"),
				annotated(fleetmanagementv1alpha1.AnnotationSkipRemoteDelete, "")),
			errs: []string{
				`metadata.annotations[fleetmanagement.grafana.com/import-mode]: Unsupported value: "ReadOnly": supported values: "read-only", "adopt"`,
				`metadata.annotations[fleetmanagement.grafana.com/dry-run]: Unsupported value: "True": supported values: "true", "false"`,
				`metadata.annotations[fleetmanagement.grafana.com/skip-remote-delete]: Unsupported value: "": supported values: "true", "false"`,
			},
		},
		"of no known name scope": {pipeline: aPipeline(annotated(scope, "cluster")), errs: []string{
			`metadata.annotations[fleetmanagement.grafana.com/name-scope]: Unsupported value: "cluster": supported values: "namespace", "none"`,
		}},
		"whose name is that of another namespace": {pipeline: aPipeline(annotated(scope, "none"), name("team-b.logs")), options: &inNamespaces, errs: []string{
			`spec.name: Invalid value: "team-b.logs": looks like the name of a Pipeline in the scope of a namespace, ` +
				"which the annotation fleetmanagement.grafana.com/name-scope=none must not take: leave the dot out, or remove the annotation",
		}},
		"whose name has a dot and the scope of its namespace": {pipeline: aPipeline(name("team-b.logs")), options: &inNamespaces},
		"whose name has a dot where no scope is the default":  {pipeline: aPipeline(annotated(scope, "none"), name("team-b.logs"))},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := options
			if test.options != nil {
				o = *test.options
			}
			warnings, errs := Pipeline(nil, test.pipeline, o)
			g.Expect(said(errs)).To(HaveLen(len(test.errs)), "%v", said(errs))
			for i, want := range test.errs {
				g.Expect(said(errs)[i]).To(HavePrefix(want))
			}
			g.Expect(warnings).To(Equal(test.warnings))
		})
	}
}

func TestARefusedPipelineIsNotRepeated(t *testing.T) {
	g := NewWithT(t)
	secret := "loki.echo \"a\" {\n  password = \"hunter2\n}\n"
	_, errs := Pipeline(nil, aPipeline(contents(secret)), options)
	g.Expect(errs).NotTo(BeEmpty())
	g.Expect(errs.ToAggregate().Error()).NotTo(ContainSubstring("hunter2"))
}

func TestAT10WhatAnUpdateLeavesAsItWasPasses(t *testing.T) {
	broken := []change{contents("{{{"), matchers("a==b"), name("my logs"), source(git, "")}
	invalid := func(more ...change) *fleetmanagementv1alpha1.Pipeline { return aPipeline(append(broken, more...)...) }
	deleted := func(p *fleetmanagementv1alpha1.Pipeline) { p.DeletionTimestamp = &metav1.Time{} }
	for name, test := range map[string]struct {
		old, now *fleetmanagementv1alpha1.Pipeline
		fields   []string
	}{
		"as a new one it is refused":        {nil, invalid(), []string{"spec.name", "spec.contents", "spec.matchers[0]", "spec.source.namespace"}},
		"a change of metadata":              {invalid(), invalid(annotated("example.com/touched", "yes")), nil},
		"a finalizer":                       {invalid(), invalid(func(p *fleetmanagementv1alpha1.Pipeline) { p.Finalizers = []string{"a/b"} }), nil},
		"a change of status":                {invalid(), invalid(func(p *fleetmanagementv1alpha1.Pipeline) { p.Status.ID = "1" }), nil},
		"a change of another field":         {invalid(), invalid(paused), nil},
		"an empty list for none":            {aPipeline(matchers()), aPipeline(func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.Matchers = nil }), nil},
		"an object that is being deleted":   {aPipeline(), invalid(deleted), nil},
		"another mistake in the same field": {invalid(), invalid(contents("}}}")), []string{"spec.contents"}},
		"another type for the same contents": {
			invalid(), invalid(language(otelType)), []string{"spec.contents"},
		},
		"a matcher beside one that is wrong already": {invalid(), invalid(matchers("b=c", "a==b")), nil},
		"a second matcher that is wrong":             {invalid(), invalid(matchers("b==c", "a==b")), []string{"spec.matchers[0]"}},
		"a mirror that is to be managed from now on": {invalid(annotated(mode, "read-only")), invalid(), []string{"spec.name", "spec.contents", "spec.matchers[0]", "spec.source.namespace"}},
		"a managed one that becomes a mirror":        {invalid(source("", "")), invalid(source("", ""), annotated(mode, "read-only")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			warnings, errs := Pipeline(test.old, test.now, options)
			var fields []string
			for _, err := range errs {
				fields = append(fields, err.Field)
			}
			g.Expect(fields).To(Equal(test.fields), "%v", said(errs))
			g.Expect(warnings).To(BeEmpty())
		})
	}
}

func TestAWarningIsGivenOnce(t *testing.T) {
	g := NewWithT(t)
	old := aPipeline(source(git, "infra"), contents("loki.ecko \"a\" { }\n"))
	warnings, _ := Pipeline(nil, old, options)
	g.Expect(warnings).To(HaveLen(2))
	now := old.DeepCopy()
	now.Labels = map[string]string{"team": "a"}
	warnings, _ = Pipeline(old, now, options)
	g.Expect(warnings).To(BeEmpty())
}

func aCollector(id string, attributes map[string]string) *fleetmanagementv1alpha1.Collector {
	return &fleetmanagementv1alpha1.Collector{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "edge"},
		Spec:       fleetmanagementv1alpha1.CollectorSpec{ID: id, RemoteAttributes: attributes},
	}
}

func numbered(n int) map[string]string {
	attributes := map[string]string{}
	for i := range n {
		attributes[strconv.Itoa(i)] = ""
	}
	return attributes
}

func TestACollector(t *testing.T) {
	type attributes = map[string]string
	long := strings.Repeat("ä", 21)
	for name, test := range map[string]struct {
		old, now *fleetmanagementv1alpha1.Collector
		want     []string
	}{
		"that is fine":  {nil, aCollector("edge-1", attributes{"team": "a", "collector": "x", "app.kubernetes.io/name": long[:40], strings.Repeat("ä", 100): ""}), nil},
		"of a blank ID": {nil, aCollector(" ", nil), []string{"spec.id: Required value: write the ID that the collector has in Fleet Management"}},
		"that changes its ID": {aCollector("edge-1", nil), aCollector("edge-2", nil), []string{
			`spec.id: Invalid value: "edge-2": cannot be changed from "edge-1": create another Collector, and delete this one`,
		}},
		"of attributes that cannot be given": {nil, aCollector("edge-1", attributes{"": "x", "collector.os": "x", strings.Repeat("k", 101): "x", "v": long}), []string{
			"spec.remoteAttributes[]: Invalid value: a key must not be empty",
			"spec.remoteAttributes[collector.os]: Invalid value: keys that start with collector. are reserved",
			"spec.remoteAttributes[" + strings.Repeat("k", 99) + "…]: Invalid value: a key has at most 100 characters, and this one has 101",
			"spec.remoteAttributes[v]: Invalid value: a value has at most 20 characters, and this one has 21",
		}},
		"of too many attributes": {nil, aCollector("edge-1", numbered(101)), []string{"spec.remoteAttributes: Too many: 101: must have at most 100 items"}},
		"that keeps a value which is too long, and gets another attribute": {
			aCollector("edge-1", attributes{"v": long}), aCollector("edge-1", attributes{"v": long, "w": "x"}), nil,
		},
		"that changes a value which is too long to another": {
			aCollector("edge-1", attributes{"v": long}), aCollector("edge-1", attributes{"v": long + "ä"}),
			[]string{"spec.remoteAttributes[v]: Invalid value: a value has at most 20 characters, and this one has 22"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			warnings, errs := Collector(test.old, test.now, options)
			g.Expect(said(errs)).To(Equal(test.want))
			g.Expect(warnings).To(BeEmpty())
		})
	}
	t.Run("of a value that is as long as Grafana documents", func(t *testing.T) {
		g := NewWithT(t)
		_, errs := Collector(nil, aCollector("edge-1", attributes{"v": strings.Repeat("x", 150)}), Options{})
		g.Expect(errs).To(BeEmpty())
		_, errs = Collector(nil, aCollector("edge-1", attributes{"v": strings.Repeat("x", 151)}), Options{})
		g.Expect(errs).To(HaveLen(1))
	})
}

func aPolicy(attributes map[string]string, ids, matchers []string) *fleetmanagementv1alpha1.RemoteAttributePolicy {
	return &fleetmanagementv1alpha1.RemoteAttributePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "region"},
		Spec: fleetmanagementv1alpha1.RemoteAttributePolicySpec{
			Selector: fleetmanagementv1alpha1.PolicySelector{CollectorIDs: ids, Matchers: matchers}, Attributes: attributes,
		},
	}
}

func TestARemoteAttributePolicy(t *testing.T) {
	some := map[string]string{"region": "eu"}
	for name, test := range map[string]struct {
		old, now *fleetmanagementv1alpha1.RemoteAttributePolicy
		want     []string
	}{
		"of matchers":     {nil, aPolicy(some, nil, []string{`os=~"linux|darwin"`}), nil},
		"of collectorIDs": {nil, aPolicy(some, []string{"edge-1"}, nil), nil},
		"that selects nobody": {nil, aPolicy(some, nil, nil), []string{
			"spec.selector: Required value: name collectors by matchers or by collectorIDs; an empty selector selects none",
		}},
		"without attributes": {nil, aPolicy(nil, []string{"edge-1"}, nil), []string{
			"spec.attributes: Required value: write at least one attribute, or delete the policy",
		}},
		"of mistakes in each field": {nil, aPolicy(map[string]string{"collector.x": "y"}, []string{"a", " "}, []string{"a"}), []string{
			"spec.attributes[collector.x]: Invalid value: keys that start with collector. are reserved",
			`spec.selector.matchers[0]: Invalid value: "a": the name is followed by one of = != =~ !~ and a value: write a="value"`,
			`spec.selector.collectorIDs[1]: Invalid value: " ": an ID must not be blank: write one, or remove the item`,
		}},
		"that keeps its mistakes": {aPolicy(some, []string{" "}, []string{"a"}), aPolicy(some, []string{"b", " "}, []string{"a", "c=d"}), nil},
		"of too many collectorIDs": {nil, aPolicy(some, strings.Split(strings.Repeat("a,", 1000)+"a", ","), nil), []string{
			"spec.selector.collectorIDs: Too many: 1001: must have at most 1000 items",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			warnings, errs := RemoteAttributePolicy(test.old, test.now, options)
			g.Expect(said(errs)).To(Equal(test.want))
			g.Expect(warnings).To(BeEmpty())
		})
	}
}
