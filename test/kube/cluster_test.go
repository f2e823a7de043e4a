// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func startCluster(t *testing.T) *Cluster {
	t.Helper()
	if os.Getenv(assetsVariable) == "" {
		t.Skipf("needs an API server: %s", howToHave)
	}
	cluster, err := Start(Options{CRDs: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

// One API server serves all: it takes seconds to start.
func TestCluster(t *testing.T) {
	cluster := startCluster(t)
	repository := cluster.root
	t.Run("the manager has the rights of the manifests and no other", func(t *testing.T) {
		cluster.root = checkout
		defer func() { cluster.root = repository }()
		managerIsNobodySpecial(t, cluster)
	})
	t.Run("the manager of this repository cannot read a secret", func(t *testing.T) {
		if _, err := os.Stat(filepath.Join(repository, "config", "rbac", "role.yaml")); err != nil {
			t.Skip("config/rbac/role.yaml is not generated: run make manifests")
		}
		managerCannotReadSecrets(t, cluster)
	})
	t.Run("Trivy's CRDs come and go", func(t *testing.T) { trivyComesAndGoes(t, cluster) })
	t.Run("webhooks reach a server on this machine", func(t *testing.T) { webhooksReachHere(t, cluster) })
	t.Run("the kubeconfig is private and works", func(t *testing.T) { kubeconfigWorks(t, cluster) })
}

func managerIsNobodySpecial(t *testing.T, cluster *Cluster) {
	g := NewWithT(t)
	g.Expect(cluster.InstallManagerRBAC(t.Context())).To(Succeed())
	g.Expect(cluster.InstallManagerRBAC(t.Context())).To(Succeed(), "a second time")
	config, err := cluster.ManagerConfig(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	counter := NewCounter()
	config.Wrap(counter.Wrap)
	manager, err := client.New(config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())

	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "known"}}
	g.Expect(manager.Create(t.Context(), object)).To(Succeed())
	g.Expect(manager.Delete(t.Context(), object)).To(Satisfy(apierrors.IsForbidden))
	g.Expect(manager.List(t.Context(), &corev1.SecretList{})).To(Satisfy(apierrors.IsForbidden))
	g.Expect(counter.Writes()).To(Equal(Counts{"create configmaps": 1, "delete configmaps": 1}))
	g.Expect(counter.Reads()).To(HaveKeyWithValue("list secrets", 1))
}

func managerCannotReadSecrets(t *testing.T, cluster *Cluster) {
	g := NewWithT(t)
	g.Expect(cluster.InstallManagerRBAC(t.Context())).To(Succeed())
	config, err := cluster.ManagerConfig(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	manager, err := client.New(config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(manager.List(t.Context(), &corev1.SecretList{})).To(Satisfy(apierrors.IsForbidden))
	one := client.ObjectKey{Namespace: "default", Name: "candor-llm"}
	g.Expect(manager.Get(t.Context(), one, &corev1.Secret{})).To(Satisfy(apierrors.IsForbidden))
}

func trivyComesAndGoes(t *testing.T, cluster *Cluster) {
	g := NewWithT(t)
	reports := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{
		APIVersion: "aquasecurity.github.io/v1alpha1", Kind: "VulnerabilityReportList",
	}}
	g.Expect(cluster.InstallTrivyCRDs(t.Context(), "vulnerabilityreports")).To(Succeed())
	g.Expect(cluster.Client.List(t.Context(), reports)).To(Succeed())
	g.Expect(cluster.InstallTrivyCRDs(t.Context())).To(Succeed())
	g.Expect(cluster.RemoveTrivyCRDs(t.Context())).To(Succeed())
	g.Expect(cluster.Client.List(t.Context(), reports)).NotTo(Succeed())
	g.Expect(cluster.RemoveTrivyCRDs(t.Context(), "vulnerabilityreports")).To(Succeed(), "when it is gone already")
	g.Expect(cluster.InstallTrivyCRDs(t.Context(), "falco")).To(MatchError(ContainSubstring("known: configauditreports, ")))
}

func webhooksReachHere(t *testing.T, cluster *Cluster) {
	g := NewWithT(t)
	certDir, host, port, err := cluster.InstallWebhooks(t.Context(), "testdata/webhook.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	serveDenial(t, certDir, net.JoinHostPort(host, strconv.Itoa(port)))

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "webhook-test"}}
	g.Expect(cluster.Client.Create(t.Context(), namespace)).To(Succeed())
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "refused"}}
	g.Eventually(func() error { return cluster.Client.Create(t.Context(), object, client.DryRunAll) }).WithTimeout(10 * time.Second).
		Should(MatchError(ContainSubstring("denied by /validate-configmap")))
}

// serveDenial refuses every request, with the path that it was asked at.
func serveDenial(t *testing.T, certDir, address string) {
	t.Helper()
	server := &http.Server{Addr: address, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Result: &metav1.Status{Message: "denied by " + filepath.Clean(r.URL.Path)},
		}
		_ = json.NewEncoder(w).Encode(review)
	})}
	go func() {
		_ = server.ListenAndServeTLS(filepath.Join(certDir, "tls.crt"), filepath.Join(certDir, "tls.key"))
	}()
	t.Cleanup(func() { _ = server.Close() })
}

func kubeconfigWorks(t *testing.T, cluster *Cluster) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(path, []byte("old"), 0o644)).To(Succeed())
	g.Expect(cluster.Kubeconfig(path)).To(Succeed())
	info, err := os.Stat(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
	config, err := clientcmd.BuildConfigFromFlags("", path)
	g.Expect(err).NotTo(HaveOccurred())
	person, err := client.New(config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(person.List(t.Context(), &corev1.NamespaceList{})).To(Succeed())
}
