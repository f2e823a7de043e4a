// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"fmt"
	"slices"

	"github.com/candor-dev/candor/internal/fleet/matcher"
)

// CheckUnseenPipeline returns why an object must not show or take over a pipeline that it did not make, and of which only Fleet
// Management knows the matchers; nil if these are judged when it is applied.
func (r Rules) CheckUnseenPipeline() error {
	if !r.Bound() {
		return nil
	}
	if err := r.Broken(); err != nil {
		return err
	}
	return r.unseen("whose pipeline it would show or take over", nil)
}

// CheckUnseenCollectors returns why a selector must not give attributes to collectors of which nothing is known; nil if all are
// allowed, or if they are judged when it is applied.
func (r Rules) CheckUnseenCollectors() error {
	if err := r.Broken(); err != nil {
		return err
	}
	if !slices.ContainsFunc(r.policies, constrainsCollectors) {
		return nil
	}
	return r.unseen("whether allowedCollectors allows what it reaches", constrainsCollectors)
}

// CheckUnseenCollector returns why a collector must not be given anything of which nothing is known but its ID; empty if that is
// enough to allow it, or if it is judged when something is given.
func (r Rules) CheckUnseenCollector(id string) string {
	if reason := r.CheckCollectorID(id); reason != "" {
		return reason
	}
	byID := func(m matcher.Matcher) bool { return m.Name() == matcher.CollectorID && m.Matches(id) }
	if r.collector(byID) == "" {
		return ""
	}
	return textOf(r.unseen("whether allowedCollectors allows the collector", constrainsCollectors))
}

// CheckUnseenValue returns why an attribute must not be set to values that are not known yet; empty if it may have any, or if they are
// judged when it is applied.
func (r Rules) CheckUnseenValue(key string) string {
	if reason := r.CheckKey(key); reason != "" {
		return reason
	}
	_, patterns := r.patterns(key)
	if len(patterns) == 0 || slices.ContainsFunc(patterns, func(p pattern) bool { return p.expression == nil }) {
		return ""
	}
	return textOf(r.unseen("whether its values are allowed", constrainsAttributes))
}

// unseen refuses what none of the policies judges again when it is applied; nil if one does. speaks are those that it is about; nil for
// all.
func (r Rules) unseen(what string, speaks func(Policy) bool) error {
	if slices.ContainsFunc(r.policies, func(p Policy) bool { return p.selector != nil && (speaks == nil || speaks(p)) }) {
		return nil
	}
	return fmt.Errorf("%s: it cannot be told before it is applied %s, and is judged then only in a namespace that a namespaceSelector selects: "+
		"have an administrator add one that selects this namespace", r.says(speaks), what)
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
