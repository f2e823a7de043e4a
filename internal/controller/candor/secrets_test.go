// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// vault is an API server that holds one Secret.
type vault struct {
	data  map[string][]byte
	err   error
	reads int
}

func (v *vault) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	v.reads++
	o.(*corev1.Secret).Data = v.data
	return v.err
}

func (v *vault) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("nobody lists Secrets")
}

func TestASecretIsReadAgainAfterTwentySeconds(t *testing.T) {
	g := NewWithT(t)
	v, clock := &vault{data: map[string][]byte{"url": []byte("a")}}, clocktesting.NewFakeClock(noon)
	s := &Secrets{Live: v, Clock: clock}
	read := func() string {
		value, err := s.Get(t.Context(), types.NamespacedName{Namespace: "team-a", Name: "slack"}, "url")
		g.Expect(err).NotTo(HaveOccurred())
		return string(value)
	}
	g.Expect(read()).To(Equal("a"))
	v.data = map[string][]byte{"url": []byte("b")}
	clock.Step(19 * time.Second)
	g.Expect(read()).To(Equal("a"))
	clock.Step(time.Second)
	g.Expect(read()).To(Equal("b"))
	g.Expect(v.reads).To(Equal(2))
}

func TestWhyASecretCannotBeUsedIsSaidToWhoCanChangeIt(t *testing.T) {
	secrets := corev1.Resource("secrets")
	for name, test := range map[string]struct {
		vault vault
		want  string
		ours  bool
	}{
		"none": {vault{err: apierrors.NewNotFound(secrets, "slack")}, "Secret slack does not exist: create it, with the key url.", true},
		"no key": {
			vault{data: map[string][]byte{"URL": []byte("https://canary.example")}}, "Secret slack has nothing under the key url: add it, or name another key.", true,
		},
		"an empty key": {vault{data: map[string][]byte{"url": {}}}, "Secret slack has nothing under the key url: add it, or name another key.", true},
		"no right": {
			vault{err: apierrors.NewForbidden(secrets, "slack", errors.New(`User "system:serviceaccount:candor-system:candor-controller-manager" cannot get resource "secrets"`))},
			"Candor may not read Secret slack. Unless its name is wrong: kubectl -n team-a create role candor-slack --verb=get --resource=secrets --resource-name=slack " +
				"&& kubectl -n team-a create rolebinding candor-slack --role=candor-slack --serviceaccount=candor-system:candor-controller-manager", true,
		},
		"no answer": {vault{err: errors.New("connection refused")}, "reading Secret team-a/slack: connection refused", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := &Secrets{Live: &test.vault, Clock: clocktesting.NewFakeClock(noon)}
			_, err := s.Get(t.Context(), types.NamespacedName{Namespace: "team-a", Name: "slack"}, "url")
			g.Expect(err).To(MatchError(test.want))
			var ours *SecretError
			g.Expect(errors.As(err, &ours)).To(Equal(test.ours))
			_, err = s.Get(t.Context(), types.NamespacedName{Namespace: "team-a", Name: "slack"}, "url")
			g.Expect(err).To(HaveOccurred())
			if test.vault.err != nil {
				g.Expect(test.vault.reads).To(Equal(2), "what went wrong is not remembered")
			}
		})
	}
}

// overheard is a vault that logs what is read, as the client does.
type overheard struct{ *vault }

func (o overheard) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	err := o.vault.Get(ctx, key, object, opts...)
	klog.FromContext(ctx).V(8).Info("Response Body", "body", object)
	return err
}

func TestNoSecretIsLoggedHoweverTalkativeTheLogIs(t *testing.T) {
	g := NewWithT(t)
	var said strings.Builder
	log := funcr.New(func(_, args string) { said.WriteString(args) }, funcr.Options{Verbosity: 10})
	secrets := &Secrets{Live: overheard{&vault{data: map[string][]byte{"secret": []byte(signing)}}}, Clock: clocktesting.NewFakeClock(noon)}
	_, err := secrets.Get(klog.NewContext(t.Context(), log), door, "secret")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(said.String()).To(BeEmpty())
}
