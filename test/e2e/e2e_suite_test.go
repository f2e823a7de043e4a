// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

// Package e2e installs Candor on a real cluster, with a controller manager and nodes, as people do: from config/default, and by
// a Subscription of OLM. `make e2e` runs it.
//
//	KUBECONFIG     the cluster, whose current context may do everything; it has no Candor, and for OLM no VulnerabilityReports
//	E2E_IMG        the image of the manager
//	E2E_FLEET_IMG  the image of fakefleet, a Fleet Management for pods; without it, nothing is tested about Fleet Management
//	E2E_LOAD       a command for bash that brings an image to the nodes, with its name as $1 and the path of the one binary that it
//	               is to hold as $2, bin/manager or bin/fakefleet; not needed where the nodes can pull
//	E2E_CATALOG    a command for bash that serves a file-based catalog by a CatalogSource in the namespace olm, with the name of the
//	               CatalogSource as $1 and the folder of the catalog as $2; without it, nothing is tested about OLM
//	E2E_SCORECARD  flags of operator-sdk scorecard, such as "--skip-cleanup=false"; without them, no scorecard runs. Nodes have its
//	               images or can pull them, the one of our own checks by the name E2E_SCORECARD_IMG
//	E2E_KEEP       when set, everything that the tests made stays
//
//	make docker-build && E2E_LOAD='kind load docker-image "$1"' make e2e
package e2e

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/candor-dev/candor/internal/app"
)

const (
	system     = "candor-system"
	deployment = "deployment/candor-controller-manager"
	installer  = "dist/install.yaml"
	reports    = "test/kube/testdata/trivy-crds/vulnerabilityreports.yaml"
)

var (
	cluster client.Client
	image   string
)

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(2 * time.Minute)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyPollingInterval(250 * time.Millisecond)
	RunSpecs(t, "Candor on a real cluster")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	log.SetLogger(GinkgoLogr)
	require("KUBECONFIG", "the kubeconfig of the cluster to test on; Candor will be installed there")
	image = require("E2E_IMG", "the image of the manager; `make e2e` takes IMG")
	load(ctx, image, "bin/manager")
	conf, err := config.GetConfig()
	Expect(err).NotTo(HaveOccurred())
	cluster, err = client.New(conf, client.Options{Scheme: app.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
})

// load brings an image of one binary to the nodes.
func load(ctx context.Context, image, binary string) {
	GinkgoHelper()
	command := os.Getenv("E2E_LOAD")
	if command == "" {
		return
	}
	By("loading " + image)
	path, err := filepath.Abs(filepath.Join("../..", binary))
	Expect(err).NotTo(HaveOccurred())
	run(ctx, "bash", "-euo", "pipefail", "-c", command, "bash", image, path)
}

// install installs config/default and the CRD of VulnerabilityReports until the end of the node that calls it.
func install(ctx context.Context) {
	GinkgoHelper()
	By("installing config/default and the CRD of VulnerabilityReports")
	run(ctx, "make", "-s", "build-installer", "VARIANT=default", "IMG="+image)
	Expect(exists(ctx, installer)).To(BeFalse(), "the cluster has a Candor, or part of one")
	apply(ctx, installer)
	available(ctx)
	if !exists(ctx, reports) {
		removed(reports)
		installReports(ctx)
	}
}

// exists reports whether anything of a file is in the cluster.
func exists(ctx context.Context, file string) bool {
	GinkgoHelper()
	return kubectl(ctx, "get", "--ignore-not-found", "-o", "name", "-f", file) != ""
}

// installReports installs the CRD of VulnerabilityReports, which stays.
func installReports(ctx context.Context) {
	GinkgoHelper()
	kubectl(ctx, "apply", "--server-side", "-f", reports)
	kubectl(ctx, "wait", "--for=condition=Established", "-f", reports, "--timeout=1m")
}

// removed deletes what a file names at the end of the node that calls it.
func removed(file string) {
	cleanup(func(ctx SpecContext) { kubectl(ctx, "delete", "--ignore-not-found", "--timeout=3m", "-f", file) })
}

// apply applies a file until the end of the node that calls it.
func apply(ctx context.Context, file string) {
	GinkgoHelper()
	removed(file)
	kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-f", file)
}

// available waits until the Deployment has replaced its pods and is Available.
func available(ctx context.Context) {
	GinkgoHelper()
	kubectl(ctx, "-n", system, "rollout", "status", deployment, "--timeout=3m")
	kubectl(ctx, "-n", system, "wait", "--for=condition=Available", deployment, "--timeout=3m")
}

// cleanup does something at the end of the node that calls it, unless E2E_KEEP is set.
func cleanup(do func(SpecContext)) {
	if os.Getenv("E2E_KEEP") == "" {
		DeferCleanup(do)
	}
}

func require(variable, what string) string {
	GinkgoHelper()
	value := os.Getenv(variable)
	if value == "" {
		Fail(variable + " is not set. It names " + what + ".")
	}
	return value
}

func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return run(ctx, kubectlName(), args...)
}

func kubectlName() string { return cmp.Or(os.Getenv("KUBECTL"), "kubectl") }

// run runs a command in the root of the module and returns what it prints.
func run(ctx context.Context, name string, args ...string) string {
	GinkgoHelper()
	return feed(ctx, "", name, args...)
}

// feed is run with an input for the command.
func feed(ctx context.Context, input, name string, args ...string) string {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdin = "../..", strings.NewReader(input)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.Output()
	Expect(err).NotTo(HaveOccurred(), "%s\n%s%s", cmd, out, &errors)
	return strings.TrimSpace(string(out))
}
