// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/suite"
)

// overheard lets every request pass and tells look of it.
func overheard(look func(*http.Request)) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return suite.RoundTrip(func(r *http.Request) (*http.Response, error) {
			look(r)
			return next.RoundTrip(r)
		})
	}
}

var _ = Describe("What somebody means ill with", func() {
	It("path-traversal: a name in a report never becomes another object's path", func(ctx SpecContext) {
		w := newWorld(ctx)
		var strayed atomic.Int32
		w.meddle = overheard(func(r *http.Request) {
			if strings.Contains(r.URL.Path, "elsewhere") {
				strayed.Add(1)
			}
		})
		w.apply(ctx, builder.Policy(w.namespace, "default", []string{"trivy"}))
		w.start(ctx)
		w.serving()
		report := builder.VulnerabilityReport(w.namespace, "StatefulSet", "x", "app", builder.Vulnerabilities(2, "HIGH"), func(r *unstructured.Unstructured) {
			r.SetLabels(map[string]string{"trivy-operator.resource.kind": "Deployment", "trivy-operator.container.name": "app"})
			r.SetAnnotations(map[string]string{"trivy-operator.resource.name": "../../elsewhere/deployments/secret"})
		})
		w.apply(ctx, report)
		Eventually(w.metric("candor_reports_dropped_total", "reason", "malformed")).Should(BeNumerically(">=", 1))
		w.remove(ctx, report)
		w.settle(ctx)
		Expect(w.findings(ctx)).To(BeEmpty())
		Expect(strayed.Load()).To(BeZero())
	})

	It("owner-cycle: ReplicaSets that name each other as controller are counted and left alone", func(ctx SpecContext) {
		w := newWorld(ctx)
		a, b := builder.ReplicaSet(nil, w.namespace, "a", 1), builder.ReplicaSet(nil, w.namespace, "b", 1)
		w.apply(ctx, a, b, builder.Policy(w.namespace, "default", []string{"trivy"}))
		for rs, owner := range map[*appsv1.ReplicaSet]*appsv1.ReplicaSet{a: b, b: a} {
			rs.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner.Name, UID: owner.UID, Controller: new(true)}}
			Expect(cluster.Client.Update(ctx, rs)).To(Succeed())
		}
		w.start(ctx)
		w.serving()
		w.apply(ctx, builder.VulnerabilityReport(w.namespace, "ReplicaSet", "a", "app", builder.Vulnerabilities(2, "HIGH")))
		Eventually(w.metric("candor_reports_dropped_total", "reason", "owner_gone")).Should(Equal(1.0))
		w.settle(ctx)
		Expect(w.findings(ctx)).To(BeEmpty())
	})
})

var _ = Describe("What happens at the same time", func() {
	It("mute-during-write: a Suppression that comes while its fingerprint is being written mutes", func(ctx SpecContext) {
		w := newWorld(ctx)
		var armed atomic.Bool
		held, release := make(chan struct{}), make(chan struct{})
		w.meddle = overheard(func(r *http.Request) {
			if r.Method == http.MethodPut && strings.Contains(r.URL.Path, w.namespace+"/findings/") && armed.CompareAndSwap(true, false) {
				close(held)
				<-release
			}
		})
		w.startWithDB(ctx, "trivy")
		w.settle(ctx)
		first := w.db(ctx)().Status.Fingerprint
		w.scan(ctx, "db", builder.Vulnerabilities(3, "HIGH"))
		w.settle(ctx)
		armed.Store(true)
		w.scan(ctx, "db", builder.Vulnerabilities(2, "HIGH"))
		<-held
		w.apply(ctx, builder.Suppression(w.namespace, "mute", first))
		close(release)
		Eventually(func(g Gomega) {
			g.Expect(w.db(ctx)().Status.Fingerprint).To(Equal(first))
			g.Expect(w.db(ctx)().Status.Explained).To(Equal(candorv1alpha1.ExplainedMuted))
		}).Should(Succeed())
	})

	It("right-lost: the policy says that reports are not read any more, and the Finding stays until they are", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.lacksRights = true
		var cut atomic.Bool
		watches := make(chan io.Closer, 100)
		w.meddle = func(next http.RoundTripper) http.RoundTripper {
			return suite.RoundTrip(func(r *http.Request) (*http.Response, error) {
				watch := strings.Contains(r.URL.Path, "vulnerabilityreports") && r.URL.Query().Get("watch") != ""
				if cut.Load() && watch {
					return connectionRefused(r)
				}
				response, err := next.RoundTrip(r)
				if err == nil && watch {
					watches <- response.Body
				}
				return response, err
			})
		}
		w.startWithDB(ctx, "trivy")
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).Should(HavePrefix("True/Active"))
		grant := withoutRight(ctx, "vulnerabilityreports")
		cut.Store(true)
		for len(watches) > 0 {
			Expect((<-watches).Close()).To(Succeed())
		}
		w.scan(ctx, "db", []any{})
		cut.Store(false)
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).WithTimeout(time.Minute).Should(HavePrefix("False/ProviderUnavailable"))
		Eventually(w.metric("candor_provider_up", "provider", "trivy")).Should(BeZero())
		Expect(outcome(w.db(ctx))()).To(Equal(candorv1alpha1.OutcomeStillPresent))
		grant()
		Eventually(outcome(w.db(ctx))).WithTimeout(time.Minute).Should(Equal(candorv1alpha1.OutcomeResolved))
		Eventually(w.policy(ctx, "default", candorv1alpha1.ConditionReady)).WithTimeout(time.Minute).Should(HavePrefix("True/Active"))
	})

	It("two-replicas: another one takes over from a leader that lost its lease, and nothing recurs", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.options.LeaderElect, w.options.LeaderElectionNamespace = true, "candor-system"
		w.options.LeaseDuration, w.options.RenewDeadline, w.options.RetryPeriod = 4*time.Second, 3*time.Second, time.Second
		var dead atomic.Bool
		w.meddle = func(next http.RoundTripper) http.RoundTripper {
			return suite.RoundTrip(func(r *http.Request) (*http.Response, error) {
				if dead.Load() && strings.Contains(r.URL.Path, "leases") {
					return connectionRefused(r)
				}
				return next.RoundTrip(r)
			})
		}
		w.startWithDB(ctx, "trivy")
		second := *w
		second.meddle = nil
		second.start(ctx)
		defer second.stop()
		dead.Store(true)
		w.scan(ctx, "db", builder.Vulnerabilities(7, "HIGH"))
		Eventually(w.manager.Ended).Should(Receive(HaveOccurred()))
		w.scan(ctx, "db", builder.Vulnerabilities(9, "HIGH"))
		second.serving()
		Eventually(func() int32 { return w.db(ctx)().Spec.Evidence.Total }).Should(BeEquivalentTo(9))
		Expect(w.db(ctx)().Status.TimesRecurred).To(BeZero())
	})
})
