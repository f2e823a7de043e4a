// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = Describe("A second Candor in the cluster", func() {
	It("another-candor: waits and says for whom, takes over when the older one is gone, and gives way when it is back", func(ctx SpecContext) {
		old := newWorld(ctx)
		old.options.LeaderElect, old.options.LeaderElectionNamespace = true, system
		old.options.LeaseDuration, old.options.RenewDeadline, old.options.RetryPeriod = 4*time.Second, 3*time.Second, time.Second
		young := *old
		young.options.LeaderElectionNamespace = installElsewhere(ctx)
		young.options.PodNamespace, young.options.PodName = young.options.LeaderElectionNamespace, "young-pod"
		ready := young.probe("leader")
		old.startWithDB(ctx, "trivy")
		old.settle(ctx)

		By("starting beside it")
		young.start(ctx)
		DeferCleanup(young.stop)
		Eventually(ready).Should(And(HavePrefix("500 "), ContainSubstring("another Candor works in the namespace candor-system"), ContainSubstring("remove one of them")))
		Eventually(cluster.Events).WithContext(ctx).WithArguments(young.options.PodNamespace).Should(ContainElement(And(
			HaveField("Type", corev1.EventTypeWarning), HaveField("Reason", "AnotherCandor"), HaveField("Regarding.Name", "young-pod"))))
		Consistently(young.metric("candor_provider_up", "provider", "trivy"), "2s").Should(BeZero(), "it does not work")

		By("removing the older one")
		old.stop()
		Eventually(ready).Should(Equal("200 ok"))
		young.serving()
		Eventually(cluster.Events).WithContext(ctx).WithArguments(young.options.PodNamespace).Should(ContainElement(HaveField("Reason", "OnlyCandor")))

		By("bringing the older one back")
		old.start(ctx)
		old.serving()
		Eventually(young.manager.Ended).Should(Receive(MatchError(ContainSubstring("leader election lost"))))
	})
})

// installElsewhere lets the manager's ServiceAccount have its Lease in another namespace, which it returns.
func installElsewhere(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "candor-elsewhere-"}}
	create(ctx, namespace)
	at := metav1.ObjectMeta{Namespace: namespace.Name, Name: "leader-election"}
	create(ctx, &rbacv1.Role{ObjectMeta: at, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create", "get", "update"},
	}}})
	create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: at, Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: system, Name: account}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: at.Name},
	})
	return namespace.Name
}
