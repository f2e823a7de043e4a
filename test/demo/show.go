// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// asTable asks the API server for what kubectl get asks for.
const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io"

// textWidth is the longest line of a description, without its name.
const textWidth = 110

// singular names the kinds as kubectl does when it lists more than one.
var singular = map[string]string{
	"signalpolicies": "signalpolicy", "suppressions": "suppression",
	"pipelines": "pipeline", "remoteattributepolicies": "remoteattributepolicy",
	"collectordiscoveries": "collectordiscovery", "externalattributesyncs": "externalattributesync",
}

// show prints what kubectl get -A prints: columns and rows are the server's.
func (d *demo) show(ctx context.Context, resources ...string) error {
	return d.get(ctx, candorv1alpha1.GroupVersion, " -A", "", true, resources...)
}

// showIn does so for one namespace, and for what has none where it is empty.
func (d *demo) showIn(ctx context.Context, namespace string, resources ...string) error {
	if namespace == "" {
		return d.get(ctx, candorv1alpha1.GroupVersion, "", "", false, resources...)
	}
	return d.getGroup(ctx, candorv1alpha1.GroupVersion, namespace, resources...)
}

func (d *demo) getGroup(ctx context.Context, group schema.GroupVersion, namespace string, resources ...string) error {
	return d.get(ctx, group, " -n "+namespace, "namespaces/"+namespace+"/", false, resources...)
}

func (d *demo) get(ctx context.Context, group schema.GroupVersion, option, within string, namespaced bool, resources ...string) error {
	d.screen.command("kubectl get " + strings.Join(resources, ",") + option)
	clientset, err := kubernetes.NewForConfig(d.cluster.Config)
	if err != nil {
		return err
	}
	for i, resource := range resources {
		path := "/apis/" + group.String() + "/" + within + resource
		body, err := clientset.RESTClient().Get().AbsPath(path).SetHeader("Accept", asTable).DoRaw(ctx)
		if err != nil {
			return fmt.Errorf("listing %s: %w", resource, err)
		}
		var table metav1.Table
		if err := json.Unmarshal(body, &table); err != nil {
			return fmt.Errorf("reading the table of %s: %w", resource, err)
		}
		prefix := ""
		if len(resources) > 1 {
			prefix = singular[resource] + "." + group.Group + "/"
		}
		if i > 0 {
			d.screen.say("")
		}
		if err := d.printTable(table, prefix, namespaced); err != nil {
			return err
		}
	}
	return nil
}

// printTable aligns a table, without the columns that only -o wide shows.
func (d *demo) printTable(table metav1.Table, prefix string, namespaced bool) error {
	w := tabwriter.NewWriter(d.screen.out, 0, 0, 3, ' ', 0)
	var header []string
	if namespaced {
		header = []string{"NAMESPACE"}
	}
	for _, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			header = append(header, strings.ToUpper(column.Name))
		}
	}
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, row := range table.Rows {
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(row.Object.Raw, &object); err != nil {
			return fmt.Errorf("reading a row of a table: %w", err)
		}
		var cells []string
		if namespaced {
			cells = []string{object.Namespace}
		}
		for i, cell := range row.Cells {
			if table.ColumnDefinitions[i].Priority != 0 {
				continue
			}
			text := ""
			if cell != nil {
				text = fmt.Sprint(cell)
			}
			if i == 0 {
				text = prefix + text
			}
			cells = append(cells, text)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

// describe prints one Finding from top to bottom as an answer.
func (d *demo) describe(ctx context.Context, path string) error {
	w, c, err := find(d.workloads, path)
	if err != nil {
		return err
	}
	var f candorv1alpha1.Finding
	if err := d.cluster.Client.Get(ctx, findingOf(w, c), &f); err != nil {
		return err
	}
	d.screen.command(fmt.Sprintf("kubectl describe finding -n %s %s     # rearranged for reading", f.Namespace, f.Name))
	spec, status, evidence := f.Spec, f.Status, f.Spec.Evidence
	out, field := d.fields()
	field("What", "%s", spec.Summary)
	field("Severity", "%s (%s, of which %d can be fixed)", spec.Severity, status.Brief, evidence.Fixable)
	field("Where", "%s in namespace %s, container %s", status.Resource, f.Namespace, spec.Source.Container)
	field("Image", "%s/%s:%s", evidence.Artifact.Registry, evidence.Artifact.Repository, evidence.Artifact.Tag)
	field("Told by", "%s of %s (provider %s)", spec.Source.RefKind, spec.Source.RefName, spec.Source.Provider)
	field("Still true", "%s since %s", status.VerificationOutcome, status.Since.UTC().Format("2006-01-02 15:04 UTC"))
	for _, condition := range status.Conditions {
		field(condition.Type, "%s, %s: %s", condition.Status, condition.Reason, condition.Message)
	}
	field("Explained", "%s", status.Explained)
	field("Fingerprint", "%s", status.Fingerprint)
	if err := out.Flush(); err != nil {
		return err
	}
	return d.printEvidence(evidence)
}

// fields returns a function that prints a name and, beside it, lines of text; they show once the writer is flushed.
func (d *demo) fields() (*tabwriter.Writer, func(name, format string, args ...any)) {
	out := tabwriter.NewWriter(d.screen.out, 0, 0, 2, ' ', 0)
	return out, func(name, format string, args ...any) {
		name += ":"
		for _, line := range wrap(fmt.Sprintf(format, args...)) {
			fmt.Fprintf(out, "%s\t%s\n", name, line)
			name = ""
		}
	}
}

func (d *demo) printEvidence(evidence *candorv1alpha1.Evidence) error {
	d.screen.say("Evidence, worst first:")
	out := tabwriter.NewWriter(d.screen.out, 0, 0, 2, ' ', 0)
	for _, e := range evidence.Top {
		fixed := "no fix yet"
		if e.Fixed != "" {
			fixed = "fixed in " + e.Fixed
		}
		fmt.Fprintf(out, "  %s\t%s\t%s\t%s\t%s\n", e.Severity, e.ID, e.Package, e.Installed, fixed)
	}
	if more := int(evidence.Total) - len(evidence.Top); more > 0 {
		fmt.Fprintf(out, "  and %d more\n", more)
	}
	return out.Flush()
}

// wrap breaks text into lines between words.
func wrap(text string) []string {
	var lines []string
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		if last < 0 || len(lines[last])+len(word) >= textWidth {
			lines = append(lines, word)
			continue
		}
		lines[last] += " " + word
	}
	return lines
}
