// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llm_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/llm"
	"github.com/candor-dev/candor/internal/signals/llm/anthropic"
	"github.com/candor-dev/candor/internal/signals/llm/openai"
	"github.com/candor-dev/candor/test/fakes/llmserver"
)

const key = "sk-test-0123456789abcdef"

var (
	question = llm.Prompt{System: "Explain, and answer with JSON.", User: `{"lines":["CVE-2026-0001 openssl 3.0.1 3.0.2"]}`}
	settings = llm.Settings{Model: "some-model-5", MaxOutputTokens: 1024}
)

// backends are the two Backends, and how each is pointed at the fake.
var backends = map[string]func(*llmserver.Server, llm.Options) llm.Backend{
	"anthropic": func(s *llmserver.Server, o llm.Options) llm.Backend {
		o.BaseURL = s.AnthropicURL()
		return anthropic.New(o)
	},
	"openai": func(s *llmserver.Server, o llm.Options) llm.Backend {
		o.BaseURL = s.OpenAIURL()
		return openai.New(o)
	},
}

func options(client *http.Client) llm.Options {
	return llm.Options{Key: func() string { return key }, HTTP: client}
}

// deadline is a context whose deadline passes when the test says so.
type deadline struct {
	context.Context
	once   sync.Once
	passed chan struct{}
	err    error
}

func newDeadline(err error) *deadline {
	return &deadline{Context: context.Background(), passed: make(chan struct{}), err: err}
}

func (d *deadline) pass()                 { d.once.Do(func() { close(d.passed) }) }
func (d *deadline) Done() <-chan struct{} { return d.passed }
func (d *deadline) Err() error {
	select {
	case <-d.passed:
		return d.err
	default:
		return nil
	}
}

// onHeaders calls back when the headers of a response are there.
type onHeaders struct {
	http.RoundTripper
	then func()
}

func (o onHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := o.RoundTripper.RoundTrip(r)
	o.then()
	return response, err
}

const (
	answered = llm.Class("")
	one      = `{"hypotheses":[{"cause":"old image","rationale":"because","confidence":85,"recommendedAction":"Notify"}]}`
)

// row is one behaviour of a server, and what both backends make of it.
type row struct {
	behave llmserver.Behaviour
	class  llm.Class
	after  time.Duration
	billed bool
	// usage tells that the server said what the call used.
	usage bool
	// says is a part of the error's text.
	says string
	// decodes are the hypotheses in the answer; nil when it holds none.
	decodes []candorv1alpha1.Hypothesis
}

func hypothesis(cause string, confidence int32, action candorv1alpha1.Action) []candorv1alpha1.Hypothesis {
	return []candorv1alpha1.Hypothesis{{Cause: cause, Rationale: "because", Confidence: confidence, RecommendedAction: action}}
}

func says(text string) llmserver.Behaviour { return llmserver.Answer(text) }

func sends(status int, contentType, body string) llmserver.Behaviour {
	return llmserver.Raw(status, contentType, []byte(body))
}

func fails(status int, kind, code, message string) llmserver.Behaviour {
	return llmserver.Failure(status, kind, code, message)
}

func waiting(name, value string) llmserver.Behaviour {
	return llmserver.WithHeader("Date", "Mon, 30 Nov 2026 09:00:00 GMT", llmserver.WithHeader(name, value, llmserver.RateLimited("")))
}

const html = "<html><body>It works!</body></html>"

var conformance = map[string]row{
	"a good answer":                         {behave: says(one), usage: true, decodes: hypothesis("old image", 85, candorv1alpha1.ActionNotify)},
	"JSON in a fence":                       {behave: says("Sure:\n```json\n" + one + "\n```\n"), usage: true, decodes: hypothesis("old image", 85, candorv1alpha1.ActionNotify)},
	"invalid UTF-8":                         {behave: says(strings.Replace(one, "old image", "old \xff\xfe image", 1)), usage: true, decodes: hypothesis("old image", 85, candorv1alpha1.ActionNotify)},
	"a confidence that is a share":          {behave: says(strings.Replace(one, "85", "0.85", 1)), usage: true, decodes: hypothesis("old image", 85, candorv1alpha1.ActionNotify)},
	"an action that nobody knows":           {behave: says(strings.Replace(one, "Notify", "DeleteCluster", 1)), usage: true, decodes: hypothesis("old image", 85, candorv1alpha1.ActionNone)},
	"an empty list":                         {behave: says(`{"hypotheses":[]}`), usage: true},
	"prose without JSON":                    {behave: says("I think it is the image."), usage: true},
	"a truncated answer":                    {behave: llmserver.Truncated(), class: llm.Truncated, billed: true, usage: true, says: "model.maxOutputTokens"},
	"a refusal":                             {behave: llmserver.Refusal(), class: llm.Refused, billed: true, usage: true, says: "declined"},
	"400":                                   {behave: fails(400, "invalid_request_error", "", "that is wrong"), class: llm.ConfigInvalid, says: "400 Bad Request: that is wrong"},
	"400 that means an empty account":       {behave: fails(400, "invalid_request_error", "", "Your credit balance is too low to access the API."), class: llm.QuotaExhausted, says: "add credit"},
	"400 that means an unknown model":       {behave: fails(400, "invalid_request_error", "model_not_found", "no"), class: llm.ModelNotFound},
	"401":                                   {behave: fails(401, "authentication_error", "", "wrong key"), class: llm.AuthFailed, says: "check the key"},
	"402":                                   {behave: fails(402, "billing_error", "", "pay"), class: llm.QuotaExhausted},
	"403":                                   {behave: fails(403, "permission_error", "", "not you"), class: llm.AuthFailed},
	"404":                                   {behave: fails(404, "not_found_error", "", "model: some-model-5"), class: llm.ModelNotFound, says: "model.name and model.baseURL"},
	"404 without JSON":                      {behave: sends(404, "text/plain", "404 page not found"), class: llm.ModelNotFound, says: "404 Not Found;"},
	"404 whose error is a string":           {behave: sends(404, "application/json", `{"error":"no such model, pull it first"}`), class: llm.ModelNotFound, says: "pull it first"},
	"408":                                   {behave: fails(408, "timeout", "", "too slow"), class: llm.Unavailable},
	"409":                                   {behave: fails(409, "conflict_error", "", "again"), class: llm.Unavailable},
	"413":                                   {behave: fails(413, "request_too_large", "", "too large"), class: llm.ConfigInvalid},
	"422 with a detail":                     {behave: sends(422, "application/json", `{"detail":"unknown field"}`), class: llm.ConfigInvalid, says: "unknown field"},
	"429 with seconds":                      {behave: llmserver.RateLimited("7"), class: llm.RateLimited, after: 7 * time.Second},
	"429 with a date":                       {behave: waiting("Retry-After", "Mon, 30 Nov 2026 09:01:30 GMT"), class: llm.RateLimited, after: 90 * time.Second},
	"429 with a date in the past":           {behave: waiting("Retry-After", "Mon, 30 Nov 2026 08:00:00 GMT"), class: llm.RateLimited},
	"429 with milliseconds":                 {behave: waiting("Retry-After-Ms", "1500"), class: llm.RateLimited, after: 1500 * time.Millisecond},
	"429 with a day":                        {behave: llmserver.RateLimited("86400"), class: llm.RateLimited, after: time.Hour},
	"429 with a number without end":         {behave: llmserver.RateLimited("1e999"), class: llm.RateLimited, after: time.Hour},
	"429 with less than nothing":            {behave: llmserver.RateLimited("-5"), class: llm.RateLimited},
	"429 with a word":                       {behave: llmserver.RateLimited("soon"), class: llm.RateLimited},
	"429 without a wait":                    {behave: llmserver.RateLimited(""), class: llm.RateLimited},
	"429 that is a ceiling of spending":     {behave: fails(429, "rate_limit_error", "enforced_spend_limit_reached", "limit"), class: llm.QuotaExhausted},
	"an exhausted quota":                    {behave: llmserver.QuotaExhausted(), class: llm.QuotaExhausted, says: "raise the limit"},
	"500":                                   {behave: llmserver.Broken(), class: llm.Unavailable, billed: true},
	"502 with HTML":                         {behave: sends(502, "text/html", html), class: llm.Unavailable, billed: true, says: "502 Bad Gateway"},
	"503 with a wait":                       {behave: llmserver.WithHeader("Retry-After", "30", fails(503, "server_error", "", "busy")), class: llm.Unavailable, billed: true, after: 30 * time.Second},
	"529":                                   {behave: llmserver.Overloaded(), class: llm.Unavailable, billed: true},
	"a body of 10 MiB":                      {behave: llmserver.Huge(10 << 20), class: llm.TooLarge, billed: true},
	"401 with a body of 10 MiB":             {behave: sends(401, "application/json", strings.Repeat(" ", 10<<20)), class: llm.AuthFailed},
	"a redirect":                            {behave: llmserver.Redirect("http://elsewhere.invalid/"), class: llm.ConfigInvalid, says: "model.baseURL"},
	"a redirect to the same server":         {behave: llmserver.Redirect("/v1/messages"), class: llm.ConfigInvalid, says: "model.baseURL"},
	"HTML instead of JSON":                  {behave: sends(200, "text/html", html), class: llm.InvalidOutput, billed: true, says: "model.baseURL"},
	"HTML that calls itself JSON":           {behave: sends(200, "application/json", html), class: llm.InvalidOutput, billed: true},
	"JSON of another kind":                  {behave: sends(200, "application/json", `{"status":"ok"}`), class: llm.InvalidOutput, billed: true, says: "model.baseURL"},
	"null":                                  {behave: sends(200, "application/json", `null`), class: llm.InvalidOutput, billed: true},
	"a list":                                {behave: sends(200, "application/json", `[]`), class: llm.InvalidOutput, billed: true},
	"an empty body":                         {behave: sends(200, "application/json", ""), class: llm.InvalidOutput, billed: true},
	"no content":                            {behave: sends(204, "application/json", ""), class: llm.InvalidOutput, billed: true},
	"a connection that ends without a word": {behave: llmserver.Drop(), class: llm.Unavailable, billed: true},
}

func TestConformance(t *testing.T) {
	for backendName, connect := range backends {
		for name, test := range conformance {
			t.Run(backendName+" and "+name, func(t *testing.T) {
				g := NewWithT(t)
				server := llmserver.Start(llmserver.Options{Key: key})
				defer server.Close()
				server.Queue(test.behave)
				backend := connect(server, options(client(t)))
				body, err := backend.Render(question, settings)
				g.Expect(err).NotTo(HaveOccurred())

				reply, err := backend.Call(t.Context(), body)

				g.Expect(server.Stats().Calls).To(Equal(1), "a call is one request")
				g.Expect(server.Journal()[0].Body).To(Equal(body), "what is sent is what was rendered")
				if test.class == answered {
					g.Expect(err).NotTo(HaveOccurred())
					expectReply(g, reply, test, server.Stats())
					return
				}
				expectError(g, err, test, server.Stats())
				g.Expect(reply).To(BeZero())
			})
		}
	}
}

func expectReply(g Gomega, reply llm.Reply, test row, stats llmserver.Stats) {
	g.Expect(reply.Model).To(Equal(settings.Model))
	g.Expect(reply.RequestID).To(HavePrefix("req_"))
	g.Expect(reply.Usage).To(Equal(llm.Usage{InputTokens: stats.InputTokens, OutputTokens: stats.OutputTokens}))
	hypotheses, err := llm.Decode(reply.Text)
	g.Expect(hypotheses).To(Equal(test.decodes))
	if test.decodes == nil {
		expectError(g, err, row{class: llm.InvalidOutput, billed: true}, stats)
		return
	}
	g.Expect(err).NotTo(HaveOccurred())
}

func expectError(g Gomega, err error, test row, stats llmserver.Stats) {
	failure := (*llm.Error)(nil)
	g.Expect(errors.As(err, &failure)).To(BeTrue(), "%v", err)
	g.Expect(failure.Class).To(Equal(test.class), "%v", err)
	g.Expect(failure.After).To(Equal(test.after))
	g.Expect(failure.Billed).To(Equal(test.billed))
	g.Expect(failure.Error()).To(ContainSubstring(test.says))
	g.Expect(failure.Error()).NotTo(MatchRegexp(`[\x00-\x1f]|`+key[:9]+`|Post "http`), "one line, without the key and the URL")
	if test.usage {
		g.Expect(failure.Usage).To(HaveValue(Equal(llm.Usage{InputTokens: stats.InputTokens, OutputTokens: stats.OutputTokens})))
	} else {
		g.Expect(failure.Usage).To(BeNil())
	}
}

// What needs a hand on the connection while the call runs.
func TestConformanceInTime(t *testing.T) {
	for backendName, connect := range backends {
		for name, test := range map[string]struct {
			gate   bool // the call ends when the request has arrived
			behave llmserver.Behaviour
			cause  error
		}{
			"a server that hangs until the deadline":  {true, llmserver.Hang(), context.DeadlineExceeded},
			"a server that hangs until the end":       {true, llmserver.Hang(), context.Canceled},
			"a body that is slower than the deadline": {false, llmserver.Slow(nil), context.DeadlineExceeded},
			"a body that is slower than the end":      {false, llmserver.Slow(nil), context.Canceled},
		} {
			t.Run(backendName+" and "+name, func(t *testing.T) {
				g := NewWithT(t)
				server := llmserver.Start(llmserver.Options{Key: key})
				defer server.Close()
				ctx, gate, plain := newDeadline(test.cause), llmserver.NewGate(), client(t)
				gate.Open()
				server.Queue(gate.Then(test.behave))
				if test.gate {
					go func() {
						<-gate.Arrived()
						ctx.pass()
					}()
				} else {
					plain.Transport = onHeaders{plain.Transport, ctx.pass}
				}
				backend := connect(server, options(plain))
				body, err := backend.Render(question, settings)
				g.Expect(err).NotTo(HaveOccurred())

				_, err = backend.Call(ctx, body)

				g.Expect(server.Stats().Calls).To(Equal(1))
				expectError(g, err, row{class: llm.Timeout, billed: true}, server.Stats())
				g.Expect(err).To(MatchError(test.cause))
			})
		}
	}
}

func TestConformanceWhenNothingIsSent(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	gone := llmserver.Start(llmserver.Options{})
	gone.Close()
	unsigned := httptest.NewUnstartedServer(llmserver.New(llmserver.Options{}))
	unsigned.Config.ErrorLog = log.New(io.Discard, "", 0)
	unsigned.StartTLS()
	defer unsigned.Close()
	for backendName, connect := range backends {
		for name, test := range map[string]struct {
			ctx    context.Context
			change func(*llm.Options)
			row
		}{
			"a refused connection":             {t.Context(), func(*llm.Options) {}, row{class: llm.Unreachable, says: "connection refused"}},
			"a certificate that nobody signed": {t.Context(), func(o *llm.Options) { o.BaseURL = unsigned.URL }, row{class: llm.Unreachable, says: "certificate"}},
			"an address of cloud metadata":     {t.Context(), func(o *llm.Options) { o.BaseURL = "http://169.254.169.254/v1" }, row{class: llm.Unreachable, says: "169.254.169.254"}},
			"a context that is over":           {over, func(*llm.Options) {}, row{class: llm.Unreachable, says: "nothing was sent"}},
			"a key of two lines":               {t.Context(), func(o *llm.Options) { o.Key = func() string { return key + "\n" + key } }, row{class: llm.AuthFailed, says: "store it again"}},
			"a key that is no ASCII":           {t.Context(), func(o *llm.Options) { o.Key = func() string { return key + "é" } }, row{class: llm.AuthFailed, says: "store it again"}},
			"an address without a scheme":      {t.Context(), func(o *llm.Options) { o.BaseURL = "user:pass@example.com/" + key }, row{class: llm.ConfigInvalid, says: "model.baseURL"}},
			"an address of another kind":       {t.Context(), func(o *llm.Options) { o.BaseURL = "ftp://example.com" }, row{class: llm.ConfigInvalid, says: "model.baseURL"}},
		} {
			t.Run(backendName+" and "+name, func(t *testing.T) {
				g := NewWithT(t)
				given := options(client(t))
				test.change(&given)
				backend := connect(gone, given)
				if given.BaseURL != "" {
					backend = map[string]llm.Backend{"anthropic": anthropic.New(given), "openai": openai.New(given)}[backendName]
				}
				body, err := backend.Render(question, settings)
				g.Expect(err).NotTo(HaveOccurred())
				_, err = backend.Call(test.ctx, body)
				expectError(g, err, test.row, llmserver.Stats{})
				g.Expect(gone.Stats().Calls).To(BeZero())
			})
		}
	}
}
