// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/app"
	"github.com/candor-dev/candor/test/builder"
)

const (
	unknownProvider = `spec.providers[0]: no provider named "falco" exists; known: trivy, trivy/config, trivy/rbac, trivy/secrets, openreports, policyreport, webhook`
	noEffect        = "spec.pullRequestBudget: accepted for compatibility, without effect in this version"
	asksDifferently = "spec: a changed minSeverity, onlyFixable or unknownSeverity changes what Findings say: " +
		"their fingerprints change, which ends mutes and reopens them for explanation"
	truncated = `spec.fingerprint: "18a01a3c8832" is no fingerprint, which has 64 digits of 0-9a-f, and mutes nothing: ` +
		"copy it whole with kubectl get finding NAME -o jsonpath='{.status.fingerprint}'"
	past = "spec.expiresAt: 2026-11-30T11:00:00Z has passed, so this mutes nothing: " +
		"set a later time, or leave it out to mute until the content changes"
)

var _ = Describe("The webhooks", Ordered, ContinueOnFailure, func() {
	var (
		options     func() app.Options
		fingerprint = strings.Repeat("0", 64)
	)
	BeforeAll(func(ctx SpecContext) {
		certs, _, port, err := cluster.InstallWebhooks(ctx, filepath.Join("..", "..", "..", "config", "webhook", "manifests.yaml"))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(cluster.Client.DeleteAllOf(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{})).To(Succeed())
		})
		options = func() app.Options {
			GinkgoHelper()
			o, err := app.Parse([]string{"--health-probe-bind-address=0", "--webhook-cert-path=" + certs, fmt.Sprintf("--webhook-port=%d", port)})
			Expect(err).NotTo(HaveOccurred())
			return o
		}
	})

	DescribeTable("webhook-warnings: warn of what is surprising and refuse nothing", func(ctx SpecContext, off ...string) {
		w := newWorld(ctx)
		for _, name := range off {
			GinkgoT().Setenv("CANDOR_ENABLE_"+name+"_CONTROLLER", "false")
		}
		w.options = options()
		for _, name := range off {
			Expect(w.options.Controllers[strings.ToLower(name)].Enabled).To(BeFalse())
		}
		w.start(ctx)
		person := newPerson()
		Eventually(func() []string {
			Expect(person.Create(ctx, builder.Policy(w.namespace, "probe", []string{"falco"}), client.DryRunAll)).To(Succeed())
			return person.warnings()
		}).Should(ConsistOf(unknownProvider), "not served")

		Expect(person.Create(ctx, builder.Policy(w.namespace, "default", []string{"trivy", "trivy/rbac"}))).To(Succeed())
		Expect(person.Create(ctx, builder.Suppression(w.namespace, "plain", fingerprint, until(w.clock.Now().Add(time.Hour))))).To(Succeed())
		Expect(person.warnings()).To(BeEmpty(), "nothing is wrong with these")

		old := builder.Policy(w.namespace, "old", []string{"falco"}, func(p *candorv1alpha1.SignalPolicy) {
			p.Spec.Budget, p.Spec.PullRequestBudget = &candorv1alpha1.Budget{MaxCalls: 1}, &candorv1alpha1.PullRequestBudget{MaxPullRequests: 1}
		})
		Expect(person.Create(ctx, old)).To(Succeed())
		Expect(person.warnings()).To(ConsistOf(unknownProvider, noEffect))

		edited := builder.Policy(w.namespace, "default", nil)
		Expect(person.Patch(ctx, edited, merge(`{"spec": {"minSeverity": "LOW"}}`))).To(Succeed())
		Expect(person.warnings()).To(ConsistOf(asksDifferently))
		Expect(person.Patch(ctx, edited, merge(`{"metadata": {"labels": {"team": "a"}}}`))).To(Succeed())
		Expect(person.warnings()).To(BeEmpty(), "the spec is as it was")

		Expect(person.Create(ctx, builder.Suppression(w.namespace, "short", "18a01a3c8832"))).To(Succeed())
		Expect(person.warnings()).To(ConsistOf(truncated))
		Expect(person.Create(ctx, builder.Suppression(w.namespace, "late", fingerprint, until(w.clock.Now().Add(-time.Hour))))).To(Succeed())
		Expect(person.warnings()).To(ConsistOf(past))

		Expect(person.Create(ctx, w.quiet("odd", ids("cve-2026-1"), images("nginx:1.27")))).To(Succeed())
		Expect(person.warnings()).To(ConsistOf(HavePrefix("spec.vulnerabilityIDs[0]: "), HavePrefix("spec.imageRepositories[0]: ")))
		w.apply(ctx, bounded(30))
		Eventually(func() []string {
			Expect(person.Create(ctx, w.quiet("endless", ids("CVE-2026-00001")), client.DryRunAll)).To(Succeed())
			return person.warnings()
		}).Should(ConsistOf(MatchRegexp("^spec.expiresAt: this mutes until .* only: spec.suppression.maxDays of the OperatingPolicy allows 30 days from its creation$")))
	},
		Entry("with every controller on"),
		Entry("with their controllers turned off by the environment, as a Subscription does", "SIGNALPOLICY", "SUPPRESSION"),
	)

	It("webhook-refusal: leave refusing to the API server, whose words a person reads beside the warnings", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.options = options()
		w.start(ctx)
		person := newPerson()
		Eventually(func() error {
			return person.Create(ctx, builder.Suppression(w.namespace, "mute", "18a01a3c8832", because(" ")))
		}).Should(MatchError(ContainSubstring("a reason is required")))
	})

	It("webhook-down: let every write pass", func(ctx SpecContext) {
		w := newWorld(ctx)
		person := newPerson()
		Expect(person.Create(ctx, builder.Policy(w.namespace, "default", []string{"falco"}))).To(Succeed())
		Expect(person.Create(ctx, builder.Suppression(w.namespace, "quiet", "18a01a3c8832"))).To(Succeed())
		Expect(person.Patch(ctx, builder.Policy(w.namespace, "default", nil), merge(`{"spec": {"minSeverity": "LOW"}}`))).To(Succeed())
		Expect(person.warnings()).To(BeEmpty())
	})
})

// person is somebody at a kubectl, which shows warnings.
type person struct {
	client.Client
	mu    sync.Mutex
	heard []string
}

func newPerson() *person {
	GinkgoHelper()
	p := &person{}
	config := rest.CopyConfig(cluster.Config)
	config.WarningHandler = p
	var err error
	p.Client, err = client.New(config, client.Options{Scheme: cluster.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return p
}

// HandleWarningHeader implements rest.WarningHandler.
func (p *person) HandleWarningHeader(_ int, _, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = append(p.heard, text)
}

// warnings returns what was heard since it was last called.
func (p *person) warnings() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	heard := p.heard
	p.heard = nil
	return heard
}
