// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package checks holds what Candor asks of its OLM bundle beyond the tests of Operator SDK. It needs the folder of the bundle and
// nothing else: no cluster, no network.
package checks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/operator-framework/api/pkg/apis/scorecard/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// check is one test of the scorecard.
type check struct {
	name string
	find func(*Bundle, *notes)
}

var all = []check{
	{"optional-dependency", optionalDependency},
	{"rbac", rbac},
	{"least-privilege", leastPrivilege},
	{"examples", examples},
	{"webhooks", webhooks},
	{"images", images},
	{"restricted", restricted},
	{"upgrade", upgrade},
	{"metadata", metadata},
}

// Names returns the names of the tests.
func Names() []string {
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	return names
}

// Run runs the named tests, or all of them, over the bundle in a folder.
func Run(folder string, names ...string) v1alpha3.TestStatus {
	if len(names) == 0 {
		names = Names()
	}
	var status v1alpha3.TestStatus
	for _, name := range names {
		status.Results = append(status.Results, run(folder, name))
	}
	return status
}

func run(folder, name string) v1alpha3.TestResult {
	result := v1alpha3.TestResult{Name: name, State: v1alpha3.ErrorState, CreationTimestamp: metav1.Time{Time: time.Now()}}
	i := slices.IndexFunc(all, func(c check) bool { return c.name == name })
	if i < 0 {
		result.Errors = []string{fmt.Sprintf("there is no test %q; known: %s", name, strings.Join(Names(), ", "))}
		return result
	}
	bundle, err := Read(folder)
	if err != nil {
		result.Errors = []string{err.Error()}
		return result
	}
	var n notes
	all[i].find(bundle, &n)
	result.State, result.Errors, result.Log = v1alpha3.PassState, n.errors, strings.Join(n.remarks, "\n")
	if len(n.errors) > 0 {
		result.State = v1alpha3.FailState
	}
	return result
}

// notes is what a check has to say, a sentence each.
type notes struct{ errors, remarks []string }

func (n *notes) errorf(format string, arguments ...any) {
	n.errors = append(n.errors, fmt.Sprintf(format, arguments...))
}

// remarkf says what is no fault.
func (n *notes) remarkf(format string, arguments ...any) {
	n.remarks = append(n.remarks, fmt.Sprintf(format, arguments...))
}
