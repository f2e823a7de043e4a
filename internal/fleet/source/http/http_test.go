// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package http

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/source"
	"github.com/candor-dev/candor/internal/netguard"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func guard(t *testing.T, allow ...string) *netguard.Guard {
	t.Helper()
	g, err := netguard.New(netguard.Tenant, netguard.Options{Allow: allow, Setting: "--external-source-allow-cidrs"})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return g
}

func options(t *testing.T, allow ...string) Options {
	t.Helper()
	return Options{Guard: guard(t, allow...), Clock: clocktesting.NewFakePassiveClock(now)}
}

// serve starts a server that logs nothing.
func serve(t *testing.T, start func(*httptest.Server), handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	start(server)
	t.Cleanup(server.Close)
	return server
}

// spec describes the source that a server of a test is.
func spec(server *httptest.Server, path string) *fleetmanagementv1alpha1.HTTPSource {
	s := &fleetmanagementv1alpha1.HTTPSource{URL: server.URL, Method: fleetmanagementv1alpha1.MethodGet, RecordsPath: path}
	if certificate := server.Certificate(); certificate != nil {
		s.CABundle = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}))
	}
	return s
}

func sourceOf(t *testing.T, spec *fleetmanagementv1alpha1.HTTPSource, secret map[string][]byte) *Source {
	t.Helper()
	s, err := New(options(t, "127.0.0.0/8"), spec, secret)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// answering is a source whose server always answers the same.
func answering(t *testing.T, path, body string) *Source {
	t.Helper()
	return sourceOf(t, spec(serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }), path), nil)
}

func secretOf(pairs ...string) map[string][]byte {
	secret := map[string][]byte{}
	for i := 0; i < len(pairs); i += 2 {
		secret[pairs[i]] = []byte(pairs[i+1])
	}
	return secret
}

func faultOf(t *testing.T, err error) *fault.Fault {
	t.Helper()
	var f *fault.Fault
	NewWithT(t).Expect(errors.As(err, &f)).To(BeTrue(), "%v", err)
	return f
}

func TestCredentialsAreSent(t *testing.T) {
	basic := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	for name, test := range map[string]struct {
		secret map[string][]byte
		want   string
	}{
		"none":                              {nil, ""},
		"a token":                           {secretOf("bearer-token", "abc.def"), "Bearer abc.def"},
		"a token of a file":                 {secretOf("bearer-token", "abc\n"), "Bearer abc"},
		"a user":                            {secretOf("username", "u", "password", "p: ß"), basic("u", "p: ß")},
		"a user of files":                   {secretOf("username", "u\n", "password", "p\r\n"), basic("u", "p")},
		"a token, which wins over a user":   {secretOf("username", "u", "password", "p", "bearer-token", "abc"), "Bearer abc"},
		"a user where the token is a blank": {secretOf("username", "u", "password", "p", "bearer-token", " "), basic("u", "p")},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var got http.Header
			server := serve(t, (*httptest.Server).StartTLS, func(w http.ResponseWriter, r *http.Request) {
				got = r.Header
				_, _ = io.WriteString(w, "[]")
			})
			_, err := sourceOf(t, spec(server, ""), test.secret).Fetch(t.Context(), "")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.Get("Authorization")).To(Equal(test.want))
			g.Expect(got.Get("Accept")).To(Equal("application/json"))
			g.Expect(got.Get("User-Agent")).To(Equal("candor"))
		})
	}
}

func TestAnAnswerIsBounded(t *testing.T) {
	record := `{"a":"` + strings.Repeat("x", 1018) + `"},`
	body := "[" + strings.Repeat(record, maxAnswer/1024) + "{}]"
	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(writer, body)
	_ = writer.Close()
	for name, encoding := range map[string]string{"as it is": "", "after decompression": "gzip"} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ *http.Request) {
				if encoding == "" {
					_, _ = io.WriteString(w, body)
					return
				}
				w.Header().Set("Content-Encoding", encoding)
				_, _ = w.Write(zipped.Bytes())
			})
			_, err := sourceOf(t, spec(server, ""), nil).Fetch(t.Context(), "")
			NewWithT(t).Expect(err).To(MatchError("the answer cannot be read: the answer is too large: it has more than 10485760 bytes"))
		})
	}
}

func TestAFetchTakesOnlySoLong(t *testing.T) {
	for name, begin := range map[string]string{"before the answer": "", "in the middle of it": `[{"id": 1},`} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
				if begin != "" {
					_, _ = io.WriteString(w, begin)
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
			})
			s := sourceOf(t, spec(server, ""), nil)
			s.timeout = 100 * time.Millisecond
			_, err := s.Fetch(t.Context(), "")
			NewWithT(t).Expect(err).To(MatchError(HaveSuffix("it takes too long")))
		})
	}
	t.Run("as long as who asks wants to wait", func(t *testing.T) {
		g := NewWithT(t)
		ctx, cancel := context.WithCancel(t.Context())
		server := serve(t, (*httptest.Server).Start, func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		})
		_, err := sourceOf(t, spec(server, ""), nil).Fetch(ctx, "")
		g.Expect(err).To(MatchError(context.Canceled))
	})
}

func TestWhatIsKnownIsNotSentAgain(t *testing.T) {
	for name, header := range map[string]http.Header{
		"with an entity tag": {"Etag": {`W/"abc"`}},
		"with a date":        {"Last-Modified": {"Sun, 01 Mar 2026 12:00:00 GMT"}},
		"with both":          {"Etag": {`"abc"`}, "Last-Modified": {"Sun, 01 Mar 2026 12:00:00 GMT"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var asked http.Header
			server := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
				asked = r.Header
				for key, values := range header {
					w.Header()[key] = values
				}
				if r.Header.Get("If-None-Match") == header.Get("ETag") && r.Header.Get("If-Modified-Since") == header.Get("Last-Modified") {
					w.WriteHeader(http.StatusNotModified)
					return
				}
				_, _ = io.WriteString(w, "[{}]")
			})
			s := sourceOf(t, spec(server, ""), nil)
			first, err := s.Fetch(t.Context(), "")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(first.Records).To(HaveLen(1))
			g.Expect(first.Version).NotTo(BeEmpty())
			g.Expect(asked).NotTo(Or(HaveKey("If-None-Match"), HaveKey("If-Modified-Since")))

			second, err := s.Fetch(t.Context(), first.Version)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(second).To(Equal(source.Result{Version: first.Version, Unchanged: true}))

			other := spec(server, "")
			other.URL += "/other"
			third, err := sourceOf(t, other, nil).Fetch(t.Context(), first.Version)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(third.Unchanged).To(BeFalse(), "the version of another source means nothing")
		})
	}
}

func TestAnAnswerWithoutAVersionHasNone(t *testing.T) {
	g := NewWithT(t)
	result, err := answering(t, "", "[{}]").Fetch(t.Context(), "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Version).To(BeEmpty())
	server := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	_, err = sourceOf(t, spec(server, ""), nil).Fetch(t.Context(), "")
	g.Expect(err).To(MatchError(HavePrefix("the server cannot be asked: the server redirects")), "nobody asked whether something changed")
}

func TestAPostHasNoBodyAndNoVersion(t *testing.T) {
	g := NewWithT(t)
	var got string
	server := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.Method + string(body) + r.Header.Get("If-None-Match")
		w.Header().Set("ETag", `"abc"`)
		_, _ = io.WriteString(w, "[{}]")
	})
	post := spec(server, "")
	post.Method = fleetmanagementv1alpha1.MethodPost
	result, err := sourceOf(t, post, nil).Fetch(t.Context(), "x\n\"abc\"\n")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Version).To(BeEmpty())
	g.Expect(got).To(Equal("POST"))
}

func TestAServerThatRefusesIsToldInItsWords(t *testing.T) {
	for name, test := range map[string]struct {
		status      int
		after, body string
		kind        fault.Kind
		wait        time.Duration
		want        string
	}{
		"401":                             {401, "", "who are you?", fault.Retry, 0, "the server answers 401 Unauthorized: who are you?"},
		"404 without words":               {404, "", "", fault.Retry, 0, "the server answers 404 Not Found"},
		"a status that nobody knows":      {599, "", "", fault.Retry, 0, "the server answers 599"},
		"many words":                      {500, "", strings.Repeat("word\n", 100), fault.Retry, 0, "the server answers 500 Internal Server Error: " + strings.Repeat("word ", 39) + "wo…"},
		"429 with seconds":                {429, "7", "", fault.Wait, 7 * time.Second, "the server answers 429 Too Many Requests"},
		"503 with a date":                 {503, "Sun, 01 Mar 2026 12:02:00 GMT", "", fault.Wait, 2 * time.Minute, "the server answers 503 Service Unavailable"},
		"429 with a wait of a day":        {429, "86400", "", fault.Wait, time.Hour, "the server answers 429 Too Many Requests"},
		"429 with a date that has passed": {429, "Sun, 01 Mar 2026 11:00:00 GMT", "", fault.Retry, 0, "the server answers 429 Too Many Requests"},
		"429 without a word":              {429, "", "", fault.Retry, 0, "the server answers 429 Too Many Requests"},
		"500 with seconds":                {500, "7", "", fault.Retry, 0, "the server answers 500 Internal Server Error"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ *http.Request) {
				if test.after != "" {
					w.Header().Set("Retry-After", test.after)
				}
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})
			_, err := sourceOf(t, spec(server, ""), nil).Fetch(t.Context(), "")
			g.Expect(err).To(MatchError(test.want))
			f := faultOf(t, err)
			g.Expect(f.Kind).To(Equal(test.kind))
			g.Expect(f.After).To(Equal(test.wait))
			g.Expect(f.Reason).To(Equal("SourceFailed"))
		})
	}
}

func TestNothingSecretIsInAnError(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, password, _ := r.BasicAuth()
		_, _ = fmt.Fprintf(w, "%s %s %s %s %s", r.URL, r.Header.Get("Authorization"), r.URL.Query().Get("sig"), password, r.URL.RawQuery)
	}
	handlers := map[string]http.HandlerFunc{
		"a server that repeats the request": echo,
		"a server that sends it elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://hunter2:hunter2@10.0.0.1/?hunter2="+r.URL.RawQuery, http.StatusFound)
		},
		"a server that answers with it": func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.RawQuery) },
		"a server that hangs up":        func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	for name, handler := range handlers {
		for kind, secret := range map[string]map[string][]byte{
			"a token": secretOf("bearer-token", "hunter2"), "a user": secretOf("username", "u", "password", "hunter2"), "a user with a long password": secretOf("username", "u", "password", "x-hunter2-ß"),
		} {
			t.Run(name+" with "+kind, func(t *testing.T) {
				g := NewWithT(t)
				asked := spec(serve(t, (*httptest.Server).StartTLS, handler), "")
				asked.URL += "/api?sig=%20hunter2%2B&hunter2"
				_, err := sourceOf(t, asked, secret).Fetch(t.Context(), "")
				g.Expect(err).To(HaveOccurred())
				g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"))
				g.Expect(err.Error()).NotTo(ContainSubstring(base64.StdEncoding.EncodeToString([]byte("u:hunter2"))))
			})
		}
	}
	t.Run("a server that is not there", func(t *testing.T) {
		server := serve(t, (*httptest.Server).StartTLS, echo)
		asked := spec(server, "")
		server.Close()
		asked.URL += "/hunter2?hunter2"
		_, err := sourceOf(t, asked, secretOf("bearer-token", "hunter2")).Fetch(t.Context(), "")
		NewWithT(t).Expect(err).To(MatchError("the server cannot be asked: connection refused"))
	})
	t.Run("a server of a certificate that nobody trusts", func(t *testing.T) {
		asked := spec(serve(t, (*httptest.Server).StartTLS, echo), "")
		asked.CABundle = ""
		_, err := sourceOf(t, asked, secretOf("bearer-token", "hunter2")).Fetch(t.Context(), "")
		NewWithT(t).Expect(err).To(MatchError("the server cannot be asked: the certificate of the server is not trusted: x509: certificate signed by unknown authority"))
	})
	t.Run("a server that speaks no TLS", func(t *testing.T) {
		asked := spec(serve(t, (*httptest.Server).Start, echo), "")
		asked.URL = strings.Replace(asked.URL, "http://", "https://", 1)
		_, err := sourceOf(t, asked, secretOf("bearer-token", "hunter2")).Fetch(t.Context(), "")
		NewWithT(t).Expect(err).To(MatchError("the server cannot be asked: the server does not speak TLS"))
	})
}
