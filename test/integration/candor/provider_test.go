// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/app"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/suite"
)

const absent = "%s CRD not found: install Trivy Operator (https://github.com/aquasecurity/trivy-operator) to enable %s; " +
	"Candor starts watching by itself."

var _ = Describe("A provider", func() {
	It("crd-late-install: is waited for without Trivy's CRDs, and served without a restart when they come", func(ctx SpecContext) {
		w := newWorld(ctx)
		withoutTrivy(ctx)
		w.apply(ctx, builder.StatefulSet(w.namespace, "db"), builder.Policy(w.namespace, "default", []string{"trivy"}))
		w.start(ctx)
		sentence := fmt.Sprintf("False/ProviderUnavailable: "+absent, "VulnerabilityReport", "trivy")
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(Equal(sentence))
		Expect(w.policy(ctx, "default", candorv1alpha1.ConditionProviderAvailable)()).To(Equal(sentence))
		Expect(w.providersUp()).To(Equal(serves()))

		Expect(cluster.InstallTrivyCRDs(ctx)).To(Succeed())
		// The API server takes reports a moment before it says so in its discovery.
		Eventually(cluster.Client.Create).WithArguments(ctx, dbReport(w.namespace, 2)).Should(Succeed())
		Eventually(outcome(w.db(ctx))).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		w.serving()
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(Equal("True/Active: Watching VulnerabilityReport."))
		Expect(w.policy(ctx, "default", candorv1alpha1.ConditionProviderAvailable)()).To(Equal("True/Available: Watching VulnerabilityReport."))
	})

	It("crd-removed: stops cleanly, keeps the Findings, which are Stale after the grace, and comes back with the CRDs", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.startWithDB(ctx, "trivy")
		withoutTrivy(ctx)
		Eventually(w.providersUp).Should(Equal(serves()))
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(
			Equal(fmt.Sprintf("False/ProviderUnavailable: "+absent, "VulnerabilityReport", "trivy")))
		errors := errorLines()
		w.clock.Step(w.options.EvidenceGrace - time.Second)
		w.lookAtDB()
		Consistently(outcome(w.db(ctx))).WithTimeout(2 * time.Second).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		Expect(errors()).To(BeEmpty(), "nothing is wrong any more once the watch has stopped")
		w.clock.Step(2 * time.Second)
		w.lookAtDB()
		Eventually(outcome(w.db(ctx))).Should(Equal(candorv1alpha1.OutcomeStale))

		Expect(cluster.InstallTrivyCRDs(ctx)).To(Succeed())
		// The API server takes reports a moment before it says so in its discovery.
		Eventually(cluster.Client.Create).WithArguments(ctx, dbReport(w.namespace, 2)).Should(Succeed())
		Eventually(outcome(w.db(ctx))).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		Expect(w.db(ctx)().Status.TimesRecurred).To(BeZero(), "it never ended")
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(Equal("True/Active: Watching VulnerabilityReport."))
	})

	It("crd-partial: of one class is absent and those of the others are served", func(ctx SpecContext) {
		w := newWorld(ctx)
		withoutTrivy(ctx, "rbacassessmentreports")
		w.apply(ctx, builder.StatefulSet(w.namespace, "db"), dbReport(w.namespace, 2), dbChecks(w.namespace),
			builder.Policy(w.namespace, "default", []string{"trivy", "trivy/config", "trivy/rbac"}))
		w.start(ctx)
		for _, provider := range []string{"trivy", "trivy/config"} {
			container := map[string]string{"trivy": "app"}[provider]
			Eventually(outcome(w.finding(ctx, provider, "StatefulSet", "db", container))).Should(Equal(candorv1alpha1.OutcomeStillPresent), provider)
		}
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(Equal(fmt.Sprintf(
			"False/ProviderUnavailable: Watching VulnerabilityReport. Watching ConfigAuditReport. "+absent, "RbacAssessmentReport", "trivy/rbac")))
		Expect(w.providersUp()).To(Equal(serves("trivy", "trivy/config", "trivy/secrets")))
	})

	It("no-right: that may not be read says so in words, holds nothing up, and recovers when the right is granted", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.lacksRights = true
		granted := withoutRight(ctx, "vulnerabilityreports")
		w.apply(ctx, builder.StatefulSet(w.namespace, "db"), dbReport(w.namespace, 2), dbChecks(w.namespace),
			builder.Policy(w.namespace, "default", []string{"trivy", "trivy/config"}))
		w.start(ctx)
		Eventually(outcome(w.finding(ctx, "trivy/config", "StatefulSet", "db", ""))).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(And(
			HavePrefix("False/ProviderUnavailable: VulnerabilityReport cannot be read: "),
			ContainSubstring("is forbidden"), ContainSubstring("vulnerabilityreports"), ContainSubstring("Watching ConfigAuditReport.")))
		Expect(w.providersUp()).To(HaveKeyWithValue("trivy", 0.0))
		Expect(w.db(ctx)()).To(BeNil())
		granted()
		Eventually(outcome(w.db(ctx))).WithTimeout(time.Minute).Should(Equal(candorv1alpha1.OutcomeStillPresent))
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(HavePrefix("True/Active"))
	})

	It("unknown-provider: is named in the policy with those that exist, and the others of the policy work", func(ctx SpecContext) {
		w := newWorld(ctx)
		unknown := fmt.Sprintf("False/UnknownProvider: No provider named %q exists; known: %s.", "falco", knownProviders())
		w.startWithDB(ctx, "falco", "trivy")
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(Equal(
			unknown + " Watching VulnerabilityReport."))
		Expect(w.policy(ctx, "default", candorv1alpha1.ConditionProviderAvailable)()).To(Equal("True/Available: Watching VulnerabilityReport."))
		w.apply(ctx, builder.Policy(w.namespace, "other", []string{"falco"}))
		Eventually(w.policy(ctx, "other", candorv1alpha1.ConditionReady)).Should(Equal(unknown))
		Expect(w.policy(ctx, "other", candorv1alpha1.ConditionProviderAvailable)()).To(Equal(unknown))
	})
})

var _ = Describe("An API server that does not say whether reports exist", func() {
	DescribeTable("crd-unreachable: is not taken for one without them: no Finding is touched, and all is well once it answers",
		func(ctx SpecContext, answer func(*http.Request) (*http.Response, error), words string) {
			w := newWorld(ctx)
			outage := &outage{}
			w.meddle = outage.wrap
			w.startWithDB(ctx, "trivy")
			before := w.db(ctx)()
			outage.begin(answer)
			w.stop()
			w.start(ctx)
			unknown := HavePrefix("Unknown/ProviderUnreachable: Cannot tell whether VulnerabilityReport exists: ")
			Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionProviderAvailable)).Should(And(unknown, ContainSubstring(words)))
			Expect(w.policy(ctx, "default", candorv1alpha1.ConditionReady)()).To(And(unknown, ContainSubstring(words)))
			Expect(w.providersUp()).To(Equal(serves()))
			for range 2 {
				w.lookAtDB()
				w.clock.Step(2 * w.options.EvidenceGrace)
			}
			w.idle()
			Expect(w.db(ctx)()).To(Equal(before))
			outage.end()
			Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(Equal("True/Active: Watching VulnerabilityReport."))
			w.settle(ctx)
			Expect(w.db(ctx)()).To(Equal(before))
		},
		Entry("when it answers with 500", internalError, "etcd is not well"),
		Entry("when nobody listens", connectionRefused, "connection refused"),
	)

	It("crd-unreachable-later: changes nothing about reports that are being watched", func(ctx SpecContext) {
		w := newWorld(ctx)
		outage := &outage{}
		w.meddle = outage.wrap
		w.startWithDB(ctx, "trivy")
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(HavePrefix("True/Active"))
		outage.begin(internalError)
		touchDefinition(ctx, "vulnerabilityreports.aquasecurity.github.io")
		Eventually(outage.refused.Load).Should(BeNumerically(">", 0))
		w.apply(ctx, builder.VulnerabilityReport(w.namespace, "StatefulSet", "db", "app", []any{}))
		Eventually(outcome(w.db(ctx))).Should(Equal(candorv1alpha1.OutcomeResolved))
		Expect(w.policy(ctx, "default", candorv1alpha1.ConditionReady)()).To(HavePrefix("True/Active"))
		Expect(w.providersUp()).To(HaveKeyWithValue("trivy", 1.0))
	})

	It("start-unreachable: stops the manager from starting when it cannot say what it serves at all", func(ctx SpecContext) {
		outage := &outage{paths: []string{"/api"}}
		outage.begin(internalError)
		config, err := cluster.ManagerConfig(ctx)
		Expect(err).NotTo(HaveOccurred())
		config.Wrap(outage.wrap)
		w := newWorld(ctx)
		_, err = app.New(ctx, config, w.options, app.Parts{Registry: prometheus.NewRegistry(), Several: true})
		Expect(err).To(MatchError(ContainSubstring("an error on the server")))
	})
})

// startWithDB runs the manager over a StatefulSet "db" whose report has two entries, and waits for its Finding.
func (w *world) startWithDB(ctx context.Context, providers ...string) {
	GinkgoHelper()
	w.apply(ctx, builder.StatefulSet(w.namespace, "db"), dbReport(w.namespace, 2), builder.Policy(w.namespace, "default", providers))
	w.start(ctx)
	w.serving()
	Eventually(outcome(w.db(ctx))).Should(Equal(candorv1alpha1.OutcomeStillPresent))
}

// db returns a function that reads the Finding of the StatefulSet "db".
func (w *world) db(ctx context.Context) func() *candorv1alpha1.Finding {
	return w.finding(ctx, "trivy", "StatefulSet", "db", "app")
}

// lookAtDB makes the report controller look at the StatefulSet "db", as its timer would.
func (w *world) lookAtDB() {
	id := signals.Identity{Provider: "trivy", Namespace: w.namespace, Kind: "StatefulSet", Name: "db", Container: "app"}
	w.wakeReports <- event.TypedGenericEvent[signals.Identity]{Object: id}
}

// policy returns a function that puts a condition of a policy into one line.
func (w *world) policy(ctx context.Context, name, condition string) func() string {
	return func() string {
		var p candorv1alpha1.SignalPolicy
		if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, &p); err != nil {
			return err.Error()
		}
		return spoken(p.Status.Conditions, condition)
	}
}

// providersUp returns what candor_provider_up says of each provider.
func (w *world) providersUp() map[string]float64 {
	up := map[string]float64{}
	families, err := w.manager.Registry.Gather()
	if err != nil {
		return nil
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "candor_provider_up" {
				up[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return up
}

// serves is what candor_provider_up says while the reports of these providers are watched.
func serves(providers ...string) map[string]float64 {
	up := map[string]float64{}
	for _, provider := range app.Classes().Providers() {
		up[provider] = 0
	}
	for _, provider := range providers {
		up[provider] = 1
	}
	return up
}

// knownProviders lists the providers as messages do.
func knownProviders() string { return strings.Join(app.Classes().Known(), ", ") }

// withoutTrivy removes CRDs of Trivy Operator, all without a name, until the spec ends.
func withoutTrivy(ctx context.Context, names ...string) {
	GinkgoHelper()
	DeferCleanup(func(ctx SpecContext) { Expect(cluster.InstallTrivyCRDs(ctx)).To(Succeed()) })
	Expect(cluster.RemoveTrivyCRDs(ctx, names...)).To(Succeed())
}

// withoutRight takes a kind of reports out of the manager's ClusterRole, and returns what puts it back, at the latest when the
// spec ends. Both wait until the API server knows.
func withoutRight(ctx context.Context, resource string) (restore func()) {
	GinkgoHelper()
	var role rbacv1.ClusterRole
	Expect(cluster.Client.Get(ctx, client.ObjectKey{Name: "candor-manager-role"}, &role)).To(Succeed())
	before := role.DeepCopy()
	for i := range role.Rules {
		role.Rules[i].Resources = slices.DeleteFunc(role.Rules[i].Resources, func(r string) bool { return r == resource })
	}
	Expect(cluster.Client.Patch(ctx, &role, client.MergeFrom(before))).To(Succeed())
	Eventually(managerMayList(ctx, resource)).Should(BeFalse())
	restore = func() {
		GinkgoHelper()
		Expect(cluster.InstallManagerRBAC(ctx)).To(Succeed())
		Eventually(managerMayList(ctx, resource)).Should(BeTrue())
	}
	DeferCleanup(func(ctx SpecContext) { Expect(cluster.InstallManagerRBAC(ctx)).To(Succeed()) })
	return restore
}

func managerMayList(ctx context.Context, resource string) func(Gomega) bool {
	return func(g Gomega) bool {
		config, err := cluster.ManagerConfig(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		clients, err := kubernetes.NewForConfig(config)
		g.Expect(err).NotTo(HaveOccurred())
		answer, err := clients.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "list", Group: "aquasecurity.github.io", Resource: resource,
			}},
		}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		return answer.Status.Allowed
	}
}

// errorLines returns what reads the error lines of the log from here on.
func errorLines() func() []string {
	log := gbytes.NewBuffer()
	GinkgoWriter.TeeTo(log)
	DeferCleanup(GinkgoWriter.ClearTeeWriters)
	return func() []string {
		return slices.DeleteFunc(strings.Split(string(log.Contents()), "\n"), func(line string) bool {
			return !strings.Contains(line, `"error"=`)
		})
	}
}

// outage is a way to the API server that does not lead to the definitions of CRDs, or to other paths, for a while.
type outage struct {
	paths   []string
	answer  atomic.Pointer[func(*http.Request) (*http.Response, error)]
	refused atomic.Int32
}

func (o *outage) wrap(next http.RoundTripper) http.RoundTripper {
	if o.paths == nil {
		o.paths = []string{"/customresourcedefinitions"}
	}
	return suite.RoundTrip(func(req *http.Request) (*http.Response, error) {
		answer := o.answer.Load()
		if answer == nil || !slices.ContainsFunc(o.paths, func(path string) bool { return strings.Contains(req.URL.Path, path) }) {
			return next.RoundTrip(req)
		}
		o.refused.Add(1)
		return (*answer)(req)
	})
}

func (o *outage) begin(answer func(*http.Request) (*http.Response, error)) { o.answer.Store(&answer) }

func (o *outage) end() { o.answer.Store(nil) }

func internalError(req *http.Request) (*http.Response, error) {
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"etcd is not well","reason":"InternalError","code":500}`
	return &http.Response{
		StatusCode: http.StatusInternalServerError, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: req,
	}, nil
}

func connectionRefused(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// touchDefinition changes something about a CRD that means nothing.
func touchDefinition(ctx context.Context, name string) {
	GinkgoHelper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	touch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"touched":"yes"}}}`))
	Expect(cluster.Client.Patch(ctx, crd, touch)).To(Succeed())
}

func dbReport(namespace string, n int) client.Object {
	return builder.VulnerabilityReport(namespace, "StatefulSet", "db", "app", builder.Vulnerabilities(n, "HIGH"))
}

func dbChecks(namespace string) client.Object {
	return builder.CheckReport("ConfigAuditReport", namespace, "StatefulSet", "db", []any{
		builder.Check("KSV014", "HIGH", false, "Container 'app' of StatefulSet 'db' should set 'readOnlyRootFilesystem' to true"),
	})
}
