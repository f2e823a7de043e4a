// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package netguard

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode"
)

// standsFor are names that need no resolver to be known: of this machine, and of the metadata of clouds.
var standsFor = map[string]netip.Addr{
	"localhost":                  netip.MustParseAddr("127.0.0.1"),
	"metadata.google.internal":   netip.MustParseAddr("169.254.169.254"),
	"metadata.goog":              netip.MustParseAddr("169.254.169.254"),
	"metadata.azure.internal":    netip.MustParseAddr("169.254.169.254"),
	"instance-data":              netip.MustParseAddr("169.254.169.254"),
	"instance-data.ec2.internal": netip.MustParseAddr("169.254.169.254"),
	"metadata.tencentyun.com":    netip.MustParseAddr("169.254.0.23"),
}

// CheckURL judges the host of an HTTP or HTTPS address. Nothing else of the address gets into the error.
func (g *Guard) CheckURL(u *url.URL) error {
	if scheme := strings.ToLower(u.Scheme); scheme != "http" && scheme != "https" {
		return fmt.Errorf("%w: the address begins with neither http:// nor https://", ErrDisallowed)
	}
	return g.CheckHost(u.Hostname())
}

// CheckHost judges a host without a port: an IP address, with or without brackets, as Control does, and a name as far as that
// is possible without asking a resolver. It refuses what is neither, such as an IPv4 address that is not written as four
// decimal numbers, or a name outside ASCII.
func (g *Guard) CheckHost(host string) error {
	host = strings.TrimSuffix(host, ".")
	if addr, err := netip.ParseAddr(unbracketed(host)); err == nil {
		return g.judge(addr.WithZone("").String(), addr)
	}
	if err := checkName(host); err != nil {
		return fmt.Errorf("%w: the host %w", ErrDisallowed, err)
	}
	name := strings.ToLower(host)
	if addr, known := standsFor[name]; known {
		return g.judge(name, addr)
	}
	if strings.HasSuffix(name, ".localhost") {
		return g.judge(name, standsFor["localhost"])
	}
	// Where a network is allowed, its names are needed too, and the dial has the last word.
	if near(name) && !opened[g.profile][private] && len(g.allow) == 0 {
		return fmt.Errorf("%w: %s is a name of the cluster or of the local network: use a public name%s", ErrDisallowed, name, g.orAllow("the network of its addresses"))
	}
	return nil
}

func unbracketed(host string) string {
	if inner, ok := strings.CutPrefix(host, "["); ok && strings.HasSuffix(inner, "]") {
		return strings.TrimSuffix(inner, "]")
	}
	return host
}

// near tells that a name is resolved by the cluster or the local network.
func near(name string) bool {
	return !strings.Contains(name, ".") || strings.HasSuffix(name, ".local") || strings.HasSuffix(name, ".svc")
}

// checkName says what keeps a text from being a DNS name.
func checkName(name string) error {
	if name == "" {
		return errors.New("is empty: name a server")
	}
	if len(name) > 253 {
		return errors.New("is longer than 253 characters")
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 {
			return errors.New("has a part between dots that is empty or longer than 63 characters")
		}
	}
	for _, r := range name {
		switch {
		case r > unicode.MaxASCII:
			return errors.New("has a character outside ASCII: write an international name in its ASCII form, which begins with xn--")
		case !isLetterOrDigit(r) && !strings.ContainsRune("-_.", r):
			return fmt.Errorf("has the character %q: only letters, digits, hyphens and dots make a name", r)
		}
	}
	if isNumber(strings.ToLower(labels[len(labels)-1])) {
		return errors.New("ends in a number like an IPv4 address: write such an address as four decimal numbers without leading zeros")
	}
	return nil
}

func isLetterOrDigit(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

// isNumber tells that a label is a number as C libraries read the parts of an IPv4 address: decimal, octal or hexadecimal. No
// top-level domain is one.
func isNumber(label string) bool {
	if digits, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}
