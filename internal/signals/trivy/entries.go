// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"fmt"

	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/internal/signals/packed"
)

// entryReader reads one item of a report's list, which has fields; false leaves the item out.
type entryReader struct {
	list   string
	fields []string
	read   func(item packed.Item) (signals.Entry, bool)
}

var vulnerability = entryReader{
	list:   "vulnerabilities",
	fields: []string{"severity", "vulnerabilityID", "resource", "installedVersion", "fixedVersion"},
	read: func(item packed.Item) (signals.Entry, bool) {
		return signals.Entry{
			Rank: signals.RankOf(item.Text("severity")), ID: item.Required("vulnerabilityID"), Package: item.Text("resource"),
			Installed: item.Text("installedVersion"), Fixed: item.Text("fixedVersion"),
		}, true
	},
}

var failedCheck = entryReader{
	list:   "checks",
	fields: []string{"severity", "checkID", "messages", "title", "success"},
	read: func(item packed.Item) (signals.Entry, bool) {
		return signals.Entry{
			Rank: signals.RankOf(item.Text("severity")), ID: item.Required("checkID"), Message: message(item),
		}, !item.Flag("success")
	},
}

// exposedSecret never reads the field match, which holds part of the secret itself: no path of it is decoded.
var exposedSecret = entryReader{
	list:   "secrets",
	fields: []string{"severity", "ruleID", "target", "category", "title"},
	read: func(item packed.Item) (signals.Entry, bool) {
		return signals.Entry{
			Rank: signals.RankOf(item.Text("severity")), ID: item.Required("ruleID"), Package: item.Text("target"),
			Message: kindOf(item.Text("category"), item.Text("title")),
		}, true
	},
}

// kindOf says what kind of secret a rule finds. The two are often the same word.
func kindOf(category, title string) string {
	if category == "" || category == title {
		return title
	}
	return packed.Clean(category + ": " + title)
}

// readAll reads the whole list or nothing: half a list would look like a workload half as bad.
func (r entryReader) readAll(report map[string]any) ([]signals.Entry, error) {
	list, ok := report[r.list].([]any)
	if !ok {
		return nil, fmt.Errorf("the field report.%s is missing or not a list", r.list)
	}
	entries := make([]signals.Entry, 0, len(list))
	for i, item := range list {
		object, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("report.%s[%d] is not an object", r.list, i)
		}
		fields := packed.NewItem(object)
		entry, wanted := r.read(fields)
		if problem := fields.Problem(); problem != "" {
			return nil, fmt.Errorf("report.%s[%d].%s", r.list, i, problem)
		}
		if wanted {
			entries = append(entries, entry)
		}
	}
	return entries, nil
}

// message returns the first message of a check, else its title.
func message(item packed.Item) string {
	if first := item.First("messages"); first != "" {
		return first
	}
	return item.Text("title")
}
