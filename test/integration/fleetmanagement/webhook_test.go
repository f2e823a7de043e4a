// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/validation"
	fleetwebhook "github.com/candor-dev/candor/internal/webhook/fleetmanagement/v1alpha1"
)

var _ = Describe("The webhooks of the fleet", Ordered, ContinueOnFailure, func() {
	old := &fleetmanagementv1alpha1.Pipeline{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "older-than-the-rules", Finalizers: []string{"example.com/held"}},
		Spec:       fleetmanagementv1alpha1.PipelineSpec{Contents: "invalid {{{", Matchers: []string{"a==b"}},
	}
	attempt := func(contents string) *fleetmanagementv1alpha1.Pipeline {
		return &fleetmanagementv1alpha1.Pipeline{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "attempt"},
			Spec:       fleetmanagementv1alpha1.PipelineSpec{Contents: contents},
		}
	}

	BeforeAll(func(ctx SpecContext) {
		Expect(cluster.Client.Create(ctx, old)).To(Succeed(), "nobody looks yet")
		certs, host, port, err := cluster.InstallWebhooks(ctx, filepath.Join("..", "..", "..", "config", "webhook", "manifests.yaml"))
		Expect(err).NotTo(HaveOccurred())
		serveWebhooks(webhook.Options{Host: host, Port: port, CertDir: certs})
		DeferCleanup(func(ctx SpecContext) {
			Expect(cluster.Client.DeleteAllOf(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{})).To(Succeed())
			Eventually(func() error { return cluster.Client.Create(ctx, attempt("invalid {{{"), client.DryRunAll) }).
				Should(Succeed(), "other specs write without webhooks")
		})
		Eventually(func() error { return cluster.Client.Create(ctx, attempt("logging { }"), client.DryRunAll) }).Should(Succeed())
	})

	It("AT-08: refuse what is no Alloy, and name the line, the column and the remedy", func(ctx SpecContext) {
		err := cluster.Client.Create(ctx, attempt("invalid {{{"))
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("spec.contents: Invalid value: line 1, column 10: is no valid Alloy, expected a name, got {: correct the line that reads: invalid {{{")))
		Expect(cluster.Client.Create(ctx, attempt("other:\n  key: 1\n"))).To(MatchError(ContainSubstring("set spec.configType to OpenTelemetryCollector")))
	})

	It("refuse a Collector and a RemoteAttributePolicy that the CRD lets through", func(ctx SpecContext) {
		c := &fleetmanagementv1alpha1.Collector{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "attempt"}}
		c.Spec.ID, c.Spec.RemoteAttributes = "edge-1", map[string]string{"k": strings.Repeat("v", 151)}
		Expect(cluster.Client.Create(ctx, c)).To(MatchError(ContainSubstring("spec.remoteAttributes[k]: Invalid value: a value has at most 150 characters")))
		p := &fleetmanagementv1alpha1.RemoteAttributePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "attempt"}}
		p.Spec.Selector.Matchers, p.Spec.Attributes = []string{"a==b"}, map[string]string{"k": "v"}
		Expect(cluster.Client.Create(ctx, p)).To(MatchError(ContainSubstring("spec.selector.matchers[0]: Invalid value: \"a==b\": there is no operator ==")))
	})

	It("AT-10: let every change pass that leaves an invalid spec as it is, and the deletion", func(ctx SpecContext) {
		change := func(body string) error {
			return cluster.Client.Patch(ctx, old.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(body)))
		}
		Expect(change(`{"metadata": {"annotations": {"example.com/touched": "yes"}}}`)).To(Succeed())
		Expect(change(`{"metadata": {"finalizers": ["example.com/held", "example.com/more"]}}`)).To(Succeed())
		Expect(change(`{"spec": {"paused": true}}`)).To(Succeed())
		Expect(change(`{"spec": {"matchers": ["a==b", "c=d"]}}`)).To(Succeed())
		Expect(change(`{"spec": {"matchers": ["c==d"]}}`)).To(MatchError(ContainSubstring("spec.matchers[0]")))
		Expect(change(`{"spec": {"contents": "invalid {{"}}`)).To(MatchError(ContainSubstring("spec.contents")))

		Expect(cluster.Client.Delete(ctx, old.DeepCopy())).To(Succeed())
		Expect(change(`{"metadata": {"annotations": {"example.com/touched": "again"}}}`)).To(Succeed(), "it is on its way out")
		Expect(change(`{"metadata": {"finalizers": null}}`)).To(Succeed())
		Expect(apierrors.IsNotFound(cluster.Client.Get(ctx, client.ObjectKeyFromObject(old), old.DeepCopy()))).To(BeTrue())
	})

	It("let a status pass, whatever the spec", func(ctx SpecContext) {
		p := attempt("logging { }")
		Expect(cluster.Client.Create(ctx, p)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(cluster.Client.Delete(ctx, p)).To(Succeed()) })
		p.Status.Source = &fleetmanagementv1alpha1.PipelineSource{Type: fleetmanagementv1alpha1.SourceGrafana}
		Expect(cluster.Client.Status().Update(ctx, p)).To(Succeed(), "what Fleet Management tells is no mistake of a person")
	})
})

// serveWebhooks runs a manager that has nothing but the webhooks, until the spec ends.
func serveWebhooks(o webhook.Options) {
	GinkgoHelper()
	mgr, err := ctrl.NewManager(cluster.Config, ctrl.Options{
		Scheme: cluster.Client.Scheme(), Metrics: server.Options{BindAddress: "0"}, WebhookServer: webhook.NewServer(o),
	})
	Expect(err).NotTo(HaveOccurred())
	options := fleetwebhook.Options{Options: validation.Options{MaxPipelineBytes: 512 << 10, AttributeValueMax: 150}}
	Expect(fleetwebhook.SetupPipelineWebhook(mgr, options)).To(Succeed())
	Expect(fleetwebhook.SetupCollectorWebhook(mgr, options)).To(Succeed())
	Expect(fleetwebhook.SetupRemoteAttributePolicyWebhook(mgr, options)).To(Succeed())
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	DeferCleanup(func() {
		cancel()
		Eventually(stopped).WithTimeout(30 * time.Second).Should(Receive(Succeed()))
	})
}
