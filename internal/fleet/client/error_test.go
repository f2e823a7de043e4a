// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"compress/gzip"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/test/fakes/fleetserver"
)

// verdict is what a client makes of an answer.
type verdict struct {
	kind     fault.Kind
	reason   string
	after    time.Duration
	unclear  bool
	status   int
	code     string
	exists   bool
	mismatch bool
}

var (
	terminal = verdict{kind: fault.Terminal, reason: fleetmanagementv1alpha1.ReasonValidationError}
	denied   = verdict{kind: fault.Wait, reason: fleetmanagementv1alpha1.ReasonAuthFailed, after: time.Minute}
	gone     = verdict{kind: fault.NotFound, reason: fleetmanagementv1alpha1.ReasonSyncFailed}
	again    = verdict{kind: fault.Retry, reason: fleetmanagementv1alpha1.ReasonSyncFailed}
	astray   = verdict{kind: fault.Wait, reason: fleetmanagementv1alpha1.ReasonBaseURLWrong, after: time.Minute}
	limited  = verdict{kind: fault.Wait, reason: fleetmanagementv1alpha1.ReasonRateLimited, after: 10 * time.Second, unclear: true}
)

func (v verdict) told(status int, code string) verdict {
	v.status, v.code = status, code
	return v
}

func html(status int) fleetserver.Response {
	return fleetserver.PlainText(status, "<html><body>Welcome to nginx!</body></html>", map[string]string{"Content-Type": "text/html; charset=utf-8"})
}

func plain(status int) fleetserver.Response { return fleetserver.PlainText(status, "so it is", nil) }

func TestAnErrorSaysWhatToDoNext(t *testing.T) {
	exists := again.told(409, "already_exists")
	exists.exists = true
	aborted, precondition := again.told(409, "aborted"), again.told(400, "failed_precondition")
	aborted.mismatch, precondition.mismatch = true, true
	api := func(code connect.Code) fleetserver.Response { return fleetserver.ConnectError(code, "so it is") }
	proto := map[string]string{"Content-Type": "application/proto"}
	json := map[string]string{"Content-Type": "application/json"}
	for name, test := range map[string]struct {
		answer fleetserver.Response
		want   verdict
	}{
		"the API: invalid_argument":    {api(connect.CodeInvalidArgument), terminal.told(400, "invalid_argument")},
		"the API: out_of_range":        {api(connect.CodeOutOfRange), terminal.told(400, "out_of_range")},
		"the API: unauthenticated":     {api(connect.CodeUnauthenticated), denied.told(401, "unauthenticated")},
		"the API: permission_denied":   {api(connect.CodePermissionDenied), denied.told(403, "permission_denied")},
		"the API: not_found":           {api(connect.CodeNotFound), gone.told(404, "not_found")},
		"the API: already_exists":      {api(connect.CodeAlreadyExists), exists},
		"the API: aborted":             {api(connect.CodeAborted), aborted},
		"the API: failed_precondition": {api(connect.CodeFailedPrecondition), precondition},
		"the API: resource_exhausted":  {api(connect.CodeResourceExhausted), limited.told(429, "resource_exhausted")},
		"the API: canceled":            {api(connect.CodeCanceled), again.told(499, "canceled")},
		"the API: deadline_exceeded":   {api(connect.CodeDeadlineExceeded), again.told(504, "deadline_exceeded")},
		"the API: unknown":             {api(connect.CodeUnknown), again.told(500, "unknown")},
		"the API: internal":            {api(connect.CodeInternal), again.told(500, "internal")},
		"the API: unavailable":         {api(connect.CodeUnavailable), again.told(503, "unavailable")},
		"the API: data_loss":           {api(connect.CodeDataLoss), again.told(500, "data_loss")},
		"the API: unimplemented":       {api(connect.CodeUnimplemented), again.told(501, "unimplemented")},
		"the API finds a request too large, which is no reason to rest": {
			fleetserver.ConnectError(connect.CodeResourceExhausted, "message size 5 is larger than configured max 4"), terminal.told(429, "resource_exhausted"),
		},
		"the API without its code": {fleetserver.PlainText(404, `{"message":"no Route matched with those values"}`, json), astray.told(404, "")},
		"a code that nobody knows": {fleetserver.PlainText(404, `{"code":"not_there","message":"so it is"}`, json), astray.told(404, "")},
		"a number for a code":      {fleetserver.PlainText(404, `{"code":5,"message":"so it is"}`, json), astray.told(404, "")},

		"the edge: 400": {plain(400), terminal.told(400, "")},
		"the edge: 401": {plain(401), denied.told(401, "")},
		"the edge: 403": {plain(403), denied.told(403, "")},
		"the edge: 404": {plain(404), astray.told(404, "")},
		"the edge: 405": {plain(405), astray.told(405, "")},
		"the edge: 408": {plain(408), again.told(408, "")},
		"the edge: 409": {plain(409), again.told(409, "")},
		"the edge: 412": {plain(412), again.told(412, "")},
		"the edge: 413": {plain(413), terminal.told(413, "")},
		"the edge: 429": {plain(429), limited.told(429, "")},
		"the edge: 500": {plain(500), again.told(500, "")},
		"the edge: 502": {plain(502), again.told(502, "")},
		"the edge: 503": {plain(503), again.told(503, "")},
		"the edge: 504": {plain(504), again.told(504, "")},
		"a page: 200":   {html(200), astray.told(200, "")},
		"a page: 400":   {html(400), astray.told(400, "")},
		"a page: 401":   {html(401), denied.told(401, "")},
		"a page: 403":   {html(403), denied.told(403, "")},
		"a page: 404":   {html(404), astray.told(404, "")},
		"a page: 429":   {html(429), limited.told(429, "")},
		"a page: 502":   {html(502), again.told(502, "")},

		"plain text that is no answer":  {plain(200), astray.told(200, "")},
		"nothing that is no answer":     {fleetserver.PlainText(204, "", nil), astray.told(204, "")},
		"a redirect":                    {fleetserver.PlainText(308, "", map[string]string{"Location": "https://elsewhere.example/"}), astray},
		"what is no protobuf":           {fleetserver.PlainText(200, "\xff\xff\xff\xff", proto), again.told(200, "")},
		"JSON where protobuf was asked": {fleetserver.PlainText(200, "{}", json), again.told(200, "")},
		"less than was announced": {
			fleetserver.PlainText(200, "\x0a", map[string]string{"Content-Type": "application/proto", "Content-Length": "100"}), again.told(200, ""),
		},
		"a connection that ends": {fleetserver.Drop(), again},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newStand(t)
			s.server.Fail(fleetserver.Rule{Respond: test.answer})
			_, err := s.UpdatePipeline(t.Context(), client.Pipeline{ID: "1", Name: "p"})

			f, e := faultOf(t, err), errorOf(t, err)
			got := verdict{f.Kind, f.Reason, f.After, f.Unclear, e.Status, e.Code, errors.Is(err, client.ErrExists), errors.Is(err, client.ErrMismatch)}
			if test.want.unclear {
				g.Expect(got.after).To(And(BeNumerically(">=", 10*time.Second), BeNumerically("<", 12*time.Second)))
				g.Expect(e.RetryAfter).To(Equal(got.after))
				got.after = test.want.after
			}
			g.Expect(got).To(Equal(test.want))
			g.Expect(e.Procedure).To(Equal("UpdatePipeline"))
			g.Expect(err.Error()).To(HavePrefix("UpdatePipeline: "))
			g.Expect(err.Error()).NotTo(Or(ContainSubstring("<"), ContainSubstring("https://127")))
			g.Expect(s.server.Count()).To(Equal(1), "nothing is tried again by itself")
		})
	}
}

func TestAnErrorRepeatsTheServersWordsOnOneShortLine(t *testing.T) {
	for name, test := range map[string]struct{ said, want string }{
		"lines":              {"config:\n\tline 1, column 2\r\n\tis wrong", "UpsertPipeline: Fleet Management refuses it (400 Bad Request, invalid_argument): config: line 1, column 2 is wrong"},
		"nothing":            {"", "UpsertPipeline: Fleet Management refuses it (400 Bad Request, invalid_argument)"},
		"control characters": {"a\x1b[31mb\x00c", "UpsertPipeline: Fleet Management refuses it (400 Bad Request, invalid_argument): a [31mb c"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t)
			s.server.Fail(fleetserver.Rule{Respond: fleetserver.ConnectError(connect.CodeInvalidArgument, test.said)})
			err := s.ValidatePipeline(t.Context(), client.Pipeline{Name: "p"})
			NewWithT(t).Expect(err).To(MatchError(test.want))
		})
	}
	t.Run("a long text ends after 200 bytes, and not within a character", func(t *testing.T) {
		g := NewWithT(t)
		s := newStand(t)
		s.server.Fail(fleetserver.Rule{Respond: fleetserver.ConnectError(connect.CodeInvalidArgument, strings.Repeat("ä", 5000))})
		e := errorOf(t, s.ValidatePipeline(t.Context(), client.Pipeline{Name: "p"}))
		g.Expect(e.Message).To(Equal(strings.Repeat("ä", 98) + "…"))
	})
}

func TestAnErrorIsReadThroughCompression(t *testing.T) {
	g := NewWithT(t)
	url, ca := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusBadRequest)
		zipped := gzip.NewWriter(w)
		_, _ = zipped.Write([]byte(`{"code":"aborted","message":"so it is"}`))
		_ = zipped.Close()
	})
	err := list(t.Context(), standAt(t, url, httpClient(t, ca)).Client)
	g.Expect(err).To(MatchError(client.ErrMismatch))
	g.Expect(err).To(MatchError("ListPipelines: Fleet Management sees a conflict (400 Bad Request, aborted): so it is"))
}

func TestARefusedConnectionIsTriedAgain(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	s.server.Close()
	err := list(t.Context(), s.Client)
	f := faultOf(t, err)
	g.Expect(f.Kind).To(Equal(fault.Retry))
	g.Expect(err).To(MatchError(And(HavePrefix("ListPipelines: no usable answer of Fleet Management: dial tcp"), ContainSubstring("connection refused"))))
}

func TestACallThatIsGivenUpSaysSo(t *testing.T) {
	g := NewWithT(t)
	s := newStand(t)
	s.server.Fail(fleetserver.Rule{Respond: fleetserver.Hang()})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- list(ctx, s.Client) }()
	g.Eventually(func() int { return s.server.Count() }).Should(Equal(1))
	cancel()
	err := <-ended
	g.Expect(faultOf(t, err).Kind).To(Equal(fault.Retry))
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(err).To(MatchError("ListPipelines: no usable answer of Fleet Management: the call was given up"))

	err = list(ctx, s.Client)
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(err).To(MatchError("ListPipelines: no usable answer of Fleet Management: given up while waiting for its turn"))
	g.Expect(s.server.Count()).To(Equal(1), "what is given up before its turn is not sent")
}

// sender is a server without a network.
type sender func(*http.Request) (*http.Response, error)

func (s sender) RoundTrip(request *http.Request) (*http.Response, error) { return s(request) }

func TestACallHasThirtySecondsAndAListTwoMinutes(t *testing.T) {
	for name, test := range map[string]struct {
		call func(context.Context, *client.Client) error
		want time.Duration
	}{
		"a call": {func(ctx context.Context, c *client.Client) error { return c.DeletePipeline(ctx, "1") }, 30 * time.Second},
		"a list": {list, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				hang := sender(func(request *http.Request) (*http.Response, error) {
					<-request.Context().Done()
					return nil, request.Context().Err()
				})
				began := time.Now()
				s := standAt(t, "https://fleet.example", &http.Client{Transport: hang}, func(o *client.Options) { o.Clock = clock.RealClock{} })
				err := test.call(t.Context(), s.Client)
				g.Expect(faultOf(t, err).Kind).To(Equal(fault.Retry))
				g.Expect(err).To(MatchError(context.DeadlineExceeded))
				g.Expect(err).To(MatchError(HaveSuffix(": no usable answer of Fleet Management: no whole answer came in time")))
				g.Expect(time.Since(began)).To(Equal(test.want))
			})
		})
	}
}
