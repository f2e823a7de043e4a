// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"fmt"

	"github.com/candor-dev/candor/internal/signals"
)

// fieldBytes bounds each text that is taken from a report.
const fieldBytes = 512

// entryReader reads one item of a report's list, which has fields; false leaves the item out.
type entryReader struct {
	list   string
	fields []string
	read   func(item fields) (signals.Entry, bool)
}

var vulnerability = entryReader{
	list:   "vulnerabilities",
	fields: []string{"severity", "vulnerabilityID", "resource", "installedVersion", "fixedVersion"},
	read: func(item fields) (signals.Entry, bool) {
		return signals.Entry{
			Rank: signals.RankOf(item.text("severity")), ID: item.required("vulnerabilityID"), Package: item.text("resource"),
			Installed: item.text("installedVersion"), Fixed: item.text("fixedVersion"),
		}, true
	},
}

var failedCheck = entryReader{
	list:   "checks",
	fields: []string{"severity", "checkID", "messages", "title", "success"},
	read: func(item fields) (signals.Entry, bool) {
		return signals.Entry{
			Rank: signals.RankOf(item.text("severity")), ID: item.required("checkID"), Message: item.message(),
		}, !item.flag("success")
	},
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
		var problem string
		entry, wanted := r.read(fields{object: object, problem: &problem})
		if problem != "" {
			return nil, fmt.Errorf("report.%s[%d].%s", r.list, i, problem)
		}
		if wanted {
			entries = append(entries, entry)
		}
	}
	return entries, nil
}

// fields reads typed values and keeps the first problem.
type fields struct {
	object  map[string]any
	problem *string
}

func (f fields) fail(key, problem string) {
	if *f.problem == "" {
		*f.problem = key + " " + problem
	}
}

func (f fields) text(key string) string {
	value, ok := f.object[key]
	if !ok || value == nil {
		return ""
	}
	text, ok := value.(string)
	if !ok {
		f.fail(key, "is not a string")
	}
	return clean(text)
}

func (f fields) required(key string) string {
	text := f.text(key)
	if text == "" {
		f.fail(key, "is empty")
	}
	return text
}

func (f fields) flag(key string) bool {
	value, ok := f.object[key]
	if !ok || value == nil {
		return false
	}
	flag, ok := value.(bool)
	if !ok {
		f.fail(key, "is not a boolean")
	}
	return flag
}

// message returns the first message of a check, else its title.
func (f fields) message() string {
	if messages, ok := f.object["messages"].([]any); ok && len(messages) > 0 {
		if text, ok := messages[0].(string); ok {
			return clean(text)
		}
	}
	return f.text("title")
}

// clean bounds text of a report and makes it fit to be shown.
func clean(text string) string { return signals.Clean(text, fieldBytes) }
