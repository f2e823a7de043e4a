// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookcert

import (
	"context"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/open-policy-agent/cert-controller/pkg/rotator"
)

// pem makes a certificate for a name, as somebody else would.
func pem(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	maker := &rotator.CertRotator{CAName: "somebody-else", DNSName: name, ExtKeyUsages: &[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	ca, err := maker.CreateCACert(start, start.Add(time.Hour))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	cert, key, err = maker.CreateCertPEM(ca, start, start.Add(time.Hour))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return cert, key
}

// mount fills a folder as a kubelet does: files are links through ..data, which is replaced at once, and then what it led to is
// removed.
func mount(t *testing.T, folder, version string, files map[string][]byte) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(os.Mkdir(filepath.Join(folder, version), 0o700)).To(Succeed())
	for name, content := range files {
		g.Expect(os.WriteFile(filepath.Join(folder, version, name), content, 0o600)).To(Succeed())
	}
	old, _ := os.Readlink(filepath.Join(folder, "..data"))
	g.Expect(os.Symlink(version, filepath.Join(folder, "..new"))).To(Succeed())
	g.Expect(os.Rename(filepath.Join(folder, "..new"), filepath.Join(folder, "..data"))).To(Succeed())
	for name := range files {
		if _, err := os.Lstat(filepath.Join(folder, name)); err != nil {
			g.Expect(os.Symlink(filepath.Join("..data", name), filepath.Join(folder, name))).To(Succeed())
		}
	}
	if old != "" {
		g.Expect(os.RemoveAll(filepath.Join(folder, old))).To(Succeed())
	}
}

// served returns a function that tells for which name the certificate in use is, empty for none.
func served(c *Certificate) func() string {
	return func() string {
		current, err := c.Get(nil)
		if err != nil {
			return ""
		}
		return current.Leaf.DNSNames[0]
	}
}

func TestAFolderIsFollowedFromEmptyToBrokenToRenewed(t *testing.T) {
	g := NewWithT(t)
	c, heard, _ := newCertificate()
	folder := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- (&Folder{Path: folder, Certificate: c}).Start(ctx) }()
	must := "the folder " + folder + " must hold tls.crt and tls.key, in PEM and of one key: "

	g.Eventually(heard.all).Should(HaveExactElements(must + "open " + folder + "/tls.crt: no such file or directory"))
	g.Expect(c.Check(nil)).To(MatchError(ContainSubstring("no such file")))

	cert, _ := pem(t, "first")
	_, key := pem(t, "other")
	mount(t, folder, "..1", map[string][]byte{certFile: cert, keyFile: key})
	g.Eventually(heard.all, "10s").Should(HaveLen(2))
	g.Expect(c.Check(nil)).To(MatchError(must + "tls: private key does not match public key"))

	cert, key = pem(t, "first")
	mount(t, folder, "..2", map[string][]byte{certFile: cert, keyFile: key})
	g.Eventually(served(c), "10s").Should(Equal("first"))
	g.Expect(c.Check(nil)).To(Succeed())

	cert, key = pem(t, "second")
	mount(t, folder, "..3", map[string][]byte{certFile: cert, keyFile: key})
	g.Eventually(served(c), "20s").Should(Equal("second"), "without a restart")
	g.Expect(heard.all()).To(HaveLen(3), "a renewal is no news")

	cancel()
	g.Eventually(done).Should(Receive(Succeed()))
}

func TestTheFilesOfAFolderMayHaveOtherNames(t *testing.T) {
	g := NewWithT(t)
	c, _, _ := newCertificate()
	folder := t.TempDir()
	cert, key := pem(t, "renamed")
	mount(t, folder, "..1", map[string][]byte{"server.pem": cert, "server-key.pem": key})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- (&Folder{Path: folder, CertFile: "server.pem", KeyFile: "server-key.pem", Certificate: c}).Start(ctx)
	}()
	g.Eventually(served(c), "10s").Should(Equal("renamed"))
	cancel()
	g.Eventually(done).Should(Receive(Succeed()))
}
