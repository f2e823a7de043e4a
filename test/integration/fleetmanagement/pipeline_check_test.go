// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"connectrpc.com/connect"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

const (
	// check is the procedure by which Fleet Management is asked without storing anything.
	check = "UpsertPipeline"
	// unasked is how the warning begins that says that there is no answer.
	unasked = "spec.contents: Fleet Management could not be asked about it: "
)

var refusing = fleetserver.Rule{Procedure: check, Respond: fleetserver.ConnectError(connect.CodeInvalidArgument, "no such component")}

var _ = Describe("The webhook that may ask Fleet Management", func() {
	It("asks nobody by default", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.fleet.Fail(refusing)
		person := w.served(ctx, w.options.Fleet.WebhookRemoteValidate)
		Expect(person.Create(ctx, w.pipeline("one"), client.DryRunAll)).To(Succeed())
		Expect(person.warnings()).To(BeEmpty())
		Expect(w.fleet.Count(check)).To(BeZero())
	})

	It("warns of what Fleet Management refuses", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.fleet.Fail(refusing)
		person := w.served(ctx, "warn")
		Expect(person.Create(ctx, w.pipeline("one"), client.DryRunAll)).To(Succeed())
		Expect(person.warnings()).To(ConsistOf("spec.contents: correct what Fleet Management refuses: no such component"))
		Expect(w.fleet.Count(check)).To(Equal(1))
		w.fleet.ClearFaults()
		Expect(person.Create(ctx, w.pipeline("one"), client.DryRunAll)).To(Succeed())
		Expect(person.warnings()).To(BeEmpty())
		Expect(w.fleet.Pipelines()).To(BeEmpty(), "a check stores nothing")
	})

	It("refuses it where that is enforced", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.fleet.Fail(refusing)
		person := w.served(ctx, "enforce")
		err := person.Create(ctx, w.pipeline("one"))
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("spec.contents: Invalid value: correct what Fleet Management refuses: no such component")))
		Expect(person.warnings()).To(BeEmpty())
		Expect(w.fleet.Count(check)).To(Equal(1))
	})

	DescribeTable("lets everything pass where there is no answer, with one warning", func(ctx context.Context, respond fleetserver.Response, says string, asked int) {
		w := newWorld(ctx)
		w.fleet.Fail(fleetserver.Rule{Procedure: check, Respond: respond})
		person := w.served(ctx, "enforce")
		for range 2 {
			Expect(person.Create(ctx, w.pipeline("one"), client.DryRunAll)).To(Succeed())
			Expect(person.warnings()).To(ConsistOf(And(HavePrefix(unasked), ContainSubstring(says))))
		}
		Expect(w.fleet.Count(check)).To(Equal(asked))
	},
		Entry("since the credentials are refused", fleetserver.ConnectError(connect.CodeUnauthenticated, "who are you"), "who are you", 1),
		Entry("since there are too many requests", fleetserver.ConnectError(connect.CodeResourceExhausted, "slow down"), "slow down", 1),
		Entry("since it may not be asked", fleetserver.ConnectError(connect.CodePermissionDenied, "no"), "fleet-management:write", 1),
		Entry("since it is away", fleetserver.PlainText(http.StatusServiceUnavailable, "away", nil), "away", 2),
		Entry("since it took too long", fleetserver.ConnectError(connect.CodeDeadlineExceeded, "too long"), "too long", 2),
		Entry("since it hangs", fleetserver.Hang(), "no whole answer came in time", 2),
	)

	It("lets everything pass without credentials", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.unmount()
		person := w.served(ctx, "enforce")
		Expect(person.Create(ctx, w.pipeline("one"), client.DryRunAll)).To(Succeed())
		Expect(person.warnings()).To(ConsistOf(HavePrefix(unasked)))
		Expect(w.fleet.Count()).To(BeZero())
	})

	It("lets everything pass when its turn does not come", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.options.Fleet.RPS, w.options.Fleet.Burst = 0.001, 1
		person := w.served(ctx, "enforce")
		Eventually(func() int { return w.fleet.Count() }).Should(Equal(1), "the one turn is taken")
		Expect(person.Create(ctx, w.pipeline("one"), client.DryRunAll)).To(Succeed())
		Expect(person.warnings()).To(ConsistOf(And(HavePrefix(unasked), ContainSubstring("given up while waiting for its turn"))))
		Expect(w.fleet.Count(check)).To(BeZero())
	})

	It("asks again only when what is sent changes", func(ctx SpecContext) {
		w := newWorld(ctx)
		person := w.served(ctx, "enforce")
		w.synced(ctx, w.pipeline("one"))
		Expect(w.fleet.Count(check)).To(Equal(1), "the controller's own updates ask nobody")
		w.fleet.Fail(refusing)
		patch := func(body string) error { return person.Patch(ctx, w.pipeline("one"), merge(body)) }
		Expect(patch(`{"metadata": {"annotations": {"example.com/touched": "yes"}}}`)).To(Succeed())
		Expect(patch(`{"spec": {"paused": true}}`)).To(Succeed())
		Expect(patch(`{"metadata": {"labels": {"touched": "while-paused"}}}`)).To(Succeed())
		Expect(w.fleet.Count(check)).To(Equal(1))
		Eventually(w.says(ctx, "one", "Paused")).Should(Equal("True/Paused"))
		// The API server changes what it has in its cache first, and asks webhooks again where that was behind.
		Eventually(func(g Gomega) {
			cached := w.pipeline("one")
			g.Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(cached), cached, &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: "0"}})).To(Succeed())
			g.Expect(cached.ResourceVersion).To(Equal(w.get(ctx, "one").ResourceVersion))
		}).Should(Succeed())
		Expect(patch(`{"spec": {"contents": "logging { }"}}`)).To(MatchError(ContainSubstring("no such component")))
		Expect(w.fleet.Count(check)).To(Equal(2))
		Expect(person.Delete(ctx, w.pipeline("one"))).To(Succeed())
		Eventually(w.gone(ctx, "one")).Should(BeTrue())
		mirror := w.pipeline("two", annotated(fleetmanagementv1alpha1.AnnotationImportMode, fleetmanagementv1alpha1.ImportModeReadOnly))
		Expect(person.Create(ctx, mirror, client.DryRunAll)).To(Succeed())
		Expect(w.fleet.Count(check)).To(Equal(2))
		Expect(person.warnings()).To(BeEmpty())
	})
})

var _ = Describe("A check before each write", func() {
	// sent returns what was asked of Fleet Management but for lists, since the call before.
	sent := func(w *world) func() []string {
		from := 0
		return func() []string {
			var all []string
			for _, c := range w.fleet.Calls(pipelineWrites...)[from:] {
				all = append(all, c.Procedure)
			}
			from += len(all)
			return all
		}
	}
	checking := func(ctx context.Context) *world {
		w := newWorld(ctx)
		w.options.Fleet.ValidateBeforeApply = true
		return w
	}

	It("comes once before contents are created or changed, and costs nothing afterwards", func(ctx SpecContext) {
		w := checking(ctx)
		calls := sent(w)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		request, is := w.fleet.Calls(check)[0].Request.(*pipelinev1.UpsertPipelineRequest)
		Expect(is).To(BeTrue())
		Expect(request.GetValidateOnly()).To(BeTrue())
		Expect(calls()).To(Equal([]string{check, "CreatePipeline"}))
		w.quiet(func() { w.look("one") })

		w.change(ctx, "one", `{"spec": {"matchers": ["env=\"dev\""]}}`)
		Eventually(calls).Should(Equal([]string{"UpdatePipeline"}), "the contents stand there already")
		w.change(ctx, "one", `{"spec": {"contents": "logging { }"}}`)
		Eventually(w.remote("one")).Should(Equal("logging { }"))
		Eventually(w.ready(ctx, "one")).Should(Equal("True/Synced"))
		Expect(calls()).To(Equal([]string{check, "UpdatePipeline"}))
	})

	It("that is refused writes nothing, is told as a refused write is, and is not made again before its time", func(ctx SpecContext) {
		w := checking(ctx)
		w.fleet.Fail(refusing)
		calls := sent(w)
		w.start(ctx)
		w.create(ctx, w.pipeline("one"))
		Eventually(w.ready(ctx, "one")).Should(Equal("False/ValidationError"))
		Expect(message(w.status(ctx, "one"), "Ready")).To(ContainSubstring("no such component"))
		Expect(calls()).To(Equal([]string{check}))
		w.quiet(func() { w.look("one", "one") })
		w.clock.Step(30 * time.Minute)
		w.look("one")
		Expect(calls()).To(Equal([]string{check}), "half an hour later")

		w.fleet.ClearFaults()
		w.change(ctx, "one", `{"spec": {"contents": "logging { }"}}`)
		Eventually(w.ready(ctx, "one")).Should(Equal("True/Synced"))
		Expect(calls()).To(Equal([]string{check, "CreatePipeline"}))
	})

	It("that is refused leaves the pipeline of a new name as it stands", func(ctx SpecContext) {
		w := checking(ctx)
		w.start(ctx)
		w.synced(ctx, w.pipeline("one"))
		w.fleet.Fail(refusing)
		calls := sent(w)
		calls()
		w.change(ctx, "one", `{"spec": {"name": "other", "contents": "logging { }"}}`)
		Eventually(w.ready(ctx, "one")).Should(Equal("False/ValidationError"))
		Expect(calls()).To(Equal([]string{check}))
		Expect(w.names()).To(Equal([]string{"one"}))
		Expect(w.remote("one")()).To(Equal(contents))
	})

	It("that gets no answer is made again, and writes nothing until then", func(ctx SpecContext) {
		w := checking(ctx)
		w.fleet.Fail(fleetserver.Rule{Procedure: check, Respond: fleetserver.ConnectError(connect.CodeResourceExhausted, "slow down")})
		calls := sent(w)
		w.start(ctx)
		w.create(ctx, w.pipeline("one"))
		Eventually(w.ready(ctx, "one")).Should(Equal("Unknown/RateLimited"))
		w.calm("one", false)
		Expect(calls()).To(Equal([]string{check}))
		w.heal("one", 15*time.Second)
		Eventually(w.ready(ctx, "one")).Should(Equal("True/Synced"))
		Expect(calls()).To(Equal([]string{check, "CreatePipeline"}))
	})
})

// served starts the manager with its webhooks, until the spec ends, and returns who writes and hears their warnings.
func (w *world) served(ctx context.Context, mode string) *listener {
	GinkgoHelper()
	certs, _, port, err := cluster.InstallWebhooks(ctx, filepath.Join("..", "..", "..", "config", "webhook", "manifests.yaml"))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(cluster.Client.DeleteAllOf(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{})).To(Succeed())
		Eventually(func() error { return cluster.Client.Create(ctx, w.broken(), client.DryRunAll) }).Should(Succeed(), "other specs write without webhooks")
	})
	w.options.WebhookCertPath, w.options.WebhookPort, w.options.Fleet.WebhookRemoteValidate = certs, port, mode
	w.start(ctx)
	Eventually(func() bool { return apierrors.IsInvalid(cluster.Client.Create(ctx, w.broken(), client.DryRunAll)) }).Should(BeTrue(), "not served")
	return newListener()
}

// broken makes a Pipeline that the webhook refuses by its own rules.
func (w *world) broken() *fleetmanagementv1alpha1.Pipeline {
	return w.pipeline("broken", func(p *fleetmanagementv1alpha1.Pipeline) { p.Spec.Contents = "invalid {{{" })
}

// listener is a client that hears warnings.
type listener struct {
	client.Client
	mu    sync.Mutex
	heard []string
}

func newListener() *listener {
	GinkgoHelper()
	l := &listener{}
	config := rest.CopyConfig(cluster.Config)
	config.WarningHandler = l
	var err error
	l.Client, err = client.New(config, client.Options{Scheme: cluster.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return l
}

// HandleWarningHeader implements rest.WarningHandler.
func (l *listener) HandleWarningHeader(_ int, _, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, text)
}

// warnings returns what was heard since it was last called.
func (l *listener) warnings() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	heard := l.heard
	l.heard = nil
	return heard
}
