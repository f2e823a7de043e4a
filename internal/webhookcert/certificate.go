// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhookcert keeps the certificate that the admission webhooks are served with: one that somebody else renews in a
// folder, or one that the manager makes and renews itself.
package webhookcert

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	certFile = "tls.crt"
	keyFile  = "tls.key"
)

var errNone = errors.New("there is no certificate for the webhooks yet")

// Certificate is what the webhook server shows to the API server, and what keeps it from having one.
type Certificate struct {
	Clock clock.PassiveClock
	// Announce is told what is wrong, once for each change of it, and nil when a certificate is in use again or for the first
	// time. It must not call a method of the Certificate.
	Announce func(problem error)

	mu      sync.Mutex
	current *tls.Certificate
	problem error
}

// Get implements tls.Config's GetCertificate.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return nil, errNone
	}
	return c.current, nil
}

// Check implements healthz.Checker: it says why nobody would trust the webhooks now. A certificate that could not be looked at
// again is used until it expires.
func (c *Certificate) Check(*http.Request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.current == nil && c.problem == nil:
		return errNone
	case c.current == nil:
		return c.problem
	case c.Clock.Now().After(c.current.Leaf.NotAfter):
		return errors.Join(fmt.Errorf("the certificate of the webhooks expired at %s", c.current.Leaf.NotAfter.Format(time.RFC3339)), c.problem)
	default:
		return nil
	}
}

// use puts a certificate into use, and ends what was wrong.
func (c *Certificate) use(certificate *tls.Certificate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	news := c.current == nil || c.problem != nil
	c.current, c.problem = certificate, nil
	if news {
		c.Announce(nil)
	}
}

// fail notes what is wrong, and leaves in use what is.
func (c *Certificate) fail(problem error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	news := c.problem == nil || c.problem.Error() != problem.Error()
	c.problem = problem
	if news {
		c.Announce(problem)
	}
}
