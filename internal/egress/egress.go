// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package egress makes the HTTP clients of this process, for servers that an administrator names.
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
	// ErrRedirect is in the error of a request that the server answers with a status from 300 to 399. Such an answer is never
	// followed: what is secret goes only where the configuration says.
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
	// CABundle are PEM certificates to trust beside those of the system.
	CABundle []byte
	// MaxBody bounds what is read of a body, after decompression where the client does that by itself, in bytes. Required.
	MaxBody int64
}

// NewClient returns a client, which all callers of a server should share. It follows no redirect, and sets no deadline: that of a
// request's context covers everything from the dial to the last byte of the body. Its error names the option that is wrong.
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
	roots, err := trusted(options.CABundle)
	if err != nil {
		return nil, fmt.Errorf("CABundle: %w", err)
	}
	return &http.Client{Transport: &transport{guard: options.Guard, maxBody: options.MaxBody, next: &http.Transport{
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
	}}}, nil
}

// transport judges each request before it is sent, and each answer before anybody sees it.
type transport struct {
	guard   *netguard.Guard
	maxBody int64
	next    *http.Transport
}

// RoundTrip implements http.RoundTripper. Redirects end here, since http.Client lets some of them pass as answers, and quotes
// the Location of others in its errors.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := t.guard.CheckURL(request.URL); err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	response, err := t.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if status := response.StatusCode; status >= 300 && status <= 399 {
		_ = response.Body.Close()
		return nil, fmt.Errorf("%w: it answers %d%s; set the base URL to the address that answers itself", ErrRedirect, status, target(response))
	}
	response.Body = body{http.MaxBytesReader(nil, response.Body, t.maxBody)}
	return response, nil
}

// CloseIdleConnections lets http.Client close them.
func (t *transport) CloseIdleConnections() { t.next.CloseIdleConnections() }

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

// trusted returns the certificates of the system and of a bundle; nil means those of the system. Text between certificates is
// fine, as bundles have comments.
func trusted(bundle []byte) (*x509.CertPool, error) {
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
	if begun := bytes.Count(bundle, []byte("-----BEGIN ")); count == 0 || count != begun {
		return nil, fmt.Errorf("holds %d whole certificates of %d that begin: each needs the lines -----BEGIN CERTIFICATE----- and -----END CERTIFICATE-----, and base64 between them", count, begun)
	}
	return roots, nil
}
