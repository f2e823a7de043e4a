// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/receiver"
	"github.com/candor-dev/candor/test/builder"
)

// shelf is a cache that holds one policy; nil for none.
type shelf struct{ policy *candorv1alpha1.SignalPolicy }

func (d shelf) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if d.policy == nil || client.ObjectKeyFromObject(d.policy) != key {
		return apierrors.NewNotFound(candorv1alpha1.GroupVersion.WithResource("signalpolicies").GroupResource(), key.Name)
	}
	d.policy.DeepCopyInto(o.(*candorv1alpha1.SignalPolicy))
	return nil
}

func (shelf) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("nobody lists policies")
}

// door is the policy that signals are posted to.
var door = types.NamespacedName{Namespace: "team-a", Name: "default"}

// receiving is a policy whose senders share the Secret door.
func receivingPolicy(change ...func(*candorv1alpha1.SignalPolicy)) *candorv1alpha1.SignalPolicy {
	return builder.Policy(door.Namespace, door.Name, []string{"webhook"}, append([]func(*candorv1alpha1.SignalPolicy){func(p *candorv1alpha1.SignalPolicy) {
		p.Spec.WebhookReceiver = &candorv1alpha1.WebhookReceiver{SecretRef: candorv1alpha1.SecretReference{Name: "door"}}
	}}, change...)...)
}

func doorKeys(p *candorv1alpha1.SignalPolicy, v *vault) (*SignalKeys, *clocktesting.FakeClock) {
	clk := clocktesting.NewFakeClock(noon)
	return NewSignalKeys(shelf{p}, &Secrets{Live: v, Clock: clk}), clk
}

const signing, token = "signing-key-of-the-test", "token-of-the-test-and-of-no-other"

func TestWhatRequestsToAPolicyAreAuthenticatedBy(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("secrets"), "door", errors.New("no"))
	now := metav1.NewTime(noon)
	for name, test := range map[string]struct {
		policy *candorv1alpha1.SignalPolicy
		vault  vault
		want   receiver.Credentials
		err    error
	}{
		"by both keys, without the line break at their end": {
			receivingPolicy(),
			vault{data: map[string][]byte{"secret": []byte(signing + "\r\n"), "token": []byte(token + "\n")}},
			receiver.Credentials{Signing: []byte(signing), Token: []byte(token)},
			nil,
		},
		"by signatures alone": {receivingPolicy(), vault{data: map[string][]byte{"secret": []byte(signing)}}, receiver.Credentials{Signing: []byte(signing)}, nil},
		"by a token alone":    {receivingPolicy(), vault{data: map[string][]byte{"token": []byte(token)}}, receiver.Credentials{Token: []byte(token)}, nil},
		"by no key that can be guessed": {
			receivingPolicy(),
			vault{data: map[string][]byte{"secret": []byte("hunter2\n"), "token": []byte(token)}},
			receiver.Credentials{Token: []byte(token)},
			nil,
		},
		"by nothing, where both can be guessed":        {receivingPolicy(), vault{data: map[string][]byte{"secret": []byte("fifteen-bytes-1"), "token": nil}}, receiver.Credentials{}, receiver.ErrUnknown},
		"by nothing, where the Secret is empty":        {receivingPolicy(), vault{}, receiver.Credentials{}, receiver.ErrUnknown},
		"by nothing, where Candor may not read it":     {receivingPolicy(), vault{err: forbidden}, receiver.Credentials{}, receiver.ErrUnknown},
		"by nothing, where there is no policy":         {nil, vault{}, receiver.Credentials{}, receiver.ErrUnknown},
		"by nothing, where the policy has no receiver": {builder.Policy(door.Namespace, door.Name, []string{"webhook"}), vault{}, receiver.Credentials{}, receiver.ErrUnknown},
		"by nothing, where it does not name the provider": {
			receivingPolicy(func(p *candorv1alpha1.SignalPolicy) { p.Spec.Providers = []string{"trivy"} }), vault{}, receiver.Credentials{}, receiver.ErrUnknown,
		},
		"by nothing, where it is being deleted": {
			receivingPolicy(func(p *candorv1alpha1.SignalPolicy) { p.DeletionTimestamp = &now }), vault{}, receiver.Credentials{}, receiver.ErrUnknown,
		},
		"by nothing, where it names no Secret": {
			receivingPolicy(func(p *candorv1alpha1.SignalPolicy) { p.Spec.WebhookReceiver.SecretRef.Name = "" }),
			vault{data: map[string][]byte{"secret": []byte(signing)}},
			receiver.Credentials{},
			receiver.ErrUnknown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			keys, _ := doorKeys(test.policy, &test.vault)
			got, err := keys.Keys(t.Context(), door)
			g.Expect(got).To(Equal(test.want))
			if test.err == nil {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(test.err))
			}
		})
	}
}

func TestTroubleOfTheAPIIsNoRefusal(t *testing.T) {
	g := NewWithT(t)
	keys, _ := doorKeys(receivingPolicy(), &vault{err: apierrors.NewInternalError(errors.New("etcd is away"))})
	_, err := keys.Keys(t.Context(), door)
	g.Expect(err).To(HaveOccurred())
	g.Expect(err).NotTo(MatchError(receiver.ErrUnknown))
}

func TestWhoeverCannotSignMakesTheAPIServerWorkOnceInFiveSeconds(t *testing.T) {
	g := NewWithT(t)
	v := &vault{err: apierrors.NewNotFound(corev1.Resource("secrets"), "door")}
	keys, clk := doorKeys(receivingPolicy(), v)
	ask := func() error {
		_, err := keys.Keys(t.Context(), door)
		return err
	}
	var asking sync.WaitGroup
	for range 50 {
		asking.Go(func() { g.Expect(ask()).To(MatchError(receiver.ErrUnknown)) })
	}
	asking.Wait()
	g.Expect(v.reads).To(Equal(1))
	v.err, v.data = nil, map[string][]byte{"secret": []byte(signing)}
	g.Expect(ask()).To(MatchError(receiver.ErrUnknown))
	clk.Step(5*time.Second + time.Millisecond)
	g.Expect(ask()).To(Succeed())
	g.Expect(v.reads).To(Equal(2))
}

func TestAPolicySaysWhatIsWrongWithItsKeys(t *testing.T) {
	for name, test := range map[string]struct {
		data      map[string]string
		said, bad string
	}{
		"nothing":                       {map[string]string{"secret": signing}, "", ""},
		"one that is short":             {map[string]string{"secret": "short", "token": token}, "What Secret door has under secret is shorter than 16 bytes and not used: make it longer, as openssl rand -hex 32 does.", ""},
		"two that are short":            {map[string]string{"secret": "short", "token": "too"}, "", "What Secret door has under secret and token is shorter than 16 bytes and not used: make it longer, as openssl rand -hex 32 does."},
		"none, but something under url": {map[string]string{"url": "https://example.com"}, "", "Secret door has nothing under the keys secret and token: add one of them."},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v := &vault{data: map[string][]byte{}}
			for key, value := range test.data {
				v.data[key] = []byte(value)
			}
			keys, _ := doorKeys(receivingPolicy(), v)
			_, said, err := keys.Look(t.Context(), receivingPolicy())
			g.Expect(said).To(Equal(test.said))
			if test.bad == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(&SecretError{test.bad}))
			}
		})
	}
}

func TestKeysAreUsedOnWhileTheAPIServerIsAway(t *testing.T) {
	g := NewWithT(t)
	v := &vault{data: map[string][]byte{"secret": []byte(signing)}}
	keys, clk := doorKeys(receivingPolicy(), v)
	ask := func() error {
		got, err := keys.Keys(t.Context(), door)
		if err == nil {
			g.Expect(got).To(Equal(receiver.Credentials{Signing: []byte(signing)}))
		}
		return err
	}
	g.Expect(ask()).To(Succeed())
	away := apierrors.NewInternalError(errors.New("etcd is away"))
	v.err = away
	clk.Step(time.Minute)
	g.Expect(ask()).To(Succeed())
	v.err = apierrors.NewNotFound(corev1.Resource("secrets"), "door")
	g.Expect(ask()).To(MatchError(receiver.ErrUnknown))
	v.err = away
	clk.Step(time.Minute)
	g.Expect(ask()).To(MatchError(ContainSubstring("etcd is away")), "what was taken away does not come back")
	v.err = nil
	g.Expect(ask()).To(Succeed())
	v.err = away
	clk.Step(10*time.Minute + time.Second)
	g.Expect(ask()).To(MatchError(ContainSubstring("etcd is away")), "nor for ever")
}
