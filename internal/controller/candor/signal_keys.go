// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/keymutex"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/policy"
	"github.com/candor-dev/candor/internal/signals/receiver"
)

const (
	// keySigning and keyToken are the keys of the Secret of a receiver.
	keySigning, keyToken = "secret", "token"
	// shortestKey is how many bytes a key has at least: a shorter one can be guessed.
	shortestKey = 16
	// keysTimeout bounds the read of a Secret.
	keysTimeout = 10 * time.Second
	// refusalLasts is how long it is remembered that a Secret cannot be used, refusalsKnown of how many Secrets: whoever may not
	// sign must not make the API server work.
	refusalLasts  = 5 * time.Second
	refusalsKnown = 1024
	// knownLasts is how long the keys of a Secret are used on while the API server does not answer for it. Else a request would be
	// told of the trouble before anybody knows who sends it, and that there is a policy.
	knownLasts = 10 * time.Minute
)

// SignalKeys finds what the signals that are posted to a policy are authenticated by: the keys of a Secret that a Role of the
// tenant lets the manager read.
type SignalKeys struct {
	client  client.Reader
	secrets *Secrets
	// one lets one request at a time read a Secret, and the others have what it read.
	one      keymutex.KeyMutex
	refusals *cache.LRUExpireCache
	// known holds what was read last.
	known *cache.LRUExpireCache
}

// NewSignalKeys returns one that reads policies from a cache.
func NewSignalKeys(c client.Reader, secrets *Secrets) *SignalKeys {
	return &SignalKeys{
		client: c, secrets: secrets, one: keymutex.NewHashed(signalLanes),
		refusals: cache.NewLRUExpireCacheWithClock(refusalsKnown, secrets.Clock),
		known:    cache.NewLRUExpireCacheWithClock(maxSecrets, secrets.Clock),
	}
}

// Keys implements receiver.Keys.
func (k *SignalKeys) Keys(ctx context.Context, name types.NamespacedName) (receiver.Credentials, error) {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	var p candorv1alpha1.SignalPolicy
	if err := k.client.Get(ctx, name, &p, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); apierrors.IsNotFound(err) {
		return receiver.Credentials{}, receiver.ErrUnknown
	} else if err != nil {
		return receiver.Credentials{}, fmt.Errorf("reading SignalPolicy %s: %w", name, err)
	}
	if !policy.Receives(&p) {
		return receiver.Credentials{}, receiver.ErrUnknown
	}
	from := secretOf(&p)
	k.one.LockKey(from.String())
	defer func() { _ = k.one.UnlockKey(from.String()) }()
	if _, refused := k.refusals.Get(from); refused {
		return receiver.Credentials{}, receiver.ErrUnknown
	}
	credentials, _, err := k.Look(ctx, &p)
	var unusable *SecretError
	switch {
	case errors.As(err, &unusable):
		k.refusals.Add(from, struct{}{}, refusalLasts)
		k.known.Remove(from)
		return receiver.Credentials{}, receiver.ErrUnknown
	case err != nil:
		if known, found := k.known.Get(from); found {
			return known.(receiver.Credentials), nil
		}
	default:
		k.known.Add(from, credentials, knownLasts)
	}
	return credentials, err
}

// Look returns the credentials of a policy that has a receiver, and what is wrong with one of them beside another that is good. The
// error is a SecretError unless the API server gave no answer.
func (k *SignalKeys) Look(ctx context.Context, p *candorv1alpha1.SignalPolicy) (receiver.Credentials, string, error) {
	from := secretOf(p)
	if from.Name == "" {
		return receiver.Credentials{}, "", &SecretError{"spec.webhookReceiver.secretRef.name is empty: name the Secret that senders sign with."}
	}
	data, err := k.secrets.Read(ctx, from, keySigning)
	if err != nil {
		return receiver.Credentials{}, "", err
	}
	var short []string
	take := func(key string) []byte {
		value := bytes.TrimRight(data[key], " \t\r\n")
		if len(value) < shortestKey {
			if len(value) > 0 {
				short = append(short, key)
			}
			return nil
		}
		return value
	}
	credentials := receiver.Credentials{Signing: take(keySigning), Token: take(keyToken)}
	said := ""
	if len(short) > 0 {
		said = fmt.Sprintf("What Secret %s has under %s is shorter than %d bytes and not used: make it longer, as openssl rand -hex 32 does.",
			from.Name, strings.Join(short, " and "), shortestKey)
	}
	if credentials.Signing == nil && credentials.Token == nil {
		if said == "" {
			said = fmt.Sprintf("Secret %s has nothing under the keys %s and %s: add one of them.", from.Name, keySigning, keyToken)
		}
		return credentials, "", &SecretError{said}
	}
	return credentials, said, nil
}

func secretOf(p *candorv1alpha1.SignalPolicy) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Spec.WebhookReceiver.SecretRef.Name}
}
