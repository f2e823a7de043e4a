// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/client"
)

func TestACallIsKeptToTheStackThatItIsMeantFor(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	bound, stack := s.Bind(t.Context())
	g.Expect(stack).NotTo(BeEmpty())
	g.Expect(list(bound, s.Client)).To(Succeed())

	s.server.SetCredentials(username, "renewed")
	s.use(func(c *client.Credentials) { c.Password = "renewed" }, nil)
	g.Expect(list(bound, s.Client)).To(Succeed(), "another password is of the same stack")

	s.server.SetCredentials("815", "renewed")
	s.use(func(c *client.Credentials) { c.Username = "815" }, nil)
	before := s.server.Count()
	err := list(bound, s.Client)
	g.Expect(err).To(MatchError(client.ErrOtherStack))
	g.Expect(faultOf(t, err).Kind).To(Equal(fault.Retry))
	g.Expect(s.server.Count()).To(Equal(before), "nothing is sent")
	again, other := s.Bind(t.Context())
	g.Expect(other).NotTo(Equal(stack))
	g.Expect(list(again, s.Client)).To(Succeed())

	s.use(func(*client.Credentials) {}, client.ErrNoCredentials)
	_, last := s.Bind(t.Context())
	g.Expect(last).To(Equal(other), "while there are none, it is the last stack")
}

func TestWhoIsGivenNewCredentialsFindsTheChangeTold(t *testing.T) {
	g := NewWithT(t)
	told := 0
	s := newStand(t, func(o *client.Options) { o.Recovered = func() { told++ } })
	_, _ = s.Bind(t.Context())
	s.use(func(c *client.Credentials) { c.Username = "815" }, nil)
	_, _ = s.Bind(t.Context())
	g.Expect(told).To(Equal(1))
}
