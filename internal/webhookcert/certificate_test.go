// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookcert

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

var start = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// announced is what a Certificate said, nil errors as "".
type announced struct {
	mu   sync.Mutex
	said []string
}

func (a *announced) hear(problem error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if problem == nil {
		a.said = append(a.said, "")
	} else {
		a.said = append(a.said, problem.Error())
	}
}

func (a *announced) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.said...)
}

func newCertificate() (*Certificate, *announced, *clocktesting.FakePassiveClock) {
	heard, clock := &announced{}, clocktesting.NewFakePassiveClock(start)
	return &Certificate{Clock: clock, Announce: heard.hear}, heard, clock
}

func until(end time.Time) *tls.Certificate {
	return &tls.Certificate{Leaf: &x509.Certificate{NotAfter: end}}
}

func TestTheCheckSaysWhyNobodyWouldTrustTheWebhooks(t *testing.T) {
	g := NewWithT(t)
	c, _, clock := newCertificate()
	g.Expect(c.Check(nil)).To(MatchError("there is no certificate for the webhooks yet"))
	_, err := c.Get(nil)
	g.Expect(err).To(MatchError("there is no certificate for the webhooks yet"))

	c.fail(errors.New("the file is torn"))
	g.Expect(c.Check(nil)).To(MatchError("the file is torn"))

	good := until(start.Add(time.Hour))
	c.use(good)
	g.Expect(c.Check(nil)).To(Succeed())
	g.Expect(c.Get(nil)).To(BeIdenticalTo(good))

	c.fail(errors.New("the file is torn"))
	g.Expect(c.Check(nil)).To(Succeed(), "what is in use lasts")
	g.Expect(c.Get(nil)).To(BeIdenticalTo(good))

	clock.SetTime(start.Add(time.Hour + time.Second))
	g.Expect(c.Check(nil)).To(MatchError("the certificate of the webhooks expired at 2026-11-30T13:00:00Z\nthe file is torn"))
}

func TestAProblemIsAnnouncedOnceAndSoIsItsEnd(t *testing.T) {
	c, heard, _ := newCertificate()
	c.fail(errors.New("one"))
	c.fail(errors.New("one"))
	c.fail(errors.New("two"))
	c.use(until(start))
	c.use(until(start))
	c.fail(errors.New("two"))
	NewWithT(t).Expect(heard.all()).To(Equal([]string{"one", "two", "", "two"}))
}
