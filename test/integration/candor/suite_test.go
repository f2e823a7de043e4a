// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package candor tests the manager on a real API server, under its own rights.
package candor

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/test/suite"
)

var cluster *suite.Cluster

func TestCandor(t *testing.T) { suite.Run(t, "Signals on a real API server") }

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster = suite.Start(ctx)
	Expect(cluster.InstallTrivyCRDs(ctx)).To(Succeed())
})
