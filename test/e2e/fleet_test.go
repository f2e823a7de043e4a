// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
)

const (
	// discoveries go first: they would make anew what goes.
	fleetKinds = "pipelinediscoveries.fleetmanagement.grafana.com,collectordiscoveries.fleetmanagement.grafana.com," +
		"externalattributesyncs.fleetmanagement.grafana.com,pipelines.fleetmanagement.grafana.com," +
		"collectors.fleetmanagement.grafana.com,remoteattributepolicies.fleetmanagement.grafana.com"
	tenantPolicies = "tenantpolicies.fleetmanagement.grafana.com"
	// edge is the collector of config/samples.
	edge = "edge-42.example.com"
	// mounted is how long it may take until the kubelet has brought a Secret to a pod and the next request has used it.
	mounted = 4 * time.Minute
	scrape  = "prometheus.exporter.self \"candor\" { }\n"
)

var _ = Describe("Candor beside Fleet Management", Ordered, func() {
	var (
		fleet     fakeFleet
		namespace string
	)

	BeforeAll(func(ctx SpecContext) {
		image := os.Getenv("E2E_FLEET_IMG")
		if image == "" {
			Skip("E2E_FLEET_IMG is not set: pods have no Fleet Management")
		}
		fleet = serveFleet(ctx, newNamespace(ctx), image)
		fleet.put(ctx, "collectors", &collectorv1.Collector{
			Id:               edge,
			LocalAttributes:  map[string]string{"collector.os": "linux", "hostname": "edge-42"},
			RemoteAttributes: map[string]string{"environment": "staging", "floor": "3"},
		})
		install(ctx)
		trustFleet(ctx, fleet)
		namespace = newNamespace(ctx)
		// The definitions go after the objects, and these need a manager to go.
		cleanup(func(ctx SpecContext) { kubectl(ctx, "-n", namespace, "delete", fleetKinds, "--all", "--timeout=1m") })
	})

	AfterEach(showOnFailure)

	applied := func(ctx context.Context, name, contents string) {
		GinkgoHelper()
		feed(ctx, pipelineManifest(name, contents), kubectlName(), "-n", namespace, "apply", "-f", "-")
	}
	ready := func(ctx context.Context, objects ...string) {
		GinkgoHelper()
		for _, object := range objects {
			kubectl(ctx, "-n", namespace, "wait", "--for=condition=Ready", object, "--timeout="+mounted.String())
		}
	}
	reason := func(ctx context.Context, name, condition string) string {
		GinkgoHelper()
		return kubectl(ctx, "-n", namespace, "get", "pipeline", name, "-o", `jsonpath={.status.conditions[?(@.type=="`+condition+`")].reason}`)
	}
	events := func(ctx context.Context, object string) string {
		GinkgoHelper()
		return kubectl(ctx, "-n", namespace, "get", "events.events.k8s.io", "--field-selector=regarding.name="+object, "-o",
			`jsonpath={range .items[*]}{.regarding.kind} {.type} {.reason}: {.note}{"\n"}{end}`)
	}
	samples := func(ctx context.Context, verb string, kinds ...string) {
		GinkgoHelper()
		for _, kind := range kinds {
			kubectl(ctx, "-n", namespace, verb, "-f", "config/samples/fleetmanagement_v1alpha1_"+kind+".yaml")
		}
	}

	// listedTwice waits for the second list of each kind after the first so many calls: the first may have been under way.
	listedTwice := func(ctx context.Context, calls int) {
		GinkgoHelper()
		for _, list := range []string{"ListPipelines", "ListCollectors"} {
			By("waiting for the second " + list)
			lists := func(ctx context.Context) int { return strings.Count(strings.Join(fleet.calls(ctx)[calls:], " "), list) }
			Eventually(lists).WithContext(ctx).Should(BeNumerically(">=", 2))
		}
	}

	It("refuses what is no Alloy, with line and column", func(ctx SpecContext) {
		Eventually(refusal).WithContext(ctx).WithArguments(namespace, pipelineManifest("broken", "invalid {{{")).Should(And(
			ContainSubstring("spec.contents"), MatchRegexp(`line 1, column \d+`)))
		Expect(refusal(ctx, namespace, pipelineManifest("yaml", "---\nreceivers:\n  otlp:\n"))).To(And(
			ContainSubstring("spec.contents"), ContainSubstring("YAML"), ContainSubstring("OpenTelemetryCollector")))
	})

	It("does nothing without credentials, and lets objects go", func(ctx SpecContext) {
		applied(ctx, "early", scrape)
		for _, condition := range []string{"Ready", "Synced"} {
			Eventually(reason).WithContext(ctx).WithArguments("early", condition).Should(Equal(fleetmanagementv1alpha1.ReasonNoCredentials))
		}
		Expect(kubectl(ctx, "-n", namespace, "get", "pipeline", "early", "-o", "jsonpath={.metadata.finalizers}")).To(BeEmpty())
		kubectl(ctx, "-n", namespace, "delete", "pipeline", "early", "--timeout=10s")
		Expect(fleet.calls(ctx)).To(BeEmpty())
	})

	It("takes the Secret when it comes, in the same pod", func(ctx SpecContext) {
		pod := managerPod(ctx)
		samples(ctx, "apply", "pipeline", "collector", "remoteattributepolicy")
		Eventually(reason).WithContext(ctx).WithArguments("node-logs", "Ready").Should(Equal(fleetmanagementv1alpha1.ReasonNoCredentials))
		kubectl(ctx, "-n", system, "create", "secret", "generic", "candor-fleet", "--from-literal=base-url=https://"+fleet.host(),
			"--from-literal=username="+fleetUser, "--from-literal=password="+fleetPassword)
		ready(ctx, "pipeline/node-logs", "collector/edge-42", "remoteattributepolicy/region")
		expectSame(ctx, pod)
	})

	It("has put the sample into Fleet Management, with its stamp", func(ctx SpecContext) {
		var p fleetmanagementv1alpha1.Pipeline
		Expect(cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "node-logs"}, &p)).To(Succeed())
		live := fleet.pipeline(ctx, "node-logs")
		Expect(live.GetId()).To(Equal(p.Status.ID))
		Expect(live.GetContents()).To(Equal(p.Spec.Contents))
		Expect(live.GetMatchers()).To(ConsistOf(p.Spec.Matchers))
		Expect(live.GetEnabled()).To(BeTrue())
		var kubeSystem corev1.Namespace
		Expect(cluster.Get(ctx, client.ObjectKey{Name: "kube-system"}, &kubeSystem)).To(Succeed())
		Expect(live.GetMetadata().AsMap()).To(And(
			HaveKeyWithValue("k8s.managed-by", "candor"), HaveKeyWithValue("k8s.cluster", string(kubeSystem.UID)),
			HaveKeyWithValue("k8s.namespace", namespace), HaveKeyWithValue("k8s.name", "node-logs"), HaveKeyWithValue("k8s.uid", string(p.UID))))
	})

	It("AT-03: has told of it by one Event, with the rights of the manifests", func(ctx SpecContext) {
		Eventually(events).WithContext(ctx).WithArguments("node-logs").Should(ContainSubstring("Pipeline Normal Created: "))
		Expect(strings.Count(events(ctx, "node-logs"), " Created: ")).To(Equal(1))
		Expect(kubectl(ctx, "-n", system, "logs", deployment)).NotTo(ContainSubstring("forbidden"))
	})

	It("corrects what somebody edits in Grafana, and says so", func(ctx SpecContext) {
		edited := fleet.pipeline(ctx, "node-logs")
		edited.Contents, edited.Enabled = scrape, proto.Bool(false)
		fleet.put(ctx, "pipelines", edited)
		Eventually(fleet.pipeline).WithContext(ctx).WithArguments("node-logs").Should(And(
			HaveField("GetContents()", ContainSubstring("loki.write")), HaveField("GetEnabled()", true), HaveField("GetId()", edited.GetId())))
		Eventually(events).WithContext(ctx).WithArguments("node-logs").Should(MatchRegexp(`Pipeline \w+ DriftCorrected: .*contents`))
	})

	It("gives a collector the attributes of its Collector and of a policy", func(ctx SpecContext) {
		Eventually(fleet.attributes).WithContext(ctx).WithArguments(edge).Should(Equal(map[string]string{
			"environment": "production", "team": "payments", "region": "eu-central-1", "floor": "3",
		}))
	})

	It("AT-21: takes a rotated password, in the same pod", func(ctx SpecContext) {
		const rotated = "second-token"
		pod := managerPod(ctx)
		fleet.letIn(ctx, rotated)
		applied(ctx, "self", scrape)
		Eventually(reason).WithContext(ctx).WithArguments("self", "Synced").Should(Equal(fleetmanagementv1alpha1.ReasonAuthFailed))
		kubectl(ctx, "-n", system, "patch", "secret", "candor-fleet", "--type=merge", "-p", `{"stringData":{"password":"`+rotated+`"}}`)
		ready(ctx, "pipeline/self")
		Expect(fleet.pipeline(ctx, "self").GetContents()).To(Equal(scrape))
		expectSame(ctx, pod)
	})

	It("changes nothing when its pod is replaced", func(ctx SpecContext) {
		versions := func() string {
			return kubectl(ctx, "-n", namespace, "get", fleetKinds, "-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`)
		}
		old, before, written := managerPod(ctx), versions(), len(fleet.calls(ctx))
		kubectl(ctx, "-n", system, "delete", "pod", old.Name)
		available(ctx)
		Expect(managerPod(ctx).UID).NotTo(Equal(old.UID))
		listedTwice(ctx, written)
		Expect(fleet.calls(ctx)[written:]).To(HaveEach(Or(HavePrefix("List"), HavePrefix("Get"))))
		Expect(versions()).To(Equal(before))
	})

	It("makes Collectors of what registers, and mirrors of pipelines that Grafana holds", func(ctx SpecContext) {
		fleet.put(ctx, "collectors", &collectorv1.Collector{Id: "Edge 7", LocalAttributes: map[string]string{"collector.os": "linux"}})
		fleet.put(ctx, "pipelines", &pipelinev1.Pipeline{Name: "By Hand", Contents: scrape, Enabled: proto.Bool(true)})
		listedTwice(ctx, len(fleet.calls(ctx)))
		samples(ctx, "apply", "collectordiscovery", "pipelinediscovery")
		ready(ctx, "collectordiscovery/linux", "pipelinediscovery/stack")
		found := func(ctx context.Context) string {
			return kubectl(ctx, "-n", namespace, "get", "collectors,pipelines", "-o", `jsonpath={range .items[*]}{.kind} {.spec.id}{.spec.name} {.metadata.annotations.fleetmanagement\.grafana\.com/import-mode}{"\n"}{end}`)
		}
		Eventually(found).WithContext(ctx).Should(And(ContainSubstring("Collector Edge 7 \n"), ContainSubstring("Pipeline By Hand read-only\n")))
		Expect(strings.Count(found(ctx), edge)).To(Equal(1), "the collector that has a Collector gets no other")
		Expect(fleet.pipeline(ctx, "By Hand").GetMetadata().AsMap()).To(BeEmpty(), "a mirror is not stamped")
	})

	It("gives collectors what an inventory knows, and holds back what would take too much away", func(ctx SpecContext) {
		fleet.take(ctx, "records", []byte(`[{"id": "Edge 7", "owner": "payments", "rack": 9007199254740993}, {"id": "nobody", "owner": "x", "rack": 1}]`))
		sync := fmt.Sprintf(`{"apiVersion":"fleetmanagement.grafana.com/v1alpha1","kind":"ExternalAttributeSync","metadata":{"name":"cmdb"},"spec":{
			"source":{"kind":"HTTP","http":{"url":"http://%s:8080/records"}},"schedule":"30s","selector":{"matchers":["collector.os=\"linux\""]},
			"mapping":{"collectorIDField":"id","attributeFields":{"owner":"owner","rack":"rack"}}}}`, fleet.host())
		feed(ctx, sync, kubectlName(), "-n", namespace, "apply", "-f", "-")
		ready(ctx, "externalattributesync/cmdb")
		Eventually(fleet.attributes).WithContext(ctx).WithArguments("Edge 7").Should(And(
			HaveKeyWithValue("owner", "payments"), HaveKeyWithValue("rack", "9007199254740993")))
		fleet.take(ctx, "records", []byte("[]"))
		Eventually(func(ctx context.Context) string {
			return kubectl(ctx, "-n", namespace, "get", "externalattributesync", "cmdb", "-o", `jsonpath={.status.conditions[?(@.type=="Stalled")].status}`)
		}).WithContext(ctx).WithTimeout(mounted).Should(Equal("True"))
		Expect(fleet.attributes(ctx, "Edge 7")).To(HaveKeyWithValue("owner", "payments"))
	})

	It("AT-23: binds a tenant at admission", func(ctx SpecContext) {
		kubectl(ctx, "-n", namespace, "create", "serviceaccount", "tenant")
		for _, kind := range []string{"pipeline", "collector"} {
			kubectl(ctx, "-n", namespace, "create", "rolebinding", "tenant-"+kind, "--clusterrole=candor-"+kind+"-editor-role", "--serviceaccount="+namespace+":tenant")
		}
		feed(ctx, fmt.Sprintf(`{"apiVersion":"fleetmanagement.grafana.com/v1alpha1","kind":"TenantPolicy","metadata":{"name":"e2e"},"spec":{
			"subjects":[{"kind":"ServiceAccount","name":"tenant","namespace":%q}],"requiredMatchers":["team=\"payments\""],
			"allowedAttributes":[{"key":"team","value":"payments"}]}}`, namespace), kubectlName(), "apply", "-f", "-")
		cleanup(func(ctx SpecContext) { kubectl(ctx, "delete", tenantPolicies, "e2e", "--ignore-not-found") })
		kubectl(ctx, "wait", "--for=condition=Ready", tenantPolicies+"/e2e", "--timeout=1m")
		as := "--as=system:serviceaccount:" + namespace + ":tenant"
		foreign := fmt.Sprintf(`{"apiVersion":"fleetmanagement.grafana.com/v1alpha1","kind":"Pipeline","metadata":{"name":"foreign"},"spec":{"contents":%q,"matchers":["team=\"others\""]}}`, scrape)
		taking := `{"apiVersion":"fleetmanagement.grafana.com/v1alpha1","kind":"Collector","metadata":{"name":"taking"},"spec":{"id":"x","remoteAttributes":{"team":"others"}}}`
		Eventually(refusal).WithContext(ctx).WithArguments(namespace, foreign, as).Should(ContainSubstring("TenantPolicy e2e"))
		Expect(refusal(ctx, namespace, taking, as)).To(ContainSubstring("TenantPolicy e2e"))
		feed(ctx, strings.Replace(foreign, "others", "payments", 1), kubectlName(), "-n", namespace, "create", "--dry-run=server", as, "-f", "-")
	})

	It("restores the attributes of a collector when policy and Collector go", func(ctx SpecContext) {
		samples(ctx, "delete", "collectordiscovery", "pipelinediscovery", "remoteattributepolicy")
		Eventually(fleet.attributes).WithContext(ctx).WithArguments(edge).Should(Equal(map[string]string{
			"environment": "production", "team": "payments", "floor": "3",
		}))
		samples(ctx, "delete", "collector")
		Expect(fleet.attributes(ctx, edge)).To(Equal(map[string]string{"environment": "staging", "floor": "3"}))
	})

	It("leaves nothing behind, in the cluster and in Fleet Management", func(ctx SpecContext) {
		kubectl(ctx, "-n", namespace, "delete", fleetKinds, "--all", "--timeout=1m")
		Expect(kubectl(ctx, "get", fleetKinds, "--all-namespaces", "-o", "name")).To(BeEmpty())
		Expect(fleet.pipelines(ctx)).To(HaveExactElements(HaveField("GetName()", "By Hand")), "what it only mirrored stays")
		Expect(fleet.attributes(ctx, "Edge 7")).To(BeEmpty())
	})

	It("lets nobody write but those who are bound to its roles", func(ctx SpecContext) {
		for _, account := range []string{"admin", "viewer", "editor"} {
			kubectl(ctx, "-n", namespace, "create", "serviceaccount", account)
		}
		bind := func(account, role string) {
			kubectl(ctx, "-n", namespace, "create", "rolebinding", account+"-"+role, "--clusterrole="+role, "--serviceaccount="+namespace+":"+account)
		}
		bind("admin", "admin")
		for _, kind := range []string{"pipeline", "collector", "remoteattributepolicy", "pipelinediscovery", "collectordiscovery", "externalattributesync"} {
			var viewer, editor rbacv1.ClusterRole
			for suffix, role := range map[string]*rbacv1.ClusterRole{"viewer": &viewer, "editor": &editor} {
				Expect(cluster.Get(ctx, client.ObjectKey{Name: "candor-" + kind + "-" + suffix + "-role"}, role)).To(Succeed())
				Expect(role.Labels).NotTo(HaveKey(HavePrefix(rbacv1.GroupName+"/aggregate-to-")), role.Name)
				bind(suffix, role.Name)
			}
		}
		for _, kind := range append(strings.Split(fleetKinds, ","), tenantPolicies) {
			for account, verbs := range map[string][]string{"admin": nil, "viewer": {"get"}, "editor": {"get", "create"}} {
				for _, verb := range []string{"get", "create"} {
					may := "no"
					if slices.Contains(verbs, verb) && kind != tenantPolicies {
						may = "yes"
					}
					who := fmt.Sprintf("--as=system:serviceaccount:%s:%s", namespace, account)
					Eventually(answer).WithContext(ctx).WithArguments("-n", namespace, "auth", "can-i", verb, kind, who).Should(Equal(may), "%s %s %s", account, verb, kind)
				}
			}
		}
	})
})

// trustFleet has the manager trust a Fleet Management, and look at it often. It gets no credentials.
func trustFleet(ctx context.Context, fleet fakeFleet) {
	GinkgoHelper()
	ca := filepath.Join(GinkgoT().TempDir(), "ca.crt")
	Expect(os.WriteFile(ca, fleet.ca, 0o600)).To(Succeed())
	kubectl(ctx, "-n", system, "create", "configmap", "candor-fleet-ca", "--from-file="+ca)
	kubectl(ctx, "-n", system, "patch", deployment, "--patch-file=test/e2e/testdata/manager-trusts-fakefleet.yaml")
	available(ctx)
}

func pipelineManifest(name, contents string) string {
	return fmt.Sprintf(`{"apiVersion":"fleetmanagement.grafana.com/v1alpha1","kind":"Pipeline","metadata":{"name":%q},"spec":{"contents":%q}}`, name, contents)
}

// refusal returns why the API server refuses to create an object.
func refusal(ctx context.Context, namespace, manifest string, more ...string) string {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, kubectlName(), append(more, "-n", namespace, "create", "--dry-run=server", "-f", "-")...)
	cmd.Stdin = strings.NewReader(manifest)
	out, err := cmd.CombinedOutput()
	Expect(err).To(HaveOccurred(), "%s", out)
	return string(out)
}

// expectSame expects that the manager's pod is still this one, and has not been restarted.
func expectSame(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	now := managerPod(ctx)
	Expect(now.UID).To(Equal(pod.UID))
	Expect(now.Status.ContainerStatuses).To(HaveExactElements(HaveField("RestartCount", int32(0))))
}
