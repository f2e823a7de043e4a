// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netguard decides which addresses this process may connect to on behalf of others, who could otherwise reach through
// it what only it can reach: its own ports, the cluster's network, the credentials that a cloud hands to its machines.
//
// A Guard looks twice. CheckURL and CheckHost judge an address as it is written, early enough for a clear answer. Control
// judges each IP address at the moment of the dial, whatever a name resolves to by then; it alone is the boundary. Who follows
// redirects calls CheckURL for each of them. Behind a proxy the dial is to the proxy, and what a name resolves to there is the
// proxy's to judge.
package netguard

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// ErrDisallowed is in the chain of each refusal.
var ErrDisallowed = errors.New("destination not allowed")

// Profile is whose word an address is.
type Profile int

const (
	// Tenant is anybody who may write an object: only addresses of the internet are open.
	Tenant Profile = iota
	// Administrator is who runs the cluster: private networks, shared address space and loopback are open too. Link-local
	// addresses, metadata of clouds and reserved networks are not.
	Administrator
)

// Options change what is open. Deny wins over Allow, and Allow over the closed networks that are built in.
type Options struct {
	// Allow are CIDRs to open. A CIDR opens a closed network, or a part of it, only when it lies inside that network: so nobody
	// opens the metadata of a cloud, which are closed one by one, without naming them.
	Allow []string
	// Deny are CIDRs to close, of any size.
	Deny []string
	// Setting is where users set Allow, such as the name of a flag; refusals point there. Empty when they cannot.
	Setting string
}

// Guard judges destinations. It is safe for concurrent use. The zero value is that of a Tenant without options.
type Guard struct {
	profile     Profile
	allow, deny []netip.Prefix
	setting     string
}

// New returns a Guard, or an error that names each wrong CIDR.
func New(profile Profile, options Options) (*Guard, error) {
	if _, known := opened[profile]; !known {
		return nil, fmt.Errorf("unknown profile %d", profile)
	}
	allow, allowErr := parse("allow", options.Allow, checkAllowed)
	deny, denyErr := parse("deny", options.Deny, func(netip.Prefix) error { return nil })
	if err := errors.Join(allowErr, denyErr); err != nil {
		return nil, err
	}
	return &Guard{profile: profile, allow: allow, deny: deny, setting: options.Setting}, nil
}

// Dialer returns a dialer that connects only where the Guard lets it. Its Control must stay, and ControlContext must stay
// unset; anything else may be changed.
func (g *Guard) Dialer() *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, Control: g.Control}
}

// Control judges the address of one dial; it is meant for net.Dialer.Control. It refuses all networks but TCP.
func (g *Guard) Control(network, address string, _ syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return fmt.Errorf("%w: the network %q is not TCP", ErrDisallowed, network)
	}
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %q is not an IP address with a port", ErrDisallowed, address)
	}
	return g.judge(target.Addr().WithZone("").String(), target.Addr())
}

// judge says whether addr may be dialled; written is how the error names it.
func (g *Guard) judge(written string, addr netip.Addr) error {
	addr = addr.WithZone("")
	target := meant(addr)
	if text := target.String(); text != written {
		written += ", which is " + text + ","
	}
	for _, denied := range g.deny {
		if denied.Contains(target) || denied.Contains(addr) {
			return fmt.Errorf("%w: %s is in %s, which is denied by configuration: use another address", ErrDisallowed, written, denied)
		}
	}
	by, found := closedBy(target)
	if !found || opened[g.profile][by.kind] || g.allows(target, by) {
		return nil
	}
	remedy := ""
	if by.kind != metadata { // what hands out a machine's credentials can be allowed, and is nothing to invite to
		remedy = g.orAllow("a network inside " + by.String())
	}
	return fmt.Errorf("%w: %s is in %s (%s): use another address%s", ErrDisallowed, written, by.Prefix, by.kind, remedy)
}

// allows tells that an allowed network holds addr and is no larger than the closed one, hence inside it.
func (g *Guard) allows(addr netip.Addr, by network) bool {
	for _, allowed := range g.allow {
		if allowed.Contains(addr) && allowed.Bits() >= by.Bits() {
			return true
		}
	}
	return false
}

// orAllow is the rest of a remedy, where users can set what is allowed.
func (g *Guard) orAllow(what string) string {
	if g.setting == "" {
		return ""
	}
	return ", or allow " + what + " with " + g.setting
}

// parse reads the CIDRs of an option. One that would not do what it says is an error.
func parse(option string, cidrs []string, check func(netip.Prefix) error) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	var errs []error
	for _, cidr := range cidrs {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(cidr))
		switch {
		case err != nil:
			err = errors.New("is not a CIDR: write an address and a length, such as 10.0.0.0/8 or fd00::/8")
		case meant(prefix.Addr()) != prefix.Addr():
			err = errors.New("stands for IPv4 addresses: write it as an IPv4 network")
		case prefix != prefix.Masked():
			err = fmt.Errorf("has bits beyond its length: write %s", prefix.Masked())
		default:
			err = check(prefix)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %q %w", option, cidr, err))
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, errors.Join(errs...)
}

// checkAllowed refuses a CIDR that opens nothing because it is larger than all that is closed in it.
func checkAllowed(allowed netip.Prefix) error {
	var smaller *network
	for _, network := range closed {
		switch {
		case !network.Overlaps(allowed):
		case network.Bits() <= allowed.Bits():
			return nil
		case smaller == nil:
			smaller = &network
		}
	}
	if smaller == nil {
		return nil
	}
	return fmt.Errorf("is larger than a closed network in it, %s (%s): name the networks to open one by one", smaller.Prefix, smaller.kind)
}
