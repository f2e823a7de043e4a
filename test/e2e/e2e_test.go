// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/builder"
)

var _ = Describe("Candor from config/default", Ordered, func() {
	var (
		namespace string
		web       *appsv1.ReplicaSet
		finding   func(context.Context) (*candorv1alpha1.Finding, error)
	)

	BeforeAll(func(ctx SpecContext) {
		install(ctx)
		namespace = newNamespace(ctx)
		finding = findingOf(namespace, "web")
		Expect(cluster.Create(ctx, builder.Policy(namespace, "default", []string{"trivy"}))).To(Succeed())
		web = deploy(ctx, namespace, "web")
	})

	AfterEach(showOnFailure)

	It("runs restricted, with no user of its own choice", func(ctx SpecContext) {
		pod := managerPod(ctx)
		runtimeDefault := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
		Expect(pod.Spec.SecurityContext).To(Equal(&corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: runtimeDefault}))
		Expect(pod.Spec.Containers).To(HaveLen(1))
		Expect(pod.Spec.Containers[0].SecurityContext).To(Equal(&corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}))
		Expect(pod.Status.ContainerStatuses).To(HaveExactElements(And(HaveField("Ready", true), HaveField("RestartCount", int32(0)))))
		var ns corev1.Namespace
		Expect(cluster.Get(ctx, client.ObjectKey{Name: system}, &ns)).To(Succeed())
		Expect(ns.Labels).To(HaveKeyWithValue("pod-security.kubernetes.io/enforce", "restricted"))
	})

	It("makes a Finding of a report of a ReplicaSet, in the name of its Deployment", func(ctx SpecContext) {
		report(ctx, web, builder.Vulnerabilities(3, "HIGH"))
		Eventually(finding).WithContext(ctx).Should(haveOutcome(candorv1alpha1.OutcomeStillPresent))
	})

	It("mutes the Finding by a Suppression", func(ctx SpecContext) {
		f, err := finding(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.Create(ctx, builder.Suppression(namespace, "accepted", f.Status.Fingerprint))).To(Succeed())
		Eventually(finding).WithContext(ctx).Should(HaveField("Status.Explained", candorv1alpha1.ExplainedMuted))
		kubectl(ctx, "-n", namespace, "wait", "--for=condition=Ready", "suppression/accepted", "--timeout=1m")
	})

	It("writes nothing to the Finding when its pod is replaced", func(ctx SpecContext) {
		before, err := finding(ctx)
		Expect(err).NotTo(HaveOccurred())
		old := managerPod(ctx)
		kubectl(ctx, "-n", system, "delete", "pod", old.Name)
		available(ctx)
		Expect(managerPod(ctx).UID).NotTo(Equal(old.UID))

		By("waiting for what the new pod does after it has read everything")
		report(ctx, deploy(ctx, namespace, "fence"), builder.Vulnerabilities(1, "CRITICAL"))
		Eventually(findingOf(namespace, "fence")).WithContext(ctx).Should(haveOutcome(candorv1alpha1.OutcomeStillPresent))
		Consistently(finding).WithContext(ctx).WithTimeout(5 * time.Second).Should(HaveField("ResourceVersion", before.ResourceVersion))
	})

	It("resolves the Finding after a clean report, and says when it comes back", func(ctx SpecContext) {
		report(ctx, web, []any{})
		Eventually(finding).WithContext(ctx).Should(haveOutcome(candorv1alpha1.OutcomeResolved))
		report(ctx, web, builder.Vulnerabilities(3, "HIGH"))
		Eventually(finding).WithContext(ctx).Should(haveOutcome(candorv1alpha1.OutcomeRecurred))
	})

	It("sees that the workload is gone, its report with it", func(ctx SpecContext) {
		kubectl(ctx, "-n", namespace, "delete", "deployment", "web")
		Eventually(finding).WithContext(ctx).Should(haveOutcome(candorv1alpha1.OutcomeWorkloadGone))
		// The garbage collector has it by then, or is about to.
		Eventually(kubectl).WithContext(ctx).WithArguments("-n", namespace, "get", "vulnerabilityreports", "-o", "name").ShouldNot(ContainSubstring("web"))
	})

	It("serves metrics to those with the right and to nobody else", func(ctx SpecContext) {
		url := forwardMetrics() + "/metrics"
		stranger, reader := newAccount(ctx, namespace, "stranger"), newAccount(ctx, namespace, "reader")
		binding := namespace + "-metrics"
		kubectl(ctx, "create", "clusterrolebinding", binding, "--clusterrole=candor-metrics-reader", "--serviceaccount="+namespace+":reader")
		cleanup(func(ctx SpecContext) { kubectl(ctx, "delete", "clusterrolebinding", binding) })
		Expect(get(ctx, url, "")).To(HaveHTTPStatus(http.StatusUnauthorized))
		Expect(get(ctx, url, stranger)).To(HaveHTTPStatus(http.StatusForbidden))
		Eventually(get).WithContext(ctx).WithArguments(url, reader).Should(And(HaveHTTPStatus(http.StatusOK),
			HaveHTTPBody(ContainSubstring(`candor_provider_up{provider="trivy"} 1`))))
	})

	It("serves its webhooks with a certificate of its own", func(ctx SpecContext) {
		Eventually(warnings).WithContext(ctx).WithArguments(namespace).Should(ContainSubstring(unknownProvider))
	})

	// +kubebuilder:scaffold:e2e-webhooks-checks
})

// showOnFailure prints what a person would look at first.
func showOnFailure(ctx SpecContext) {
	if CurrentSpecReport().Failed() {
		GinkgoWriter.Println(kubectl(ctx, "-n", system, "get", "pods", "-o", "wide"))
		GinkgoWriter.Println(kubectl(ctx, "-n", system, "logs", deployment, "--tail=100"))
	}
}

func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "candor-e2e-"}}
	Expect(cluster.Create(ctx, namespace)).To(Succeed())
	cleanup(func(ctx SpecContext) { kubectl(ctx, "delete", "namespace", namespace.Name, "--timeout=3m") })
	return namespace.Name
}

// deploy makes a Deployment of no replicas, since its image is never needed, and returns its ReplicaSet.
func deploy(ctx context.Context, namespace, name string) *appsv1.ReplicaSet {
	GinkgoHelper()
	d := builder.Deployment(namespace, name)
	d.Spec.Replicas = new(int32(0))
	Expect(cluster.Create(ctx, d)).To(Succeed())
	var list appsv1.ReplicaSetList
	Eventually(func(g Gomega) {
		g.Expect(cluster.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels(d.Spec.Selector.MatchLabels))).To(Succeed())
		g.Expect(list.Items).To(HaveLen(1), "the cluster has no controller manager")
	}).Should(Succeed())
	return &list.Items[0]
}

// report writes the VulnerabilityReport of a ReplicaSet, which the garbage collector deletes with it.
func report(ctx context.Context, rs *appsv1.ReplicaSet, entries []any) {
	GinkgoHelper()
	r := builder.VulnerabilityReport(rs.Namespace, "ReplicaSet", rs.Name, "nginx", entries)
	r.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))})
	Expect(cluster.Apply(ctx, client.ApplyConfigurationFromUnstructured(r), client.FieldOwner("candor-e2e"))).To(Succeed())
}

func findingOf(namespace, deployment string) func(context.Context) (*candorv1alpha1.Finding, error) {
	id := signals.Identity{Provider: "trivy", Namespace: namespace, Kind: "Deployment", Name: deployment, Container: "nginx"}
	return func(ctx context.Context) (*candorv1alpha1.Finding, error) {
		var f candorv1alpha1.Finding
		return &f, cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: id.FindingName()}, &f)
	}
}

func haveOutcome(outcome candorv1alpha1.Outcome) OmegaMatcher {
	return HaveField("Status.VerificationOutcome", outcome)
}

// managerPod waits until the manager has one pod: one that is going away counts as well.
func managerPod(ctx context.Context) *corev1.Pod {
	GinkgoHelper()
	var list corev1.PodList
	Eventually(func(g Gomega) {
		g.Expect(cluster.List(ctx, &list, client.InNamespace(system), client.MatchingLabels{"control-plane": "controller-manager"})).To(Succeed())
		g.Expect(list.Items).To(HaveLen(1))
	}).Should(Succeed())
	return &list.Items[0]
}

const unknownProvider = `no provider named "nobody" exists`

// warnings returns what the API server warns of when a policy names a provider that nobody has; the webhooks say it.
func warnings(ctx context.Context, namespace string) (string, error) {
	cmd := exec.CommandContext(ctx, kubectlName(), "-n", namespace, "create", "--dry-run=server", "-f", "-")
	cmd.Stdin = strings.NewReader(`{"apiVersion":"candor.dev/v1alpha1","kind":"SignalPolicy","metadata":{"name":"odd"},"spec":{"providers":["nobody"]}}`)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// newAccount makes a ServiceAccount and returns a token of it.
func newAccount(ctx context.Context, namespace, name string) string {
	GinkgoHelper()
	kubectl(ctx, "-n", namespace, "create", "serviceaccount", name)
	return kubectl(ctx, "-n", namespace, "create", "token", name)
}

// forwardMetrics returns an address of the metrics Service on this machine: a token does not pass the API server's own proxy.
func forwardMetrics() string {
	GinkgoHelper()
	return forward("service/candor-controller-manager-metrics-service", "https")
}

// forward forwards a port until the end of the node that calls it, and returns the address.
func forward(to, port string) string {
	GinkgoHelper()
	cmd := exec.Command(kubectlName(), "-n", system, "port-forward", to, ":"+port) //nolint:gosec // names of the tests
	session, err := gexec.Start(cmd, gbytes.NewBuffer(), GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Kill().Wait() })
	Eventually(session.Out).Should(gbytes.Say(`Forwarding from 127\.0\.0\.1:\d+ `))
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(string(session.Out.Contents()))
	return "https://" + address
}

func get(ctx context.Context, url, token string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the manager signs its certificate itself
	}}
	return client.Do(request)
}
