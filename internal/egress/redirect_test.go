// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/internal/netguard"
)

// get asks with headers, and returns the answer's body, or the cause of a failure.
func get(ctx context.Context, client *http.Client, method, address string, header http.Header) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, http.NoBody)
	if err != nil {
		return "", err
	}
	request.Header = header.Clone()
	response, err := client.Do(request)
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return "", wrapped.Err
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	return response.Status + ": " + string(read), err
}

var secrets = http.Header{
	"Authorization": {"Bearer hunter2"}, "Cookie": {"session=hunter2"}, "X-Api-Key": {"hunter2"}, "Accept": {"application/json"},
	"If-None-Match": {`"1"`}, "User-Agent": {"candor"},
}

// seen answers with what came of the request that a server gets last.
func seen(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, r.Method)
	for _, name := range []string{"Authorization", "Cookie", "X-Api-Key", "Accept", "If-None-Match", "User-Agent", "Referer"} {
		if value := r.Header.Get(name); value != "" {
			_, _ = io.WriteString(w, " "+name)
		}
	}
}

const (
	all      = "200 OK: GET Authorization Cookie X-Api-Key Accept If-None-Match User-Agent"
	stripped = "200 OK: GET Accept If-None-Match User-Agent"
)

func TestAT22CredentialsGoToNoOtherOrigin(t *testing.T) {
	other := serve(t, cleartext, seen)
	secure := serve(t, overTLS, seen)
	var first *httptest.Server
	first = serve(t, cleartext, func(w http.ResponseWriter, r *http.Request) {
		localhost := strings.Replace(first.URL, "127.0.0.1", "localhost", 1)
		switch r.URL.Path {
		case "/seen":
			seen(w, r)
		case "/same":
			http.Redirect(w, r, "/seen", http.StatusFound)
		case "/port":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/host":
			http.Redirect(w, r, localhost+"/seen", http.StatusTemporaryRedirect)
		case "/scheme":
			http.Redirect(w, r, secure.URL, http.StatusMovedPermanently)
		case "/back":
			http.Redirect(w, r, localhost+"/home", http.StatusPermanentRedirect)
		case "/home":
			http.Redirect(w, r, first.URL+"/seen", http.StatusSeeOther)
		case "/userinfo":
			w.Header().Set("Location", strings.Replace(first.URL, "http://", "http://somebody:else@", 1)+"/seen#fragment")
			w.WriteHeader(http.StatusFound)
		}
	})
	client := clientOf(t, Options{MaxRedirects: 3, CABundle: bundleOf(secure)})
	for name, test := range map[string]struct{ path, want string }{
		"the same origin":               {"/same", all},
		"another port":                  {"/port", stripped},
		"another host":                  {"/host", stripped},
		"another scheme":                {"/scheme", stripped},
		"another host and back":         {"/back", stripped},
		"the same origin with userinfo": {"/userinfo", all},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			answer, err := get(t.Context(), client, http.MethodGet, first.URL+test.path, secrets)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(answer).To(Equal(test.want))
		})
	}
}

func TestAT22NoRedirectLeavesHTTPS(t *testing.T) {
	g := NewWithT(t)
	requests := 0
	plain := serve(t, cleartext, func(http.ResponseWriter, *http.Request) { requests++ })
	secure := serve(t, overTLS, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL+"/?token=hunter2", http.StatusFound)
	})
	_, err := get(t.Context(), clientOf(t, Options{MaxRedirects: 3, CABundle: bundleOf(secure)}), http.MethodGet, secure.URL, secrets)
	g.Expect(err).To(MatchError(ErrRedirect))
	g.Expect(err).To(MatchError(HaveSuffix(`answers 302 and points to "` + plain.URL + `/"; it would leave https`)))
	g.Expect(requests).To(BeZero())
}

func TestAT22RedirectsAreFollowedUpToABound(t *testing.T) {
	requests := 0
	server := serve(t, cleartext, func(w http.ResponseWriter, r *http.Request) {
		requests++
		if rest := strings.TrimPrefix(r.URL.Path, "/"); rest != "" {
			http.Redirect(w, r, "/"+rest[1:], http.StatusFound)
			return
		}
		hello(w, r)
	})
	client := clientOf(t, Options{MaxRedirects: 3})
	for path, want := range map[string]string{
		"/":     "200 OK: hello over HTTP/1.1",
		"/1":    "200 OK: hello over HTTP/1.1",
		"/123":  "200 OK: hello over HTTP/1.1",
		"/1234": "",
	} {
		t.Run(path, func(t *testing.T) {
			g := NewWithT(t)
			requests = 0
			answer, err := get(t.Context(), client, http.MethodGet, server.URL+path, nil)
			g.Expect(answer).To(Equal(want))
			if want == "" {
				g.Expect(err).To(MatchError(ContainSubstring("that is more than 3 redirects in a row")))
				g.Expect(requests).To(Equal(4))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(requests).To(Equal(len(path)))
		})
	}
}

func TestAT22EachRedirectIsJudged(t *testing.T) {
	for name, test := range map[string]struct{ location, want string }{
		"to the metadata of a cloud": {"http://169.254.169.254/latest/meta-data?hunter2", "169.254.169.254 is in"},
		"to a name of such":          {"http://metadata.google.internal/", "metadata.google.internal, which is 169.254.169.254, is in"},
		"to another language":        {"gopher://127.0.0.1/hunter2", "begins with neither http:// nor https://"},
		"to a file":                  {"file:///etc/hunter2", "begins with neither http:// nor https://"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := serve(t, cleartext, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", test.location)
				w.WriteHeader(http.StatusFound)
			})
			_, err := get(t.Context(), clientOf(t, Options{MaxRedirects: 3}), http.MethodGet, server.URL, nil)
			g.Expect(err).To(MatchError(netguard.ErrDisallowed))
			g.Expect(err).To(MatchError(ContainSubstring(test.want)))
			g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"))
		})
	}
}

func TestAT22ADNSAnswerThatChangesIsJudgedAgain(t *testing.T) {
	g := NewWithT(t)
	requests := 0
	var server *httptest.Server
	server = serve(t, cleartext, func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.Header().Set("Connection", "close")
		w.Header().Set("Location", "http://rebinding.example.:"+portOf(server))
		w.WriteHeader(http.StatusFound)
	})
	guard, err := netguard.New(netguard.Tenant, netguard.Options{Allow: []string{"127.0.0.0/8"}})
	g.Expect(err).NotTo(HaveOccurred())
	dialer := guard.Dialer()
	dialer.Resolver = resolverOf("127.0.0.1", "10.0.0.1")
	client, err := newClient(Options{Guard: guard, MaxBody: maxBody, MaxRedirects: 3}, dialer)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = get(t.Context(), client, http.MethodGet, "http://rebinding.example.:"+portOf(server), nil)
	g.Expect(err).To(MatchError(ContainSubstring("destination not allowed: 10.0.0.1 is in 10.0.0.0/8 (private)")))
	g.Expect(requests).To(Equal(1))
}

func portOf(server *httptest.Server) string {
	return strings.TrimPrefix(server.Listener.Addr().String(), "127.0.0.1:")
}

func TestARedirectKeepsOrChangesTheMethodAsHTTPSays(t *testing.T) {
	for name, test := range map[string]struct {
		method string
		status int
		want   string
	}{
		"303 of a POST": {http.MethodPost, 303, "200 OK: GET"},
		"302 of a POST": {http.MethodPost, 302, "200 OK: GET"},
		"307 of a POST": {http.MethodPost, 307, "200 OK: POST"},
		"308 of a POST": {http.MethodPost, 308, "200 OK: POST"},
		"301 of a GET":  {http.MethodGet, 301, "200 OK: GET"},
		"302 of a HEAD": {http.MethodHead, 302, "200 OK: "},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := serve(t, cleartext, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/end" {
					_, _ = io.WriteString(w, r.Method)
					return
				}
				w.Header().Set("Location", "/end")
				w.WriteHeader(test.status)
			})
			answer, err := get(t.Context(), clientOf(t, Options{MaxRedirects: 1}), test.method, server.URL, nil)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(answer).To(Equal(test.want))
		})
	}
}

func TestWhatIsNoRedirectToFollowIsAnError(t *testing.T) {
	for name, test := range map[string]struct {
		status         int
		location, want string
	}{
		"several to choose from":   {300, "/end", "answers 300"},
		"a proxy to use":           {305, "/end", "this leads nowhere"},
		"no address":               {302, "", "this leads nowhere"},
		"an address that is none":  {302, "http://hunter2%zz/", "this leads nowhere"},
		"as if we knew the answer": {304, "", "answers 304"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := serve(t, cleartext, func(w http.ResponseWriter, _ *http.Request) {
				if test.location != "" {
					w.Header().Set("Location", test.location)
				}
				w.WriteHeader(test.status)
			})
			_, err := get(t.Context(), clientOf(t, Options{MaxRedirects: 3}), http.MethodGet, server.URL, nil)
			g.Expect(err).To(MatchError(ErrRedirect))
			g.Expect(err).To(MatchError(ContainSubstring(test.want)))
			g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"))
		})
	}
}

func TestARequestWithABodyIsSentOnce(t *testing.T) {
	server := serve(t, cleartext, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/end", http.StatusTemporaryRedirect)
	})
	_, err := post(t.Context(), clientOf(t, Options{MaxRedirects: 3}), server.URL)
	NewWithT(t).Expect(err).To(MatchError(HaveSuffix("a request with a body is sent once")))
}

func TestThatNothingChangedIsAnAnswerToWhoAsks(t *testing.T) {
	server := serve(t, cleartext, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	for _, header := range []string{"If-None-Match", "If-Modified-Since"} {
		g := NewWithT(t)
		answer, err := get(t.Context(), clientOf(t, Options{}), http.MethodGet, server.URL, http.Header{header: {"x"}})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(answer).To(Equal("304 Not Modified: "))
	}
}

func TestAProxyMayHaveAGuardOfItsOwn(t *testing.T) {
	g := NewWithT(t)
	var asked []string
	proxy := serve(t, cleartext, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		if r.URL.Path == "/private" {
			http.Redirect(w, r, "http://10.0.0.1/", http.StatusFound)
			return
		}
		hello(w, r)
	})
	direct := serve(t, cleartext, hello)
	tenant, err := netguard.New(netguard.Tenant, netguard.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	through := func(request *http.Request) (*url.URL, error) {
		if request.URL.Hostname() == "direct.example.com" {
			return nil, nil
		}
		return url.Parse(proxy.URL)
	}
	options := Options{Guard: tenant, Proxy: through, ProxyGuard: administrator(t, netguard.Options{}), MaxRedirects: 3}
	client := clientOf(t, options)

	_, err = get(t.Context(), client, http.MethodGet, "http://cmdb.example.com/hosts", nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(asked).To(Equal([]string{"http://cmdb.example.com/hosts"}))

	_, err = get(t.Context(), client, http.MethodGet, "http://10.0.0.1/", nil)
	g.Expect(err).To(MatchError(netguard.ErrDisallowed), "the proxy would reach what a tenant may not")
	_, err = get(t.Context(), client, http.MethodGet, "http://cmdb.example.com/private", nil)
	g.Expect(err).To(MatchError(netguard.ErrDisallowed), "a redirect behind the proxy")

	dialer := tenant.Dialer()
	dialer.Resolver = resolverOf("127.0.0.1")
	options.MaxBody = maxBody
	client, err = newClient(options, dialer)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = get(t.Context(), client, http.MethodGet, "http://direct.example.com:"+portOf(direct), nil)
	g.Expect(err).To(MatchError(netguard.ErrDisallowed), "what has no proxy is dialled by the stricter guard")

	options.ProxyGuard = administrator(t, netguard.Options{Deny: []string{"127.0.0.0/8"}})
	_, err = get(t.Context(), clientOf(t, options), http.MethodGet, "http://cmdb.example.com/hosts", nil)
	g.Expect(err).To(MatchError(netguard.ErrDisallowed), "the proxy itself is not allowed")

	options.ProxyGuard = nil
	_, err = get(t.Context(), clientOf(t, options), http.MethodGet, "http://cmdb.example.com/hosts", nil)
	g.Expect(err).To(MatchError(netguard.ErrDisallowed), "without a guard of its own the proxy is judged as any server")
	g.Expect(asked).To(HaveLen(2))
}
