// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package http

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/netguard"
)

func TestASpecIsJudgedBeforeAnythingIsAsked(t *testing.T) {
	token := secretOf("bearer-token", "hunter2-token")
	for name, test := range map[string]struct {
		url, path string
		ca        string
		secret    map[string][]byte
		kind      fault.Kind
		want      string
	}{
		"no address":                    {url: "", kind: fault.Terminal, want: "source.http.url: must begin with https://"},
		"no URL":                        {url: "https://hunter2%zz", kind: fault.Terminal, want: "source.http.url: cannot be read: write an address such as"},
		"another scheme":                {url: "ftp://hunter2.example.com", kind: fault.Terminal, want: "source.http.url: must begin with https://"},
		"no host":                       {url: "https:///hunter2", kind: fault.Terminal, want: "source.http.url: must name a server"},
		"a password in the address":     {url: "https://u:hunter2@cmdb.example.com", kind: fault.Terminal, want: "source.http.url: must not hold a user or a password"},
		"credentials without https":     {url: "http://cmdb.example.com", secret: token, kind: fault.Terminal, want: "source.http.url: must begin with https://, since the credentials"},
		"an empty name in the path":     {url: "https://cmdb.example.com", path: "a..b", kind: fault.Terminal, want: "source.http.recordsPath has an empty name"},
		"a certificate that is none":    {url: "https://cmdb.example.com", ca: "hunter2", kind: fault.Terminal, want: "source.http: CABundle: holds no certificate in PEM"},
		"a Secret without credentials":  {url: "https://cmdb.example.com", secret: secretOf("token", "hunter2"), kind: fault.Retry, want: "the Secret needs the key bearer-token, or the keys username and password"},
		"a Secret without data":         {url: "https://cmdb.example.com", secret: secretOf(), kind: fault.Retry, want: "the Secret needs the key bearer-token"},
		"a user without a password":     {url: "https://cmdb.example.com", secret: secretOf("username", "hunter2"), kind: fault.Retry, want: "the Secret needs the key bearer-token"},
		"a token of two lines":          {url: "https://cmdb.example.com", secret: secretOf("bearer-token", "hunter2\nhunter2"), kind: fault.Retry, want: "key bearer-token of the Secret has a character that no header may have"},
		"a user with a colon":           {url: "https://cmdb.example.com", secret: secretOf("username", "a:hunter2", "password", "hunter2"), kind: fault.Retry, want: "key username of the Secret has a colon"},
		"an address of another network": {url: "https://10.0.0.1/?sig=hunter2", kind: fault.Terminal, want: "source.http.url: destination not allowed: 10.0.0.1 is in 10.0.0.0/8 (private): use another address, or allow a network inside 10.0.0.0/8 with --external-source-allow-cidrs"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := New(options(t), &fleetmanagementv1alpha1.HTTPSource{URL: test.url, RecordsPath: test.path, CABundle: test.ca}, test.secret)
			g.Expect(err).To(MatchError(HavePrefix(test.want)))
			g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"))
			g.Expect(faultOf(t, err).Kind).To(Equal(test.kind))
		})
	}
}

func TestAT22DestinationsFollowTheCIDRs(t *testing.T) {
	for name, test := range map[string]struct {
		allow  string
		host   string
		target string
	}{
		"a name of the internet":              {"", "cmdb.example.com", "https://cmdb.example.com:443"},
		"an address of the internet":          {"", "[2606:4700::1111]:8443", "https://[2606:4700::1111]:8443"},
		"a private address":                   {"", "10.1.2.3", ""},
		"a private address that is allowed":   {"10.0.0.0/8", "10.1.2.3:8443", "https://10.1.2.3:8443"},
		"its NAT64 form":                      {"10.0.0.0/8", "[64:ff9b::a01:203]", "https://[64:ff9b::a01:203]:443"},
		"a name of the cluster that may be":   {"10.0.0.0/8", "CMDB.team-a.svc", "https://cmdb.team-a.svc:443"},
		"a name of the cluster":               {"", "cmdb.team-a.svc", ""},
		"another private network":             {"10.0.0.0/8", "192.168.1.1", ""},
		"this machine":                        {"10.0.0.0/8", "127.0.0.1", ""},
		"shared address space of a provider":  {"", "100.64.0.1", ""},
		"shared address space that may be":    {"100.64.0.0/10", "100.64.0.1", "https://100.64.0.1:443"},
		"metadata inside what is allowed":     {"100.64.0.0/10", "100.100.100.200", ""},
		"metadata":                            {"10.0.0.0/8", "169.254.169.254", ""},
		"metadata by its name":                {"10.0.0.0/8", "metadata.google.internal", ""},
		"NAT64 of a private address":          {"", "[64:ff9b::10.0.0.1]", ""},
		"NAT64 of metadata":                   {"10.0.0.0/8", "[64:ff9b::a9fe:a9fe]", ""},
		"6to4":                                {"", "[2002:0a00:0001::1]", ""},
		"Teredo":                              {"", "[2001:0:1::1]", ""},
		"IPv4 in IPv6":                        {"", "[::ffff:10.0.0.1]", ""},
		"assigned by protocols":               {"", "192.0.0.1", ""},
		"benchmarking":                        {"", "198.18.0.1", ""},
		"reserved":                            {"", "240.0.0.1", ""},
		"broadcast":                           {"", "255.255.255.255", ""},
		"multicast":                           {"", "[ff05::1]", ""},
		"a number that some read as loopback": {"", "2130706433", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var allow []string
			if test.allow != "" {
				allow = []string{test.allow}
			}
			s, err := New(options(t, allow...), &fleetmanagementv1alpha1.HTTPSource{URL: "https://" + test.host + "/api"}, nil)
			if test.target == "" {
				g.Expect(err).To(MatchError(netguard.ErrDisallowed))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(s.Target()).To(Equal(test.target))
		})
	}
}

func TestAT22TheDialIsJudgedToo(t *testing.T) {
	g := NewWithT(t)
	asked := false
	server := serve(t, (*httptest.Server).Start, func(http.ResponseWriter, *http.Request) { asked = true })
	s := sourceOf(t, spec(server, ""), nil)
	// What was a name of the internet when the object was made, resolves to another address now.
	strict, err := New(options(t), &fleetmanagementv1alpha1.HTTPSource{URL: "http://cmdb.example.com"}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	s.client = strict.client
	_, err = s.Fetch(t.Context(), "")
	g.Expect(err).To(MatchError("the server cannot be asked: destination not allowed: 127.0.0.1 is in 127.0.0.0/8 (loopback): use another address, or allow a network inside 127.0.0.0/8 with --external-source-allow-cidrs"))
	g.Expect(asked).To(BeFalse())
}

func TestAT22CredentialsStayWithTheServerTheyAreFor(t *testing.T) {
	g := NewWithT(t)
	var got []string
	note := func(r *http.Request) { got = append(got, r.URL.Path+" "+r.Header.Get("Authorization")) }
	other := serve(t, (*httptest.Server).StartTLS, func(w http.ResponseWriter, r *http.Request) {
		note(r)
		_, _ = io.WriteString(w, "[{}]")
	})
	server := serve(t, (*httptest.Server).StartTLS, func(w http.ResponseWriter, r *http.Request) {
		note(r)
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, other.URL+"/other", http.StatusFound)
			return
		}
		http.Redirect(w, r, "/moved", http.StatusFound)
	})
	result, err := sourceOf(t, spec(server, ""), secretOf("bearer-token", "abc")).Fetch(t.Context(), "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Records).To(HaveLen(1))
	g.Expect(got).To(Equal([]string{"/ Bearer abc", "/moved Bearer abc", "/other "}))
}

func TestAT22ARedirectThatLeavesHTTPSOrTheAllowedNetworksIsAnError(t *testing.T) {
	plain := serve(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "[]") })
	for name, test := range map[string]struct{ location, want string }{
		"to http":              {plain.URL + "/?sig=hunter2", "it would leave https"},
		"to a private network": {"https://10.0.0.1/?sig=hunter2", "destination not allowed: 10.0.0.1 is in 10.0.0.0/8"},
		"in circles":           {"/", "that is more than 3 redirects in a row"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := serve(t, (*httptest.Server).StartTLS, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, test.location, http.StatusFound) })
			_, err := sourceOf(t, spec(server, ""), secretOf("bearer-token", "hunter2")).Fetch(t.Context(), "")
			g.Expect(err).To(MatchError(ContainSubstring(test.want)))
			g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"))
		})
	}
}
