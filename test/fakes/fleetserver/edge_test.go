// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetserver_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	pipelinev1 "github.com/grafana/fleet-management-api/api/gen/proto/go/pipeline/v1"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/proto"

	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

const listPath = "/pipeline.v1.PipelineService/ListPipelines"

var aList = &pipelinev1.ListPipelinesRequest{}

func TestOnlyTheCredentialsAreLetIn(t *testing.T) {
	g := NewWithT(t)
	f := start(t, fleetserver.Options{})
	must(t, f.pipelines.ListPipelines, aList)
	f.SetCredentials(username, "renewed")
	refused(t, connect.CodeUnauthenticated, f.pipelines.ListPipelines, aList)
	status, answer, header := f.post(t, listPath, "application/proto", strings.Repeat("x", 1<<20))
	g.Expect(status).To(Equal(http.StatusUnauthorized))
	g.Expect(header.Get("Content-Type")).To(Equal("application/json"))
	g.Expect(answer).To(MatchJSON(`{"code":"unauthenticated","message":"invalid credentials"}`))
	status, _, _ = f.post(t, "/tenant.v1.TenantService/GetLimits", "", "")
	g.Expect(status).To(Equal(http.StatusUnauthorized))
	f.SetCredentials("", "")
	must(t, f.pipelines.ListPipelines, aList)
}

func TestTheWireIsThatOfConnect(t *testing.T) {
	f := start(t, fleetserver.Options{})
	create(t, f, pipeline("logs"))
	for _, c := range []struct {
		name, path, contentType, body string
		status                        int
		want                          string
	}{
		{"JSON has camel case in answers", "/pipeline.v1.PipelineService/GetPipelineID", "application/json", `{"name":"logs"}`, 200, `{"id":"1001"}`},
		{"requests may have either case", listPath, "application/json", `{"config_type":"CONFIG_TYPE_OTEL"}`, 200, `{}`},
		{"camel case", listPath, "application/json", `{"configType":2}`, 200, `{}`},
		{
			"what is absent is an error of the API", "/pipeline.v1.PipelineService/DeletePipeline", "application/json", `{"id":"1"}`, 404,
			`{"code":"not_found","message":"pipeline \"1\" not found"}`,
		},
		{
			"a collision too", "/pipeline.v1.PipelineService/CreatePipeline", "application/json", `{"pipeline":{"name":"logs","contents":"// x"}}`, 409,
			`{"code":"already_exists","message":"a pipeline named \"logs\" already exists"}`,
		},
		{"a path outside of the API is a page", "/api" + listPath, "application/json", `{}`, 404, ""},
		{"a procedure that does not exist", "/pipeline.v1.PipelineService/Rollback", "application/json", `{}`, 404, ""},
		{"another content type", listPath, "text/plain", `{}`, 415, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, answer, header := f.post(t, c.path, c.contentType, c.body)
			NewWithT(t).Expect(status).To(Equal(c.status))
			if c.want == "" {
				NewWithT(t).Expect(header.Get("Content-Type")).NotTo(ContainSubstring("json"))
				return
			}
			NewWithT(t).Expect(answer).To(MatchJSON(c.want))
		})
	}
	NewWithT(t).Expect(f.Calls("/api" + listPath)[0].Status).To(Equal(http.StatusNotFound))
}

func TestLimitsAreTold(t *testing.T) {
	g := NewWithT(t)
	f := start(t, fleetserver.Options{Limits: fleetserver.Limits{Collectors: 30_000, RequestsPerSecondAPI: 3}})
	const path = "/tenant.v1.TenantService/GetLimits"
	status, answer, _ := f.post(t, path, "application/json", `{}`)
	g.Expect(status).To(Equal(http.StatusOK))
	g.Expect(answer).To(MatchJSON(`{"collectors":30000,"requests_per_second_api":3}`))
	status, _, header := f.post(t, path, "application/proto", "")
	g.Expect(status).To(Equal(http.StatusUnsupportedMediaType))
	g.Expect(header.Get("Accept-Post")).To(Equal("application/json"))
	f.Fail(fleetserver.Rule{Procedure: "GetLimits", Respond: fleetserver.ConnectError(connect.CodePermissionDenied, "scope")})
	status, _, _ = f.post(t, path, "application/json", `{}`)
	g.Expect(status).To(Equal(http.StatusForbidden))
	g.Expect(f.Count("GetLimits")).To(Equal(3))
}

func TestTheLimiterIsABucket(t *testing.T) {
	for _, c := range []struct {
		name       string
		limited    fleetserver.Response
		code       connect.Code
		retryAfter string
	}{
		{"answered by the API", fleetserver.Response{}, connect.CodeResourceExhausted, ""},
		{
			"answered by the edge", fleetserver.PlainText(http.StatusTooManyRequests, "slow down", map[string]string{"Retry-After": "7"}),
			connect.CodeUnavailable, "7",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			f := start(t, fleetserver.Options{RPS: 3, Burst: 2, Limited: c.limited})
			must(t, f.pipelines.ListPipelines, aList)
			must(t, f.pipelines.ListPipelines, aList)
			_, err := call(t, f.pipelines.ListPipelines, aList)
			g.Expect(connect.CodeOf(err)).To(Equal(c.code))
			status, _, header := f.post(t, listPath, "application/json", `{}`)
			g.Expect(status).To(Equal(http.StatusTooManyRequests))
			g.Expect(header.Get("Retry-After")).To(Equal(c.retryAfter))
			f.clock.SetTime(noon.Add(334 * time.Millisecond))
			must(t, f.pipelines.ListPipelines, aList)
			refused(t, c.code, f.pipelines.ListPipelines, aList)
		})
	}
	t.Run("a burst is one second's worth", func(t *testing.T) {
		f := start(t, fleetserver.Options{RPS: 2.5})
		for range 3 {
			must(t, f.pipelines.ListPipelines, aList)
		}
		refused(t, connect.CodeResourceExhausted, f.pipelines.ListPipelines, aList)
	})
}

func TestCallsFailByRule(t *testing.T) {
	unavailable := fleetserver.ConnectError(connect.CodeUnavailable, "down")
	html := fleetserver.PlainText(http.StatusBadGateway, "<html>", map[string]string{"Content-Type": "text/html"})
	for _, c := range []struct {
		name    string
		rule    fleetserver.Rule
		code    connect.Code
		status  int
		applied bool
	}{
		{"an error of the API before it applies", fleetserver.Rule{Respond: unavailable}, connect.CodeUnavailable, 503, false},
		{"an error of the API after it applied", fleetserver.Rule{Respond: unavailable, AfterApplying: true}, connect.CodeUnavailable, 503, true},
		{"an error of the edge before it applies", fleetserver.Rule{Respond: html}, connect.CodeUnavailable, 502, false},
		{"an error of the edge after it applied", fleetserver.Rule{Respond: html, AfterApplying: true}, connect.CodeUnavailable, 502, true},
		{"no answer before it applies", fleetserver.Rule{Respond: fleetserver.Drop()}, connect.CodeUnavailable, 0, false},
		{"no answer after it applied", fleetserver.Rule{Respond: fleetserver.Drop(), AfterApplying: true}, connect.CodeUnavailable, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBothCodecs(t, fleetserver.Options{}, func(t *testing.T, f *fixture) {
				g := NewWithT(t)
				c.rule.Procedure, c.rule.Times = "CreatePipeline", 1
				f.Fail(c.rule)
				must(t, f.pipelines.ListPipelines, aList)
				_, err := call(t, f.pipelines.CreatePipeline, &pipelinev1.CreatePipelineRequest{Pipeline: pipeline("logs")})
				g.Expect(err).To(HaveOccurred())
				if c.status != 0 {
					g.Expect(connect.CodeOf(err)).To(Equal(c.code))
				}
				g.Expect(f.Calls("CreatePipeline")[0].Status).To(Equal(c.status))
				g.Expect(f.Pipeline("logs") != nil).To(Equal(c.applied))
				create(t, f, pipeline("next"))
			})
		})
	}
}

func TestRulesAreTriedInTheirOrder(t *testing.T) {
	f := start(t, fleetserver.Options{})
	named := func(m proto.Message) bool {
		request, ok := m.(*pipelinev1.CreatePipelineRequest)
		return ok && request.GetPipeline().GetName() == "a"
	}
	f.Fail(fleetserver.Rule{Times: 3, Respond: fleetserver.Delay(time.Nanosecond)})
	f.Fail(fleetserver.Rule{Match: named, Times: 2, Respond: fleetserver.ConnectError(connect.CodeInternal, "first")})
	f.Fail(fleetserver.Rule{Match: named, Respond: fleetserver.ConnectError(connect.CodeAborted, "second")})
	ask := &pipelinev1.CreatePipelineRequest{Pipeline: pipeline("a")}
	must(t, f.pipelines.ListPipelines, aList)
	refused(t, connect.CodeInternal, f.pipelines.CreatePipeline, ask)
	refused(t, connect.CodeInternal, f.pipelines.CreatePipeline, ask)
	refused(t, connect.CodeAborted, f.pipelines.CreatePipeline, ask)
	create(t, f, pipeline("b"))
	refused(t, connect.CodeAborted, f.pipelines.CreatePipeline, ask)
	f.ClearFaults()
	must(t, f.pipelines.CreatePipeline, ask)
}

func TestACallThatHangsEndsWithItsClientOrTheServer(t *testing.T) {
	g := NewWithT(t)
	f := start(t, fleetserver.Options{})
	f.Fail(fleetserver.Rule{Respond: fleetserver.Hang()})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	hang := func(ctx context.Context) {
		go func() {
			_, err := f.pipelines.ListPipelines(ctx, connect.NewRequest(aList))
			ended <- err
		}()
		f.Reset()
		g.Eventually(func() bool { return f.Count("ListPipelines") == 1 && f.Calls()[0].Request != nil }).Should(BeTrue())
		g.Expect(ended).NotTo(Receive())
	}
	hang(ctx)
	cancel()
	g.Eventually(ended).Should(Receive(MatchError(context.Canceled)))
	hang(t.Context())
	f.Close()
	g.Eventually(ended).Should(Receive(HaveOccurred()))
}

func TestACallIsHeldUntilItIsReleased(t *testing.T) {
	g := NewWithT(t)
	f := start(t, fleetserver.Options{})
	release := make(chan struct{})
	f.Fail(fleetserver.Rule{Procedure: "CreatePipeline", AfterApplying: true, Respond: fleetserver.Hold(release)})
	ended := make(chan error, 1)
	go func() {
		_, err := call(t, f.pipelines.CreatePipeline, &pipelinev1.CreatePipelineRequest{Pipeline: pipeline("logs")})
		ended <- err
	}()
	g.Eventually(func() *pipelinev1.Pipeline { return f.Pipeline("logs") }).ShouldNot(BeNil())
	g.Expect(ended).NotTo(Receive())
	close(release)
	g.Eventually(ended).Should(Receive(BeNil()))
}

func TestTheJournalTellsWhatWasAsked(t *testing.T) {
	g := NewWithT(t)
	f := start(t, fleetserver.Options{})
	create(t, f, pipeline("logs"))
	f.clock.SetTime(noon.Add(time.Hour))
	refused(t, connect.CodeNotFound, f.collectors.GetCollector, &collectorv1.GetCollectorRequest{Id: "a"})
	f.PutPipeline(pipeline("by hand"))

	calls := f.Calls()
	g.Expect(calls).To(HaveLen(2))
	g.Expect(calls[0].Procedure).To(Equal("CreatePipeline"))
	g.Expect(calls[0].Status).To(Equal(http.StatusOK))
	g.Expect(calls[0].Request.(*pipelinev1.CreatePipelineRequest).GetPipeline().GetName()).To(Equal("logs"))
	g.Expect(calls[0].Request.(*pipelinev1.CreatePipelineRequest).GetPipeline().Id).To(BeNil(), "the server's answer is not the request")
	g.Expect(calls[0].Header).NotTo(HaveKey("Authorization"))
	g.Expect(calls[1].At).To(Equal(noon.Add(time.Hour)))
	g.Expect(calls[1].Status).To(Equal(http.StatusNotFound))
	g.Expect(f.Count("CreatePipeline", "GetCollector")).To(Equal(2))
	f.Reset()
	g.Expect(f.Calls()).To(BeEmpty())
	g.Expect(func() { f.Count("CreatePipelines") }).To(PanicWith(ContainSubstring(`"CreatePipelines"`)))
	g.Expect(func() { f.Fail(fleetserver.Rule{Procedure: "Create", Respond: fleetserver.Drop()}) }).To(Panic())
	g.Expect(func() { f.Fail(fleetserver.Rule{}) }).To(Panic())
}

func TestTheCertificateIsNotTrustedWithoutItsCA(t *testing.T) {
	f := start(t, fleetserver.Options{})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL(), http.NoBody)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	_, err = (&http.Client{}).Do(request) //nolint:bodyclose // there is none
	var unknown *tls.CertificateVerificationError
	NewWithT(t).Expect(errors.As(err, &unknown)).To(BeTrue(), "%v", err)
}
