// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
)

// scan is how long the real Trivy Operator may take until it has looked at a change.
const scan = 4 * time.Minute

var _ = Describe("Candor beside the real Trivy Operator", Ordered, Label("trivy"), func() {
	var namespace string

	BeforeAll(func(ctx SpecContext) {
		Expect(kubectl(ctx, "get", "crd", "configauditreports.aquasecurity.github.io", "--ignore-not-found", "-o", "name")).NotTo(BeEmpty(),
			"install Trivy Operator first, with its configuration and RBAC scanners on")
		install(ctx)
		namespace = newNamespace(ctx)
		Expect(cluster.Create(ctx, builder.Policy(namespace, "default", []string{"trivy/config", "trivy/rbac"}))).To(Succeed())
	})

	AfterEach(showOnFailure)

	finding := func(ctx context.Context, kind, name string) *candorv1alpha1.Finding {
		GinkgoHelper()
		var list candorv1alpha1.FindingList
		Expect(cluster.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
		var found []*candorv1alpha1.Finding
		for i := range list.Items {
			if s := list.Items[i].Spec.Source; s.Kind == kind && s.Name == name {
				found = append(found, &list.Items[i])
			}
		}
		Expect(len(found)).To(BeNumerically("<", 2), "one Finding a workload")
		if len(found) == 0 {
			return &candorv1alpha1.Finding{}
		}
		return found[0]
	}
	becomes := func(ctx context.Context, kind, name string, outcome candorv1alpha1.Outcome) {
		GinkgoHelper()
		Eventually(finding).WithContext(ctx).WithArguments(kind, name).WithTimeout(scan).Should(haveOutcome(outcome), "%s/%s", kind, name)
	}

	It("makes one Finding of each workload and Role that fails a check", func(ctx SpecContext) {
		for _, object := range []client.Object{
			&appsv1.Deployment{ObjectMeta: meta(namespace, "web"), Spec: appsv1.DeploymentSpec{Selector: selector("web"), Template: careless("web")}},
			&appsv1.StatefulSet{ObjectMeta: meta(namespace, "db"), Spec: appsv1.StatefulSetSpec{Selector: selector("db"), Template: careless("db")}},
			&appsv1.DaemonSet{ObjectMeta: meta(namespace, "agent"), Spec: appsv1.DaemonSetSpec{Selector: selector("agent"), Template: careless("agent")}},
			&batchv1.CronJob{ObjectMeta: meta(namespace, "nightly"), Spec: batchv1.CronJobSpec{Schedule: "0 3 * * *", JobTemplate: batchv1.JobTemplateSpec{
				Spec: batchv1.JobSpec{Template: forJobs(careless("nightly"))},
			}}},
			&rbacv1.Role{ObjectMeta: meta(namespace, "reader"), Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"},
			}}},
		} {
			Expect(cluster.Create(ctx, object)).To(Succeed())
		}
		for kind, name := range map[string]string{"Deployment": "web", "StatefulSet": "db", "DaemonSet": "agent", "CronJob": "nightly", "Role": "reader"} {
			becomes(ctx, kind, name, candorv1alpha1.OutcomeStillPresent)
		}
	})

	It("writes nothing when a Deployment is rolled out and scaled", func(ctx SpecContext) {
		before := finding(ctx, "Deployment", "web")
		kubectl(ctx, "-n", namespace, "set", "env", "deployment/web", "ROLLOUT=2")
		kubectl(ctx, "-n", namespace, "scale", "deployment/web", "--replicas=3")
		Eventually(func(g Gomega) {
			out := kubectl(ctx, "-n", namespace, "get", "configauditreports", "-l", "trivy-operator.resource.kind=ReplicaSet", "-o",
				`jsonpath={range .items[*]}{.metadata.labels.trivy-operator\.resource\.name}{"\n"}{end}`)
			current := kubectl(ctx, "-n", namespace, "get", "replicasets", "-o", `jsonpath={.items[?(@.metadata.annotations.deployment\.kubernetes\.io/revision=="2")].metadata.name}`)
			g.Expect(current).NotTo(BeEmpty())
			g.Expect(out).To(ContainSubstring(current))
		}).WithTimeout(scan).Should(Succeed(), "Trivy Operator has looked at the new ReplicaSet")
		Consistently(finding).WithContext(ctx).WithArguments("Deployment", "web").WithTimeout(10 * time.Second).Should(
			HaveField("ResourceVersion", before.ResourceVersion))
	})

	It("resolves what is fixed, on evidence", func(ctx SpecContext) {
		kubectl(ctx, "-n", namespace, "patch", "deployment", "web", "--type=strategic", "-p", `{"spec":{"template":{"spec":{
			"securityContext":{"runAsNonRoot":true,"runAsUser":65532,"runAsGroup":65532,"seccompProfile":{"type":"RuntimeDefault"}},
			"containers":[{"name":"app","securityContext":{"readOnlyRootFilesystem":true,"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}}}`)
		kubectl(ctx, "-n", namespace, "patch", "role", "reader", "--type=merge", "-p", `{"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}]}`)
		becomes(ctx, "Deployment", "web", candorv1alpha1.OutcomeResolved)
		becomes(ctx, "Role", "reader", candorv1alpha1.OutcomeResolved)
	})

	It("changes nothing when a workload is scaled to zero", func(ctx SpecContext) {
		before := finding(ctx, "StatefulSet", "db")
		kubectl(ctx, "-n", namespace, "scale", "statefulset/db", "--replicas=0")
		Consistently(finding).WithContext(ctx).WithArguments("StatefulSet", "db").WithTimeout(30 * time.Second).Should(
			HaveField("ResourceVersion", before.ResourceVersion))
	})

	It("sees that workloads are gone", func(ctx SpecContext) {
		kubectl(ctx, "-n", namespace, "delete", "statefulset/db", "daemonset/agent", "cronjob/nightly")
		for kind, name := range map[string]string{"StatefulSet": "db", "DaemonSet": "agent", "CronJob": "nightly"} {
			becomes(ctx, kind, name, candorv1alpha1.OutcomeWorkloadGone)
		}
	})

	It("lets nothing flap", func(ctx SpecContext) {
		var list candorv1alpha1.FindingList
		Expect(cluster.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
		Expect(list.Items).To(HaveEach(HaveField("Status.TimesRecurred", int32(0))))
		for _, f := range list.Items {
			AddReportEntry(fmt.Sprintf("%s/%s", f.Spec.Source.Kind, f.Spec.Source.Name), f.Status.VerificationOutcome)
		}
		Expect(kubectl(ctx, "-n", system, "logs", deployment)).NotTo(ContainSubstring("forbidden"))
	})
})

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

// careless is a pod that says nothing about its security. Its image is nowhere, since it need not run.
func careless(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.invalid/app:1"}}},
	}
}

func forJobs(template corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	return template
}
