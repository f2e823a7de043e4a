// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/candor-dev/candor/internal/upgradeable"
	"github.com/candor-dev/candor/test/kube"
)

// version is the name of a CSV, and so of the OperatorCondition that OLM makes for it.
const version = "candor.v0.1.0"

var _ = Describe("Under OLM", Ordered, func() {
	BeforeAll(func() {
		crds, err := envtest.InstallCRDs(cluster.Config, envtest.CRDInstallOptions{Paths: []string{filepath.Join("testdata", "operatorconditions.yaml")}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() {
			Expect(envtest.UninstallCRDs(cluster.Config, envtest.CRDInstallOptions{CRDs: crds})).To(Succeed())
		})
	})

	It("olm-upgradeable: the manager may be replaced once it has looked at what an earlier version stored, and says so twice a version", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.startWithDB(ctx, "trivy")
		w.settle(ctx)
		w.stop()
		Expect(cluster.Client.Patch(ctx, w.db(ctx)(), merge(`{"spec": {"summary": "in the words of an earlier version"}}`))).To(Succeed())

		install := make(chan struct{})
		w.meddle = overheard(func(r *http.Request) {
			if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, w.namespace+"/findings/") {
				<-install
			}
		})
		w.options.OperatorCondition, w.options.PodNamespace = version, system
		installOperatorCondition(ctx)
		w.counter.Reset()
		w.start(ctx)
		Eventually(upgradeableNow).WithContext(ctx).Should(HaveExactElements(And(
			HaveField("Status", metav1.ConditionFalse), HaveField("Reason", upgradeable.ReasonMigrating), HaveField("Message", ContainSubstring("an earlier version stored")))))
		close(install)
		Eventually(upgradeableNow).WithContext(ctx).Should(HaveExactElements(And(
			HaveField("Status", metav1.ConditionTrue), HaveField("Reason", upgradeable.ReasonMigrated))))
		Expect(w.db(ctx)().Spec.Summary).NotTo(ContainSubstring("earlier version"))
		Expect(conditionRequests(w)).To(Equal(kube.Counts{"get operatorconditions": 2, "update operatorconditions": 2}))

		By("starting again")
		w.counter.Reset()
		w.restart(ctx)
		w.settle(ctx)
		Expect(conditionRequests(w)).To(Equal(kube.Counts{"get operatorconditions": 1}))
	})

	It("olm-refused: the manager works on without the right, and says so once", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.lacksRights = true
		w.options.OperatorCondition, w.options.PodNamespace = version, system
		w.startWithDB(ctx, "trivy")
		w.settle(ctx)
		Eventually(w.forbidden).Should(HaveExactElements(
			And(ContainSubstring("Cannot tell OLM"), ContainSubstring("reading OperatorCondition candor-system/candor.v0.1.0"))))
		Eventually(func() int { return conditionRequests(w)["get operatorconditions"] }).Should(BeNumerically(">=", 2), "it is tried again")
		Expect(w.forbidden()).To(HaveLen(1))
	})

	It("olm-unreadable: Findings whose reports cannot be read hold no upgrade up", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.startWithDB(ctx, "trivy")
		w.settle(ctx)
		w.stop()
		w.lacksRights = true
		grant := withoutRight(ctx, "vulnerabilityreports")
		w.options.OperatorCondition, w.options.PodNamespace = version, system
		installOperatorCondition(ctx)
		w.start(ctx)
		Eventually(upgradeableNow).WithContext(ctx).Should(HaveExactElements(HaveField("Status", metav1.ConditionTrue)))
		grant()
	})

	It("olm-absent: without OLM nothing is asked of it", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.startWithDB(ctx, "trivy")
		w.settle(ctx)
		Expect(conditionRequests(w)).To(BeEmpty())
	})
})

// installOperatorCondition makes what OLM makes for a version: the object, and the right to it.
func installOperatorCondition(ctx context.Context) {
	GinkgoHelper()
	at := metav1.ObjectMeta{Namespace: system, Name: version}
	create(ctx, &operatorsv2.OperatorCondition{ObjectMeta: at, Spec: operatorsv2.OperatorConditionSpec{ServiceAccounts: []string{account}}})
	create(ctx, &rbacv1.Role{ObjectMeta: at, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"operators.coreos.com"}, Resources: []string{"operatorconditions"}, ResourceNames: []string{version},
		Verbs: []string{"get", "update", "patch"},
	}}})
	create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: at, Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: version},
	})
	// The API server learns of a binding a moment later.
	manager, err := cluster.ManagerConfig(ctx)
	Expect(err).NotTo(HaveOccurred())
	account, err := client.New(manager, client.Options{Scheme: cluster.Client.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error {
		return account.Get(ctx, client.ObjectKey{Namespace: system, Name: version}, &operatorsv2.OperatorCondition{})
	}).Should(Succeed())
}

func upgradeableNow(ctx context.Context) []metav1.Condition {
	GinkgoHelper()
	var object operatorsv2.OperatorCondition
	Expect(cluster.Client.Get(ctx, client.ObjectKey{Namespace: system, Name: version}, &object)).To(Succeed())
	return object.Spec.Conditions
}

// conditionRequests counts what was asked about OperatorConditions.
func conditionRequests(w *world) kube.Counts {
	counts := kube.Counts{}
	for _, r := range w.counter.Requests() {
		if r.Resource == "operatorconditions" {
			counts[r.Key()]++
		}
	}
	return counts
}
