// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package open makes sources of specs.
package open

import (
	"net/http"
	"net/url"

	"k8s.io/utils/clock"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/source"
	httpsource "github.com/candor-dev/candor/internal/fleet/source/http"
	sqlsource "github.com/candor-dev/candor/internal/fleet/source/sql"
	"github.com/candor-dev/candor/internal/netguard"
)

// Opener makes sources. All its fields but Proxy and ProxyGuard are required.
type Opener struct {
	// Guard judges where sources may be.
	Guard *netguard.Guard
	// Proxy returns the proxy of a request over HTTP; nil means none. Databases are asked without one.
	Proxy func(*http.Request) (*url.URL, error)
	// ProxyGuard judges the dial to the proxy; nil means Guard.
	ProxyGuard *netguard.Guard
	// Clock tells the time.
	Clock clock.PassiveClock
}

// Open returns a source, without asking it for anything, and who a limit on the rate of fetches counts for. secret are the data of
// the Secret that spec.SecretRef names. Its errors are *fault.Fault, and show nothing of the Secret. The caller closes the source.
func (o *Opener) Open(spec fleetmanagementv1alpha1.ExternalSource, secret map[string][]byte) (source.Source, string, error) {
	switch {
	case spec.SecretRef == nil:
		secret = nil
	case secret == nil: // a Secret without data is not the same as none
		secret = map[string][]byte{}
	}
	switch {
	case spec.HTTP != nil:
		s, err := httpsource.New(httpsource.Options{Guard: o.Guard, Proxy: o.Proxy, ProxyGuard: o.ProxyGuard, Clock: o.Clock}, spec.HTTP, secret)
		if err != nil {
			return nil, "", err
		}
		return s, s.Target(), nil
	case spec.SQL != nil:
		s, err := sqlsource.New(sqlsource.Options{Guard: o.Guard}, spec.SQL, secret)
		if err != nil {
			return nil, "", err
		}
		return s, s.Target(), nil
	default:
		return nil, "", source.Invalid("source must have http or sql, as source.kind says")
	}
}
