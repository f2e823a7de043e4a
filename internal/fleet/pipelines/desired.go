// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pipelines decides what is to be done about one pipeline. It is pure: it is given what the object asks for and what
// Fleet Management holds, and returns at most one write.
package pipelines

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/matcher"
)

// Fields that may differ, as they are told in status.drift, events and metrics.
const (
	fieldName       = "name"
	fieldContents   = "contents"
	fieldMatchers   = "matchers"
	fieldEnabled    = "enabled"
	fieldConfigType = "configType"
	fieldSource     = "source"
	// fieldAll stands for a pipeline that is gone.
	fieldAll = "pipeline"
)

// Desired returns what a Pipeline asks Fleet Management for under a name. It has no ID and no metadata.
func Desired(p *fleetmanagementv1alpha1.Pipeline, name string) fleetclient.Pipeline {
	want := fleetclient.Pipeline{
		Name: name, Contents: p.Spec.Contents, Enabled: p.Spec.Enabled == nil || *p.Spec.Enabled, ConfigType: p.Spec.ConfigType,
	}
	if want.ConfigType == "" {
		want.ConfigType = fleetmanagementv1alpha1.ConfigTypeAlloy
	}
	for _, text := range p.Spec.Matchers {
		if m, err := matcher.Parse(text); err == nil {
			text = m.Text()
		}
		want.Matchers = append(want.Matchers, text)
	}
	if s := p.Spec.Source; s != nil && (s.Type == fleetmanagementv1alpha1.SourceGit || s.Type == fleetmanagementv1alpha1.SourceTerraform) {
		want.Source = &fleetclient.Source{Type: s.Type, Namespace: s.Namespace}
	}
	return want
}

// Hash returns the SHA-256, in hexadecimal, of what a pipeline says. Pipelines that mean the same have the same hash.
func Hash(p fleetclient.Pipeline) string {
	// Marshalling strings, booleans and slices of them cannot fail.
	text, _ := json.Marshal(struct {
		Name, Contents string
		Matchers       []string
		Enabled        bool
		ConfigType     fleetmanagementv1alpha1.ConfigType
		Source         *fleetclient.Source
	}{p.Name, canonical(p.Contents), matcher.CanonicalSet(p.Matchers), p.Enabled, p.ConfigType, p.Source})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Diff names the fields in which a live pipeline means something else than what is wanted. Metadata is nobody's concern, and the
// source is one only where it is asked for.
func Diff(want, live fleetclient.Pipeline) []string {
	var fields []string
	differ := func(field string, differs bool) {
		if differs {
			fields = append(fields, field)
		}
	}
	differ(fieldName, want.Name != live.Name)
	differ(fieldContents, want.Contents != live.Contents && canonical(want.Contents) != canonical(live.Contents))
	differ(fieldMatchers, !slices.Equal(matcher.CanonicalSet(want.Matchers), matcher.CanonicalSet(live.Matchers)))
	differ(fieldEnabled, want.Enabled != live.Enabled)
	differ(fieldConfigType, want.ConfigType != live.ConfigType)
	differ(fieldSource, want.Source != nil && (live.Source == nil || *want.Source != *live.Source))
	return fields
}

// BringsContents reports whether a write brings contents that Fleet Management does not hold yet, or another type of them.
func (d Decision) BringsContents() bool {
	if d.Action == Create || d.Live == nil {
		return true
	}
	fields := Diff(d.Write, *d.Live)
	return slices.Contains(fields, fieldContents) || slices.Contains(fields, fieldConfigType)
}

// canonical drops what editors and transports change by themselves: carriage returns at the ends of lines, white space there,
// and empty lines at the end.
func canonical(contents string) string {
	lines := strings.Split(contents, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRightFunc(line, unicode.IsSpace)
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}
