// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleetmanagement tests the fleet's controllers on a real API server, under the manager's own rights, against a Fleet
// Management that counts what it is asked.
package fleetmanagement

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/candor-dev/candor/internal/app"
	"github.com/candor-dev/candor/test/kube"
)

var (
	cluster   *kube.Cluster
	forbidden *kube.ForbiddenLog
)

func TestFleetManagement(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	RunSpecs(t, "The fleet on a real API server")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	logger, lines := kube.WatchForbidden(GinkgoLogr)
	forbidden = lines
	log.SetLogger(logger)
	klog.SetLogger(logger)
	var err error
	cluster, err = kube.Start(kube.Options{Scheme: app.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	Expect(cluster.InstallManagerRBAC(ctx)).To(Succeed())
})

var _ = AfterSuite(func() {
	if cluster != nil {
		Expect(cluster.Stop()).To(Succeed())
	}
})
