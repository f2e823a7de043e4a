// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/candor-dev/candor/test/builder"
)

const (
	system  = "candor-system"
	account = "candor-controller-manager"
	// The names stay as in the manifests, without the prefix of config/default.
	ownSecret     = "webhook-own-cert"
	configuration = "validating-webhook-configuration"
	service       = "webhook-service"
)

var _ = Describe("The certificate of the webhooks", func() {
	It("webhook-own-certificate: is made by the manager itself, which says what it lacks until it has it", func(ctx SpecContext) {
		port := freePort()
		installWebhookService(ctx, port)
		w := newWorld(ctx)
		w.lacksRights = true
		w.options.WebhookCertSecret, w.options.WebhookService, w.options.WebhookConfiguration = ownSecret, service, configuration
		w.options.WebhookPort = port
		w.options.PodNamespace, w.options.PodName, w.options.PodUID = system, "candor-pod", "1-2-3"
		ready := w.probe("webhooks")
		w.start(ctx)

		By("having no right")
		Eventually(ready).Should(And(HavePrefix("500 "), ContainSubstring("reading Secret candor-system/webhook-own-cert: "),
			ContainSubstring("is forbidden"), ContainSubstring("config/own-certificate grants it, apply config/default again")))
		Eventually(cluster.Events).WithContext(ctx).WithArguments(system).Should(ContainElement(And(
			HaveField("Type", corev1.EventTypeWarning), HaveField("Reason", "WebhooksNotServed"), HaveField("Note", ContainSubstring("config/own-certificate grants it")),
			HaveField("Regarding.Name", "candor-pod"), HaveField("Regarding.UID", BeEquivalentTo("1-2-3")))))

		By("having no Secret")
		installOwnCertificate(ctx, "role", "role_binding", "cluster_role", "cluster_role_binding")
		Eventually(ready).Should(And(HavePrefix("500 "), ContainSubstring(`secrets "webhook-own-cert" not found: config/default brings it, apply that again`)))

		By("having all that config/default brings")
		installOwnCertificate(ctx, "secret")
		Eventually(ready).Should(Equal("200 ok"))
		Eventually(cluster.Events).WithContext(ctx).WithArguments(system).Should(ContainElement(And(HaveField("Type", corev1.EventTypeNormal), HaveField("Reason", "WebhooksServed"))))
		warns(ctx, w.namespace)
		once := And(HaveKeyWithValue("update secrets", 1), HaveKeyWithValue("update validatingwebhookconfigurations", 1))
		Expect(w.writes()).To(once)

		By("starting again")
		w.restart(ctx)
		Eventually(ready).Should(Equal("200 ok"))
		warns(ctx, w.namespace)
		Expect(w.writes()).To(once)
	})

	It("webhook-folder-certificate: comes from a folder that may be late, broken and renewed, without a restart", func(ctx SpecContext) {
		w := newWorld(ctx)
		w.options.WebhookPort, w.options.WebhookCertPath = freePort(), GinkgoT().TempDir()
		ready := w.probe("webhooks")
		w.start(ctx)
		Eventually(ready).Should(And(HavePrefix("500 "), ContainSubstring("must hold tls.crt and tls.key"), ContainSubstring("no such file")))
		writeCertificate(w.options.WebhookCertPath, "first")
		Expect(os.WriteFile(filepath.Join(w.options.WebhookCertPath, "tls.crt"), []byte("torn"), 0o600)).To(Succeed())
		Eventually(ready).Should(And(HavePrefix("500 "), ContainSubstring("failed to find any PEM data")))

		writeCertificate(w.options.WebhookCertPath, "first")
		Eventually(ready).Should(Equal("200 ok"))
		Expect(shown(w.options.WebhookPort)()).To(Equal("first"))
		writeCertificate(w.options.WebhookCertPath, "second")
		Eventually(shown(w.options.WebhookPort)).Should(Equal("second"))
		Expect(ready()).To(Equal("200 ok"))
	})
})

// installWebhookService installs config/webhook with a Service that leads to a port of this machine, under its own name.
func installWebhookService(ctx context.Context, port int) {
	GinkgoHelper()
	var webhooks admissionregistrationv1.ValidatingWebhookConfiguration
	readManifest("webhook/manifests.yaml", &webhooks)
	for i := range webhooks.Webhooks {
		s := webhooks.Webhooks[i].ClientConfig.Service
		s.Namespace, s.Port = system, new(int32(port))
	}
	create(ctx, &webhooks)
	create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: service},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	})
}

// installOwnCertificate installs files of config/own-certificate, for the manager's ServiceAccount.
func installOwnCertificate(ctx context.Context, files ...string) {
	GinkgoHelper()
	for _, file := range files {
		var object unstructured.Unstructured
		readManifest("own-certificate/"+file+".yaml", &object.Object)
		if object.GetNamespace() != "" {
			object.SetNamespace(system)
		}
		if _, binds := object.Object["subjects"]; binds {
			object.Object["subjects"] = []any{map[string]any{"kind": "ServiceAccount", "namespace": system, "name": account}}
		}
		create(ctx, &object)
	}
}

func readManifest(path string, into any) {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "config", path))
	Expect(err).NotTo(HaveOccurred())
	Expect(yaml.Unmarshal(content, into)).To(Succeed())
}

// create creates an object for one spec.
func create(ctx context.Context, o client.Object) {
	GinkgoHelper()
	Expect(cluster.Client.Create(ctx, o)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(cluster.Client.Delete(ctx, o)).To(Succeed()) })
}

// warns waits until a write of a policy brings the warning of its webhook.
func warns(ctx context.Context, namespace string) {
	GinkgoHelper()
	person := newPerson()
	Eventually(func() []string {
		Expect(person.Create(ctx, builder.Policy(namespace, "probe", []string{"falco"}), client.DryRunAll)).To(Succeed())
		return person.warnings()
	}).Should(ConsistOf(unknownProvider))
}

// probe lets the manager answer probes, and returns a function that reads status and body of one of /readyz.
func (w *world) probe(check string) func() string {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort()))
	w.options.HealthProbeBindAddress = address
	return func() string {
		response, err := http.Get("http://" + address + "/readyz/" + check)
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		Expect(err).NotTo(HaveOccurred())
		return fmt.Sprintf("%d %s", response.StatusCode, body)
	}
}

func freePort() int {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// shown returns a function that reads the name in the certificate that a port shows.
func shown(port int) func() string {
	return func() string {
		conn, err := tls.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
}

// writeCertificate writes a certificate that somebody made for a name, and its key.
func writeCertificate(folder, name string) {
	GinkgoHelper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	template.Subject.CommonName = name
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	Expect(err).NotTo(HaveOccurred())
	for file, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: der},
		"tls.key": {Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)},
	} {
		Expect(os.WriteFile(filepath.Join(folder, file), pem.EncodeToMemory(block), 0o600)).To(Succeed())
	}
}
