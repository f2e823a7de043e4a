// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

func TestAT20AWrongAddressSaysSo(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	s.use(func(c *client.Credentials) { c.BaseURL += "/a/grafana-collector-app" }, nil)
	err := list(t.Context(), s.Client)
	f := faultOf(t, err)
	g.Expect(f.Kind).To(Equal(fault.Wait))
	g.Expect(f.Reason).To(Equal(fleetmanagementv1alpha1.ReasonBaseURLWrong))
	g.Expect(f.After).To(Equal(time.Minute))
	g.Expect(err).To(MatchError("ListPipelines: what answers is not the API of Fleet Management: check base-url (404 Not Found): an HTML page"))
	g.Expect(s.server.Count()).To(Equal(1))
}

func TestAWrongAddressPausesEverythingButOneProbeAMinute(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	s.server.Fail(fleetserver.Rule{Times: 2, Respond: fleetserver.PlainText(404, "<html></html>", map[string]string{"Content-Type": "text/html"})})
	g.Expect(list(t.Context(), s.Client)).NotTo(Succeed())
	for range 20 {
		expectHeld(t, s.DeletePipeline(t.Context(), "1"), fleetmanagementv1alpha1.ReasonBaseURLWrong, time.Minute)
	}
	expectHeld(t, s.Available(), fleetmanagementv1alpha1.ReasonBaseURLWrong, time.Minute)
	g.Expect(s.server.Count()).To(Equal(1))
	g.Expect(gathered(t, s)).To(And(HaveKeyWithValue("fleet_api_paused{BaseURLWrong}", 1.0), HaveKeyWithValue("fleet_api_paused{AuthFailed}", 0.0)))

	s.clock.Step(time.Minute)
	g.Expect(s.DeletePipeline(t.Context(), "1")).NotTo(Succeed())
	expectHeld(t, list(t.Context(), s.Client), fleetmanagementv1alpha1.ReasonBaseURLWrong, time.Minute)
	g.Expect(s.recovered.Load()).To(BeZero())
	s.clock.Step(time.Minute)
	g.Expect(list(t.Context(), s.Client)).To(Succeed())
	g.Expect(s.recovered.Load()).To(BeEquivalentTo(1))
	g.Expect(s.server.Count()).To(Equal(3))
}

func TestWhatIsHeldBackSaysTheSameAfterEachProbe(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	s.server.Fail(fleetserver.Rule{Times: 1, Respond: fleetserver.ConnectError(connect.CodeUnauthenticated, "request 1")})
	s.server.Fail(fleetserver.Rule{Times: 1, Respond: fleetserver.ConnectError(connect.CodeUnauthenticated, "request 2")})
	g.Expect(list(t.Context(), s.Client)).NotTo(Succeed())
	first := s.Available().Error()
	g.Expect(first).To(Equal("nothing is sent for now, since a call failed: Fleet Management refuses the credentials: check username and password (401 Unauthorized, unauthenticated): request 1"))
	s.clock.Step(time.Minute)
	g.Expect(s.DeletePipeline(t.Context(), "1")).NotTo(Succeed())
	g.Expect(s.Available()).To(MatchError(first))
	g.Expect(errorOf(t, s.Available()).Status).To(Equal(401))
}

func TestAProcedureThatTheAPIDoesNotKnowPausesAlone(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	s.server.Fail(fleetserver.Rule{Procedure: "BulkUpdateCollectors", Respond: fleetserver.PlainText(404, `{"code":"unimplemented"}`, map[string]string{"Content-Type": "application/json"})})
	s.server.Fail(fleetserver.Rule{Procedure: "GetLimits", Respond: fleetserver.PlainText(404, "", nil)})
	g.Expect(s.BulkUpdateCollectors(t.Context(), []string{"c"}, nil)).NotTo(Succeed())
	expectHeld(t, s.BulkUpdateCollectors(t.Context(), []string{"c"}, nil), fleetmanagementv1alpha1.ReasonBaseURLWrong, time.Minute)
	_, err := s.Limits(t.Context())
	g.Expect(err).NotTo(HaveOccurred(), "not every server has limits")
	g.Expect(list(t.Context(), s.Client)).To(Succeed())
}
