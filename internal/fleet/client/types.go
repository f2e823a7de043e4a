// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package client speaks to Grafana Fleet Management: one metered client for the whole process. Its errors are faults, which say
// what to do next.
package client

import (
	"time"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

// Pipeline is a pipeline as Fleet Management holds it.
type Pipeline struct {
	ID, Name, Contents string
	Matchers           []string
	Enabled            bool
	// ConfigType is never empty.
	ConfigType fleetmanagementv1alpha1.ConfigType
	// Source is nil where Fleet Management is told, or tells, none.
	Source *Source
	// Metadata is free-form. An update replaces all of it.
	Metadata             map[string]any
	CreatedAt, UpdatedAt time.Time
}

// Source is where a pipeline comes from: Git, Terraform or Grafana.
type Source struct {
	Type      fleetmanagementv1alpha1.SourceType
	Namespace string
}

// Collector is a collector as Fleet Management holds it.
type Collector struct {
	ID, Name string
	// Enabled is nil where Fleet Management does not tell.
	Enabled *bool
	// Type is Alloy, OpenTelemetryCollector or Unspecified.
	Type                                   string
	LocalAttributes, RemoteAttributes      map[string]string
	CreatedAt, UpdatedAt, MarkedInactiveAt time.Time
}

// OpKind is what an Op does.
type OpKind int

// Kinds of operations.
const (
	OpAdd OpKind = iota
	OpReplace
	OpRemove
)

// Op changes one remote attribute of a collector.
type Op struct {
	Kind OpKind
	Key  string
	// Value is what Add and Replace write. Of a Remove, it is the value that must stand there; empty removes any.
	Value string
	// Old is the value that Replace expects to find; nil replaces any.
	Old *string
}

// Limits are what Fleet Management grants a stack; zero where it does not tell.
type Limits struct {
	Collectors, Pipelines int64
	// APIRequestsPerSecond bound the requests of this client and of everybody else.
	APIRequestsPerSecond float64
}
