// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

// scanJob matches the Jobs that Trivy Operator itself runs.
var scanJob = regexp.MustCompile(`^(scan-[a-z]+report|node-collector)-[a-z0-9]+$`)

// translate reads a report, compacted or whole. It tells the subject of one that cannot be used, where that much can be told.
func (c compacter) translate(object *unstructured.Unstructured) (signals.Report, error) {
	text, ok := compacted(object)
	if !ok && object.GroupVersionKind() == c.kind {
		text = c.keep(object)
	}
	first, lines, _ := strings.Cut(text, "\n")
	head, ok := readHeader(first)
	entries, packed := unpack(lines)
	report := signals.Report{
		Subject:    signals.Subject{Namespace: object.GetNamespace(), Kind: head.kind, Name: head.name, Container: head.container},
		Name:       object.GetName(),
		Superseded: head.ttl == "0s",
		Updated:    cmp.Or(moment(head.updated), moment(head.created)),
		Entries:    entries,
	}
	switch {
	case head.drop != "":
		return report, &signals.Drop{Reason: head.drop, Detail: head.detail}
	case !ok || !packed:
		return report, &signals.Drop{Reason: signals.DropMalformed, Detail: "this is no " + c.kind.Kind}
	}
	report.Artifact = candorv1alpha1.Artifact{
		Registry: signals.Cut(head.registry, 256), Repository: signals.Cut(head.repository, 256),
		Tag: signals.Cut(head.tag, 128), Digest: signals.Cut(head.digest, 160),
	}
	return report, nil
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
