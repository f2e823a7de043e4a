// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/candor-dev/candor/internal/egress"
	"github.com/candor-dev/candor/internal/netguard"
)

// outbound is what a person can set about connections to addresses that others name, by flags that begin with prefix.
type outbound struct {
	prefix  string
	profile netguard.Profile
	// allow and deny are networks, separated by commas, and bundle is a file of certificates to trust.
	allow, deny, bundle string
}

// guard returns what judges addresses.
func (o outbound) guard() (*netguard.Guard, error) {
	guard, err := netguard.New(o.profile, netguard.Options{Allow: listed(o.allow), Deny: listed(o.deny), Setting: EnvName(o.prefix + "-allow-cidrs")})
	if err != nil {
		return nil, fmt.Errorf("--%[1]s-allow-cidrs or --%[1]s-deny-cidrs: %[2]w", o.prefix, err)
	}
	return guard, nil
}

// client returns what sends requests where a guard lets it, and reads at most maxBody bytes of an answer.
func (o outbound) client(guard *netguard.Guard, maxBody int64) (*http.Client, error) {
	var bundle []byte
	if o.bundle != "" {
		var err error
		if bundle, err = os.ReadFile(o.bundle); err != nil {
			return nil, fmt.Errorf("--%s-ca-bundle: %w", o.prefix, err)
		}
	}
	client, err := egress.NewClient(egress.Options{Guard: guard, Proxy: http.ProxyFromEnvironment, CABundle: bundle, MaxBody: maxBody})
	if err != nil {
		return nil, fmt.Errorf("--%s-ca-bundle=%s: %w", o.prefix, o.bundle, err)
	}
	return client, nil
}

// listed splits what is separated by commas.
func listed(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}
