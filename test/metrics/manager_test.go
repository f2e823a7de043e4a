// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/app"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
	"github.com/candor-dev/candor/test/fakes/llmserver"
	"github.com/candor-dev/candor/test/kube"
)

const (
	namespace = "team-a"
	modelKey  = "key-of-the-test-0123456789"
)

// families are what a manager exports, by name.
type families map[string]*dto.MetricFamily

// work runs a manager on a real API server until it has seen, dropped, resolved, asked, shared and been held back by its budget, and
// has had good and bad luck with Fleet Management. It returns what the manager exports then, and what another replica exports that
// waits for the lease. Some metrics exist only after their first use.
func work(t *testing.T) (atWork, waits families) {
	t.Helper()
	g, ctx := NewWithT(t), t.Context()
	log.SetLogger(logr.Discard())
	cluster, err := kube.Start(kube.Options{Scheme: app.NewScheme()})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(cluster.Stop()).To(Succeed()) })
	g.Expect(cluster.InstallManagerRBAC(ctx)).To(Succeed())
	g.Expect(cluster.InstallTrivyCRDs(ctx)).To(Succeed())
	server := llmserver.Start(llmserver.Options{Key: modelKey})
	t.Cleanup(server.Close)
	fleet := startFleet(t)
	g.Eventually(start(t, cluster, fleet, nil)).WithTimeout(time.Minute).Should(BeClosed(), "the lease is taken")
	waiting := prometheus.NewRegistry()
	start(t, cluster, fleet, waiting)
	arrange(ctx, g, cluster.Client, server)
	manageFleet(ctx, g, cluster.Client, fleet, startInventory(t))

	await(g, "candor_reports_dropped_total", "candor_llm_calls_total", "candor_enrichment_skipped_total", "candor_notification_sinks")
	var web client.Object = builder.VulnerabilityReport(namespace, "StatefulSet", "web", "main", []any{})
	stored := web.DeepCopyObject().(*unstructured.Unstructured)
	g.Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(web), stored)).To(Succeed())
	web.SetResourceVersion(stored.GetResourceVersion())
	g.Expect(cluster.Client.Update(ctx, web)).To(Succeed())
	await(g, "candor_verification_transitions_total")
	return gather(g, metrics.Registry), gather(g, waiting)
}

// start runs a manager that has to win the lease, as in a cluster. The channel is closed when it has.
func start(t *testing.T, cluster *kube.Cluster, fleet *fleetserver.Server, registry app.Registry) <-chan struct{} {
	t.Helper()
	g := NewWithT(t)
	config, err := cluster.ManagerConfig(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	o := app.DefaultOptions()
	o.HealthProbeBindAddress, o.LeaderElect, o.LeaderElectionNamespace = "0", true, "candor-system"
	o.Models.KeyFolder = t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(o.Models.KeyFolder, "anthropic-api-key"), []byte(modelKey), 0o600)).To(Succeed())
	useFleet(g, &o.Fleet, fleet, t.TempDir())
	ctx, cancel := context.WithCancel(context.Background())
	mgr, err := app.New(ctx, config, o, app.Parts{Several: true, Registry: registry, GatherCalls: time.Millisecond})
	g.Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
	return mgr.Elected()
}

// arrange makes three workloads, the third of which the budget does not allow to ask about, and a report that says nothing.
func arrange(ctx context.Context, g Gomega, c client.Client, server *llmserver.Server) {
	broken := builder.VulnerabilityReport(namespace, "StatefulSet", "broken", "main", []any{})
	unstructured.RemoveNestedField(broken.Object, "metadata", "labels", "trivy-operator.resource.name")
	broken.SetOwnerReferences(nil)
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&candorv1alpha1.OperatingPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: candorv1alpha1.Singleton},
			Spec: candorv1alpha1.OperatingPolicySpec{
				Model:  &candorv1alpha1.Model{Provider: candorv1alpha1.ModelAnthropic, Name: "some-model", BaseURL: server.AnthropicURL()},
				Budget: &candorv1alpha1.CostBudget{MaxCalls: ptr.To[int32](1)},
			},
		},
		builder.Policy(namespace, "default", []string{"trivy"}, func(p *candorv1alpha1.SignalPolicy) {
			p.Spec.Webhook = &candorv1alpha1.Webhook{URL: "https://10.0.0.1"} // a closed network
		}),
		builder.StatefulSet(namespace, "web"), builder.StatefulSet(namespace, "api"),
		builder.VulnerabilityReport(namespace, "StatefulSet", "web", "main", builder.Vulnerabilities(2, "CRITICAL")),
		builder.VulnerabilityReport(namespace, "StatefulSet", "api", "main", builder.Vulnerabilities(3, "HIGH")),
		broken,
	} {
		g.Expect(c.Create(ctx, o)).To(Succeed())
	}
}

// await returns when the manager at work exports all of the metrics.
func await(g Gomega, names ...string) {
	g.Eventually(func() (missing []string) {
		all := gather(g, metrics.Registry)
		for _, name := range names {
			if all[name] == nil {
				missing = append(missing, name)
			}
		}
		return missing
	}).WithTimeout(time.Minute).Should(BeEmpty(), "what is not exported yet")
}

func gather(g Gomega, from prometheus.Gatherer) families {
	list, err := from.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	all := families{}
	for _, family := range list {
		all[family.GetName()] = family
	}
	return all
}
