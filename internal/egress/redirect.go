// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// harmless are the headers that go along to another origin; any other may hold what is secret.
var harmless = []string{"Accept", "User-Agent", "If-None-Match", "If-Modified-Since"}

// redirects tells that an answer sends the request elsewhere, or is no answer that can be used. That nothing changed since is an
// answer to who asks for that.
func redirects(request *http.Request, response *http.Response) bool {
	status := response.StatusCode
	conditional := request.Header.Get("If-None-Match") != "" || request.Header.Get("If-Modified-Since") != ""
	return status >= 300 && status <= 399 && (status != http.StatusNotModified || !conditional)
}

// redirected returns the request that a redirect asks for, or why it is not sent. followed is how many came before.
func (t *transport) redirected(request *http.Request, response *http.Response, followed int) (*http.Request, error) {
	refuse := func(why string) error {
		return fmt.Errorf("%w: it answers %d%s; %s", ErrRedirect, response.StatusCode, target(response), why)
	}
	if t.maxRedirects == 0 {
		return nil, refuse("set the base URL to the address that answers itself")
	}
	location, err := response.Location()
	switch {
	case !followable(response.StatusCode) || err != nil:
		return nil, refuse("this leads nowhere")
	case followed >= t.maxRedirects:
		return nil, refuse(fmt.Sprintf("that is more than %d redirects in a row", t.maxRedirects))
	case strings.EqualFold(request.URL.Scheme, "https") && !strings.EqualFold(location.Scheme, "https"):
		return nil, refuse("it would leave https")
	case request.Body != nil && request.Body != http.NoBody:
		return nil, refuse("a request with a body is sent once")
	}
	next := request.Clone(request.Context())
	location.User, location.Fragment, location.RawFragment = nil, "", ""
	next.URL, next.Host = location, ""
	if response.StatusCode != http.StatusTemporaryRedirect && response.StatusCode != http.StatusPermanentRedirect && next.Method != http.MethodHead {
		next.Method = http.MethodGet
	}
	if origin(request.URL) != origin(location) {
		next.Header = http.Header{}
		for _, name := range harmless {
			if values := request.Header.Values(name); len(values) > 0 {
				next.Header[name] = values
			}
		}
	}
	return next, nil
}

func followable(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	default:
		return false
	}
}

// origin is scheme, host and port of an address: who is one origin may know the same secrets.
func origin(u *url.URL) string {
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}
