// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Command candor-scorecard checks of a bundle what the scorecard of Operator SDK cannot know. It runs one check, prints its
// result as a TestStatus, and exits with 0 whether the check passes or not, as scorecard tests do.
//
//	candor-scorecard CHECK    with the bundle in $BUNDLE_DIR, else in /bundle
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/apis/scorecard/v1alpha3"
)

// checks return what is wrong.
var checks = map[string]func(*bundle) []string{
	"optional-dependency": optionalDependency,
	"least-privilege":     leastPrivilege,
	"examples":            examples,
	"webhooks":            webhooks,
	"images":              images,
}

func main() {
	var name string
	if len(os.Args) == 2 {
		name = os.Args[1]
	}
	status := v1alpha3.TestStatus{Results: []v1alpha3.TestResult{run(name, cmp.Or(os.Getenv("BUNDLE_DIR"), "/bundle"))}}
	if err := json.NewEncoder(os.Stdout).Encode(status); err != nil {
		fmt.Fprintln(os.Stderr, "candor-scorecard:", err)
		os.Exit(1)
	}
}

func run(name, folder string) v1alpha3.TestResult {
	result := v1alpha3.TestResult{Name: name, State: v1alpha3.PassState}
	check, known := checks[name]
	if !known {
		result.State = v1alpha3.ErrorState
		result.Errors = []string{fmt.Sprintf("no check %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(checks)), ", "))}
		return result
	}
	b, err := read(folder)
	if err != nil {
		result.State, result.Errors = v1alpha3.ErrorState, []string{err.Error()}
		return result
	}
	if result.Errors = check(b); len(result.Errors) > 0 {
		result.State = v1alpha3.FailState
	}
	return result
}
