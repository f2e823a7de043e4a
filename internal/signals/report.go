// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package signals

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
)

// Class is one kind of report that another tool publishes, and how to read it. Adding a class adds a provider.
type Class struct {
	// Provider is the name that spec.providers of a SignalPolicy uses.
	Provider string
	// Kind is the kind of the reports. Candor does not own it, and it need not exist.
	Kind schema.GroupVersionKind
	// CRD is the name of the CustomResourceDefinition that brings the kind.
	CRD string
	// Install says what a person installs to have such reports.
	Install string
	// One and Many say what an entry is, in the singular and in the plural.
	One, Many string
	// NoFix means that no version fixes an entry, so that onlyFixable leaves none out.
	NoFix bool
	// AddsUp means that the reports of one workload complete each other, since several tools write them, and that they may
	// speak of its pods in place of it. Else one report speaks for a container.
	AddsUp bool
	// Fields are the paths of what Compact reads beside metadata, such as "report.artifact". Nothing else is decoded.
	Fields []string
	// Compact cuts a report down to what Subjects and Translate need, to be kept in memory. It accepts its own output.
	Compact func(object any) (any, error)
	// Subjects returns what a compacted report speaks of, each object once. Its error is a *Drop: why the report, or what it
	// says of some objects, cannot be used. Subjects beside an error are what can be told all the same.
	Subjects func(*unstructured.Unstructured) ([]Subject, error)
	// Translate reads what a compacted report says of one of its subjects. Its error is a *Drop.
	Translate func(*unstructured.Unstructured, Subject) (Report, error)
}

// Reports returns what a report, compacted or whole, says of each of its subjects, as far as it can be used. Its error is a
// *Drop.
func (c Class) Reports(object *unstructured.Unstructured) ([]Report, error) {
	if c.Compact != nil {
		if slim, err := c.Compact(object); err == nil {
			object = slim.(*unstructured.Unstructured)
		}
	}
	subjects, err := c.Subjects(object)
	var reports []Report
	for _, subject := range subjects {
		if report, dropped := c.Translate(object, subject); dropped == nil {
			reports = append(reports, report)
		}
	}
	return reports, err
}

// Subject is the object that a report speaks of, as the report itself names it: of a Deployment, it is a ReplicaSet.
type Subject struct {
	Namespace, Kind, Name, Container string
}

// Report is what one report says of one object.
type Report struct {
	Subject Subject
	// Name is the name of the report itself.
	Name string
	// Superseded means that the scanner says a later revision has a report of its own.
	Superseded bool
	// Updated is when the scanner wrote it; zero where it does not say.
	Updated time.Time
	// Summary is what it says in one line; empty to have that computed.
	Summary string
	// Artifact is the image that was scanned.
	Artifact candorv1alpha1.Artifact
	// Entries are sorted worst first and hold no duplicates.
	Entries []Entry
}

// Entry is one vulnerability of one package, one secret in one file, or one failed check.
type Entry struct {
	Rank Rank
	ID   string
	// Package, Installed and Fixed are empty for a check. Of a secret, Package is the file.
	Package, Installed, Fixed string
	// Source is the tool that found it, where a report may hold what several found. It is not content.
	Source string
	// Message is shown and never hashed: scanners put names into it that change with each rollout.
	Message string
}

// Drop reasons: why a report, or what it says, is left out.
const (
	// DropMalformed says that the report does not have the shape of its kind.
	DropMalformed = "malformed"
	// DropNoResourceName says that nothing in the report tells which object it speaks of.
	DropNoResourceName = "no_resource_name"
	// DropScanJob says that the report speaks of the scanner's own Job.
	DropScanJob = "scan_job"
	// DropOwnerGone says that the ReplicaSet or Job of the report is not in the cluster.
	DropOwnerGone = "owner_gone"
	// DropOtherNamespace says that the report speaks of an object in another namespace than its own.
	DropOtherNamespace = "other_namespace"
	// DropTooManyResources says that the report speaks of more objects than are read of one.
	DropTooManyResources = "too_many_resources"
	// DropOwnReport says that what the report holds was said by Candor itself.
	DropOwnReport = "own_report"
	// DropRejected says that the API server refused the Finding.
	DropRejected = "rejected"
)

// Drop is the error of a report that cannot be used.
type Drop struct {
	// Reason is one of the drop reasons; it becomes a metric label.
	Reason string
	// Detail says what is wrong with the report.
	Detail string
}

// Error implements error.
func (d *Drop) Error() string { return d.Reason + ": " + d.Detail }
