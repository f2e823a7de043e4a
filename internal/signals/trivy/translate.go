// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"fmt"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

// The longest names that a Finding holds.
const (
	maxKind = 63
	maxName = 253
)

// scanJob matches the Jobs that Trivy Operator itself runs.
var scanJob = regexp.MustCompile(`^(scan-[a-z]+report|node-collector)-[a-z0-9]+$`)

// translate reads a report, compacted or whole.
func (c compacter) translate(object *unstructured.Unstructured) (signals.Report, error) {
	compacted, err := c.compact(object)
	if err != nil {
		return signals.Report{}, err
	}
	slim := compacted.(*unstructured.Unstructured)
	subject, err := subjectOf(slim)
	report := signals.Report{
		Subject: subject, Name: slim.GetName(), Superseded: slim.GetAnnotations()[annotationTTL] == "0s", Updated: slim.GetCreationTimestamp().Time,
	}
	if err != nil {
		return report, err
	}
	body, _ := slim.Object[compactKey].(map[string]any)
	text := func(key string) string { value, _ := body[key].(string); return value }
	if problem := text(keyProblem); problem != "" {
		return report, &signals.Drop{Reason: signals.DropMalformed, Detail: problem}
	}
	lines, kept := body[keyLines].(string)
	entries, packed := unpack(lines)
	if !kept || !packed {
		return report, &signals.Drop{Reason: signals.DropMalformed, Detail: "the field " + compactKey + " is not what is kept of a report"}
	}
	if updated, err := time.Parse(time.RFC3339, text(keyUpdated)); err == nil {
		report.Updated = updated
	}
	report.Artifact = candorv1alpha1.Artifact{
		Registry: signals.Cut(text(keyRegistry), 256), Repository: signals.Cut(text(keyRepo), 256),
		Tag: signals.Cut(text(keyTag), 128), Digest: signals.Cut(text(keyDigest), 160),
	}
	report.Entries = entries
	return report, nil
}

// subjectOf returns what a report speaks of. Trivy Operator leaves out the name label where the name is no label value,
// and loses the annotation when it marks a report as superseded; the controller is there always.
func subjectOf(report *unstructured.Unstructured) (signals.Subject, error) {
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
	case len(subject.Kind) > maxKind || len(subject.Name) > maxName:
		return subject, &signals.Drop{Reason: signals.DropMalformed, Detail: fmt.Sprintf(
			"the resource's kind has %d and its name %d characters; the most are %d and %d", len(subject.Kind), len(subject.Name), maxKind, maxName)}
	case subject.Kind == "Job" && scanJob.MatchString(subject.Name):
		return subject, &signals.Drop{Reason: signals.DropScanJob, Detail: "the resource is a Job of the scanner itself"}
	}
	return subject, nil
}
