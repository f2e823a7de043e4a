// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package extsync

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/source"
)

// MaxAttributes is how many attributes a fetch may come to in all: they are kept in memory.
const MaxAttributes = 1_000_000

const (
	// maxID and maxValue bound what a record may give, in characters: an ID as the status takes it, a value as the API of Fleet
	// Management takes it at most.
	maxID, maxValue = 512, 1024
	// maxShown bounds the IDs that a message names, and maxSample the records of a sample.
	maxShown, maxSample = 5, 5
	// maxField bounds the name of a field that a message shows, in bytes.
	maxField = 60
	redacted = "(redacted)"
)

// DryRuns are the values that the annotation of a dry run can have.
var DryRuns = []string{"true", "false", fleetmanagementv1alpha1.DryRunRedacted}

// Claims are the attributes that collectors are to get, by ID and key. No collector has an empty set.
type Claims map[string]map[string]string

// Projection is what records come to.
type Projection struct {
	Claims Claims
	// Records is how many there are.
	Records int
	// Duplicates is how many records name a collector that an earlier one names; DuplicateIDs are the first few of their IDs.
	Duplicates   int
	DuplicateIDs []string
	// Unnamed, Incomplete and Empty count the records that are left out: those without a usable ID, those that lack a required
	// field, and those that have none of the mapped fields.
	Unnamed, Incomplete, Empty int
	// TooMany says that the records come to more than MaxAttributes; nothing else is told then.
	TooMany bool
	// Skipped is how many things the source lists that are no records.
	Skipped int
	// Long counts values that are left out since they are longer than Fleet Management takes at all, and Unfit those that have no
	// text, such as lists.
	Long, Unfit int
	// Fields are the first few names, in order, of what the first record has.
	Fields []string
	// Sample is what the first records come to, one after another.
	Sample []fleetmanagementv1alpha1.OwnedKeys
}

// Project makes claims of records. Of records that name the same collector the first or the last one counts, as onDuplicate says.
func Project(records []source.Record, mapping fleetmanagementv1alpha1.AttributeMapping, onDuplicate fleetmanagementv1alpha1.DuplicatePolicy) *Projection {
	p, total := &Projection{Claims: make(Claims, len(records)), Records: len(records)}, 0
	if len(records) > 0 {
		p.Fields = fieldsOf(records[0])
	}
	for _, record := range records {
		id, attributes := p.read(record, mapping)
		if len(attributes) == 0 {
			continue
		}
		if len(p.Sample) < maxSample {
			p.Sample = append(p.Sample, fleetmanagementv1alpha1.OwnedKeys{CollectorID: id, Attributes: attributes})
		}
		if _, named := p.Claims[id]; named {
			p.Duplicates++
			if len(p.DuplicateIDs) < maxShown && !slices.Contains(p.DuplicateIDs, id) {
				p.DuplicateIDs = append(p.DuplicateIDs, id)
			}
			if onDuplicate == fleetmanagementv1alpha1.DuplicateFirst {
				continue
			}
		}
		if total += len(attributes) - len(p.Claims[id]); total > MaxAttributes {
			return &Projection{TooMany: true}
		}
		p.Claims[id] = attributes
	}
	return p
}

func fieldsOf(record source.Record) []string {
	names := slices.Sorted(maps.Keys(record))
	names = names[:min(len(names), maxShown)]
	for i, name := range names {
		names[i] = fault.OneLine(name, maxField)
	}
	return names
}

// read returns what one record gives; no attributes if it is left out.
func (p *Projection) read(record source.Record, mapping fleetmanagementv1alpha1.AttributeMapping) (id string, attributes map[string]string) {
	id, named := source.Text(record[mapping.CollectorIDField])
	if !named || strings.TrimSpace(id) == "" || !utf8.ValidString(id) || utf8.RuneCountInString(id) > maxID {
		p.Unnamed++
		return "", nil
	}
	for _, field := range mapping.RequiredKeys {
		if value, has := record[field]; !has || value == nil {
			p.Incomplete++
			return "", nil
		}
	}
	attributes = make(map[string]string, len(mapping.AttributeFields))
	for key, field := range mapping.AttributeFields {
		value := record[field]
		if value == nil {
			continue
		}
		text, fits := source.Text(value)
		switch {
		case !fits:
			p.Unfit++
		case utf8.RuneCountInString(text) > maxValue:
			p.Long++
		default:
			attributes[key] = text
		}
	}
	if len(attributes) == 0 {
		p.Empty++
	}
	return id, attributes
}

// Problems says what was left out and why, in one sentence each with a space between them; empty for nothing. No value is shown.
func (p *Projection) Problems() string {
	var all []string
	for _, problem := range []struct {
		n    int
		text string
	}{
		{p.Unnamed, "without a usable collector ID, left out: %d."},
		{p.Incomplete, "without a field of mapping.requiredKeys, left out: %d."},
		{p.Empty, "with none of the mapped fields, left out: %d."},
		{p.Duplicates, "that name a collector which an earlier one names: %d."},
	} {
		if problem.n > 0 {
			all = append(all, fmt.Sprintf("Records "+problem.text, problem.n))
		}
	}
	if p.Skipped > 0 {
		all = append(all, fmt.Sprintf("Elements of the list that are no records, left out: %d.", p.Skipped))
	}
	if p.Long > 0 {
		all = append(all, fmt.Sprintf("Values longer than %d characters, left out: %d.", maxValue, p.Long))
	}
	if p.Unfit > 0 {
		all = append(all, fmt.Sprintf("Lists and objects where a value is needed, left out: %d.", p.Unfit))
	}
	return strings.Join(all, " ")
}

// Shown returns a copy of a sample.
func Shown(sample []fleetmanagementv1alpha1.OwnedKeys) []fleetmanagementv1alpha1.OwnedKeys {
	return sampleWith(sample, func(value string) string { return value })
}

// Redacted returns a copy of a sample that shows keys and no values.
func Redacted(sample []fleetmanagementv1alpha1.OwnedKeys) []fleetmanagementv1alpha1.OwnedKeys {
	return sampleWith(sample, func(string) string { return redacted })
}

func sampleWith(sample []fleetmanagementv1alpha1.OwnedKeys, show func(string) string) []fleetmanagementv1alpha1.OwnedKeys {
	all := make([]fleetmanagementv1alpha1.OwnedKeys, 0, len(sample))
	for _, s := range sample {
		shown := make(map[string]string, len(s.Attributes))
		for key, value := range s.Attributes {
			shown[key] = show(value)
		}
		all = append(all, fleetmanagementv1alpha1.OwnedKeys{CollectorID: s.CollectorID, Attributes: shown})
	}
	return all
}

// Fingerprint stands for those parts of a spec that decide what a fetch returns and what it comes to. When it differs, records have to
// be fetched anew.
func Fingerprint(spec fleetmanagementv1alpha1.ExternalAttributeSyncSpec) string {
	text, err := json.Marshal([]any{spec.Source, spec.Mapping, spec.OnDuplicate})
	if err != nil {
		panic(err) // these types hold nothing that has no JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
