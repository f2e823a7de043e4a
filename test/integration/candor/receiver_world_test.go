// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals"
	"github.com/candor-dev/candor/test/builder"
)

const (
	doorKey   = "signing-key-of-the-test-3333333333"
	doorToken = "token-of-the-test-4444444444"
	// door is the Secret that senders share.
	door = "door"
)

// said is what a sender says, as JSON.
type said map[string]any

// with returns the same with one thing said otherwise.
func (s said) with(key string, value any) said {
	s = maps.Clone(s)
	s[key] = value
	return s
}

// disk is a signal about a database that no cluster knows.
func disk() said {
	return said{"severity": "HIGH", "kind": "Database", "name": "orders", "id": "disk", "summary": "The disk is full."}
}

// answered is what a sender is told.
type answered struct {
	status int
	header http.Header
	body   string
}

// String returns status and result, or the whole body where there is no result.
func (a answered) String() string {
	var told struct{ Result string }
	if err := json.Unmarshal([]byte(a.body), &told); err == nil && told.Result != "" {
		return fmt.Sprintf("%d %s", a.status, told.Result)
	}
	return fmt.Sprintf("%d %s", a.status, strings.TrimSpace(a.body))
}

// listen gives a world a port for signals, with a certificate that somebody made.
func (w *world) listen() {
	GinkgoHelper()
	w.options.Receiver.Port, w.options.Receiver.CertPath = freePort(), GinkgoT().TempDir()
	writeCertificate(w.options.Receiver.CertPath, "signals")
}

// receiving makes a policy take signals.
func receiving(p *candorv1alpha1.SignalPolicy) {
	p.Spec.WebhookReceiver = &candorv1alpha1.WebhookReceiver{SecretRef: candorv1alpha1.SecretReference{Name: door}}
}

// receiverWorld is a world whose policy "default" takes signals; its manager does not run yet.
func receiverWorld(ctx context.Context, change ...func(*candorv1alpha1.SignalPolicy)) *world {
	GinkgoHelper()
	w := newWorld(ctx)
	w.listen()
	w.apply(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: door}, StringData: map[string]string{"secret": doorKey + "\n", "token": doorToken + "\n"},
	}, builder.Policy(w.namespace, "default", []string{"webhook"}, append([]func(*candorv1alpha1.SignalPolicy){receiving}, change...)...))
	w.grant(ctx, door)
	return w
}

// takes runs the manager and waits until it takes signals.
func (w *world) takes(ctx context.Context) {
	GinkgoHelper()
	w.start(ctx)
	w.heard()
}

// alsoTakes runs another replica beside the manager, at a port of its own.
func (w *world) alsoTakes(ctx context.Context) *world {
	GinkgoHelper()
	second := *w
	second.options.Receiver.Port = freePort()
	second.start(ctx)
	DeferCleanup(second.stop)
	second.heard()
	return &second
}

// heard waits until the port answers.
func (w *world) heard() {
	GinkgoHelper()
	Eventually(shown(w.options.Receiver.Port)).WithTimeout(patience).Should(Equal("signals"))
}

// senders speaks to any certificate, and keeps connections for the next request.
var senders = &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 64}}

// post sends a body to a policy of a namespace.
func (w *world) post(namespace, policy string, body []byte, change ...func(*http.Request)) answered {
	GinkgoHelper()
	address := fmt.Sprintf("https://127.0.0.1:%d/webhook/%s/%s", w.options.Receiver.Port, namespace, policy)
	request, err := http.NewRequest(http.MethodPost, address, strings.NewReader(string(body)))
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Content-Type", "application/json")
	for _, c := range change {
		c(request)
	}
	response, err := senders.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return answered{status: response.StatusCode, header: response.Header, body: string(content)}
}

func bodyOf(s said) []byte {
	GinkgoHelper()
	body, err := json.Marshal(s)
	Expect(err).NotTo(HaveOccurred())
	return body
}

// signedAt signs a body at a time.
func signedAt(body []byte, key string, at time.Time) func(*http.Request) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	return func(r *http.Request) {
		r.Header.Set("X-Candor-Timestamp", stamp)
		r.Header.Set("X-Candor-Signature", "sha256="+mac(key, stamp+"."+string(body)))
	}
}

func mac(key, text string) string {
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(text))
	return hex.EncodeToString(m.Sum(nil))
}

func presenting(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// signal posts something to the policy "default", signed at a time.
func (w *world) signalAt(at time.Time, s said) string {
	GinkgoHelper()
	body := bodyOf(s)
	return w.post(w.namespace, "default", body, signedAt(body, doorKey, at)).String()
}

// signal posts something to the policy "default" a second later.
func (w *world) signal(s said) string {
	GinkgoHelper()
	w.clock.Step(time.Second)
	return w.signalAt(w.clock.Now(), s)
}

// signalled is the identity of what a sender says.
func (w *world) signalled(s said) signals.Identity {
	return signals.PostedTo(w.namespace, "default", s["id"].(string), s["kind"].(string), s["name"].(string), "")
}

// posted returns a function that reads the Finding of what a sender says.
func (w *world) posted(ctx context.Context, s said) func() *candorv1alpha1.Finding {
	return w.read(ctx, w.signalled(s))
}

// read returns a function that reads the Finding of an identity, nil when there is none.
func (w *world) read(ctx context.Context, id signals.Identity) func() *candorv1alpha1.Finding {
	return func() *candorv1alpha1.Finding {
		for _, f := range w.findings(ctx) {
			if f.Name == id.FindingName() {
				return &f
			}
		}
		return nil
	}
}
