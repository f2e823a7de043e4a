// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compaction checks what every provider promises of the reports that it keeps in memory.
package compaction

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/candor-dev/candor/internal/signals"
)

// Slim returns what a class keeps of a report. The test fails unless the report stays as it is, and what is kept is kept whole when
// it is compacted once more.
func Slim(t testing.TB, class signals.Class, report *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	before := report.DeepCopy()
	once, err := class.Compact(report)
	if err != nil {
		t.Fatalf("compact fails: %v", err)
	}
	if !reflect.DeepEqual(report, before) {
		t.Errorf("compact changed its input to %v", report)
	}
	slim := once.(*unstructured.Unstructured)
	if twice, err := class.Compact(slim.DeepCopy()); err != nil || !reflect.DeepEqual(twice, slim) {
		t.Errorf("compacted twice: %v, %v; once: %v", twice, err, slim)
	}
	return slim
}
