// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleetmanagement tests the fleet's controllers on a real API server, under the manager's own rights, against a Fleet
// Management that counts what it is asked.
package fleetmanagement

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"github.com/candor-dev/candor/test/suite"
)

var cluster *suite.Cluster

func TestFleetManagement(t *testing.T) { suite.Run(t, "The fleet on a real API server") }

var _ = BeforeSuite(func(ctx SpecContext) { cluster = suite.Start(ctx) })
