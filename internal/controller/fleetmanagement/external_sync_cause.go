// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"fmt"
	"maps"
	"slices"
)

// maxFieldsTold is how many fields of the mapping a message names.
const maxFieldsTold = 5

// cause says which field of the spec to look at where no Collector gets anything of the records. Names of fields are told, and no values.
func (p *syncPass) cause() string {
	f, mapping := p.memory.fetched, p.Spec.Mapping
	if f == nil {
		return "Look at spec.selector, spec.mapping.collectorIDField and spec.mapping.attributeFields."
	}
	fields := ""
	if len(f.Fields) > 0 {
		fields = fmt.Sprintf(" The first record has the fields %q.", f.Fields)
	}
	switch {
	case f.Records > 0 && f.Unnamed == f.Records:
		return fmt.Sprintf("No record has an ID in the field %q of spec.mapping.collectorIDField.", mapping.CollectorIDField) + fields
	case len(f.Claims) == 0 && f.Empty > 0:
		names := slices.Compact(slices.Sorted(maps.Values(mapping.AttributeFields)))
		return fmt.Sprintf("Records have none of the fields %q of spec.mapping.attributeFields.", names[:min(len(names), maxFieldsTold)]) + fields
	case len(f.Claims) == 0:
		return "Records lack a field of spec.mapping.requiredKeys." + fields
	case !p.named():
		return fmt.Sprintf("What they have in the field %q of spec.mapping.collectorIDField is the ID of no registered Collector of this namespace.",
			mapping.CollectorIDField) + fields
	default:
		return "spec.selector means none of the Collectors that they name."
	}
}

// named says that some record names a registered Collector of the namespace.
func (p *syncPass) named() bool {
	for id := range p.live {
		if len(p.memory.fetched.Claims[id]) > 0 {
			return true
		}
	}
	return false
}
