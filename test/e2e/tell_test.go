// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/notify"
	"github.com/candor-dev/candor/test/builder"
)

const signalKey = "key-of-the-signals"

var _ = Describe("Candor tells people, and is told", Ordered, func() {
	var (
		listener  fakeFleet
		namespace string
	)

	BeforeAll(func(ctx SpecContext) {
		image := os.Getenv("E2E_FLEET_IMG")
		if image == "" {
			Skip("E2E_FLEET_IMG is not set: pods have nobody to tell")
		}
		listener = serveFleet(ctx, newNamespace(ctx), image)
		install(ctx)
		kubectl(ctx, "-n", system, "set", "env", deployment, "CANDOR_NOTIFICATION_ALLOW_CIDRS=10.0.0.0/8,172.16.0.0/12,192.168.0.0/16", "CANDOR_NOTIFICATION_WINDOW=1s")
		available(ctx)
		namespace = newNamespace(ctx)
		kubectl(ctx, "-n", namespace, "create", "secret", "generic", "hook", "--from-literal=url=http://"+listener.host()+":8080/told")
		kubectl(ctx, "-n", namespace, "create", "secret", "generic", "signals", "--from-literal=secret="+signalKey)
		Expect(cluster.Create(ctx, builder.Policy(namespace, "default", []string{"trivy", "webhook"}, func(p *candorv1alpha1.SignalPolicy) {
			p.Spec.Sinks = []candorv1alpha1.Sink{{Name: "hook", Type: candorv1alpha1.SinkWebhook, URLFrom: &candorv1alpha1.SecretKeyReference{Name: "hook"}}}
			p.Spec.WebhookReceiver = &candorv1alpha1.WebhookReceiver{SecretRef: candorv1alpha1.SecretReference{Name: "signals"}}
		}))).To(Succeed())
	})

	AfterEach(showOnFailure)

	policyCondition := func(ctx context.Context, condition, field string) string {
		GinkgoHelper()
		return kubectl(ctx, "-n", namespace, "get", "signalpolicy", "default", "-o", `jsonpath={.status.conditions[?(@.type=="`+condition+`")].`+field+`}`)
	}
	told := func(ctx context.Context) []notify.Event {
		GinkgoHelper()
		var messages []struct{ Events []notify.Event }
		Expect(json.Unmarshal(listener.show(ctx, "told"), &messages)).To(Succeed())
		var events []notify.Event
		for _, m := range messages {
			events = append(events, m.Events...)
		}
		return events
	}

	It("says which Role is missing, and goes on once it is there", func(ctx SpecContext) {
		Eventually(policyCondition).WithContext(ctx).WithArguments("Notifying", "message").Should(ContainSubstring("kubectl -n " + namespace + " create role"))
		Eventually(policyCondition).WithContext(ctx).WithArguments("Receiving", "message").Should(ContainSubstring("kubectl -n " + namespace + " create role"))
		kubectl(ctx, "-n", namespace, "create", "role", "candor-secrets", "--verb=get", "--resource=secrets", "--resource-name=hook", "--resource-name=signals")
		kubectl(ctx, "-n", namespace, "create", "rolebinding", "candor-secrets", "--role=candor-secrets", "--serviceaccount="+system+":candor-controller-manager")
		kubectl(ctx, "-n", namespace, "wait", "--for=condition=Notifying", "--for=condition=Receiving", "signalpolicy/default", "--timeout=3m")
	})

	It("tells of a Finding once, over a restart", func(ctx SpecContext) {
		report(ctx, deploy(ctx, namespace, "web"), builder.Vulnerabilities(3, "HIGH"))
		Eventually(told).WithContext(ctx).Should(ConsistOf(HaveField("Kind", notify.KindCreated)))
		kubectl(ctx, "-n", system, "delete", "pod", managerPod(ctx).Name)
		available(ctx)
		report(ctx, deploy(ctx, namespace, "fence"), builder.Vulnerabilities(1, "CRITICAL"))
		Eventually(told).WithContext(ctx).Should(HaveExactElements(HaveField("Severity", candorv1alpha1.SeverityHigh), HaveField("Severity", candorv1alpha1.SeverityCritical)))
	})

	It("takes a signed signal by the Service, tells of it, and refuses what is not signed", func(ctx SpecContext) {
		post := poster(ctx, namespace)
		body := `{"severity":"HIGH","kind":"Database","name":"orders","id":"backup","summary":"The last backup is two days old."}`
		Expect(post(body, "another key")).To(Equal("401"))
		Eventually(post).WithArguments(body, signalKey).Should(Equal(`202 {"result":"created"}`))
		Eventually(told).WithContext(ctx).Should(ContainElement(And(HaveField("Kind", notify.KindCreated), HaveField("Provider", "webhook"))))
		Expect(post(strings.Replace(body, `"id"`, `"status":"resolved","id"`, 1), signalKey)).To(Equal(`202 {"result":"resolved"}`))
		Eventually(told).WithContext(ctx).Should(ContainElement(And(HaveField("Kind", notify.KindResolved), HaveField("Provider", "webhook"))))
	})
})

// poster returns what posts a signal to the policy default, signed by a key, over the Service and by the certificate that the
// manager made, and returns the status and, of what is taken, the body.
func poster(ctx context.Context, namespace string) func(body, key string) string {
	GinkgoHelper()
	var own corev1.Secret
	Expect(cluster.Get(ctx, client.ObjectKey{Namespace: system, Name: "candor-webhook-own-cert"}, &own)).To(Succeed())
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM(own.Data["ca.crt"])).To(BeTrue())
	address := forward("service/candor-webhook-service", "signals")
	sender := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "candor-webhook-service." + system + ".svc"}}}
	return func(body, key string) string {
		GinkgoHelper()
		at := strconv.FormatInt(time.Now().Unix(), 10)
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte(at + "." + body))
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/webhook/"+namespace+"/default", strings.NewReader(body))
		Expect(err).NotTo(HaveOccurred())
		request.Header.Set("X-Candor-Timestamp", at)
		request.Header.Set("X-Candor-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		response, err := sender.Do(request)
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		answer, err := io.ReadAll(response.Body)
		Expect(err).NotTo(HaveOccurred())
		if response.StatusCode != http.StatusAccepted {
			return strconv.Itoa(response.StatusCode)
		}
		return strconv.Itoa(response.StatusCode) + " " + strings.TrimSpace(string(answer))
	}
}
