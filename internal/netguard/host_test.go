// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package netguard

import (
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestHostsAreJudgedAsTheyAreWritten(t *testing.T) {
	tenant, administrator := guard(t, Tenant, Options{}), guard(t, Administrator, Options{})
	for name, test := range map[string]struct {
		hosts                 []string
		tenant, administrator bool
	}{
		"a name of the internet": {[]string{"example.com", "EXAMPLE.com", "example.com.", "my_host.example.com", "xn--bcher-kva.example", "1password.com", "0x.example"}, true, true},
		"a public address":       {[]string{"1.1.1.1", "1.1.1.1.", "2606:4700::1111", "[2606:4700::1111]", "[2606:4700:0:0::1111]", "2606:4700::1111%eth0"}, true, true},
		"this machine":           {[]string{"localhost", "LocalHost", "localhost.", "a.localhost", "127.0.0.1", "127.0.0.1.", "[127.0.0.1]", "::1", "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::FFFF:7F00:1]", "::1%lo"}, false, true},
		"the cluster":            {[]string{"kubernetes", "web.team-a.svc", "web.team-a.svc.cluster.local", "WEB.team-a.SVC", "web.team-a.svc.", "printer.local", "svc", "local", "10.0.0.1", "fd12::1"}, false, true},
		"metadata of a cloud": {[]string{
			"metadata.google.internal", "METADATA.google.internal.", "metadata.goog", "metadata.azure.internal", "instance-data", "instance-data.ec2.internal", "metadata.tencentyun.com",
			"169.254.169.254", "[fd00:ec2::254]", "[::ffff:169.254.169.254]", "100.100.100.200",
		}, false, false},
		"link-local with a zone": {[]string{"fe80::1%eth0", "[fe80::1%eth0]", "[fe80::1%25eth0]"}, false, false},
		"an IPv4 address that only some resolvers read": {[]string{
			"2130706433", "017700000001", "0x7f000001", "0X7F000001", "0x7f.1", "0177.0.0.1", "127.1", "127.0.1", "127.0.0.01", "0127.0.0.1", "127.0.0.1.1", "0x", "1.1.1.0x1", "256.1.1.1", "1.1.1.1e0.9",
		}, false, false},
		"no ASCII":                {[]string{"bücher.example", "ｌocalhost", "①②⑦.0.0.1", "127。0。0。1", "\u212aubernetes", "a\u00adb.example", "\xff.example"}, false, false},
		"no name":                 {[]string{"", ".", "..", ".example.com", "example..com", "example.com..", "1.1.1.1..", strings.Repeat("a", 64) + ".example", strings.Repeat("a.", 127) + "example"}, false, false},
		"no characters of a name": {[]string{"exam ple.com", " example.com", "example.com ", "127.0.0.1 ", "user@example.com", "example.com/x", "example.com:443", "example.com#", "[example.com]", "[[::1]]", "[::1", "::1]", "a%00b.example", "a\x00b.example", "a\nb.example", "1.1.1.1:80"}, false, false},
	} {
		for _, host := range test.hosts {
			t.Run(name+": "+host, func(t *testing.T) {
				g := NewWithT(t)
				g.Expect(tenant.CheckHost(host) == nil).To(Equal(test.tenant), "tenant")
				g.Expect(administrator.CheckHost(host) == nil).To(Equal(test.administrator), "administrator")
				if !test.tenant {
					g.Expect(tenant.CheckHost(host)).To(MatchError(ErrDisallowed))
				}
			})
		}
	}
}

func TestNamesFollowWhatIsAllowedAndDenied(t *testing.T) {
	g := NewWithT(t)
	inCluster := guard(t, Tenant, Options{Allow: []string{"10.0.0.0/8"}})
	g.Expect(inCluster.CheckHost("cmdb.team-a.svc")).To(Succeed())
	g.Expect(inCluster.CheckHost("localhost")).To(MatchError(ErrDisallowed))
	g.Expect(inCluster.CheckHost("metadata.google.internal")).To(MatchError(ErrDisallowed))

	g.Expect(guard(t, Tenant, Options{Allow: []string{"127.0.0.1/32"}}).CheckHost("localhost")).To(Succeed())
	g.Expect(guard(t, Administrator, Options{Deny: []string{"127.0.0.0/8"}}).CheckHost("localhost")).To(MatchError(ErrDisallowed))
	g.Expect(guard(t, Administrator, Options{Allow: []string{"169.254.169.254/32"}}).CheckHost("metadata.google.internal")).To(Succeed())
}

func TestURLsAreJudgedByTheirHost(t *testing.T) {
	administrator := guard(t, Administrator, Options{})
	for address, open := range map[string]bool{
		"https://example.com/v1":                       true,
		"HTTP://example.com:8080/":                     true,
		"http://[2606:4700::1111]:8080/":               true,
		"https://user:password@example.com/?token=abc": true,
		"http://localhost:11434/v1":                    true,
		"https://example.com@169.254.169.254/":         false,
		"http://[::ffff:a9fe:a9fe]/latest":             false,
		"http://[fe80::1%25eth0]/":                     false,
		"http://0xa9fea9fe/":                           false,
		"http://%e2%91%a0.example/":                    false,
		"ftp://example.com/":                           false,
		"file:///etc/passwd":                           false,
		"//example.com/":                               false,
		"example.com":                                  false,
		"http:example.com":                             false,
		"http:///path":                                 false,
		"":                                             false,
	} {
		t.Run(address, func(t *testing.T) {
			g := NewWithT(t)
			u, err := url.Parse(address)
			g.Expect(err).NotTo(HaveOccurred())
			if open {
				g.Expect(administrator.CheckURL(u)).To(Succeed())
				return
			}
			g.Expect(administrator.CheckURL(u)).To(MatchError(ErrDisallowed))
		})
	}
}

func TestARefusedHostIsToldWhatWouldDo(t *testing.T) {
	tenant := guard(t, Tenant, Options{Setting: setting})
	for host, want := range map[string]string{
		"":                         "destination not allowed: the host is empty: name a server",
		"LOCALHOST":                "destination not allowed: localhost, which is 127.0.0.1, is in 127.0.0.0/8 (loopback): use another address, or allow a network inside 127.0.0.0/8 with --allow-cidrs",
		"metadata.google.internal": "destination not allowed: metadata.google.internal, which is 169.254.169.254, is in 169.254.169.254/32 (metadata of a cloud): use another address",
		"web.team-a.svc":           "destination not allowed: web.team-a.svc is a name of the cluster or of the local network: use a public name, or allow the network of its addresses with --allow-cidrs",
		"2130706433":               "destination not allowed: the host ends in a number like an IPv4 address: write such an address as four decimal numbers without leading zeros",
		"bücher.example":           "destination not allowed: the host has a character outside ASCII: write an international name in its ASCII form, which begins with xn--",
		"sk-secret@example.com":    `destination not allowed: the host has the character '@': only letters, digits, hyphens and dots make a name`,
	} {
		t.Run(host, func(t *testing.T) { NewWithT(t).Expect(tenant.CheckHost(host)).To(MatchError(want)) })
	}
}

func TestARefusedURLShowsNothingButItsHost(t *testing.T) {
	g := NewWithT(t)
	u, err := url.Parse("https://someone:hunter2@10.0.0.1/private?token=hunter2#hunter2")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(guard(t, Tenant, Options{}).CheckURL(u)).To(MatchError("destination not allowed: 10.0.0.1 is in 10.0.0.0/8 (private): use another address"))
}

// classic matches what inet_aton of C libraries reads as an IPv4 address.
var classic = regexp.MustCompile(`^(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+)){0,3}$`)

func FuzzHost(f *testing.F) {
	for _, seed := range []string{
		"example.com", "localhost.", "[::1]", "::ffff:127.0.0.1", "64:ff9b::a9fe:a9fe", "2606:4700::1111%eth0", "2130706433", "0x7f.1", "0177.0.0.1", "127.0.0.1.",
		"fe80::1%25eth0", "ｌocalhost", "metadata.goog", "a@b", "::1%]:80", "1.1.1.1",
	} {
		f.Add(seed)
	}
	tenant, _ := New(Tenant, Options{})
	administrator, _ := New(Administrator, Options{Deny: []string{"1.1.1.1/32"}})
	allowing, _ := New(Tenant, Options{Allow: []string{"10.0.0.0/8", "169.254.169.254/32"}})
	f.Fuzz(func(t *testing.T, host string) {
		for _, g := range []*Guard{tenant, administrator, allowing} {
			err := g.CheckHost(host)
			literal := strings.TrimSuffix(host, ".")
			if strings.HasPrefix(literal, "[") && strings.HasSuffix(literal, "]") {
				literal = literal[1 : len(literal)-1]
			}
			if addr, parseErr := netip.ParseAddr(literal); parseErr == nil {
				dialled := g.Control("tcp", netip.AddrPortFrom(addr.WithZone(""), 443).String(), nil)
				if (err == nil) != (dialled == nil) {
					t.Fatalf("%q: the host is judged %v, the dial %v", host, err, dialled)
				}
				continue
			}
			if lower := strings.ToLower(strings.TrimSuffix(host, ".")); err == nil && (classic.MatchString(lower) || strings.ContainsAny(lower, "@:/[]%\\?# \x00")) {
				t.Fatalf("%q passes", host)
			}
			if u, parseErr := url.Parse("http://" + host + "/"); parseErr == nil && (g.CheckURL(u) == nil) != (g.CheckHost(u.Hostname()) == nil) {
				t.Fatalf("%q: the URL is judged otherwise than its host", host)
			}
		}
	})
}
