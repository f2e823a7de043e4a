// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package matcher

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Selector says which collectors are meant: those that it names, and those that all of its matchers match. One without matchers
// and IDs means none. It is safe for concurrent use.
type Selector struct {
	matchers []Matcher
	ids      map[string]bool
}

// Compile makes a Selector. Its error names each matcher and each ID that is none by its place in its list, from 0 on.
func Compile(matchers, ids []string) (Selector, error) {
	parsed, err := ParseAll(matchers)
	selector := Selector{matchers: parsed, ids: make(map[string]bool, len(ids))}
	for i, id := range ids {
		if strings.TrimSpace(id) == "" {
			err = errors.Join(err, fmt.Errorf("collectorIDs[%d]: an ID must not be blank", i))
		}
		selector.ids[id] = true
	}
	if err != nil {
		return Selector{}, err
	}
	return selector, nil
}

// Matches reports whether the collector with an ID is meant. attributes returns the value of an attribute, empty for one that is
// absent; it is not asked for CollectorID.
func (s Selector) Matches(id string, attributes func(key string) string) bool {
	if s.ids[id] {
		return true
	}
	for _, m := range s.matchers {
		value := id
		if m.name != CollectorID {
			value = attributes(m.name)
		}
		if !m.Matches(value) {
			return false
		}
	}
	return len(s.matchers) > 0
}

// Keys returns the attributes without one of which no collector is meant, in order. A collector that has none of them, and had
// none, need not be looked at, unless wildcard says that a collector can be meant whatever attributes it has: it is named by its
// ID, or all matchers hold for absent attributes.
func (s Selector) Keys() (keys []string, wildcard bool) {
	for _, m := range s.matchers {
		if m.name != CollectorID && !m.Matches("") {
			keys = append(keys, m.name)
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	return keys, len(s.ids) > 0 || len(keys) == 0 && len(s.matchers) > 0
}
