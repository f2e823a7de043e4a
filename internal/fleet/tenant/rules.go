// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/candor-dev/candor/internal/fleet/lint"
	"github.com/candor-dev/candor/internal/fleet/matcher"
)

const (
	// maxNamed is how many policies, matchers, keys or patterns a message names.
	maxNamed = 10
	// maxShown is how many characters it shows of what people wrote.
	maxShown = 100
)

// Rules are what the policies that bind somebody, or a namespace, come to. What one of them allows is allowed; what none of them
// speaks of is free. The zero Rules allow everything. They are safe for concurrent use.
type Rules struct {
	// policies are in the order of their names.
	policies []Policy
}

// ForUser returns the rules for what a user writes into a namespace with these labels.
func ForUser(policies []Policy, user User, namespace map[string]string) Rules {
	return rulesOf(policies, func(p Policy) bool { return p.Names(user) && p.BindsIn(namespace) })
}

// ForNamespace returns the rules for what is stored in a namespace with these labels, whoever wrote it: those of the policies that
// have a namespaceSelector.
func ForNamespace(policies []Policy, namespace map[string]string) Rules {
	return rulesOf(policies, func(p Policy) bool { return p.BindsStored(namespace) })
}

func rulesOf(policies []Policy, binds func(Policy) bool) Rules {
	var r Rules
	for _, p := range policies {
		if binds(p) {
			r.policies = append(r.policies, p)
		}
	}
	slices.SortFunc(r.policies, func(a, b Policy) int { return strings.Compare(a.name, b.name) })
	return r
}

// Bound reports whether a policy binds.
func (r Rules) Bound() bool { return len(r.policies) > 0 }

// Broken names the policies that cannot be read, and why; nil if all can. Nothing is allowed until they are mended.
func (r Rules) Broken() error {
	var broken []string
	for _, p := range r.policies {
		if p.broken != "" {
			broken = append(broken, p.broken)
		}
	}
	if len(broken) == 0 {
		return nil
	}
	return errors.New(joined(broken, "; "))
}

// CheckMatchers returns why matchers are not allowed; nil if one of them is one of those that are required, however it is written. A
// matcher that is no other's text but only implies it is none of them.
func (r Rules) CheckMatchers(texts []string) error {
	if !r.Bound() {
		return nil
	}
	if err := r.Broken(); err != nil {
		return err
	}
	if slices.ContainsFunc(texts, r.requires) { // most are written as equal ones are compared
		return nil
	}
	for _, text := range texts {
		if m, err := matcher.Parse(text); err == nil && r.requires(m.Canonical()) {
			return nil
		}
	}
	var required []string
	for _, p := range r.policies {
		required = slices.AppendSeq(required, maps.Keys(p.required))
	}
	return fmt.Errorf("%s: one of the matchers has to be %s", r.says(nil), shown(required, " or "))
}

func (r Rules) requires(canonical string) bool {
	return slices.ContainsFunc(r.policies, func(p Policy) bool { return p.required[canonical] })
}

// CheckIDs returns why a selector must not name collectors by their IDs; nil if it may, or names none. Collectors that are named are
// meant beside those that the matchers mean, so that these would bound nothing.
func (r Rules) CheckIDs(ids []string) error {
	if !r.Bound() || len(ids) == 0 {
		return nil
	}
	if err := r.Broken(); err != nil {
		return err
	}
	return fmt.Errorf("%s: collectors must not be named by their IDs: select them by matchers", r.says(nil))
}

// CheckSelector returns why a selector of matchers and IDs is not allowed; nil if it is.
func (r Rules) CheckSelector(matchers, ids []string) error {
	if err := r.CheckMatchers(matchers); err != nil {
		return err
	}
	return r.CheckIDs(ids)
}

// CheckKey returns why an attribute must not be set, whatever its value; empty if it may.
func (r Rules) CheckKey(key string) string {
	reason, _ := r.patterns(key)
	return reason
}

// CheckAttribute returns why an attribute must not have this value; empty if it may. The reason does not show the value.
func (r Rules) CheckAttribute(key, value string) string {
	reason, patterns := r.patterns(key)
	if reason != "" || patterns == nil || slices.ContainsFunc(patterns, func(p pattern) bool { return p.allows(value) }) {
		return reason
	}
	texts := make([]string, 0, len(patterns))
	for _, p := range patterns {
		texts = append(texts, p.text)
	}
	return fmt.Sprintf("%s: its value has to match %s", r.says(constrainsAttributes), shown(texts, " or "))
}

// patterns returns what an attribute may be, nil for anything, or why it must not be set.
func (r Rules) patterns(key string) (reason string, patterns []pattern) {
	if err := r.Broken(); err != nil {
		return err.Error(), nil
	}
	constrained := false
	for _, p := range r.policies {
		constrained = constrained || constrainsAttributes(p)
		patterns = append(patterns, p.attributes[key]...)
	}
	if !constrained || len(patterns) > 0 {
		return "", patterns
	}
	var keys []string
	for _, p := range r.policies {
		keys = slices.AppendSeq(keys, maps.Keys(p.attributes))
	}
	return fmt.Sprintf("%s: only these attributes may be set: %s", r.says(constrainsAttributes), shown(keys, ", ")), nil
}

// CheckCollector returns why a collector must not be given anything; empty if it may. attributes returns the value of an attribute,
// empty for one that is absent; it is not asked for matcher.CollectorID.
func (r Rules) CheckCollector(id string, attributes func(key string) string) string {
	return r.collector(func(m matcher.Matcher) bool {
		if m.Name() == matcher.CollectorID {
			return m.Matches(id)
		}
		return m.Matches(attributes(m.Name()))
	})
}

// CheckCollectorID is CheckCollector for a collector of which nothing is known but its ID: it refuses one that no attributes could
// make allowed.
func (r Rules) CheckCollectorID(id string) string {
	return r.collector(func(m matcher.Matcher) bool { return m.Name() != matcher.CollectorID || m.Matches(id) })
}

func (r Rules) collector(holds func(matcher.Matcher) bool) string {
	if err := r.Broken(); err != nil {
		return err.Error()
	}
	var allowed []string
	for _, p := range r.policies {
		if len(p.collectors) == 0 {
			continue
		}
		if !slices.ContainsFunc(p.collectors, func(m matcher.Matcher) bool { return !holds(m) }) {
			return ""
		}
		texts := make([]string, 0, len(p.collectors))
		for _, m := range p.collectors {
			texts = append(texts, m.Canonical())
		}
		allowed = append(allowed, strings.Join(texts, " and "))
	}
	if len(allowed) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: the collector has to match %s", r.says(constrainsCollectors), shown(allowed, " or "))
}

func constrainsAttributes(p Policy) bool { return p.attributes != nil }

func constrainsCollectors(p Policy) bool { return len(p.collectors) > 0 }

// says starts a message by the policies that speak of something; nil for all.
func (r Rules) says(speaks func(Policy) bool) string {
	var names []string
	for _, p := range r.policies {
		if speaks == nil || speaks(p) {
			names = append(names, p.name)
		}
	}
	if len(names) == 1 {
		return "TenantPolicy " + joined(names, ", ")
	}
	return "TenantPolicies " + joined(names, ", ")
}

// shown names what people wrote, however long that is.
func shown(texts []string, separator string) string {
	short := make([]string, 0, len(texts))
	for _, text := range texts {
		short = append(short, shorten(text))
	}
	return joined(short, separator)
}

// joined names the first few of many, in order, each once.
func joined(texts []string, separator string) string {
	texts = slices.Compact(slices.Sorted(slices.Values(texts)))
	more := ""
	if len(texts) > maxNamed {
		texts, more = texts[:maxNamed], fmt.Sprintf(", and %d more", len(texts)-maxNamed)
	}
	return strings.Join(texts, separator) + more
}

func shorten(text string) string { return lint.Shorten(text, maxShown) }
