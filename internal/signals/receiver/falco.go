// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package receiver

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
)

// falcoEvent is what is read of an event of Falco, as Falco and falcosidekick post it. The output and the other fields stay
// unread: arguments of processes may hold secrets, and times and process numbers would make each event news.
type falcoEvent struct {
	Rule     string   `json:"rule"`
	Priority string   `json:"priority"`
	Hostname string   `json:"hostname"`
	Tags     []string `json:"tags"`
	Fields   struct {
		Namespace string `json:"k8s.ns.name"`
		Pod       string `json:"k8s.pod.name"`
		Container string `json:"container.name"`
	} `json:"output_fields"`
}

var falcoSeverities = map[string]candorv1alpha1.Severity{
	"emergency": candorv1alpha1.SeverityCritical, "alert": candorv1alpha1.SeverityCritical, "critical": candorv1alpha1.SeverityCritical,
	"error": candorv1alpha1.SeverityHigh, "warning": candorv1alpha1.SeverityMedium, "notice": candorv1alpha1.SeverityLow,
	"informational": candorv1alpha1.SeverityLow, "info": candorv1alpha1.SeverityLow, "debug": candorv1alpha1.SeverityLow,
}

// decodeFalco reads an event about a Pod, or else about the node that Falco runs on.
func decodeFalco(body []byte) (said, error) {
	var e falcoEvent
	if err := parse(body, &e); err != nil {
		return said{}, err
	}
	severity, known := falcoSeverities[strings.ToLower(e.Priority)]
	if !known {
		return said{}, &invalid{"priority", "must be one of Falco: Emergency, Alert, Critical, Error, Warning, Notice, Informational or Debug"}
	}
	rule := signals.Clean(e.Rule, len(e.Rule))
	if rule == "" {
		return said{}, &invalid{"rule", "must name the rule of Falco"}
	}
	s := said{form: FormFalco, namespace: present(e.Fields.Namespace), Signal: Signal{
		Severity: severity, Kind: "Pod", Name: present(e.Fields.Pod), Container: present(e.Fields.Container),
		ID: shortened(rule), Summary: falcoSummary(rule, e.Tags),
	}}
	switch {
	case s.Name != "" && s.namespace == "":
		return said{}, &invalid{"output_fields.k8s.ns.name", "must be there beside k8s.pod.name"}
	case s.Name != "":
		return s, nil
	}
	s.Kind, s.Name = "Node", e.Hostname
	if s.Name == "" {
		return said{}, &invalid{"hostname", "must name the node where output_fields names no pod in k8s.pod.name"}
	}
	if s.Container == "host" { // what Falco calls processes outside containers
		s.Container = ""
	}
	return s, nil
}

// present returns a field, or nothing for what Falco writes where there is none.
func present(field string) string {
	if field == "<NA>" {
		return ""
	}
	return field
}

// shortened returns the name of a rule as an ID: a long one ends in a hash of the whole.
func shortened(rule string) string {
	if len(rule) <= maxID {
		return rule
	}
	const digits = 16
	sum := sha256.Sum256([]byte(rule))
	return signals.Cut(rule, maxID-digits-1) + " " + hex.EncodeToString(sum[:])[:digits]
}

// falcoSummary is the same for the same rule, in whatever order its tags come.
func falcoSummary(rule string, tags []string) string {
	tags = slices.Clone(tags)
	slices.Sort(tags)
	if tags = slices.Compact(tags); len(tags) == 0 {
		return rule
	}
	return rule + " (" + strings.Join(tags, ", ") + ")"
}
