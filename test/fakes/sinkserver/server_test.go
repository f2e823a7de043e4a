// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package sinkserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/internal/signals/notify"
)

const (
	good     = `{"kind":"FindingCreated","namespace":"team-a","finding":"trivy-1","severity":"HIGH","summary":"s","key":"0123456789abcdef0123456789abcdef"}`
	goodKey  = "0123456789abcdef0123456789abcdef"
	signing  = "signing"
	password = "token-of-the-test"
)

func client(t *testing.T, s *Server) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	NewWithT(t).Expect(roots.AppendCertsFromPEM(s.CA())).To(BeTrue())
	return &http.Client{
		// On a connection that was used before, net/http sends a request with an Idempotency-Key again by itself.
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func post(t *testing.T, c *http.Client, address, body string, change ...func(http.Header)) (*http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	r.Header = notify.Request{ContentType: "application/json", Key: goodKey, Body: []byte(body)}.Headers([]byte(signing), time.Unix(1, 0))
	for _, ch := range change {
		ch(r.Header)
	}
	response, err := c.Do(r)
	if err == nil {
		_ = response.Body.Close()
	}
	return response, err
}

func TestItSaysWhatIsWrongWithARequest(t *testing.T) {
	s := Start(Options{SigningKey: signing, Token: password})
	defer s.Close()
	c := client(t, s)
	for name, test := range map[string]struct {
		address, body string
		change        func(http.Header)
		problem       string
	}{
		"a good one":         {s.URL(Legacy), good, nil, ""},
		"another body":       {s.URL(Legacy), good, func(h http.Header) { h.Set("X-Candor-Signature", "sha256=00") }, "the signature is wrong"},
		"another time":       {s.URL(Legacy), good, func(h http.Header) { h.Set("X-Candor-Timestamp", "2") }, "the signature is wrong"},
		"no token":           {strings.TrimSuffix(s.URL(Legacy), password), good, nil, "the token is wrong"},
		"no key":             {s.URL(Legacy), good, func(h http.Header) { h.Del("Idempotency-Key") }, `Idempotency-Key ""`},
		"another type":       {s.URL(Legacy), good, func(h http.Header) { h.Set("Content-Type", "text/plain") }, `content type "text/plain"`},
		"no JSON":            {s.URL(Webhook), "[", nil, "the body is no JSON: unexpected end of JSON input"},
		"no alert":           {s.URL(Alertmanager) + "x", `[]`, nil, "path /alertmanager"},
		"no block":           {s.URL(Slack), `{}`, nil, "no text, or 0 blocks"},
		"somebody mentioned": {s.URL(Slack), `{"text":"t","blocks":[{"type":"section","text":{"type":"mrkdwn","text":"<!channel>"}}]}`, nil, "a block mentions somebody"},
		"no form":            {s.URL("irc"), good, nil, "path /irc is that of no form"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var change []func(http.Header)
			if test.change != nil {
				change = append(change, test.change)
			}
			response, err := post(t, c, test.address, test.body, change...)
			g.Expect(err).NotTo(HaveOccurred())
			all := s.Requests()
			last := all[len(all)-1]
			if test.problem == "" {
				g.Expect(last.Problems).To(BeEmpty())
				g.Expect(response.StatusCode).To(Equal(http.StatusOK))
				return
			}
			g.Expect(last.Problems).To(ContainElement(test.problem))
			g.Expect(response.StatusCode).To(Equal(http.StatusBadRequest))
		})
	}
}

func TestItFailsOnDemand(t *testing.T) {
	g := NewWithT(t)
	s := Start(Options{})
	c := client(t, s)
	s.Queue(Status(500), RateLimited("7"), Redirect("https://example.com/"), Drop(), Hang())
	answers := func() (int, string) {
		response, err := post(t, c, s.URL(Legacy), good)
		if err != nil {
			return 0, ""
		}
		return response.StatusCode, response.Header.Get("Retry-After") + response.Header.Get("Location")
	}
	for _, want := range []struct {
		status int
		header string
	}{{500, ""}, {429, "7"}, {307, "https://example.com/"}, {0, ""}, {0, ""}, {200, ""}} {
		status, header := answers()
		g.Expect(status).To(Equal(want.status))
		g.Expect(header).To(Equal(want.header))
	}
	g.Expect(Keys(s.Requests(Legacy))).To(HaveLen(6), "all of them arrived")
	gate := NewGate()
	s.Queue(gate.Then(Good()))
	done := make(chan int, 1)
	go func() { status, _ := answers(); done <- status }()
	g.Eventually(gate.Arrived()).Should(Receive())
	gate.Open()
	g.Eventually(done).Should(Receive(Equal(200)))
	s.Close()
}
