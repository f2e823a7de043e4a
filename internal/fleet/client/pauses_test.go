// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/proto"
	"k8s.io/utils/clock"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

// expectHeld asserts that err is the answer of a pause.
func expectHeld(t *testing.T, err error, reason string, after time.Duration) {
	t.Helper()
	g := NewWithT(t)
	f := faultOf(t, err)
	g.Expect(f.Kind).To(Equal(fault.Wait))
	g.Expect(f.Reason).To(Equal(reason))
	g.Expect(f.After).To(Equal(after))
	g.Expect(f).To(MatchError(HavePrefix("nothing is sent for now, since a call failed: ")))
}

func TestAT01RefusedCredentialsPauseEverythingButOneProbeAMinute(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	s.server.SetCredentials(username, "another")
	g.Expect(s.Available()).To(Succeed())
	g.Expect(faultOf(t, list(t.Context(), s.Client)).Reason).To(Equal(fleetmanagementv1alpha1.ReasonAuthFailed))
	for range 20 {
		expectHeld(t, list(t.Context(), s.Client), fleetmanagementv1alpha1.ReasonAuthFailed, time.Minute)
	}
	expectHeld(t, s.BulkUpdateCollectors(t.Context(), []string{"c"}, nil), fleetmanagementv1alpha1.ReasonAuthFailed, time.Minute)
	s.clock.Step(59 * time.Second)
	expectHeld(t, s.Available(), fleetmanagementv1alpha1.ReasonAuthFailed, time.Second)
	g.Expect(s.server.Count()).To(Equal(1))

	// A minute later one call finds out, and the others do not wait for it.
	s.clock.Step(time.Second)
	g.Expect(s.Available()).To(Succeed())
	probeOnce(t, s)
	g.Expect(s.server.Count()).To(Equal(2))
	expectHeld(t, list(t.Context(), s.Client), fleetmanagementv1alpha1.ReasonAuthFailed, time.Minute)
	g.Expect(s.recovered.Load()).To(BeZero())

	s.server.SetCredentials(username, password)
	s.clock.Step(time.Minute)
	g.Expect(list(t.Context(), s.Client)).To(Succeed())
	g.Expect(s.recovered.Load()).To(BeEquivalentTo(1))
	for range 5 {
		g.Expect(list(t.Context(), s.Client)).To(Succeed())
	}
	g.Expect(s.server.Count()).To(Equal(8))
	g.Expect(s.recovered.Load()).To(BeEquivalentTo(1))
}

// probeOnce lets one call hang on its way, sees that others are held back meanwhile, and lets it be refused.
func probeOnce(t *testing.T, s *stand) {
	t.Helper()
	g := NewWithT(t)
	s.server.SetCredentials(username, password)
	release := make(chan struct{})
	s.server.Fail(fleetserver.Rule{Times: 1, Respond: fleetserver.Hold(release)})
	s.server.Fail(fleetserver.Rule{Times: 1, Respond: fleetserver.ConnectError(connect.CodeUnauthenticated, "still not")})
	ended := make(chan error)
	go func() { ended <- list(t.Context(), s.Client) }()
	g.Eventually(func() int { return s.server.Count() }).Should(Equal(2))
	for range 10 {
		expectHeld(t, list(t.Context(), s.Client), fleetmanagementv1alpha1.ReasonAuthFailed, time.Minute)
	}
	expectHeld(t, s.Available(), fleetmanagementv1alpha1.ReasonAuthFailed, time.Minute)
	close(release)
	g.Expect(faultOf(t, <-ended).Reason).To(Equal(fleetmanagementv1alpha1.ReasonAuthFailed))
}

func TestAProbeEndsAPauseOnceTheAPIJudgesIt(t *testing.T) {
	const auth, address = fleetmanagementv1alpha1.ReasonAuthFailed, fleetmanagementv1alpha1.ReasonBaseURLWrong
	for name, test := range map[string]struct {
		answer fleetserver.Response
		// still is the reason of the pause that goes on, empty where it ends.
		still string
	}{
		"the server is down":             {fleetserver.ConnectError(connect.CodeUnavailable, ""), auth},
		"the connection ends":            {fleetserver.Drop(), auth},
		"the edge forbids it":            {fleetserver.PlainText(403, "", nil), auth},
		"somebody else answers":          {fleetserver.PlainText(404, "", nil), address},
		"the API refuses the request":    {fleetserver.ConnectError(connect.CodeInvalidArgument, ""), ""},
		"the API finds nothing":          {fleetserver.ConnectError(connect.CodeNotFound, ""), ""},
		"the API forbids this call":      {fleetserver.ConnectError(connect.CodePermissionDenied, ""), ""},
		"the API does not know the call": {fleetserver.PlainText(404, `{"code":"unimplemented"}`, map[string]string{"Content-Type": "application/json"}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newStand(t)
			s.server.Fail(fleetserver.Rule{Times: 1, Respond: fleetserver.ConnectError(connect.CodeUnauthenticated, "")})
			g.Expect(list(t.Context(), s.Client)).NotTo(Succeed())
			s.clock.Step(time.Minute)
			s.server.Fail(fleetserver.Rule{Times: 1, Respond: test.answer})
			g.Expect(s.DeletePipeline(t.Context(), "1")).NotTo(Succeed())
			g.Expect(s.server.Count()).To(Equal(2))
			if test.still == "" {
				g.Expect(s.recovered.Load()).To(BeEquivalentTo(1))
				g.Expect(list(t.Context(), s.Client)).To(Succeed())
				return
			}
			g.Expect(s.recovered.Load()).To(BeZero())
			expectHeld(t, list(t.Context(), s.Client), test.still, time.Minute)
			g.Expect(s.server.Count()).To(Equal(2))
		})
	}
}

func TestAForbiddenProcedurePausesAlone(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	id := s.server.PutPipeline(pipelineNamed("p")).GetId()
	s.server.Fail(fleetserver.Rule{Procedure: "DeletePipeline", Times: 2, Respond: fleetserver.ConnectError(connect.CodePermissionDenied, "read only")})
	g.Expect(faultOf(t, s.DeletePipeline(t.Context(), id)).Reason).To(Equal(fleetmanagementv1alpha1.ReasonAuthFailed))
	for range 5 {
		expectHeld(t, s.DeletePipeline(t.Context(), id), fleetmanagementv1alpha1.ReasonAuthFailed, time.Minute)
		g.Expect(list(t.Context(), s.Client)).To(Succeed())
	}
	g.Expect(s.Available()).To(Succeed())
	g.Expect(s.server.Count("DeletePipeline")).To(Equal(1))
	g.Expect(s.server.Count("ListPipelines")).To(Equal(5))

	s.clock.Step(time.Minute)
	g.Expect(s.DeletePipeline(t.Context(), id)).NotTo(Succeed())
	expectHeld(t, s.DeletePipeline(t.Context(), id), fleetmanagementv1alpha1.ReasonAuthFailed, time.Minute)
	s.clock.Step(time.Minute)
	g.Expect(s.recovered.Load()).To(BeZero())
	g.Expect(s.DeletePipeline(t.Context(), id)).To(Succeed())
	g.Expect(s.recovered.Load()).To(BeEquivalentTo(1))
	g.Expect(s.server.Count("DeletePipeline")).To(Equal(3))
}

func TestAT20AnEdgeThatAsksToWaitSevenSecondsIsLeftAloneForSeven(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	s.server.Fail(fleetserver.Rule{Times: 1, Respond: fleetserver.PlainText(429, "slow down", map[string]string{"Retry-After": "7"})})
	f := faultOf(t, list(t.Context(), s.Client))
	g.Expect(f.After).To(Equal(7 * time.Second))
	g.Expect(f.Unclear).To(BeTrue())
	g.Expect(f).To(MatchError("ListPipelines: Fleet Management asks to wait (429 Too Many Requests): slow down"))

	expectHeld(t, s.DeletePipeline(t.Context(), "1"), fleetmanagementv1alpha1.ReasonRateLimited, 7*time.Second)
	s.clock.Step(7*time.Second - time.Millisecond)
	for range 10 {
		expectHeld(t, s.BulkUpdateCollectors(t.Context(), []string{"c"}, nil), fleetmanagementv1alpha1.ReasonRateLimited, time.Millisecond)
		g.Expect(faultOf(t, s.Available()).Unclear).To(BeTrue())
	}
	g.Expect(s.server.Count()).To(Equal(1))

	s.clock.Step(time.Millisecond)
	g.Expect(s.Available()).To(Succeed())
	g.Expect(list(t.Context(), s.Client)).To(Succeed())
	g.Expect(s.server.Count()).To(Equal(2))
	g.Expect(s.recovered.Load()).To(BeZero(), "who was told when to come again comes by itself")
}

func TestRetryAfterIsReadInBothForms(t *testing.T) {
	atMost := func(most time.Duration) [2]time.Duration { return [2]time.Duration{10 * time.Second, most} }
	exactly := func(d time.Duration) [2]time.Duration { return [2]time.Duration{d, d} }
	for name, test := range map[string]struct {
		header string
		want   [2]time.Duration
	}{
		"seconds":            {"7", exactly(7 * time.Second)},
		"a date":             {"Mon, 30 Nov 2026 12:00:42 GMT", exactly(42 * time.Second)},
		"more than an hour":  {"86400", exactly(time.Hour)},
		"a date far away":    {"Thu, 30 Nov 2056 12:00:42 GMT", exactly(time.Hour)},
		"nothing":            {"", atMost(12 * time.Second)},
		"zero":               {"0", atMost(12 * time.Second)},
		"a date that passed": {"Mon, 30 Nov 2020 12:00:42 GMT", atMost(12 * time.Second)},
		"words":              {"later", atMost(12 * time.Second)},
		"less than nothing":  {"-5", atMost(12 * time.Second)},
		"beyond all numbers": {"99999999999999999999", atMost(12 * time.Second)},
	} {
		for form, answer := range map[string]fleetserver.Response{
			"plain text": fleetserver.PlainText(429, "", map[string]string{"Retry-After": test.header}),
			"JSON": fleetserver.PlainText(429, `{"code":"resource_exhausted"}`,
				map[string]string{"Retry-After": test.header, "Content-Type": "application/json"}),
		} {
			t.Run(name+" in "+form, func(t *testing.T) {
				s := newStand(t)
				s.server.Fail(fleetserver.Rule{Respond: answer})
				NewWithT(t).Expect(faultOf(t, list(t.Context(), s.Client)).After).
					To(And(BeNumerically(">=", test.want[0]), BeNumerically("<=", test.want[1])))
			})
		}
	}
}

func TestCallsThatWaitForTheirTurnLearnOfAPauseAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		requests := 0
		answer := make(chan struct{})
		s := standAt(t, "https://fleet.example", &http.Client{Transport: sender(func(*http.Request) (*http.Response, error) {
			requests++
			<-answer
			return answerOf(http.StatusTooManyRequests, http.Header{"Retry-After": {"7"}}), nil
		})}, func(o *client.Options) { o.Clock, o.RPS, o.Burst = clock.RealClock{}, 1e-3, 1 })
		began := time.Now()
		held := make(chan error, 100)
		ended := crowd(100, func() error {
			held <- s.BulkUpdateCollectors(t.Context(), []string{"c"}, nil)
			return nil
		})
		g.Expect(held).To(BeEmpty(), "one is on its way, and the others wait")
		close(answer)
		ended()
		for range 100 {
			g.Expect(faultOf(t, <-held).Reason).To(Equal(fleetmanagementv1alpha1.ReasonRateLimited))
		}
		g.Expect(time.Since(began)).To(BeZero())
		g.Expect(requests).To(Equal(1))
	})
}

func TestAfterARestRequestsComeOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var at []time.Duration
		began := time.Now()
		s := standAt(t, "https://fleet.example", &http.Client{Transport: sender(func(*http.Request) (*http.Response, error) {
			at = append(at, time.Since(began))
			if len(at) == 1 {
				return answerOf(http.StatusTooManyRequests, http.Header{"Retry-After": {"60"}}), nil
			}
			return answerOf(http.StatusOK, nil), nil
		})}, func(o *client.Options) { o.Clock, o.RPS, o.Burst = clock.RealClock{}, 1, 50 })
		g.Expect(list(t.Context(), s.Client)).NotTo(Succeed())
		time.Sleep(time.Minute) // in the bubble
		for range 4 {
			g.Expect(list(t.Context(), s.Client)).To(Succeed())
		}
		g.Expect(at).To(Equal([]time.Duration{0, 60 * time.Second, 61 * time.Second, 62 * time.Second, 63 * time.Second}))
	})
}

func TestAProbeThatIsGivenUpBeforeItsTurnLeavesItToTheNext(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	s.server.Fail(fleetserver.Rule{Times: 1, Respond: fleetserver.ConnectError(connect.CodeUnauthenticated, "")})
	g.Expect(list(t.Context(), s.Client)).NotTo(Succeed())
	s.clock.Step(time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(list(ctx, s.Client)).To(MatchError(context.Canceled))
	g.Expect(list(t.Context(), s.Client)).To(Succeed())
	g.Expect(s.server.Count()).To(Equal(2))
}

func TestAProbeThatIsGivenUpBeforeItsAnswerEndsNoPause(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	s.server.Fail(fleetserver.Rule{Times: 1, Respond: fleetserver.ConnectError(connect.CodeUnauthenticated, "")})
	g.Expect(list(t.Context(), s.Client)).NotTo(Succeed())
	s.clock.Step(time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	s.server.Fail(fleetserver.Rule{Procedure: "UpsertPipeline", Times: 1, Respond: fleetserver.Hang(), Match: func(proto.Message) bool {
		cancel()
		return true
	}})
	g.Expect(s.ValidatePipeline(ctx, client.Pipeline{Name: "one", Contents: "logging { }"})).To(MatchError(context.Canceled))
	expectHeld(t, list(t.Context(), s.Client), fleetmanagementv1alpha1.ReasonAuthFailed, time.Minute)
	g.Expect(s.recovered.Load()).To(BeZero())
	s.clock.Step(time.Minute)
	g.Expect(list(t.Context(), s.Client)).To(Succeed())
	g.Expect(s.server.Count()).To(Equal(3))
}

// mount writes credentials as the kubelet does: a folder of links into a folder that is replaced as a whole.
func mount(t *testing.T, folder, version string, files map[string]string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(os.Mkdir(filepath.Join(folder, version), 0o700)).To(Succeed())
	for name, content := range files {
		g.Expect(os.WriteFile(filepath.Join(folder, version, name), []byte(content), 0o600)).To(Succeed())
		if _, err := os.Lstat(filepath.Join(folder, name)); err != nil {
			g.Expect(os.Symlink(filepath.Join("..data", name), filepath.Join(folder, name))).To(Succeed())
		}
	}
	g.Expect(os.Symlink(version, filepath.Join(folder, "..data_tmp"))).To(Succeed())
	g.Expect(os.Rename(filepath.Join(folder, "..data_tmp"), filepath.Join(folder, "..data"))).To(Succeed())
}

func TestAT21CredentialsThatAreRenewedInTheFolderAreUsedByTheNextCall(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	s := newStand(t, func(o *client.Options) { o.Credentials = client.FolderCredentials(folder, client.Credentials{}) })
	files := map[string]string{"base-url": s.server.URL() + "/pipeline.v1.PipelineService/\n", "username": username + "\n", "password": "outdated\n"}
	mount(t, folder, "..1", files)
	g.Expect(faultOf(t, list(t.Context(), s.Client)).Reason).To(Equal(fleetmanagementv1alpha1.ReasonAuthFailed))
	expectHeld(t, list(t.Context(), s.Client), fleetmanagementv1alpha1.ReasonAuthFailed, time.Minute)
	g.Expect(s.server.Count()).To(Equal(1))
	g.Expect(s.recovered.Load()).To(BeZero())

	files["password"] = password
	mount(t, folder, "..2", files)
	g.Expect(s.Available()).To(Succeed(), "without a second passing")
	g.Expect(s.recovered.Load()).To(BeEquivalentTo(1))
	g.Expect(list(t.Context(), s.Client)).To(Succeed())
	g.Expect(s.server.Count()).To(Equal(2))
	g.Expect(s.recovered.Load()).To(BeEquivalentTo(1))
}

func TestARefusalOfCredentialsThatAreGoneSaysNothing(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	release := make(chan struct{})
	s.server.Fail(fleetserver.Rule{Times: 1, Respond: fleetserver.Hold(release)})
	s.server.Fail(fleetserver.Rule{Times: 1, Respond: fleetserver.ConnectError(connect.CodeUnauthenticated, "")})
	ended := make(chan error)
	go func() { ended <- list(t.Context(), s.Client) }()
	g.Eventually(func() int { return s.server.Count() }).Should(Equal(1))
	s.server.SetCredentials(username, "renewed")
	s.use(func(c *client.Credentials) { c.Password = "renewed" }, nil)
	g.Expect(s.Available()).To(Succeed())
	close(release)
	g.Expect(<-ended).NotTo(Succeed())
	g.Expect(s.Available()).To(Succeed())
	g.Expect(list(t.Context(), s.Client)).To(Succeed())
}

func TestWithoutCredentialsNothingIsSent(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	s.use(func(*client.Credentials) {}, client.ErrNoCredentials)
	for _, err := range []error{list(t.Context(), s.Client), s.Available()} {
		f := faultOf(t, err)
		g.Expect(f.Kind).To(Equal(fault.Wait))
		g.Expect(f.Reason).To(Equal(fleetmanagementv1alpha1.ReasonNoCredentials))
		g.Expect(f.After).To(Equal(time.Minute))
		g.Expect(f).To(MatchError(client.ErrNoCredentials))
	}
	g.Expect(s.server.Count()).To(BeZero())
	g.Expect(s.recovered.Load()).To(BeZero())

	s.use(func(*client.Credentials) {}, nil)
	g.Expect(list(t.Context(), s.Client)).To(Succeed())
	g.Expect(s.recovered.Load()).To(BeEquivalentTo(1))
}

// answerOf is an answer without a body, which is an empty message where it is a good one.
func answerOf(status int, header http.Header) *http.Response {
	if header == nil {
		header = http.Header{}
	}
	if status == http.StatusOK {
		header.Set("Content-Type", "application/proto")
	}
	return &http.Response{StatusCode: status, Header: header, Body: http.NoBody}
}

func pipelineNamed(name string) *pipelinev1.Pipeline {
	return &pipelinev1.Pipeline{Name: name, Contents: "logging {}", Enabled: proto.Bool(true), ConfigType: pipelinev1.ConfigType_CONFIG_TYPE_ALLOY}
}
