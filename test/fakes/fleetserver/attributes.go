// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetserver

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	"github.com/prometheus/alertmanager/matcher/compat"
	"github.com/prometheus/alertmanager/pkg/labels"
)

// Limits of attributes and matchers, in characters where they are lengths.
const (
	maxAttributes    = 100
	maxAttributeName = 100
	maxValue         = 150
	maxMatcher       = 200
)

// reserved is what the names of those attributes begin with that only collectors and the server set.
const reserved = "collector."

// collectorID is the attribute that each collector has without saying so.
const collectorID = "collector.ID"

// attributes are what matchers look at.
type attributes struct {
	local, remote map[string]string
	id            string
}

func attributesOf(collector *collectorv1.Collector) attributes {
	return attributes{local: collector.GetLocalAttributes(), remote: collector.GetRemoteAttributes(), id: collector.GetId()}
}

// value is the remote one where there is one, but for reserved names. What is absent is empty.
func (a attributes) value(name string) string {
	if value, found := a.remote[name]; found && !strings.HasPrefix(name, reserved) {
		return value
	}
	if value, found := a.local[name]; found || name != collectorID {
		return value
	}
	return a.id
}

type matchers []*labels.Matcher

// parseMatcher is Alertmanager's for the syntax that the original documents: quoted, or free of a few characters.
var parseMatcher = compat.UTF8MatcherParser(slog.New(slog.DiscardHandler))

func parseMatchers(given []string) (matchers, error) {
	parsed := make(matchers, 0, len(given))
	for _, text := range given {
		if utf8.RuneCountInString(text) > maxMatcher {
			return nil, invalid("matcher %q is longer than %d characters", text, maxMatcher)
		}
		matcher, err := parseMatcher(text, "api")
		if err != nil {
			return nil, invalid("matcher %q: %w", text, err)
		}
		parsed = append(parsed, matcher)
	}
	return parsed, nil
}

func (m matchers) all(a attributes) bool {
	for _, matcher := range m {
		if !matcher.Matches(a.value(matcher.Name)) {
			return false
		}
	}
	return true
}

// checkRemote checks all remote attributes of a collector.
func checkRemote(remote map[string]string) error {
	if err := checkNumber(remote); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(remote)) {
		if err := checkName(name); err != nil {
			return err
		}
		if err := checkValue(name, remote[name]); err != nil {
			return err
		}
	}
	return nil
}

func checkNumber(remote map[string]string) error {
	if len(remote) > maxAttributes {
		return invalid("a collector has at most %d remote attributes", maxAttributes)
	}
	return nil
}

func checkName(name string) error {
	switch {
	case name == "":
		return invalid("an attribute needs a name")
	case strings.HasPrefix(name, reserved):
		return invalid("attribute %q is reserved", name)
	case utf8.RuneCountInString(name) > maxAttributeName:
		return invalid("attribute name %q is longer than %d characters", name, maxAttributeName)
	}
	return nil
}

func checkValue(name, value string) error {
	if utf8.RuneCountInString(value) > maxValue {
		return invalid("the value of attribute %q is longer than %d characters", name, maxValue)
	}
	return nil
}
