// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	fleetclient "github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

// grantor is a Fleet Management that is asked for limits alone.
type grantor struct {
	limits           fleetclient.Limits
	unavailable, err error
	// available runs when somebody asks whether calls are made.
	available func()
	asked     int
	paces     []float64
}

func (s *grantor) Available() error {
	if s.available != nil {
		s.available()
	}
	return s.unavailable
}

func (s *grantor) Limits(context.Context) (fleetclient.Limits, error) {
	s.asked++
	return s.limits, s.err
}

func (s *grantor) Pace(rps float64) { s.paces = append(s.paces, rps) }

func TestThePaceIsFourFifthsOfWhatTheStackIsGranted(t *testing.T) {
	for name, test := range map[string]struct {
		stack grantor
		asked int
		paces []float64
	}{
		"a stack that tells":             {grantor{limits: fleetclient.Limits{APIRequestsPerSecond: 10}}, 1, []float64{8}},
		"a stack that does not tell":     {grantor{}, 1, []float64{0}},
		"a stack that does not answer":   {grantor{err: errors.New("down")}, 1, nil},
		"no credentials, or none so far": {grantor{unavailable: errors.New("none")}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			NewPacer(&test.stack, clocktesting.NewFakeClock(time.Now()), NewMetrics()).ask(t.Context())
			g.Expect(test.stack.asked).To(Equal(test.asked))
			g.Expect(test.stack.paces).To(Equal(test.paces))
		})
	}
}

func TestThePacerAsksOnceAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		stack, now := &grantor{}, clocktesting.NewFakeClock(time.Now())
		p := NewPacer(stack, now, NewMetrics())
		stack.available = func() {
			if stack.asked == 1 {
				p.Recovered() // the client may learn of it by being asked
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Start(ctx) }()
		asked := func() int {
			synctest.Wait()
			return stack.asked
		}
		g.Expect(asked()).To(Equal(1), "at the start")
		now.Step(59 * time.Minute)
		g.Expect(asked()).To(Equal(1))
		now.Step(time.Minute)
		g.Expect(asked()).To(Equal(2), "after an hour, and not once more for what that itself found out")
		p.Recovered()
		g.Expect(asked()).To(Equal(3), "for other credentials")
		now.Step(time.Hour)
		g.Expect(asked()).To(Equal(4))
		stop()
		g.Expect(<-ended).To(Succeed())
	})
}

func TestLimitsAreExportedAsFarAsTheyAreTold(t *testing.T) {
	g := NewWithT(t)
	server := fleetserver.New(fleetserver.Options{Username: "1", Password: "token", Limits: fleetserver.Limits{Pipelines: 100, RequestsPerSecondAPI: 3}})
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	g.Expect(roots.AppendCertsFromPEM(server.CA())).To(BeTrue())
	configured := false
	api := fleetclient.New(fleetclient.Options{
		Credentials: func() (fleetclient.Credentials, error) {
			if !configured {
				return fleetclient.Credentials{}, fleetclient.ErrNoCredentials
			}
			return fleetclient.Credentials{BaseURL: server.URL(), Username: "1", Password: "token"}, nil
		},
		HTTP:  &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}},
		Clock: clock.RealClock{},
	})
	m := NewMetrics()
	p := NewPacer(api, clock.RealClock{}, m)

	p.ask(t.Context())
	g.Expect(server.Count()).To(BeZero(), "there are no credentials")
	g.Expect(exported(t, m.limits)).To(BeEmpty())

	configured = true
	p.ask(t.Context())
	g.Expect(server.Count()).To(Equal(1))
	told := ConsistOf(`fleet_stack_limit{limit="pipelines"} 100`, `fleet_stack_limit{limit="requests_per_second"} 3`)
	g.Expect(exported(t, m.limits)).To(told, "the limit of collectors is unknown")

	server.Fail(fleetserver.Rule{Procedure: "GetLimits", Times: 1, Respond: fleetserver.ConnectError(connect.CodeUnavailable, "later")})
	p.ask(t.Context())
	g.Expect(exported(t, m.limits)).To(told, "nothing new is known")

	server.Fail(fleetserver.Rule{Procedure: "GetLimits", Respond: fleetserver.ConnectError(connect.CodePermissionDenied, "scope")})
	p.ask(t.Context())
	g.Expect(exported(t, m.limits)).To(BeEmpty(), "it is told no more")
	g.Expect(api.Available()).To(Succeed(), "and nothing is held back for that")
}
