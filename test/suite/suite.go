// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package suite is what the integration suites share: one control plane for all specs, and managers that run on it as their
// ServiceAccount.
//
//	func TestFleet(t *testing.T) { suite.Run(t, "The fleet on a real API server") }
//
//	var cluster *suite.Cluster
//
//	var _ = BeforeSuite(func(ctx SpecContext) { cluster = suite.Start(ctx) })
//
// Its functions are for Ginkgo's nodes: they fail the spec where something is wrong, and return no errors.
package suite

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/candor-dev/candor/internal/app"
	"github.com/candor-dev/candor/test/kube"
)

// Run runs the specs of a package. Eventually waits for 30 seconds unless a spec says otherwise.
func Run(t *testing.T, description string) {
	t.Helper()
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	RunSpecs(t, description)
}

// Cluster is the control plane of a suite.
type Cluster struct {
	*kube.Cluster

	forbidden *kube.ForbiddenLog
}

// Start starts a control plane that has the manager's kinds and rights, until the suite ends.
func Start(ctx context.Context) *Cluster {
	GinkgoHelper()
	logger, forbidden := kube.WatchForbidden(GinkgoLogr)
	log.SetLogger(logger)
	klog.SetLogger(logger)
	started, err := kube.Start(kube.Options{Scheme: app.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(started.Stop)
	Expect(started.InstallManagerRBAC(ctx)).To(Succeed())
	return &Cluster{Cluster: started, forbidden: forbidden}
}

// Forbidden returns a function that returns the log lines from now on that say "forbidden": rights that the manager lacks.
func (c *Cluster) Forbidden() func() []string {
	before := len(c.forbidden.Lines())
	return func() []string { return c.forbidden.Lines()[before:] }
}
