// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package netguard

import (
	"context"
	"net"
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"
)

const setting = "--allow-cidrs"

func guard(t *testing.T, profile Profile, options Options) *Guard {
	t.Helper()
	g, err := New(profile, options)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return g
}

// dial is what a dialer asks of the Guard.
func dial(g *Guard, ip string) error {
	return g.Control("tcp", net.JoinHostPort(ip, "443"), nil)
}

func TestEachProfileOpensItsNetworks(t *testing.T) {
	tenant, administrator := guard(t, Tenant, Options{}), guard(t, Administrator, Options{})
	type profiles struct{ tenant, administrator bool }
	nobody, onlyAdministrator, everybody := profiles{}, profiles{administrator: true}, profiles{true, true}
	for ips, want := range map[*[]string]profiles{
		// Public, up to the edges of what is closed.
		{
			"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "168.63.129.15",
			"169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "191.255.255.255", "192.0.1.0", "192.0.3.0", "192.167.255.255",
			"192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700::1111", "2001:4860:4860::8888", "2a00::1", "3ffe::1",
			"::ffff:1.1.1.1", "::1.1.1.1", "64:ff9b::1.1.1.1", "2606:4700::1111%eth0",
		}: everybody,
		{
			"127.0.0.1", "127.255.255.255", "::1", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.127.255.255",
			"fc00::1", "fd12:3456::1", "fdff::1", "::ffff:10.0.0.1", "::ffff:7f00:1", "::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::7f00:1",
		}: onlyAdministrator,
		// Metadata of clouds.
		{
			"169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23",
			"fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:100::100:200", "fd00:a9fe:a9fe::1", "fe80::a9fe:a9fe%eth0",
			"::ffff:169.254.169.254", "::169.254.169.254", "64:ff9b::a9fe:a9fe", "64:ff9b::6464:64c8",
		}: nobody,
		{
			"169.254.0.1", "169.254.255.255", "fe80::1", "fe80::1%eth0", "febf::1", "fec0::1", "feff::1", // link-local, site-local
			"0.0.0.0", "0.1.2.3", "::", // unspecified
			"224.0.0.1", "239.255.255.255", "ff01::1", "ff02::1", "ff05::2", "ff0e::1", // multicast of each scope
			"192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1", // documentation
			"198.18.0.1", "198.19.255.255", "192.0.0.1", "240.0.0.1", "255.255.255.255", "100::1", "4000::1", "5f00::1", "8000::1", // reserved
			"64:ff9b:1::1.1.1.1", "2001::1", "2002:0101:0101::1", "2002:7f00:1::", "192.88.99.1", "::ffff:0:1.1.1.1", // translation
		}: nobody,
	} {
		for _, ip := range *ips {
			t.Run(ip, func(t *testing.T) {
				g := NewWithT(t)
				g.Expect(profiles{dial(tenant, ip) == nil, dial(administrator, ip) == nil}).To(Equal(want))
				if !want.tenant {
					g.Expect(dial(tenant, ip)).To(MatchError(ErrDisallowed))
				}
			})
		}
	}
}

func TestDenyBeatsAllowAndAllowBeatsTheBuiltInNetworks(t *testing.T) {
	for name, test := range map[string]struct {
		profile     Profile
		allow, deny []string
		open, shut  []string
	}{
		"an allowed private network is open, its neighbours are not": {
			allow: []string{"10.0.0.0/8"},
			open:  []string{"10.0.0.1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1"},
			shut:  []string{"192.168.0.1", "127.0.0.1", "169.254.169.254"},
		},
		"a part of a private network": {
			allow: []string{" 10.1.0.0/16"}, open: []string{"10.1.2.3"}, shut: []string{"10.2.0.1"},
		},
		"a denied part of an allowed network": {
			allow: []string{"10.0.0.0/8"}, deny: []string{"10.96.0.0/12"}, open: []string{"10.1.2.3"}, shut: []string{"10.96.0.1", "::ffff:10.96.0.1", "64:ff9b::10.96.0.1"},
		},
		"deny wins at the same size": {
			allow: []string{"10.0.0.0/8"}, deny: []string{"10.0.0.0/8"}, shut: []string{"10.0.0.1"},
		},
		"deny wins over a more specific allow": {
			allow: []string{"10.0.0.1/32"}, deny: []string{"10.0.0.0/8"}, shut: []string{"10.0.0.1"},
		},
		"a public network can be denied": {
			profile: Administrator, deny: []string{"1.1.1.0/24"}, open: []string{"1.1.2.1", "10.0.0.1"}, shut: []string{"1.1.1.1", "64:ff9b::1.1.1.1"},
		},
		"all of IPv6 can be denied, with the IPv4 that it carries": {
			profile: Administrator, deny: []string{"::/0"}, open: []string{"1.1.1.1"}, shut: []string{"2606:4700::1111", "64:ff9b::1.1.1.1", "::1"},
		},
		"what an administrator may reach can be denied": {
			profile: Administrator, deny: []string{"127.0.0.0/8", "::1/128"}, open: []string{"10.0.0.1"}, shut: []string{"127.0.0.1", "::1", "::127.0.0.1"},
		},
		"metadata opens only by its own CIDR": {
			allow: []string{"169.254.169.254/32"}, open: []string{"169.254.169.254", "::ffff:169.254.169.254"}, shut: []string{"169.254.169.253", "169.254.170.2"},
		},
		"all of link-local without the metadata in it": {
			allow: []string{"169.254.0.0/16", "fe80::/10"}, open: []string{"169.254.1.1", "fe80::1%eth0"}, shut: []string{"169.254.169.254", "fe80::a9fe:a9fe"},
		},
		"all of unique-local and shared space without the metadata in it": {
			allow: []string{"fc00::/7", "100.64.0.0/10"}, open: []string{"fd12::1", "100.64.0.1"}, shut: []string{"fd00:ec2::254", "fd20:ce::254", "100.100.100.200"},
		},
		"an administrator opens a reserved network, such as that of a mesh": {
			profile: Administrator, allow: []string{"240.240.0.0/16"}, open: []string{"240.240.0.1"}, shut: []string{"240.241.0.1"},
		},
		"allowing what is open changes nothing": {
			allow: []string{"8.8.8.0/24"}, open: []string{"8.8.8.8"}, shut: []string{"10.0.0.1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			judge := guard(t, test.profile, Options{Allow: test.allow, Deny: test.deny})
			for _, ip := range test.open {
				g.Expect(dial(judge, ip)).To(Succeed(), ip)
			}
			for _, ip := range test.shut {
				g.Expect(dial(judge, ip)).To(MatchError(ErrDisallowed), ip)
			}
		})
	}
}

func TestACIDRThatDoesNotDoWhatItSaysIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		options Options
		want    string
	}{
		"no CIDR":                        {Options{Deny: []string{"10.0.0.0/8", "ten"}}, `deny: "ten" is not a CIDR: write an address and a length, such as 10.0.0.0/8 or fd00::/8`},
		"no length":                      {Options{Allow: []string{"10.0.0.1"}}, `allow: "10.0.0.1" is not a CIDR: write an address and a length, such as 10.0.0.0/8 or fd00::/8`},
		"too long":                       {Options{Allow: []string{"10.0.0.0/33"}}, `allow: "10.0.0.0/33" is not a CIDR: write an address and a length, such as 10.0.0.0/8 or fd00::/8`},
		"empty":                          {Options{Allow: []string{""}}, `allow: "" is not a CIDR: write an address and a length, such as 10.0.0.0/8 or fd00::/8`},
		"a zone":                         {Options{Allow: []string{"fe80::%eth0/10"}}, `allow: "fe80::%eth0/10" is not a CIDR: write an address and a length, such as 10.0.0.0/8 or fd00::/8`},
		"bits beyond the length":         {Options{Allow: []string{"10.1.2.3/8"}}, `allow: "10.1.2.3/8" has bits beyond its length: write 10.0.0.0/8`},
		"IPv4 in IPv6":                   {Options{Deny: []string{"::ffff:10.0.0.0/104"}}, `deny: "::ffff:10.0.0.0/104" stands for IPv4 addresses: write it as an IPv4 network`},
		"NAT64":                          {Options{Allow: []string{"64:ff9b::/96"}}, `allow: "64:ff9b::/96" stands for IPv4 addresses: write it as an IPv4 network`},
		"all of IPv4 cannot be opened":   {Options{Allow: []string{"0.0.0.0/0"}}, `allow: "0.0.0.0/0" is larger than a closed network in it, 169.254.169.254/32 (metadata of a cloud): name the networks to open one by one`},
		"all of IPv6 cannot be opened":   {Options{Allow: []string{"::/0"}}, `allow: "::/0" is larger than a closed network in it, fd00:ec2::/32 (metadata of a cloud): name the networks to open one by one`},
		"one bit too many to be private": {Options{Allow: []string{"10.0.0.0/7"}}, `allow: "10.0.0.0/7" is larger than a closed network in it, 10.0.0.0/8 (private): name the networks to open one by one`},
		"each wrong one is named": {Options{Allow: []string{"a", "b"}, Deny: []string{"c"}}, `allow: "a" is not a CIDR: write an address and a length, such as 10.0.0.0/8 or fd00::/8
allow: "b" is not a CIDR: write an address and a length, such as 10.0.0.0/8 or fd00::/8
deny: "c" is not a CIDR: write an address and a length, such as 10.0.0.0/8 or fd00::/8`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Tenant, test.options)
			NewWithT(t).Expect(err).To(MatchError(test.want))
		})
	}
}

func TestAnUnknownProfileIsRefused(t *testing.T) {
	_, err := New(Profile(2), Options{})
	NewWithT(t).Expect(err).To(MatchError("unknown profile 2"))
}

func TestTheZeroGuardIsThatOfATenant(t *testing.T) {
	var zero Guard
	NewWithT(t).Expect(dial(&zero, "10.0.0.1")).To(MatchError(ErrDisallowed))
	NewWithT(t).Expect(dial(&zero, "1.1.1.1")).To(Succeed())
}

func TestARefusalNamesAddressRuleAndRemedy(t *testing.T) {
	for name, test := range map[string]struct {
		profile  Profile
		settable string
		address  string
		want     string
	}{
		"a private address":             {Tenant, setting, "10.1.2.3", "destination not allowed: 10.1.2.3 is in 10.0.0.0/8 (private): use another address, or allow a network inside 10.0.0.0/8 with --allow-cidrs"},
		"where users can set nothing":   {Tenant, "", "10.1.2.3", "destination not allowed: 10.1.2.3 is in 10.0.0.0/8 (private): use another address"},
		"metadata":                      {Administrator, setting, "169.254.169.254", "destination not allowed: 169.254.169.254 is in 169.254.169.254/32 (metadata of a cloud): use another address"},
		"an address that means another": {Administrator, "", "64:ff9b::a9fe:101", "destination not allowed: 64:ff9b::a9fe:101, which is 169.254.1.1, is in 169.254.0.0/16 (link-local): use another address"},
		"a denied network":              {Administrator, setting, "10.96.0.1", "destination not allowed: 10.96.0.1 is in 10.96.0.0/12, which is denied by configuration: use another address"},
	} {
		t.Run(name, func(t *testing.T) {
			judge := guard(t, test.profile, Options{Setting: test.settable, Deny: []string{"10.96.0.0/12"}})
			NewWithT(t).Expect(dial(judge, test.address)).To(MatchError(test.want))
		})
	}
}

func TestOnlyTCPToAnIPAddressIsDialled(t *testing.T) {
	judge := guard(t, Administrator, Options{})
	for name, test := range map[string]struct {
		network, address string
		open             bool
	}{
		"TCP over IPv4": {"tcp4", "1.1.1.1:443", true},
		"TCP over IPv6": {"tcp6", "[2606:4700::1111]:443", true},
		"UDP":           {"udp4", "1.1.1.1:443", false},
		"a socket file": {"unix", "/run/containerd.sock", false},
		"a raw socket":  {"ip4:icmp", "1.1.1.1", false},
		"a name":        {"tcp", "example.com:443", false},
		"no port":       {"tcp", "1.1.1.1", false},
		"nothing":       {"tcp", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			err := judge.Control(test.network, test.address, nil)
			if test.open {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(MatchError(ErrDisallowed))
		})
	}
}

func TestTheDialerConnectsOnlyWhereItMay(t *testing.T) {
	g := NewWithT(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = listener.Close() })

	_, err = guard(t, Tenant, Options{}).Dialer().DialContext(context.Background(), "tcp", listener.Addr().String())
	g.Expect(err).To(MatchError(ErrDisallowed))

	connection, err := guard(t, Administrator, Options{}).Dialer().DialContext(context.Background(), "tcp", listener.Addr().String())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(connection.Close()).To(Succeed())
}

func TestEachClosedNetworkCanDecide(t *testing.T) {
	for i, network := range closed {
		g := NewWithT(t)
		g.Expect(network.Prefix).To(Equal(network.Masked()))
		for _, before := range closed[:i] {
			g.Expect(before.Overlaps(network.Prefix) && before.Bits() <= network.Bits()).To(BeFalse(), "%s hides %s", before.Prefix, network.Prefix)
		}
	}
}

func TestOfIPv6OnlyInternetAddressesAreOpen(t *testing.T) {
	for high := range 1 << 16 {
		addr := netip.AddrFrom16([16]byte{byte(high >> 8), byte(high), 0xff, 15: 1})
		if _, found := closedBy(addr); !found && !netip.MustParsePrefix("2000::/3").Contains(addr) {
			t.Fatalf("%s is open", addr)
		}
	}
}

func FuzzDial(f *testing.F) {
	for _, seed := range []string{
		"1.1.1.1", "10.0.0.1", "100.64.0.1", "127.0.0.1", "169.254.169.254", "::1", "::", "::ffff:10.0.0.1", "64:ff9b::a9fe:a9fe", "2002:a00:1::1", "2001:0:1::1",
		"2606:4700::1111", "fd00:ec2::254", "fe80::1", "ff05::1", "240.0.0.1",
	} {
		f.Add(netip.MustParseAddr(seed).AsSlice())
	}
	tenant, _ := New(Tenant, Options{})
	administrator, _ := New(Administrator, Options{})
	allowing, _ := New(Tenant, Options{Allow: []string{"10.0.0.0/8"}})
	denying, _ := New(Administrator, Options{Allow: []string{"10.0.0.0/8"}, Deny: []string{"0.0.0.0/0", "::/0"}})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		addr, ok := netip.AddrFromSlice(bytes)
		if !ok {
			return
		}
		open := func(g *Guard, addr netip.Addr) bool { return dial(g, addr.String()) == nil }
		inner := addr.Unmap()
		if open(tenant, addr) && (inner.IsLoopback() || inner.IsPrivate() || inner.IsLinkLocalUnicast() || inner.IsMulticast() || inner.IsUnspecified() || !inner.IsGlobalUnicast()) {
			t.Fatalf("%s is open to tenants", addr)
		}
		if open(tenant, addr) && (!open(administrator, addr) || !open(allowing, addr)) {
			t.Fatalf("%s is open to tenants, and not to those who may do more", addr)
		}
		if open(denying, addr) {
			t.Fatalf("%s is open though all is denied", addr)
		}
		if !inner.Is4() {
			return
		}
		four := inner.As4()
		for _, prefix := range [][]byte{{10: 0xff, 11: 0xff}, {0: 0x00, 1: 0x64, 2: 0xff, 3: 0x9b, 11: 0}} {
			other := netip.AddrFrom16([16]byte(append(prefix, four[:]...)))
			for _, g := range []*Guard{tenant, administrator, allowing} {
				if open(g, inner) != open(g, other) {
					t.Fatalf("%s is judged otherwise than %s", other, inner)
				}
			}
		}
		if open(allowing, inner) != open(tenant, inner) && four[0] != 10 {
			t.Fatalf("%s is open by a network that does not hold it", inner)
		}
	})
}
