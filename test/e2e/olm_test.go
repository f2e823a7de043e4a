// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/operator-framework/api/pkg/apis/scorecard/v1alpha3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/scorecard/checks"
)

const (
	previous = "0.0.9"
	current  = "0.1.0"
	// packages holds the bundles and catalogs that the tests make.
	packages   = "dist/e2e"
	subscribed = `
apiVersion: v1
kind: Namespace
metadata: {name: candor-system}
---
apiVersion: operators.coreos.com/v1
kind: OperatorGroup
metadata: {name: candor, namespace: candor-system}
---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: candor, namespace: candor-system}
spec: {name: candor, channel: stable, source: candor-e2e, sourceNamespace: olm}
`
)

var _ = Describe("Candor by a Subscription", Ordered, func() {
	var (
		namespace string
		web       *appsv1.ReplicaSet
		finding   func(context.Context) (*candorv1alpha1.Finding, error)
		pod       types.UID
	)

	BeforeAll(func(ctx SpecContext) {
		if os.Getenv("E2E_CATALOG") == "" {
			Skip("E2E_CATALOG is not set: no command serves a catalog")
		}
		Expect(exists(ctx, reports)).To(BeFalse(), "the cluster has VulnerabilityReports already, so nothing can be seen of their absence")
		removed(reports)
		removed("config/crd/bases")
		cleanup(func(ctx SpecContext) {
			kubectl(ctx, "-n", "olm", "delete", "catalogsource", "candor-e2e", "--ignore-not-found")
		})
		bundle(ctx, previous, "")
		serve(ctx, previous)
		file := filepath.Join(GinkgoT().TempDir(), "subscription.yaml")
		Expect(os.WriteFile(file, []byte(subscribed), 0o600)).To(Succeed())
		apply(ctx, file)
		cleanup(uninstall)
		succeeded(ctx, previous)
		namespace = newNamespace(ctx)
		finding = findingOf(namespace, "web")
	})

	AfterEach(func(ctx SpecContext) {
		if CurrentSpecReport().Failed() {
			GinkgoWriter.Println(kubectl(ctx, "-n", system, "get", "subscriptions,installplans,clusterserviceversions", "-o", "yaml"))
		}
		showOnFailure(ctx)
	})

	It("runs without Trivy Operator, and says what is missing", func(ctx SpecContext) {
		Expect(cluster.Create(ctx, builder.Policy(namespace, "default", []string{"trivy"}))).To(Succeed())
		kubectl(ctx, "-n", namespace, "wait", "--for=condition=ProviderAvailable=false", "signalpolicy/default", "--timeout=1m")
		Expect(kubectl(ctx, "-n", namespace, "get", "signalpolicy", "default", "-o", "jsonpath={.status.conditions}")).To(
			ContainSubstring("install Trivy Operator"))
		Expect(kubectl(ctx, "get", "subscriptions.operators.coreos.com", "-A", "-o", "name")).NotTo(ContainSubstring("trivy"))
		pod = managerPod(ctx).UID
	})

	It("picks up Trivy Operator's reports when they come, without a restart", func(ctx SpecContext) {
		installReports(ctx)
		web = deploy(ctx, namespace, "web")
		report(ctx, web, builder.Vulnerabilities(3, "HIGH"))
		Eventually(finding).WithContext(ctx).Should(haveOutcome(candorv1alpha1.OutcomeStillPresent))
		Expect(managerPod(ctx).UID).To(Equal(pod))
		Expect(managerPod(ctx).Status.ContainerStatuses).To(HaveExactElements(HaveField("RestartCount", int32(0))))
	})

	It("has the rights that OLM granted, and none on Secrets", func(ctx SpecContext) {
		who := "--as=system:serviceaccount:" + system + ":candor-controller-manager"
		for _, verb := range []string{"get", "list", "watch"} {
			Expect(answer(ctx, "auth", "can-i", verb, "secrets", "--all-namespaces", who)).To(Equal("no"))
		}
		Expect(kubectl(ctx, "-n", system, "logs", deployment)).NotTo(ContainSubstring("forbidden"))
	})

	It("serves its webhooks with OLM's certificate", func(ctx SpecContext) {
		Eventually(warnings).WithContext(ctx).WithArguments(namespace).Should(ContainSubstring(unknownProvider))
		Expect(kubectl(ctx, "-n", system, "logs", deployment)).To(ContainSubstring("/tmp/k8s-webhook-server/serving-certs"))
	})

	It("tells OLM that it can be upgraded", func(ctx SpecContext) {
		kubectl(ctx, "-n", system, "wait", "--for=condition=Upgradeable", "operatorcondition/candor.v"+previous, "--timeout=2m")
	})

	It("keeps every Finding through an upgrade, and writes nothing to them", func(ctx SpecContext) {
		before, err := finding(ctx)
		Expect(err).NotTo(HaveOccurred())
		bundle(ctx, current, previous)
		serve(ctx, previous, current)
		succeeded(ctx, current)
		available(ctx)
		Expect(managerPod(ctx).UID).NotTo(Equal(pod))

		By("waiting for what the new version does after it has read everything")
		report(ctx, deploy(ctx, namespace, "fence"), builder.Vulnerabilities(1, "CRITICAL"))
		Eventually(findingOf(namespace, "fence")).WithContext(ctx).Should(haveOutcome(candorv1alpha1.OutcomeStillPresent))
		Consistently(finding).WithContext(ctx).WithTimeout(5 * time.Second).Should(HaveField("ResourceVersion", before.ResourceVersion))
		kubectl(ctx, "-n", system, "wait", "--for=condition=Upgradeable", "operatorcondition/candor.v"+current, "--timeout=2m")
	})

	It("passes the scorecard, whose tests run as pods", func(ctx SpecContext) {
		flags := os.Getenv("E2E_SCORECARD")
		if flags == "" {
			Skip("E2E_SCORECARD is not set")
		}
		sdk := run(ctx, "make", "-s", "tool-operator-sdk")
		out := run(ctx, "bash", "-c", `"$1" scorecard "$2" -n "$3" -o json -w 3m --pod-security restricted `+flags, "bash", sdk, filepath.Join(packages, current), namespace)
		var list v1alpha3.TestList
		Expect(json.Unmarshal([]byte(out), &list)).To(Succeed())
		Expect(list.Items).To(HaveLen(6 + len(checks.Names())))
		for _, test := range list.Items {
			Expect(test.Status.Results).To(HaveEach(And(HaveField("State", v1alpha3.PassState), HaveField("Suggestions", BeEmpty()))), "%v", test)
		}
	})

	It("is refused in an OperatorGroup of two namespaces, in words that say why", func(ctx SpecContext) {
		kubectl(ctx, "-n", system, "patch", "operatorgroup", "candor", "--type=merge", "-p", `{"spec":{"targetNamespaces":["default","olm"]}}`)
		Eventually(csv).WithContext(ctx).WithArguments(current, "{.status.reason} {.status.message}").Should(
			And(ContainSubstring("UnsupportedOperatorGroup"), ContainSubstring("MultiNamespace")))
		kubectl(ctx, "-n", system, "patch", "operatorgroup", "candor", "--type=json", "-p", `[{"op":"remove","path":"/spec/targetNamespaces"}]`)
		succeeded(ctx, current)
	})

	It("blocks no write while a controller is off by the Subscription's environment", func(ctx SpecContext) {
		before := managerPod(ctx).UID
		kubectl(ctx, "-n", system, "patch", "subscription.operators.coreos.com", "candor", "--type=merge", "-p",
			`{"spec":{"config":{"env":[{"name":"CANDOR_ENABLE_SUPPRESSION_CONTROLLER","value":"false"}]}}}`)
		Eventually(func(ctx context.Context) types.UID { return managerPod(ctx).UID }).WithContext(ctx).ShouldNot(Equal(before))
		available(ctx)
		Expect(kubectl(ctx, "-n", system, "logs", deployment)).To(MatchRegexp(`Controller off.*suppression`))
		Expect(cluster.Create(ctx, builder.Suppression(namespace, "accepted", strings.Repeat("0", 64)))).To(Succeed())
		Eventually(warnings).WithContext(ctx).WithArguments(namespace).Should(ContainSubstring(unknownProvider))
	})

	It("says on a cluster that is too old which version it needs", func(ctx SpecContext) {
		const future = "9.0.0"
		bundle(ctx, future, current)
		run(ctx, "sed", "-i", "s/minKubeVersion: .*/minKubeVersion: 99.0.0/", filepath.Join(packages, future, "manifests", "candor.clusterserviceversion.yaml"))
		serve(ctx, previous, current, future)
		Eventually(csv).WithContext(ctx).WithArguments(future, "{.status.reason} {.status.requirementStatus[*].message}").WithTimeout(2 * time.Minute).Should(
			And(ContainSubstring("RequirementsNotMet"), ContainSubstring("minKubeVersion"), ContainSubstring("99.0.0")))
		Expect(csv(ctx, current, "{.metadata.name}")).NotTo(BeEmpty(), "the version that works stays")
	})

	It("leaves the Findings when it is uninstalled, and they can be deleted", func(ctx SpecContext) {
		uninstall(ctx)
		Eventually(func(g Gomega) {
			var pods corev1.PodList
			g.Expect(cluster.List(ctx, &pods)).To(Succeed())
			g.Expect(pods.Items).NotTo(ContainElement(HaveField("Namespace", system)))
		}).Should(Succeed())
		_, err := finding(ctx)
		Expect(err).NotTo(HaveOccurred())
		kubectl(ctx, "-n", namespace, "delete", "candor", "--all", "--timeout=30s")
	})
})

// bundle makes the bundle of a version that replaces another, if that is not empty.
func bundle(ctx context.Context, version, replaces string) {
	GinkgoHelper()
	By("making the bundle of " + version)
	run(ctx, "make", "-s", "bundle", "BUNDLE="+filepath.Join(packages, version), "IMG="+image, "SCORECARD_IMG="+os.Getenv("E2E_SCORECARD_IMG"),
		"VERSION="+version, "PREVIOUS_VERSION="+replaces)
}

// serve serves a catalog of versions, each of which replaces the one before it, and of a Trivy Operator that OLM could install.
func serve(ctx context.Context, versions ...string) {
	GinkgoHelper()
	var folders []string
	for _, v := range versions {
		folders = append(folders, filepath.Join(packages, v))
	}
	folder := filepath.Join(packages, "catalog-"+versions[len(versions)-1])
	run(ctx, "make", "-s", "catalog", "BUNDLES="+strings.Join(folders, " "), "CATALOG="+folder)
	trivy := filepath.Join(folder, "trivy-operator")
	run(ctx, "mkdir", "-p", trivy)
	run(ctx, "cp", "test/e2e/testdata/trivy-operator.yaml", trivy)
	By("serving a catalog of " + strings.Join(versions, " and "))
	absolute, err := filepath.Abs(filepath.Join("../..", folder))
	Expect(err).NotTo(HaveOccurred())
	run(ctx, "bash", "-euo", "pipefail", "-c", os.Getenv("E2E_CATALOG"), "bash", "candor-e2e", absolute)
}

// csv reads a field of a ClusterServiceVersion; it is empty where there is none.
func csv(ctx context.Context, version, path string) string {
	GinkgoHelper()
	return kubectl(ctx, "-n", system, "get", "clusterserviceversion", "candor.v"+version, "--ignore-not-found", "-o", "jsonpath="+path)
}

func succeeded(ctx context.Context, version string) {
	GinkgoHelper()
	Eventually(csv).WithContext(ctx).WithArguments(version, "{.status.phase}").WithTimeout(5 * time.Minute).Should(Equal("Succeeded"))
}

// uninstall does what the documentation says, up to the definitions, which keep the Findings.
func uninstall(ctx SpecContext) {
	GinkgoHelper()
	kubectl(ctx, "-n", system, "delete", "subscription.operators.coreos.com,clusterserviceversion", "--all", "--timeout=2m")
	kubectl(ctx, "delete", "clusterrole", "-l", "olm.managed=true,app.kubernetes.io/name=candor", "--ignore-not-found")
}

// answer returns what a command prints that ends with an error where the answer is no.
func answer(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return run(ctx, "bash", append([]string{"-c", `"$0" "$@" || true`, kubectlName()}, args...)...)
}
