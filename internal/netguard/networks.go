// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package netguard

import "net/netip"

// kind is what a closed network is, in words for the user.
type kind string

const (
	metadata      kind = "metadata of a cloud"
	loopback      kind = "loopback"
	private       kind = "private"
	shared        kind = "shared address space of a provider"
	linkLocal     kind = "link-local"
	unspecified   kind = "unspecified"
	multicast     kind = "multicast"
	broadcast     kind = "broadcast"
	documentation kind = "documentation"
	benchmarking  kind = "benchmarking"
	translation   kind = "translation to IPv4"
	reserved      kind = "reserved"
)

// network is a closed network.
type network struct {
	netip.Prefix
	kind kind
}

// closed are all networks that no profile opens by itself; the first that holds an address decides. Of IPv6 nothing is left
// open but 2000::/3, from which the internet's addresses come.
var closed = []network{
	{netip.MustParsePrefix("169.254.169.254/32"), metadata},     // nearly every cloud
	{netip.MustParsePrefix("169.254.170.2/32"), metadata},       // AWS, credentials of ECS tasks
	{netip.MustParsePrefix("169.254.170.23/32"), metadata},      // AWS, credentials of EKS pods
	{netip.MustParsePrefix("169.254.0.23/32"), metadata},        // Tencent Cloud
	{netip.MustParsePrefix("169.254.10.10/32"), metadata},       // Tencent Cloud
	{netip.MustParsePrefix("169.254.42.42/32"), metadata},       // Scaleway
	{netip.MustParsePrefix("100.100.100.200/32"), metadata},     // Alibaba Cloud
	{netip.MustParsePrefix("168.63.129.16/32"), metadata},       // Azure, in the middle of public addresses
	{netip.MustParsePrefix("192.0.0.192/32"), metadata},         // Oracle Cloud, Classic
	{netip.MustParsePrefix("fd00:ec2::/32"), metadata},          // AWS, all services of an instance
	{netip.MustParsePrefix("fd20:ce::254/128"), metadata},       // Google Cloud
	{netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), metadata}, // Oracle Cloud
	{netip.MustParsePrefix("fd00:100::100:200/128"), metadata},  // Alibaba Cloud
	{netip.MustParsePrefix("fd00:a9fe:a9fe::1/128"), metadata},  // Akamai
	{netip.MustParsePrefix("fd00:42::42/128"), metadata},        // Scaleway
	{netip.MustParsePrefix("fe80::a9fe:a9fe/128"), metadata},    // OpenStack

	{netip.MustParsePrefix("127.0.0.0/8"), loopback},
	{netip.MustParsePrefix("::1/128"), loopback},
	{netip.MustParsePrefix("10.0.0.0/8"), private},
	{netip.MustParsePrefix("172.16.0.0/12"), private},
	{netip.MustParsePrefix("192.168.0.0/16"), private},
	{netip.MustParsePrefix("fc00::/7"), private},
	{netip.MustParsePrefix("100.64.0.0/10"), shared},

	{netip.MustParsePrefix("169.254.0.0/16"), linkLocal},
	{netip.MustParsePrefix("fe80::/10"), linkLocal},
	{netip.MustParsePrefix("0.0.0.0/8"), unspecified},
	{netip.MustParsePrefix("::/128"), unspecified},
	{netip.MustParsePrefix("224.0.0.0/4"), multicast},
	{netip.MustParsePrefix("ff00::/8"), multicast},
	{netip.MustParsePrefix("255.255.255.255/32"), broadcast},
	{netip.MustParsePrefix("192.0.2.0/24"), documentation},
	{netip.MustParsePrefix("198.51.100.0/24"), documentation},
	{netip.MustParsePrefix("203.0.113.0/24"), documentation},
	{netip.MustParsePrefix("2001:db8::/32"), documentation},
	{netip.MustParsePrefix("3fff::/20"), documentation},
	{netip.MustParsePrefix("198.18.0.0/15"), benchmarking},
	{netip.MustParsePrefix("192.88.99.0/24"), translation}, // relays of 6to4
	{netip.MustParsePrefix("64:ff9b:1::/48"), translation}, // NAT64 of one network, where only that network knows the IPv4 address
	{netip.MustParsePrefix("2001::/32"), translation},      // Teredo
	{netip.MustParsePrefix("2002::/16"), translation},      // 6to4
	{netip.MustParsePrefix("192.0.0.0/24"), reserved},
	{netip.MustParsePrefix("240.0.0.0/4"), reserved},
	{netip.MustParsePrefix("2001::/23"), reserved},
	{netip.MustParsePrefix("fec0::/10"), reserved}, // once site-local
	{netip.MustParsePrefix("::/3"), reserved},
	{netip.MustParsePrefix("4000::/2"), reserved},
	{netip.MustParsePrefix("8000::/1"), reserved},
}

// opened are the kinds that a profile leaves open.
var opened = map[Profile]map[kind]bool{
	Tenant:        {},
	Administrator: {loopback: true, private: true, shared: true},
}

// embedding are the networks whose last 32 bits are the IPv4 address that is meant: NAT64, and the IPv4-compatible addresses.
var embedding = []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("::/96")}

// meant returns the IPv4 address that an IPv6 address stands for, and any other address as it is. It drops the zone.
func meant(addr netip.Addr) netip.Addr {
	addr = addr.WithZone("").Unmap()
	if addr.IsUnspecified() || addr.IsLoopback() {
		return addr
	}
	for _, prefix := range embedding {
		if prefix.Contains(addr) {
			bytes := addr.As16()
			return netip.AddrFrom4([4]byte(bytes[12:]))
		}
	}
	return addr
}

// closedBy returns the first closed network that holds addr.
func closedBy(addr netip.Addr) (network, bool) {
	for _, network := range closed {
		if network.Contains(addr) {
			return network, true
		}
	}
	return network{}, false
}
