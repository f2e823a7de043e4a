// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

const listing = `errors 
fmt errors
k8s.io/api fmt
etcd fmt
kube-apiserver k8s.io/api fmt
`

func TestTrackerPercent(t *testing.T) {
	for name, test := range map[string]struct {
		lines []string
		want  int
	}{
		"nothing is done before the first line":                   {nil, 0},
		"a package settles all that it imports":                   {[]string{"fmt"}, 40},
		"a package counts once":                                   {[]string{"fmt", "errors", "fmt"}, 40},
		"a warm cache names only what is missing":                 {[]string{"etcd"}, 60},
		"other output counts for nothing":                         {[]string{"go: downloading k8s.io/api v0.35.4", "# fmt", ""}, 0},
		"the linker still runs after the last package of the two": {[]string{"etcd", "kube-apiserver"}, 99},
	} {
		t.Run(name, func(t *testing.T) {
			packages := newTracker(listing)
			for _, line := range test.lines {
				packages.saw(line)
			}
			if got := packages.percent(); got != test.want {
				t.Errorf("%d %%, want %d %%", got, test.want)
			}
		})
	}
}

func TestTrackerLeavesOtherLinesForTheError(t *testing.T) {
	packages := newTracker(listing)
	if packages.saw("fmt: no space left on device") {
		t.Error("took an error for a package")
	}
	if !packages.saw("fmt") {
		t.Error("took a package for an error")
	}
}

func TestTrackerOfAnEmptyListing(t *testing.T) {
	if got := newTracker("").percent(); got != 0 {
		t.Errorf("%d %%, want 0 %%", got)
	}
}
