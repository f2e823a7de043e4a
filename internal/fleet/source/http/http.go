// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package http reads records from a server that answers with JSON.
package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/utils/clock"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/egress"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/source"
	"github.com/candor-dev/candor/internal/netguard"
)

const (
	// timeout bounds a fetch, from the dial to the last byte.
	timeout = 30 * time.Second
	// maxAnswer bounds what is read of an answer, after decompression, in bytes.
	maxAnswer = 10 << 20
	// maxRedirects is how many redirects in a row are followed.
	maxRedirects = 3
	// maxMessage bounds what is told of the words of a server that refuses, in bytes; maxFailure what is read of them.
	maxMessage, maxFailure = 200, 64 << 10
)

// Options are what all sources have in common.
type Options struct {
	// Guard judges where a source may be. Required.
	Guard *netguard.Guard
	// Proxy returns the proxy of a request; nil means none. What a name resolves to is known to the proxy alone, so that Guard judges
	// a server behind it only as it is written.
	Proxy func(*http.Request) (*url.URL, error)
	// ProxyGuard judges the dial to the proxy; nil means Guard.
	ProxyGuard *netguard.Guard
	// Clock tells the time to servers that name a date to come back at. Required.
	Clock clock.PassiveClock
}

// Source is one server.
type Source struct {
	client      *http.Client
	clock       clock.PassiveClock
	timeout     time.Duration
	method      string
	address     *url.URL
	path        []string
	credentials credentials
}

var _ source.Source = &Source{}

// New returns the source that a spec describes, without a call to it. secret are the data of the Secret that the spec names, nil
// where it names none. Its errors are *fault.Fault.
func New(options Options, spec *fleetmanagementv1alpha1.HTTPSource, secret map[string][]byte) (*Source, error) {
	credentials, err := read(secret)
	if err != nil {
		return nil, err
	}
	address, err := ParseURL(spec.URL, secret != nil)
	if err == nil {
		err = options.Guard.CheckURL(address)
	}
	if err != nil {
		return nil, source.Invalid("source.http.url: %w", err)
	}
	path, err := ParseRecordsPath(spec.RecordsPath)
	if err != nil {
		return nil, source.Invalid("source.http.recordsPath %w", err)
	}
	method := string(spec.Method)
	if method == "" {
		method = http.MethodGet
	}
	client, err := egress.NewClient(egress.Options{
		Guard: options.Guard, Proxy: options.Proxy, ProxyGuard: options.ProxyGuard,
		CABundle: []byte(spec.CABundle), MaxBody: maxAnswer, MaxRedirects: maxRedirects,
	})
	if err != nil {
		return nil, source.Invalid("source.http: %w", err)
	}
	return &Source{client: client, clock: options.Clock, timeout: timeout, method: method, address: address, path: path, credentials: credentials}, nil
}

// Target is who a limit on the rate of fetches counts for: scheme, host and port.
func (s *Source) Target() string { return target(s.address) }

// Close lets go of idle connections.
func (s *Source) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// Fetch asks the server. A GET says what is known already, so that the server may answer that nothing changed.
func (s *Source) Fetch(ctx context.Context, known string) (source.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, s.method, s.address.String(), http.NoBody)
	if err != nil {
		return source.Result{}, source.Invalid("source.http cannot be asked for: check url and method")
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "candor")
	if s.credentials.authorization != "" {
		request.Header.Set("Authorization", s.credentials.authorization)
	}
	s.ask(request, known)
	response, err := s.client.Do(request)
	if err != nil {
		return source.Result{}, source.Failed("the server cannot be asked: %w", source.Unreachable(err))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusNotModified {
		return source.Result{Version: known, Unchanged: true}, nil
	}
	if response.StatusCode >= http.StatusBadRequest || response.StatusCode == http.StatusAccepted || response.StatusCode == http.StatusPartialContent {
		return source.Result{}, s.refused(response)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return source.Result{}, source.Failed("the answer cannot be read: %w", source.Unreachable(err))
	}
	records, skipped, err := decode(body, s.path)
	if err != nil {
		return source.Result{}, source.Failed("%w", err)
	}
	return source.Result{Records: records, Skipped: skipped, Version: s.version(response)}, nil
}

// refused says why a server does not answer with records.
func (s *Source) refused(response *http.Response) error {
	said, _ := io.ReadAll(io.LimitReader(response.Body, maxFailure))
	text := strings.TrimSpace(fmt.Sprintf("the server answers %d %s", response.StatusCode, http.StatusText(response.StatusCode)))
	if words := fault.OneLine(s.withoutSecrets(string(said)), maxMessage); words != "" {
		text += ": " + words
	}
	f := source.Failed("%w", errors.New(text))
	if response.StatusCode == http.StatusTooManyRequests || response.StatusCode == http.StatusServiceUnavailable {
		if wait := fault.RetryAfter(response.Header.Get("Retry-After"), s.clock.Now()); wait > 0 {
			f.Kind, f.After = fault.Wait, wait
		}
	}
	return f
}

// withoutSecrets takes out of a text what a server repeats of the request.
func (s *Source) withoutSecrets(text string) string {
	var pairs []string
	hide := func(secret string) {
		if secret != "" {
			pairs = append(pairs, secret, "[secret]")
		}
	}
	for _, secret := range s.credentials.secrets {
		hide(secret)
	}
	hide(s.address.RawQuery)
	for _, values := range s.address.Query() {
		for _, value := range values {
			if len(value) >= 4 { // shorter ones are words
				hide(value)
				hide(url.QueryEscape(value))
			}
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
