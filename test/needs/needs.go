// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package needs is for tests of what not every machine has.
package needs

import (
	"os"
	"testing"
)

// Variable returns what an environment variable says. Without it the test is skipped, with the remedy as its reason, such as "to a
// promtool"; where CI is set, as CI systems do, a test that cannot run has failed.
func Variable(t testing.TB, name, remedy string) string {
	t.Helper()
	value := os.Getenv(name)
	if value != "" {
		return value
	}
	reason := "set " + name + " " + remedy
	if os.Getenv("CI") != "" {
		t.Fatal(reason)
	}
	t.Skip(reason)
	return ""
}
