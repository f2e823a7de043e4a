// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// secretLasts is how long a Secret that was read is taken for what it is.
	secretLasts = 20 * time.Second
	// maxSecrets is how many Secrets are remembered at once, and maxSecretBytes how many bytes of them: one may have a mebibyte.
	maxSecrets, maxSecretBytes = 1024, 8 << 20
	// maxCommands is how long the commands may be that grant a right, in bytes; longer ones would be cut.
	maxCommands = 480
)

// Secrets reads Secrets of tenants by name, as far as a Role of the tenant lets it, and remembers each for 20 seconds. Nothing is
// listed or watched.
type Secrets struct {
	// Live reads past the cache.
	Live  client.Reader
	Clock clock.PassiveClock

	mu   sync.Mutex
	read map[types.NamespacedName]secret
	// bytes is how much those hold.
	bytes int
}

type secret struct {
	data  map[string][]byte
	bytes int
	at    time.Time
}

// SecretError is why a Secret cannot be used, for those who can change it. It holds nothing of its content.
type SecretError struct{ Message string }

// Error implements error.
func (e *SecretError) Error() string { return e.Message }

// Get returns what stands under a key of a Secret. The error is a SecretError unless the API server gave no answer.
func (s *Secrets) Get(ctx context.Context, name types.NamespacedName, key string) ([]byte, error) {
	data, err := s.Read(ctx, name, key)
	if err != nil {
		return nil, err
	}
	value := data[key]
	if len(value) == 0 {
		return nil, &SecretError{nothingUnder(name.Name, key)}
	}
	return value, nil
}

func nothingUnder(name, key string) string {
	return fmt.Sprintf("Secret %s has nothing under the key %s: add it, or name another key.", name, key)
}

// Read returns everything that stands in a Secret, which is not to be changed. wanted is a key to name where there is no Secret.
// The error is a SecretError unless the API server gave no answer.
func (s *Secrets) Read(ctx context.Context, name types.NamespacedName, wanted string) (map[string][]byte, error) {
	if len(validation.IsDNS1123Subdomain(name.Name)) > 0 {
		// It would get into a command that somebody runs.
		return nil, &SecretError{fmt.Sprintf("%.63q is no name of a Secret: use small letters, digits, dashes and dots.", name.Name)}
	}
	data, err := s.content(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, &SecretError{fmt.Sprintf("Secret %s does not exist: create it, with the key %s.", name.Name, wanted)}
	case apierrors.IsForbidden(err):
		return nil, &SecretError{forbidden(name, err)}
	case err != nil:
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return data, nil
}

func (s *Secrets) content(ctx context.Context, name types.NamespacedName) (map[string][]byte, error) {
	now := s.Clock.Now()
	s.mu.Lock()
	known, found := s.read[name]
	s.mu.Unlock()
	if found && now.Sub(known.at) < secretLasts {
		return known.data, nil
	}
	var object corev1.Secret
	quiet := logr.NewContext(ctx, logr.Discard()) // the client logs what it reads where the log is very talkative
	if err := s.Live.Get(quiet, name, &object); err != nil {
		return nil, err
	}
	s.remember(name, object.Data, now)
	return object.Data, nil
}

// remember keeps a Secret, and forgets those that are too old to be used.
func (s *Secrets) remember(name types.NamespacedName, data map[string][]byte, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := secret{data: data, at: now}
	for _, value := range data {
		fresh.bytes += len(value)
	}
	for known, old := range s.read {
		if known == name || now.Sub(old.at) >= secretLasts {
			s.bytes -= old.bytes
			delete(s.read, known)
		}
	}
	if s.read == nil || len(s.read) >= maxSecrets || s.bytes+fresh.bytes > maxSecretBytes {
		s.read, s.bytes = map[types.NamespacedName]secret{}, 0
	}
	s.read[name] = fresh
	s.bytes += fresh.bytes
}

var serviceAccount = regexp.MustCompile(`"system:serviceaccount:([a-z0-9-]+):([a-z0-9.-]+)"`)

// forbidden says who lacks which right, and how to grant it.
func forbidden(name types.NamespacedName, err error) string {
	account := "NAMESPACE:NAME"
	if match := serviceAccount.FindStringSubmatch(err.Error()); match != nil {
		account = match[1] + ":" + match[2]
	}
	said := fmt.Sprintf("Candor may not read Secret %[2]s. Unless its name is wrong: kubectl -n %[1]s create role candor-%[2]s --verb=get --resource=secrets --resource-name=%[2]s "+
		"&& kubectl -n %[1]s create rolebinding candor-%[2]s --role=candor-%[2]s --serviceaccount=%[3]s", name.Namespace, name.Name, account)
	if len(said) > maxCommands {
		return fmt.Sprintf("Candor may not read Secret %s. Unless its name is wrong, a Role has to let the ServiceAccount %s get it.", name.Name, account)
	}
	return said
}
