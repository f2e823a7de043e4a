// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"cmp"
	"fmt"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/packed"
)

// scanJob matches the Jobs that Trivy Operator itself runs.
var scanJob = regexp.MustCompile(`^(scan-[a-z]+report|node-collector)-[a-z0-9]+$`)

// read returns the header of a report, compacted or whole, and the lines behind it.
func (c compacter) read(object *unstructured.Unstructured) (head header, lines string, ok bool) {
	text, ok := packed.Text(object)
	if !ok && object.GroupVersionKind() == c.kind {
		text = c.keep(object)
	}
	return readHeader(text)
}

// subjects tells the subject also of a report that cannot be used, where that much can be told.
func (c compacter) subjects(object *unstructured.Unstructured) ([]signals.Subject, error) {
	head, _, ok := c.read(object)
	subject := signals.Subject{Namespace: object.GetNamespace(), Kind: head.kind, Name: head.name, Container: head.container}
	var told []signals.Subject
	if subject.Kind != "" && subject.Name != "" {
		told = append(told, subject)
	}
	switch {
	case head.drop != "":
		return told, &signals.Drop{Reason: head.drop, Detail: head.detail}
	case !ok:
		return told, c.malformed()
	}
	return told, nil
}

func (c compacter) translate(object *unstructured.Unstructured, subject signals.Subject) (signals.Report, error) {
	head, lines, ok := c.read(object)
	entries, whole := packed.Entries(lines)
	switch {
	case head.drop != "":
		return signals.Report{}, &signals.Drop{Reason: head.drop, Detail: head.detail}
	case !ok || !whole:
		return signals.Report{}, c.malformed()
	}
	return signals.Report{
		Subject:    subject,
		Name:       object.GetName(),
		Superseded: head.ttl == "0s",
		Updated:    cmp.Or(moment(head.updated), moment(head.created)),
		Artifact: candorv1alpha1.Artifact{
			Registry: signals.Cut(head.registry, 256), Repository: signals.Cut(head.repository, 256),
			Tag: signals.Cut(head.tag, 128), Digest: signals.Cut(head.digest, 160),
		},
		Entries: entries,
	}, nil
}

func (c compacter) malformed() *signals.Drop {
	return &signals.Drop{Reason: signals.DropMalformed, Detail: "this is no " + c.kind.Kind}
}

// moment reads a time; zero where there is none.
func moment(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// subjectOf returns what a report speaks of. Trivy Operator leaves out the name label where the name is no label value,
// and loses the annotation when it marks a report as superseded; the controller is there always.
func subjectOf(report *unstructured.Unstructured) (signals.Subject, *signals.Drop) {
	labels, owner := report.GetLabels(), metav1.GetControllerOfNoCopy(report)
	subject := signals.Subject{
		Namespace: report.GetNamespace(), Kind: labels[labelKind], Name: labels[labelName], Container: labels[labelContainer],
	}
	if subject.Name == "" {
		subject.Name = report.GetAnnotations()[annotationName]
	}
	if owner != nil && subject.Name == "" {
		subject.Name = owner.Name
	}
	if owner != nil && subject.Kind == "" {
		subject.Kind = owner.Kind
	}
	switch {
	case subject.Kind == "" || subject.Name == "":
		return subject, &signals.Drop{Reason: signals.DropNoResourceName, Detail: fmt.Sprintf(
			"no label %s, no annotation of that name and no controller says which object the report speaks of", labelName)}
	case len(subject.Kind) > signals.MaxKind || len(subject.Name) > signals.MaxName:
		return subject, &signals.Drop{Reason: signals.DropMalformed, Detail: fmt.Sprintf(
			"the resource's kind has %d and its name %d characters; the most are %d and %d", len(subject.Kind), len(subject.Name), signals.MaxKind, signals.MaxName)}
	case !signals.ValidObject(subject.Kind, subject.Name):
		return signals.Subject{}, &signals.Drop{Reason: signals.DropMalformed, Detail: fmt.Sprintf(
			"%q of kind %q can be no object", subject.Name, subject.Kind)}
	case subject.Kind == "Job" && scanJob.MatchString(subject.Name):
		return subject, &signals.Drop{Reason: signals.DropScanJob, Detail: "the resource is a Job of the scanner itself"}
	}
	return subject, nil
}
