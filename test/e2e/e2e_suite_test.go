// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

// Package e2e installs config/default on a real cluster, with a controller manager and nodes, and uses it. `make e2e` runs it.
//
//	KUBECONFIG  the cluster, whose current context may do everything
//	E2E_IMG     the image of the manager
//	E2E_LOAD    a command for bash that brings the image to the nodes, with its name as $1 and the path of bin/manager as $2;
//	            not needed where the nodes can pull it
//	E2E_KEEP    when set, everything that the tests made stays
//
// What was there before stays in any case; a Candor that was there is replaced by this one, and stays too.
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

var cluster client.Client

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(250 * time.Millisecond)
	RunSpecs(t, "config/default on a real cluster")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	log.SetLogger(GinkgoLogr)
	require("KUBECONFIG", "the kubeconfig of the cluster to test on; Candor will be installed there")
	image := require("E2E_IMG", "the image of the manager; `make e2e` takes IMG")
	load(ctx, image)
	install(ctx, image)
	conf, err := config.GetConfig()
	Expect(err).NotTo(HaveOccurred())
	cluster, err = client.New(conf, client.Options{Scheme: app.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
})

func load(ctx context.Context, image string) {
	GinkgoHelper()
	command := os.Getenv("E2E_LOAD")
	if command == "" {
		return
	}
	By("loading " + image)
	manager, err := filepath.Abs("../../bin/manager")
	Expect(err).NotTo(HaveOccurred())
	run(ctx, "bash", "-euo", "pipefail", "-c", command, "bash", image, manager)
}

func install(ctx context.Context, image string) {
	GinkgoHelper()
	By("installing config/default and the CRD of VulnerabilityReports")
	run(ctx, "make", "-s", "build-installer", "VARIANT=default", "IMG="+image)
	old := exists(ctx, installer)
	apply(ctx, installer, !old)
	if old {
		// The image may have the name of the one that runs.
		kubectl(ctx, "-n", system, "rollout", "restart", deployment)
	}
	available(ctx)
	if !exists(ctx, reports) {
		apply(ctx, reports, true)
		kubectl(ctx, "wait", "--for=condition=Established", "-f", reports, "--timeout=1m")
	}
}

// exists reports whether anything of a file is in the cluster.
func exists(ctx context.Context, file string) bool {
	GinkgoHelper()
	return kubectl(ctx, "get", "--ignore-not-found", "-o", "name", "-f", file) != ""
}

func apply(ctx context.Context, file string, temporary bool) {
	GinkgoHelper()
	if temporary {
		cleanup(func(ctx SpecContext) { kubectl(ctx, "delete", "--ignore-not-found", "--timeout=3m", "-f", file) })
	}
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
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = "../.."
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.Output()
	Expect(err).NotTo(HaveOccurred(), "%s\n%s%s", cmd, out, &errors)
	return strings.TrimSpace(string(out))
}
