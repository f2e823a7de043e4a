// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "strings"

// tracker turns the package names that go build -v prints into a share of the whole. go build names only what it compiles, not
// what it finds in its cache; but a package starts after all that it imports, so one name settles everything below it too.
type tracker struct {
	imports map[string][]string
	done    map[string]bool
}

// newTracker reads lines of "package import import …", as listFormat makes go list print them.
func newTracker(listing string) *tracker {
	t := &tracker{imports: map[string][]string{}, done: map[string]bool{}}
	for line := range strings.Lines(listing) {
		if fields := strings.Fields(line); len(fields) > 0 {
			t.imports[fields[0]] = fields[1:]
		}
	}
	return t
}

// saw reports whether line names a package of the build, and counts it.
func (t *tracker) saw(line string) bool {
	if _, known := t.imports[line]; !known {
		return false
	}
	t.settle(line)
	return true
}

func (t *tracker) settle(pkg string) {
	imports, known := t.imports[pkg]
	if !known || t.done[pkg] {
		return
	}
	t.done[pkg] = true
	for _, below := range imports {
		t.settle(below)
	}
}

// percent stops at 99: the linker still runs after the last package.
func (t *tracker) percent() int {
	if len(t.imports) == 0 {
		return 0
	}
	return min(99, 100*len(t.done)/len(t.imports))
}
