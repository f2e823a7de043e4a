// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package openreports

import (
	"errors"
	"fmt"
	"strings"

	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/packed"
)

// messageBytes bounds a message; no more of it is ever shown.
const messageBytes = 256

// result is one item of a report's list of results.
type result struct {
	source string
	// failed is whether the result is an entry: neither passed nor skipped.
	failed  bool
	entry   signals.Entry
	objects []any
}

// readResult reads an item. source is that of the report, which an item may override.
func readResult(item any, source string) (result, error) {
	object, ok := item.(map[string]any)
	if !ok {
		return result{}, errors.New(" is not an object")
	}
	f := packed.NewItem(object)
	r := result{source: f.Text("source"), objects: f.List("resources")}
	if r.source == "" {
		r.source = source
	}
	r.entry = signals.Entry{
		ID: ruleID(r.source, f.Required("policy"), f.Text("rule")), Message: signals.Cut(f.Text("message"), messageBytes),
	}
	severity := ranks[strings.ToLower(f.Text("severity"))]
	switch strings.ToLower(f.Text("result")) {
	case "pass", "skip":
	case "fail", "warn":
		r.failed, r.entry.Rank = true, severity
	default:
		// A rule that could not be evaluated is neither broken nor kept, which is what an unrated entry means.
		r.failed = true
	}
	if problem := f.Problem(); problem != "" {
		return result{}, fmt.Errorf(".%s", problem)
	}
	return r, nil
}

// ranks are the severities of a result. One without any, or with a word that nobody knows, is unrated.
var ranks = map[string]signals.Rank{
	"critical": signals.Critical, "high": signals.High, "medium": signals.Medium, "low": signals.Low, "info": signals.Low,
}

// ruleID names a rule. Kyverno makes rules for workloads of those for pods and marks their names, so that one rule that a
// Deployment and its pods break would look like two.
func ruleID(source, policy, rule string) string {
	if hasPrefix(source, "kyverno") {
		for _, mark := range []string{"autogen-cronjob-", "autogen-"} {
			rule = strings.TrimPrefix(rule, mark)
		}
	}
	if rule == "" || rule == policy {
		return policy
	}
	return packed.Clean(policy + "/" + rule)
}

// isOwn guards against a loop: what Candor itself may one day publish is no news to it.
func isOwn(source string) bool { return strings.EqualFold(source, "candor") }

func hasPrefix(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}
