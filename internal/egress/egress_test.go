// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/internal/netguard"
)

// maxBody is that of the clients of these tests.
const maxBody = 1 << 20

func administrator(t *testing.T, options netguard.Options) *netguard.Guard {
	t.Helper()
	guard, err := netguard.New(netguard.Administrator, options)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return guard
}

// clientOf fills in what a test does not say.
func clientOf(t *testing.T, options Options) *http.Client {
	t.Helper()
	if options.Guard == nil {
		options.Guard = administrator(t, netguard.Options{})
	}
	options.MaxBody = maxBody
	client, err := NewClient(options)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(client.CloseIdleConnections)
	return client
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

func cleartext(s *httptest.Server) { s.Start() }
func overTLS(s *httptest.Server) {
	s.EnableHTTP2 = true
	s.StartTLS()
}

func hello(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello over "+r.Proto) }

// post sends a request, reads the whole answer, and returns the cause of a failure as callers show it: without the
// address that http.Client puts before it.
func post(ctx context.Context, client *http.Client, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader("{}"))
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return "", wrapped.Err
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	return string(read), err
}

// bundleOf returns the certificate of a server; nothing when it has none.
func bundleOf(s *httptest.Server) []byte {
	if s.Certificate() == nil {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func TestTheClientNeedsAGuardAndABound(t *testing.T) {
	_, err := NewClient(Options{MaxBody: 1})
	NewWithT(t).Expect(err).To(MatchError("Options.Guard is required"))
	_, err = NewClient(Options{Guard: administrator(t, netguard.Options{})})
	NewWithT(t).Expect(err).To(MatchError("Options.MaxBody must be positive"))
}

func TestACABundleIsReadWhole(t *testing.T) {
	good := string(bundleOf(serve(t, overTLS, hello)))
	damaged := strings.Replace(good, "\n", "\n!", 1)
	other := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("no certificate")}))
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")}))
	for name, test := range map[string]struct{ bundle, want string }{
		"none":                              {"", ""},
		"one":                               {good, ""},
		"two with comments":                 {"# first\n" + good + "\n# second\n" + good + "# end\n", ""},
		"words":                             {"no certificate", "CABundle: holds no certificate in PEM"},
		"only blanks":                       {"\n", "CABundle: holds no certificate in PEM"},
		"one that ends early":               {good[:len(good)/2], "CABundle: holds 0 whole certificates of 1 that begin"},
		"a damaged one before a whole one":  {damaged + good, "CABundle: holds 1 whole certificates of 2 that begin"},
		"one that ends early after a whole": {good + good[:len(good)/2], "CABundle: holds 1 whole certificates of 2 that begin"},
		"PEM around something else":         {good + other, "CABundle: certificate 2 cannot be read: "},
		"a private key":                     {good + key, `CABundle: block 2 is a "PRIVATE KEY": only certificates belong there`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewClient(Options{Guard: administrator(t, netguard.Options{}), CABundle: []byte(test.bundle), MaxBody: maxBody})
			if test.want == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.want)))
		})
	}
}

func TestAPrivateCAIsTrustedOnlyWithItsBundle(t *testing.T) {
	g := NewWithT(t)
	server := serve(t, overTLS, hello)

	_, err := post(t.Context(), clientOf(t, Options{}), server.URL)
	g.Expect(err).To(MatchError(ContainSubstring("certificate signed by unknown authority")))

	answer, err := post(t.Context(), clientOf(t, Options{CABundle: bundleOf(server)}), server.URL)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(answer).To(Equal("hello over HTTP/2.0"))
}

func TestAServerOfOldTLSIsRefused(t *testing.T) {
	for version, accepted := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			g := NewWithT(t)
			server := serve(t, func(s *httptest.Server) {
				s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: version}
				s.StartTLS()
			}, hello)
			_, err := post(t.Context(), clientOf(t, Options{CABundle: bundleOf(server)}), server.URL)
			if accepted {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring("protocol version")))
		})
	}
}

func TestNoRedirectIsFollowed(t *testing.T) {
	for name, test := range map[string]struct {
		status         int
		location, want string
	}{
		"to another server":       {301, "https://elsewhere.example/v1", `answers 301 and points to "https://elsewhere.example/v1"; set the base URL`},
		"that keeps the method":   {307, "https://elsewhere.example/v1", `answers 307 and points to "https://elsewhere.example/v1"; set the base URL`},
		"to where it came from":   {308, "/v1/", "/v1/\"; set the base URL"},
		"with secrets":            {302, "https://user:hunter2@elsewhere.example/?sig=hunter2#hunter2", `points to "https://elsewhere.example/";`},
		"to nowhere":              {302, "", "answers 302; set the base URL"},
		"to what is no address":   {302, "http://hunter2:hunter2%zz/", "answers 302; set the base URL"},
		"to choose from":          {300, "", "answers 300; set the base URL"},
		"as if we had the answer": {304, "", "answers 304; set the base URL"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			requests := 0
			server := serve(t, cleartext, func(w http.ResponseWriter, _ *http.Request) {
				requests++
				if test.location != "" {
					w.Header().Set("Location", test.location)
				}
				w.WriteHeader(test.status)
			})
			_, err := post(t.Context(), clientOf(t, Options{}), server.URL)
			g.Expect(err).To(MatchError(ErrRedirect))
			g.Expect(err).To(MatchError(ContainSubstring(test.want)))
			g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"))
			g.Expect(requests).To(Equal(1))
		})
	}
}

func TestABodyIsCutOffWithAnError(t *testing.T) {
	zipped := func(size int) []byte {
		var buffer bytes.Buffer
		writer := gzip.NewWriter(&buffer)
		_, _ = writer.Write(make([]byte, size))
		_ = writer.Close()
		return buffer.Bytes()
	}
	for name, test := range map[string]struct {
		body    []byte
		gzip    bool
		tooLong bool
	}{
		"of just 1 MiB":                 {body: make([]byte, maxBody)},
		"of one byte more":              {body: make([]byte, maxBody+1), tooLong: true},
		"of 10 MiB":                     {body: make([]byte, 10<<20), tooLong: true},
		"of 10 MiB that came as 10 KiB": {body: zipped(10 << 20), gzip: true, tooLong: true},
		"of 1 MiB that came as 1 KiB":   {body: zipped(maxBody), gzip: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := serve(t, cleartext, func(w http.ResponseWriter, _ *http.Request) {
				if test.gzip {
					w.Header().Set("Content-Encoding", "gzip")
				}
				_, _ = w.Write(test.body)
			})
			answer, err := post(t.Context(), clientOf(t, Options{}), server.URL)
			g.Expect(answer).To(HaveLen(maxBody))
			if test.tooLong {
				g.Expect(err).To(MatchError(ErrBodyTooLarge))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}

func TestABodyThatIsTooLargeStaysSo(t *testing.T) {
	g := NewWithT(t)
	server := serve(t, cleartext, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxBody+1)) })
	response, err := clientOf(t, Options{}).Get(server.URL)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	for range 2 {
		_, err = io.ReadAll(response.Body)
		g.Expect(err).To(MatchError(ErrBodyTooLarge))
	}
}

func TestHeadersAreBounded(t *testing.T) {
	server := serve(t, cleartext, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 2*maxHeader))
	})
	_, err := post(t.Context(), clientOf(t, Options{}), server.URL)
	NewWithT(t).Expect(err).To(HaveOccurred())
}

func TestTheEndOfTheContextEndsTheCall(t *testing.T) {
	for protocol, start := range map[string]func(*httptest.Server){"HTTP/1.1": cleartext, "HTTP/2": overTLS} {
		t.Run("while the server says nothing over "+protocol, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			server := serve(t, start, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.ReadAll(r.Body)
				end()
				<-r.Context().Done()
			})
			_, err := post(ctx, clientOf(t, Options{CABundle: bundleOf(server)}), server.URL)
			NewWithT(t).Expect(err).To(MatchError(context.Canceled))
		})
		t.Run("while the body does not end over "+protocol, func(t *testing.T) {
			g := NewWithT(t)
			ctx, end := context.WithCancel(t.Context())
			server := serve(t, start, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, "{")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, http.NoBody)
			g.Expect(err).NotTo(HaveOccurred())
			response, err := clientOf(t, Options{CABundle: bundleOf(server)}).Do(request)
			g.Expect(err).NotTo(HaveOccurred())
			end()
			_, err = io.ReadAll(response.Body)
			g.Expect(err).To(MatchError(context.Canceled))
			g.Expect(response.Body.Close()).To(Succeed())
		})
	}
}

func TestAProxyIsUsedAndDialledThroughTheGuard(t *testing.T) {
	g := NewWithT(t)
	var asked []string
	proxy := serve(t, cleartext, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		hello(w, r)
	})
	through := func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }

	_, err := post(t.Context(), clientOf(t, Options{Proxy: through}), "http://models.example/v1")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(asked).To(Equal([]string{"http://models.example/v1"}))

	_, err = post(t.Context(), clientOf(t, Options{Proxy: through}), "http://169.254.169.254/latest")
	g.Expect(err).To(MatchError(netguard.ErrDisallowed), "the proxy would reach what we may not")

	denied := administrator(t, netguard.Options{Deny: []string{"127.0.0.0/8"}})
	_, err = post(t.Context(), clientOf(t, Options{Proxy: through, Guard: denied}), "http://models.example/v1")
	g.Expect(err).To(MatchError(netguard.ErrDisallowed), "the proxy itself is not allowed")
	g.Expect(asked).To(HaveLen(1))
}

func TestWithoutAProxyTheEnvironmentIsNotAsked(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	NewWithT(t).Expect(clientOf(t, Options{}).Transport.(*transport).next.Proxy).To(BeNil())
}

func TestErrorsHoldNothingSecret(t *testing.T) {
	gone := serve(t, cleartext, hello)
	gone.Close()
	brokenProxy := func(*http.Request) (*url.URL, error) {
		return nil, errors.New("invalid proxy address http://user:hunter2@proxy")
	}
	deadProxy := func(*http.Request) (*url.URL, error) {
		return url.Parse(strings.Replace(gone.URL, "http://", "http://user:hunter2@", 1))
	}
	for name, test := range map[string]struct {
		options Options
		address string
		want    string
	}{
		"a refused address":  {Options{}, "https://user:hunter2@169.254.169.254/?token=hunter2", "destination not allowed: 169.254.169.254 is in"},
		"a refused scheme":   {Options{}, "hunter2://user:hunter2@models.example/?token=hunter2", "begins with neither http:// nor https://"},
		"a dead server":      {Options{}, strings.Replace(gone.URL, "http://", "http://user:hunter2@", 1) + "/?token=hunter2", "connection refused"},
		"a proxy to nowhere": {Options{Proxy: brokenProxy}, "https://models.example/", "the address of the proxy cannot be read: check HTTPS_PROXY"},
		"a dead proxy":       {Options{Proxy: deadProxy}, "https://models.example/", "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := post(t.Context(), clientOf(t, test.options), test.address)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.want)))
			NewWithT(t).Expect(err.Error()).NotTo(ContainSubstring("hunter2"))
		})
	}
}

// resolverOf is a resolver without a network: it answers each question for an IPv4 address with the next of some.
func resolverOf(answers ...string) *net.Resolver {
	ask := make(chan netip.Addr, len(answers))
	for _, answer := range answers {
		ask <- netip.MustParseAddr(answer)
	}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go answerOne(server, ask)
		return client, nil
	}}
}

// answerOne speaks DNS over a stream: two bytes of length, then the message. It gives addresses of IPv4 only.
func answerOne(connection net.Conn, next <-chan netip.Addr) {
	defer func() { _ = connection.Close() }()
	var length [2]byte
	if _, err := io.ReadFull(connection, length[:]); err != nil {
		return
	}
	query := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(connection, query); err != nil {
		return
	}
	const header, ipv4 = 12, 1
	end := header + bytes.IndexByte(query[header:], 0) + 5
	question := query[header:end]
	message := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
	if binary.BigEndian.Uint16(question[len(question)-4:]) == ipv4 {
		message[7] = 1
		message = append(message, 0xc0, header, 0, ipv4, 0, 1, 0, 0, 0, 0, 0, 4)
		message = append(message, (<-next).AsSlice()...)
	}
	_, _ = connection.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...))
}

func TestANameIsJudgedByWhatItResolvesToAtEachDial(t *testing.T) {
	g := NewWithT(t)
	requests := 0
	server := serve(t, cleartext, func(w http.ResponseWriter, r *http.Request) {
		requests++
		hello(w, r)
	})
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	guard := administrator(t, netguard.Options{})
	dialer := guard.Dialer()
	dialer.Resolver = resolverOf("127.0.0.1", "169.254.169.254")
	client, err := newClient(Options{Guard: guard, MaxBody: maxBody}, dialer)
	g.Expect(err).NotTo(HaveOccurred())

	_, err = post(t.Context(), client, "http://rebinding.example.:"+port)
	g.Expect(err).NotTo(HaveOccurred())
	client.CloseIdleConnections()
	_, err = post(t.Context(), client, "http://rebinding.example.:"+port)
	g.Expect(err).To(MatchError(netguard.ErrDisallowed))
	g.Expect(err).To(MatchError(ContainSubstring("169.254.169.254")))
	g.Expect(requests).To(Equal(1))
}
