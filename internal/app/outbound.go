// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
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
	allow, deny := listed(o.allow), listed(o.deny)
	_, allowErr := netguard.New(o.profile, netguard.Options{Allow: allow})
	_, denyErr := netguard.New(o.profile, netguard.Options{Deny: deny})
	if allowErr != nil {
		allowErr = fmt.Errorf("--%s-allow-cidrs=%s: %w", o.prefix, o.allow, allowErr)
	}
	if denyErr != nil {
		denyErr = fmt.Errorf("--%s-deny-cidrs=%s: %w", o.prefix, o.deny, denyErr)
	}
	if err := errors.Join(allowErr, denyErr); err != nil {
		return nil, err
	}
	return netguard.New(o.profile, netguard.Options{Allow: allow, Deny: deny, Setting: EnvName(o.prefix + "-allow-cidrs")})
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

// listed splits what commas or blanks separate.
func listed(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}
