// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Command candor-scorecard is a test image of Operator SDK's scorecard: it runs the check that its argument names, or all of them
// without one, over the bundle in /bundle or in the folder that BUNDLE_DIR names, and prints a TestStatus. As the scorecard asks of
// a test image, it exits with 0 whatever the result is.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"

	"github.com/candor-dev/candor/test/scorecard/checks"
)

func main() {
	status := checks.Run(cmp.Or(os.Getenv("BUNDLE_DIR"), "/bundle"), os.Args[1:]...)
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(status); err != nil {
		fmt.Fprintln(os.Stderr, "candor-scorecard:", err)
		os.Exit(1)
	}
}
