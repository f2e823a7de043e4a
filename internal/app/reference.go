// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import "github.com/candor-dev/candor/internal/signals"

// Classes returns the table of the reports that Candor reads, for the reference documentation.
func Classes() signals.Classes { return classes() }
