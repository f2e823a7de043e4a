// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/test/builder"
	"github.com/candor-dev/candor/test/fakes/sinkserver"
)

const (
	sinkToken = "token-of-the-test-1111111111"
	sinkKey   = "signing-key-of-the-test-2222222222"
	// sinkAccount is the ServiceAccount that a Role of a tenant is bound to.
	sinkAccount = "candor-controller-manager"
)

// withSinks gives a world a server that its sinks may be at, and lets events wait for nothing.
func withSinks(w *world) *sinkserver.Server {
	GinkgoHelper()
	server := sinkserver.Start(sinkserver.Options{Token: sinkToken, SigningKey: sinkKey})
	DeferCleanup(func() {
		w.stop() // while the server still answers
		server.Close()
	})
	w.options.Notify.CABundle = filepath.Join(GinkgoT().TempDir(), "ca.pem")
	Expect(os.WriteFile(w.options.Notify.CABundle, server.CA(), 0o600)).To(Succeed())
	w.options.Notify.AllowCIDRs, w.options.Notify.Window = "127.0.0.0/8", 0
	return server
}

// grant lets the manager read Secrets of the namespace by name, as docs/notify.md has it.
func (w *world) grant(ctx context.Context, secrets ...string) {
	GinkgoHelper()
	w.apply(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "candor-sinks"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: secrets, Verbs: []string{"get"}}},
	}, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "candor-sinks"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "candor-sinks"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: system, Name: sinkAccount}},
	})
}

// secret stores where a sink is, and the key of its signature.
func (w *world) secret(ctx context.Context, name, address string) {
	GinkgoHelper()
	w.apply(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		StringData: map[string]string{"url": address + "\n", "secret": sinkKey},
	})
}

// fromSecret is a sink whose address and key stand in a Secret of its name.
func fromSecret(name string, kind candorv1alpha1.SinkType, change ...func(*candorv1alpha1.Sink)) candorv1alpha1.Sink {
	s := candorv1alpha1.Sink{
		Name: name, Type: kind, URLFrom: &candorv1alpha1.SecretKeyReference{Name: name}, SigningKeyFrom: &candorv1alpha1.SecretKeyReference{Name: name},
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

// telling gives a policy sinks.
func telling(sinks ...candorv1alpha1.Sink) func(*candorv1alpha1.SignalPolicy) {
	return func(p *candorv1alpha1.SignalPolicy) { p.Spec.Sinks = append(p.Spec.Sinks, sinks...) }
}

// forms are the forms of sinks, by the type of the sink that has them.
var forms = map[candorv1alpha1.SinkType]sinkserver.Form{
	candorv1alpha1.SinkWebhook: sinkserver.Webhook, candorv1alpha1.SinkSlack: sinkserver.Slack,
	candorv1alpha1.SinkAlertmanager: sinkserver.Alertmanager, candorv1alpha1.SinkCloudEvents: sinkserver.CloudEvents,
}

// sinkOf stores the Secret of a sink at the server, lets the manager read it, and returns the sink.
func (w *world) sinkOf(ctx context.Context, server *sinkserver.Server, name string, kind candorv1alpha1.SinkType, change ...func(*candorv1alpha1.Sink)) candorv1alpha1.Sink {
	GinkgoHelper()
	w.secret(ctx, name, server.URL(forms[kind], w.namespace, name))
	w.grant(ctx, name)
	return fromSecret(name, kind, change...)
}

// storedPolicy reads a policy of the namespace.
func (w *world) storedPolicy(ctx context.Context, name string) *candorv1alpha1.SignalPolicy {
	GinkgoHelper()
	var p candorv1alpha1.SignalPolicy
	err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, &p)
	if apierrors.IsNotFound(err) {
		return nil
	}
	Expect(err).NotTo(HaveOccurred())
	return &p
}

// sink returns a function that reads what the policy "default" says of a sink.
func (w *world) sink(ctx context.Context, name string) func() candorv1alpha1.SinkStatus {
	return func() candorv1alpha1.SinkStatus {
		if p := w.storedPolicy(ctx, "default"); p != nil {
			for _, s := range p.Status.Sinks {
				if s.Name == name {
					return s
				}
			}
		}
		return candorv1alpha1.SinkStatus{}
	}
}

func (w *world) state(ctx context.Context, name string) func() candorv1alpha1.SinkState {
	return func() candorv1alpha1.SinkState { return w.sink(ctx, name)().State }
}

// lookPolicy makes the signalpolicy controller look at a policy now.
func (w *world) lookPolicy(name string) {
	GinkgoHelper()
	p := &candorv1alpha1.SignalPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	Eventually(w.wakePolicies).Should(BeSent(event.GenericEvent{Object: p}))
}

// passing lets time pass, has the policy "default" looked at, as its timer would, and returns what read reads then.
func passing[T any](w *world, by time.Duration, read func() T) func() T {
	return func() T {
		w.clock.Step(by)
		w.lookPolicy("default")
		return read()
	}
}

// synced waits until every sink of the policy "default" has told of what there was.
func (w *world) synced(ctx context.Context) {
	GinkgoHelper()
	unsynced := func() bool {
		p := w.storedPolicy(ctx, "default")
		return len(p.Status.Sinks) == 0 || slices.ContainsFunc(p.Status.Sinks, func(s candorv1alpha1.SinkStatus) bool { return s.SummarisedAt.IsZero() })
	}
	Eventually(passing(w, 31*time.Second, unsynced)).WithPolling(100 * time.Millisecond).Should(BeFalse())
	w.clock.Step(time.Second)
}

// syncedWorld is a tellingWorld whose manager runs and has told of what there was, which is nothing.
func syncedWorld(ctx context.Context) (*world, *sinkserver.Server) {
	GinkgoHelper()
	w, server := tellingWorld(ctx)
	w.start(ctx)
	w.serving()
	w.synced(ctx)
	return w, server
}

// outbox returns a function that puts the outbox of a Finding into lines.
func outbox(f func() *candorv1alpha1.Finding) func() []string {
	return func() (lines []string) {
		if found := f(); found != nil {
			for _, n := range found.Status.Notified {
				lines = append(lines, n.Sink+" "+string(n.Event)+" "+string(n.State))
			}
		}
		return lines
	}
}

// kinds returns a function that reads what was told to sinks of these forms, in order: of a message of events their kinds, and of
// another its own.
func kindsAt(server *sinkserver.Server, forms ...sinkserver.Form) func() []string {
	return func() (kinds []string) {
		for _, r := range server.Requests(forms...) {
			if len(r.Events) == 0 {
				kinds = append(kinds, r.Kind)
			}
			for _, e := range r.Events {
				kinds = append(kinds, e.Kind)
			}
		}
		return kinds
	}
}

// expectGood says that the originals would have taken everything that was posted.
func expectGood(server *sinkserver.Server) {
	GinkgoHelper()
	for _, r := range server.Requests() {
		Expect(r.Problems).To(BeEmpty(), "%s: %s", r.Path, r.Body)
	}
}

// told makes a world with a policy that tells one sink of the type Webhook, which has told of nothing yet.
func tellingWorld(ctx context.Context, change ...func(*candorv1alpha1.SignalPolicy)) (*world, *sinkserver.Server) {
	GinkgoHelper()
	w := newWorld(ctx)
	server := withSinks(w)
	sink := w.sinkOf(ctx, server, "hook", candorv1alpha1.SinkWebhook)
	w.apply(ctx, builder.StatefulSet(w.namespace, "web"), builder.Policy(w.namespace, "default", []string{"trivy"}, append(change, telling(sink))...))
	return w, server
}

// sinksNotNamedWebhook renames the sink that has the name of spec.webhook.
func sinksNotNamedWebhook(sinks []candorv1alpha1.Sink) []candorv1alpha1.Sink {
	for i := range sinks {
		if sinks[i].Name == "webhook" {
			sinks[i].Name = "hook"
		}
	}
	return sinks
}

func appendTo(file string, content []byte) {
	GinkgoHelper()
	before, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(file, append(before, content...), 0o600)).To(Succeed())
}
