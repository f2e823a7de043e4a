// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package llm

import (
	"net/http"
	"net/url"

	"github.com/candor-dev/candor/internal/egress"
	"github.com/candor-dev/candor/internal/netguard"
)

// maxBody bounds what is read of an answer, in bytes.
const maxBody = 1 << 20

// HTTPOptions are what the HTTP client of the backends is made of.
type HTTPOptions struct {
	// Guard judges the host of each request, and the IP address of each dial. Required.
	Guard *netguard.Guard
	// Proxy returns the proxy of a request; nil means none.
	Proxy func(*http.Request) (*url.URL, error)
	// CABundle are PEM certificates to trust beside those of the system.
	CABundle []byte
}

// NewHTTPClient returns the client of all backends; a process needs one. An answer of more than 1 MiB is cut off with
// egress.ErrBodyTooLarge. Its error names the option that is wrong.
func NewHTTPClient(options HTTPOptions) (*http.Client, error) {
	return egress.NewClient(egress.Options{Guard: options.Guard, Proxy: options.Proxy, CABundle: options.CABundle, MaxBody: maxBody})
}
