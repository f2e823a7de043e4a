// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package egress makes the HTTP clients of this process, for servers that a netguard.Guard lets it ask.
package egress

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/candor-dev/candor/internal/netguard"
)

const (
	// maxHeader bounds all header lines of an answer, in bytes.
	maxHeader = 64 << 10
	// maxIdle is how many unused connections are kept; more calls than that rarely run at once.
	maxIdle = 16
)

var (
	// ErrRedirect is in the error of a request that the server answers with a status from 300 to 399, unless Options.MaxRedirects
	// lets the client follow, or the status is 304 and the request asked for it: what is secret goes only where the configuration says.
	ErrRedirect = errors.New("the server redirects, which is not followed")
	// ErrBodyTooLarge is in the error that reading a body ends with after Options.MaxBody.
	ErrBodyTooLarge = errors.New("the answer is too large")
)

// Options are what a client is made of.
type Options struct {
	// Guard judges the host of each request, and the IP address of each dial. Required.
	Guard *netguard.Guard
	// Proxy returns the proxy of a request; nil means none. With a proxy, Guard judges the proxy's address at the dial, and the
	// server's host only as it is written: what its name resolves to is known to the proxy alone.
	Proxy func(*http.Request) (*url.URL, error)
	// ProxyGuard judges the dial to a proxy in place of Guard, where that is for servers that somebody else names. Nil means Guard.
	ProxyGuard *netguard.Guard
	// MaxRedirects is how many redirects in a row a request without a body follows; zero means none. Guard judges each of them. None
	// leads from https to http, and what may be secret stays behind on any change of scheme, host or port.
	MaxRedirects int
	// CABundle are PEM certificates to trust beside those of the system.
	CABundle []byte
	// MaxBody bounds what is read of a body, after decompression where the client does that by itself, in bytes. Required.
	MaxBody int64
}

// NewClient returns a client, which all callers of a server should share. It sets no deadline: that of a request's
// context covers everything from the dial to the last byte of the body. Its error names the option that is wrong.
func NewClient(options Options) (*http.Client, error) {
	if options.Guard == nil {
		return nil, errors.New("Options.Guard is required")
	}
	if options.MaxBody <= 0 {
		return nil, errors.New("Options.MaxBody must be positive")
	}
	return newClient(options, options.Guard.Dialer())
}

func newClient(options Options, dialer *net.Dialer) (*http.Client, error) {
	roots, err := Roots(options.CABundle)
	if err != nil {
		return nil, fmt.Errorf("CABundle: %w", err)
	}
	t := &transport{guard: options.Guard, maxBody: options.MaxBody, maxRedirects: options.MaxRedirects}
	t.next = &http.Transport{
		Proxy:                  quiet(options.Proxy),
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
		ForceAttemptHTTP2:      true,
		// Without pings a dead connection takes every call of the next quarter of an hour with it.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
	if options.ProxyGuard != nil && options.Proxy != nil {
		t.proxied = t.next.Clone()
		t.proxied.DialContext = options.ProxyGuard.Dialer().DialContext
		t.proxied.Proxy = always(t.next.Proxy)
		t.proxy, t.next.Proxy = t.next.Proxy, nil
	}
	return &http.Client{Transport: t}, nil
}

// transport judges each request before it is sent, and each answer before anybody sees it.
type transport struct {
	guard        *netguard.Guard
	maxBody      int64
	maxRedirects int
	next         *http.Transport

	// proxied sends what proxy has an address for, when the dial to a proxy has a guard of its own; both are nil otherwise.
	proxied *http.Transport
	proxy   func(*http.Request) (*url.URL, error)
}

// RoundTrip implements http.RoundTripper. Redirects are judged and followed here, since http.Client lets some of them pass as
// answers, quotes the Location of others in its errors, and takes credentials along to another port or scheme.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	for followed := 0; ; followed++ {
		response, err := t.exchange(request)
		if err != nil {
			return nil, err
		}
		if !redirects(request, response) {
			response.Body = body{http.MaxBytesReader(nil, response.Body, t.maxBody)}
			return response, nil
		}
		_ = response.Body.Close()
		if request, err = t.redirected(request, response, followed); err != nil {
			return nil, err
		}
	}
}

func (t *transport) exchange(request *http.Request) (*http.Response, error) {
	through := t.next
	err := t.guard.CheckURL(request.URL)
	if err == nil && t.proxied != nil {
		var address *url.URL
		if address, err = t.proxy(request); address != nil {
			through = t.proxied
		}
	}
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	return through.RoundTrip(request)
}

// CloseIdleConnections lets http.Client close them.
func (t *transport) CloseIdleConnections() {
	t.next.CloseIdleConnections()
	if t.proxied != nil {
		t.proxied.CloseIdleConnections()
	}
}

// target tells where a redirect leads, without what may be secret in it.
func target(response *http.Response) string {
	location, err := response.Location()
	if err != nil {
		return ""
	}
	address := (&url.URL{Scheme: location.Scheme, Host: location.Host, Path: location.Path}).String()
	return fmt.Sprintf(" and points to %.100q", address)
}

// body ends with ErrBodyTooLarge where MaxBytesReader ends with its own error.
type body struct{ io.ReadCloser }

func (b body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		err = fmt.Errorf("%w: it has more than %d bytes", ErrBodyTooLarge, tooLarge.Limit)
	}
	return n, err
}

// quiet keeps the address of a proxy, which may hold a password, out of errors.
func quiet(proxy func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	if proxy == nil {
		return nil
	}
	return func(request *http.Request) (*url.URL, error) {
		address, err := proxy(request)
		if err != nil {
			return nil, errors.New("the address of the proxy cannot be read: check HTTPS_PROXY, HTTP_PROXY and NO_PROXY")
		}
		return address, nil
	}
}

// always lets nothing pass without a proxy: what dials there would judge the server itself as if it were one.
func always(proxy func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(request *http.Request) (*url.URL, error) {
		address, err := proxy(request)
		if err == nil && address == nil {
			err = errors.New("the request has no proxy any more")
		}
		return address, err
	}
}

// Roots returns the certificates of the system and of a bundle in PEM; nil, which means those of the system, for an empty one. Text
// between certificates is fine, as bundles have comments. Its error shows nothing of a key that somebody put there.
func Roots(bundle []byte) (*x509.CertPool, error) {
	if len(bundle) == 0 {
		return nil, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("the certificates of the system cannot be read: %w", err)
	}
	count := 0
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		count++
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("block %d is a %.40q: only certificates belong there", count, block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d cannot be read: %w", count, err)
		}
		roots.AddCert(certificate)
	}
	// The decoder skips a block that is damaged.
	const needs = "each needs the lines -----BEGIN CERTIFICATE----- and -----END CERTIFICATE-----, and base64 between them"
	switch begun := bytes.Count(bundle, []byte("-----BEGIN ")); {
	case begun == 0:
		return nil, errors.New("holds no certificate in PEM: " + needs)
	case count != begun:
		return nil, fmt.Errorf("holds %d whole certificates of %d that begin: %s", count, begun, needs)
	}
	return roots, nil
}
