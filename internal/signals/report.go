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
	// Fields are the paths of what Compact reads beside metadata, such as "report.artifact". Nothing else is decoded.
	Fields []string
	// Compact cuts a report down to what Translate needs, to be kept in memory. It accepts its own output.
	Compact func(object any) (any, error)
	// Translate reads a compacted report. Its error is a *Drop.
	Translate func(*unstructured.Unstructured) (Report, error)
}

// Subject is the object that a report speaks of, as the report itself names it: of a Deployment, it is a ReplicaSet.
type Subject struct {
	Namespace, Kind, Name, Container string
}

// Report is what one report says.
type Report struct {
	Subject Subject
	// Name is the name of the report itself.
	Name string
	// Superseded means that the scanner says a later revision has a report of its own.
	Superseded bool
	// Updated is when the scanner wrote it; zero where it does not say.
	Updated time.Time
	// Artifact is the image that was scanned.
	Artifact candorv1alpha1.Artifact
	// Entries are sorted worst first and hold no duplicates.
	Entries []Entry
}

// Entry is one vulnerability of one package, or one failed check.
type Entry struct {
	Rank Rank
	ID   string
	// Package, Installed and Fixed are empty for a check.
	Package, Installed, Fixed string
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
