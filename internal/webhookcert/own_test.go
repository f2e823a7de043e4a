// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookcert

import (
	"context"
	"crypto/x509"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const dnsName = "candor-webhook-service.candor-system.svc"

// world is a cluster with the Secret and the configuration as config/default installs them.
type world struct {
	client.WithWatch
	clock  *clocktesting.FakePassiveClock
	writes atomic.Int32
	// refuse is what the API server answers to a verb on a kind, such as "update Secret".
	refuse map[string]error
}

func newWorld() *world {
	w := &world{clock: clocktesting.NewFakePassiveClock(start), refuse: map[string]error{}}
	w.WithWatch = fake.NewClientBuilder().WithObjects(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "candor-system", Name: "own"}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "candor"},
			Webhooks:   []admissionregistrationv1.ValidatingWebhook{{Name: "a.candor.dev"}, {Name: "b.candor.dev"}},
		},
	).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if err := w.refuse["get "+kind(o)]; err != nil {
				return err
			}
			return c.Get(ctx, key, o, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			w.writes.Add(1)
			if err := w.refuse["update "+kind(o)]; err != nil {
				return err
			}
			return c.Update(ctx, o, options...)
		},
	}).Build()
	return w
}

func kind(o client.Object) string {
	if _, ok := o.(*corev1.Secret); ok {
		return "Secret"
	}
	return "ValidatingWebhookConfiguration"
}

// replica is one of the manager's.
func (w *world) replica() *Own {
	c, _, _ := newCertificate()
	c.Clock = w.clock
	return &Own{
		Client: w, Secret: client.ObjectKey{Namespace: "candor-system", Name: "own"}, Service: "candor-webhook-service", Configuration: "candor",
		Clock: w.clock, Certificate: c,
	}
}

// trusted returns the certificate that a replica serves, once the API server has checked it as the configuration says.
func (w *world) trusted(t *testing.T, o *Own) *x509.Certificate {
	t.Helper()
	g := NewWithT(t)
	served, err := o.Certificate.Get(nil)
	g.Expect(err).NotTo(HaveOccurred())
	for _, webhook := range w.configuration(t).Webhooks {
		pool := x509.NewCertPool()
		g.Expect(pool.AppendCertsFromPEM(webhook.ClientConfig.CABundle)).To(BeTrue(), webhook.Name)
		_, err = served.Leaf.Verify(x509.VerifyOptions{DNSName: dnsName, Roots: pool, CurrentTime: w.clock.Now()})
		g.Expect(err).NotTo(HaveOccurred(), webhook.Name)
	}
	return served.Leaf
}

func (w *world) configuration(t *testing.T) *admissionregistrationv1.ValidatingWebhookConfiguration {
	t.Helper()
	var c admissionregistrationv1.ValidatingWebhookConfiguration
	NewWithT(t).Expect(w.Get(t.Context(), client.ObjectKey{Name: "candor"}, &c)).To(Succeed())
	return &c
}

func TestAFirstStartMakesACertificateAndASecondRunWritesNothing(t *testing.T) {
	g, w := NewWithT(t), newWorld()
	first := w.replica()
	g.Expect(first.look(t.Context())).To(Succeed())
	made := w.trusted(t, first)
	g.Expect(made.NotAfter).To(Equal(start.Add(servingLife)))
	g.Expect(w.writes.Load()).To(BeEquivalentTo(2))

	g.Expect(first.look(t.Context())).To(Succeed())
	second := w.replica()
	g.Expect(second.look(t.Context())).To(Succeed(), "another replica, or a restart")
	g.Expect(w.trusted(t, second)).To(Equal(made))
	g.Expect(w.writes.Load()).To(BeEquivalentTo(2))
}

func TestACertificateIsRenewedBeforeItEndsUnderTheSameAuthority(t *testing.T) {
	g, w := NewWithT(t), newWorld()
	one, two := w.replica(), w.replica()
	g.Expect(one.look(t.Context())).To(Succeed())
	g.Expect(two.look(t.Context())).To(Succeed())
	bundle := w.configuration(t).Webhooks[0].ClientConfig.CABundle

	w.clock.SetTime(start.Add(servingLife - renewBefore - time.Minute))
	g.Expect(one.look(t.Context())).To(Succeed())
	g.Expect(w.writes.Load()).To(BeEquivalentTo(2), "there is time")

	w.clock.SetTime(start.Add(servingLife - renewBefore + time.Minute))
	g.Expect(one.look(t.Context())).To(Succeed())
	g.Expect(w.trusted(t, one).NotAfter).To(Equal(w.clock.Now().Add(servingLife)))
	g.Expect(w.configuration(t).Webhooks[0].ClientConfig.CABundle).To(Equal(bundle))
	g.Expect(w.trusted(t, two).NotAfter).To(Equal(start.Add(servingLife)), "what the other serves is trusted until it looks")
}

func TestAnAuthorityIsReplacedBeforeItEnds(t *testing.T) {
	g, w := NewWithT(t), newWorld()
	o := w.replica()
	g.Expect(o.look(t.Context())).To(Succeed())
	bundle := w.configuration(t).Webhooks[0].ClientConfig.CABundle
	w.clock.SetTime(start.Add(authorityLife - renewBefore + time.Minute))
	g.Expect(o.look(t.Context())).To(Succeed())
	g.Expect(w.configuration(t).Webhooks[0].ClientConfig.CABundle).NotTo(Equal(bundle))
	w.trusted(t, o)
}

func TestACertificateOfAClockThatRanAheadIsReplaced(t *testing.T) {
	g, w := NewWithT(t), newWorld()
	w.clock.SetTime(start.Add(30 * 24 * time.Hour))
	o := w.replica()
	g.Expect(o.look(t.Context())).To(Succeed())
	w.clock.SetTime(start)
	g.Expect(o.look(t.Context())).To(Succeed())
	w.trusted(t, o)
	g.Expect(o.look(t.Context())).To(Succeed())
	g.Expect(w.writes.Load()).To(BeEquivalentTo(4))
}

func TestWhatSomebodyBreaksIsMended(t *testing.T) {
	for name, breakIt := range map[string]func(*corev1.Secret, *admissionregistrationv1.ValidatingWebhookConfiguration){
		"the configuration is made anew": func(_ *corev1.Secret, c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[1].ClientConfig.CABundle = nil
		},
		"the Secret is emptied": func(s *corev1.Secret, _ *admissionregistrationv1.ValidatingWebhookConfiguration) { s.Data = nil },
		"the certificate is overwritten": func(s *corev1.Secret, _ *admissionregistrationv1.ValidatingWebhookConfiguration) {
			s.Data[certFile] = []byte("x")
		},
		"the authority's key is another": func(s *corev1.Secret, _ *admissionregistrationv1.ValidatingWebhookConfiguration) {
			s.Data[caKeyFile] = s.Data[keyFile]
			s.Data[keyFile] = nil
		},
		"the authority is overwritten": func(s *corev1.Secret, _ *admissionregistrationv1.ValidatingWebhookConfiguration) {
			s.Data[caFile] = []byte("x")
		},
		"the certificate has another key": func(s *corev1.Secret, _ *admissionregistrationv1.ValidatingWebhookConfiguration) {
			s.Data[keyFile] = s.Data[caKeyFile]
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, w := NewWithT(t), newWorld()
			o := w.replica()
			g.Expect(o.look(t.Context())).To(Succeed())
			var secret corev1.Secret
			g.Expect(w.Get(t.Context(), o.Secret, &secret)).To(Succeed())
			configuration := w.configuration(t)
			breakIt(&secret, configuration)
			g.Expect(w.Update(t.Context(), &secret)).To(Succeed())
			g.Expect(w.Update(t.Context(), configuration)).To(Succeed())
			g.Expect(o.look(t.Context())).To(Succeed())
			w.trusted(t, o)
		})
	}
}

func TestWhatIsMissingIsNamedWithTheRemedy(t *testing.T) {
	secrets, configurations := schema.GroupResource{Resource: "secrets"}, schema.GroupResource{Resource: "validatingwebhookconfigurations"}
	for name, test := range map[string]struct {
		verb string
		err  error
		want string
	}{
		"no Secret":                {"get Secret", apierrors.NewNotFound(secrets, "own"), `reading Secret candor-system/own: secrets "own" not found: config/default brings it, apply that again`},
		"no right to read it":      {"get Secret", apierrors.NewForbidden(secrets, "own", nil), `reading Secret candor-system/own: secrets "own" is forbidden: <nil>: config/own-certificate grants it, apply config/default again`},
		"no right to write it":     {"update Secret", apierrors.NewForbidden(secrets, "own", nil), `writing Secret candor-system/own: secrets "own" is forbidden: <nil>: config/own-certificate grants it, apply config/default again`},
		"no configuration":         {"get ValidatingWebhookConfiguration", apierrors.NewNotFound(configurations, "candor"), `reading ValidatingWebhookConfiguration candor: validatingwebhookconfigurations "candor" not found: config/default brings it, apply that again`},
		"no right to write to it":  {"update ValidatingWebhookConfiguration", apierrors.NewForbidden(configurations, "candor", nil), `writing ValidatingWebhookConfiguration candor: validatingwebhookconfigurations "candor" is forbidden: <nil>: config/own-certificate grants it, apply config/default again`},
		"an API server that stops": {"get Secret", apierrors.NewServiceUnavailable("stopping"), `reading Secret candor-system/own: stopping`},
	} {
		t.Run(name, func(t *testing.T) {
			g, w := NewWithT(t), newWorld()
			o := w.replica()
			w.refuse[test.verb] = test.err
			err := o.look(t.Context())
			g.Expect(err).To(MatchError(test.want))
			o.Certificate.fail(err)
			g.Expect(o.Certificate.Check(nil)).To(MatchError(test.want), "what nobody would trust is not served")

			delete(w.refuse, test.verb)
			g.Expect(o.look(t.Context())).To(Succeed())
			w.trusted(t, o)
		})
	}
}

func TestTwoReplicasThatStartAtOnceAgree(t *testing.T) {
	g, w := NewWithT(t), newWorld()
	ctx, cancel := context.WithCancel(t.Context())
	replicas, done := []*Own{w.replica(), w.replica()}, make(chan error)
	problems := &announced{}
	for _, o := range replicas {
		o.Certificate.Announce = problems.hear
		go func() { done <- o.Start(ctx) }()
	}
	for _, o := range replicas {
		g.Eventually(func() error { return o.Certificate.Check(nil) }, "10s").Should(Succeed())
	}
	g.Expect(w.trusted(t, replicas[0])).To(Equal(w.trusted(t, replicas[1])))
	g.Expect(problems.all()).To(HaveEach(""), "a lost race is no problem")
	cancel()
	for range replicas {
		g.Eventually(done).Should(Receive(Succeed()))
	}
}
