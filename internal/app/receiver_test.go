// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/candor-dev/candor/internal/webhookcert"
)

func TestSignalsNeedAPortAndACertificate(t *testing.T) {
	folder := t.TempDir()
	const none = "--signal-receiver-port=9444: signals come by HTTPS alone: set --signal-receiver-cert-path, or --webhook-cert-path or --webhook-cert-secret, whose certificate is then used"
	for name, test := range map[string]struct {
		env  map[string]string
		args []string
		want ReceiverOptions
		err  string
	}{
		"off unless asked for":                   {nil, nil, ReceiverOptions{}, ""},
		"a certificate of its own":               {nil, []string{"--signal-receiver-port=9444", "--signal-receiver-cert-path=" + folder}, ReceiverOptions{9444, folder}, ""},
		"by variables":                           {map[string]string{"CANDOR_SIGNAL_RECEIVER_PORT": "9444", "CANDOR_SIGNAL_RECEIVER_CERT_PATH": folder}, nil, ReceiverOptions{9444, folder}, ""},
		"the certificate of the webhooks":        {nil, []string{"--signal-receiver-port=9444", "--webhook-cert-path=" + folder}, ReceiverOptions{9444, ""}, ""},
		"the webhooks' own certificate":          {nil, []string{"--signal-receiver-port=9444", "--webhook-cert-secret=own", "--pod-namespace=candor-system"}, ReceiverOptions{9444, ""}, ""},
		"no certificate at all":                  {nil, []string{"--signal-receiver-port=9444"}, ReceiverOptions{}, none},
		"a folder that is not there":             {nil, []string{"--signal-receiver-port=9444", "--signal-receiver-cert-path=/nowhere"}, ReceiverOptions{}, "--signal-receiver-cert-path=/nowhere: is no folder: mount tls.crt and tls.key there, or leave the flag empty"},
		"no port, whatever the folder is":        {nil, []string{"--signal-receiver-cert-path=/nowhere"}, ReceiverOptions{0, "/nowhere"}, ""},
		"a port that there is not":               {nil, []string{"--signal-receiver-port=70000", "--signal-receiver-cert-path=" + folder}, ReceiverOptions{}, "--signal-receiver-port=70000: must be between 1 and 65535, or 0, which takes no signals"},
		"the port of the webhooks":               {nil, []string{"--signal-receiver-port=9443", "--signal-receiver-cert-path=" + folder}, ReceiverOptions{}, "--signal-receiver-port=9443: must be another port than --webhook-port"},
		"a wrong folder of the webhooks is once": {nil, []string{"--signal-receiver-port=9444", "--webhook-cert-path=/nowhere"}, ReceiverOptions{}, "--webhook-cert-path=/nowhere: is no folder: mount tls.crt and tls.key there, or leave the flag empty"},
	} {
		t.Run(name, func(t *testing.T) {
			options, err := read(test.env, test.args...)
			if test.err != "" {
				NewWithT(t).Expect(err).To(MatchError(test.err))
				return
			}
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(options.Receiver).To(Equal(test.want))
		})
	}
}

// startServer runs a signalServer on a free port, with the certificate of a folder, until the test ends or stop is called. stop
// returns what Start returned.
func startServer(t *testing.T, folder string, options Options, handler http.Handler) (s *signalServer, address string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	there := make(chan error, 8)
	certificate := &webhookcert.Certificate{Clock: clock.RealClock{}, Announce: func(problem error) { there <- problem }}
	keeper := make(chan struct{})
	go func() {
		defer close(keeper)
		_ = (&webhookcert.Folder{Path: folder, Certificate: certificate}).Start(ctx)
	}()
	if err := <-there; err != nil {
		t.Fatal(err)
	}
	s = &signalServer{tls: tlsOptions(options), http2: options.EnableHTTP2, certificate: certificate, handler: handler, log: logr.Discard()}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx, listener) }()
	stop = func() error {
		cancel()
		<-keeper
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return s, listener.Addr().String(), stop
}

// certify writes a certificate for a name, and its key.
func certify(t *testing.T, folder, name string) {
	t.Helper()
	g := NewWithT(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	g.Expect(err).NotTo(HaveOccurred())
	private, err := x509.MarshalPKCS8PrivateKey(key)
	g.Expect(err).NotTo(HaveOccurred())
	for file, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: certificate}, "tls.key": {Type: "PRIVATE KEY", Bytes: private}} {
		temporary := filepath.Join(folder, file+".new")
		g.Expect(os.WriteFile(temporary, pem.EncodeToMemory(block), 0o600)).To(Succeed())
		g.Expect(os.Rename(temporary, filepath.Join(folder, file))).To(Succeed())
	}
}

// dial connects, and offers both versions of HTTP.
func dial(t *testing.T, address string) *tls.Conn {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestSignalsComeByHTTPSOfTheVersionThatTheOptionsAllow(t *testing.T) {
	folder := t.TempDir()
	certify(t, folder, "first")
	for http2, want := range map[bool]string{false: "http/1.1", true: "h2"} {
		_, address, _ := startServer(t, folder, Options{EnableHTTP2: http2}, http.NotFoundHandler())
		conn := dial(t, address)
		NewWithT(t).Expect(conn.ConnectionState().NegotiatedProtocol).To(Equal(want))
		NewWithT(t).Expect(conn.ConnectionState().Version).To(BeNumerically(">=", tls.VersionTLS12))
	}
}

func TestARenewedCertificateIsServed(t *testing.T) {
	folder := t.TempDir()
	certify(t, folder, "first")
	_, address, _ := startServer(t, folder, Options{}, http.NotFoundHandler())
	shown := func() string { return dial(t, address).ConnectionState().PeerCertificates[0].Subject.CommonName }
	g := NewWithT(t)
	g.Expect(shown()).To(Equal("first"))
	certify(t, folder, "second")
	g.Eventually(shown).WithTimeout(30 * time.Second).Should(Equal("second"))
}

func TestRequestsThatHaveComeAreAnsweredBeforeTheEnd(t *testing.T) {
	g, folder := NewWithT(t), t.TempDir()
	certify(t, folder, "first")
	entered, hold := make(chan struct{}), make(chan struct{})
	s, address, stop := startServer(t, folder, Options{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-hold
		w.WriteHeader(http.StatusAccepted)
	}))
	g.Expect(s.NeedLeaderElection()).To(BeFalse())
	conn := dial(t, address)
	_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: candor\r\nContent-Length: 0\r\n\r\n")
	g.Expect(err).NotTo(HaveOccurred())
	<-entered
	g.Expect(s.serving()).To(BeTrue())
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	g.Eventually(s.serving).Should(BeFalse())
	g.Expect(ended).NotTo(Receive())
	close(hold)
	line, err := bufio.NewReader(conn).ReadString('\n')
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.TrimSpace(line)).To(Equal("HTTP/1.1 202 Accepted"))
	g.Expect(<-ended).To(Succeed())
}

func TestAPortThatIsTakenIsNamed(t *testing.T) {
	g := NewWithT(t)
	listener, err := net.Listen("tcp", ":0")
	g.Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	s := &signalServer{port: port, certificate: &webhookcert.Certificate{Clock: clock.RealClock{}}, log: logr.Discard()}
	g.Expect(s.Start(context.Background())).To(MatchError(HavePrefix(fmt.Sprintf("--signal-receiver-port=%d: cannot listen: ", port))))
	g.Expect(s.serving()).To(BeFalse())
}

func TestNoSignalsComeInWithoutACertificate(t *testing.T) {
	s := &signalServer{certificate: &webhookcert.Certificate{Clock: clock.RealClock{}}}
	s.listening.Store(true)
	NewWithT(t).Expect(s.serving()).To(BeFalse())
}

func TestSoManySendersAreConnectedAtOnce(t *testing.T) {
	g, folder := NewWithT(t), t.TempDir()
	certify(t, folder, "first")
	_, address, _ := startServer(t, folder, Options{}, http.NotFoundHandler())
	first := dial(t, address)
	for range receiverConnections - 1 {
		dial(t, address)
	}
	one, err := net.Dial("tcp", address)
	g.Expect(err).NotTo(HaveOccurred())
	defer one.Close()
	beyond, shaken := tls.Client(one, &tls.Config{InsecureSkipVerify: true}), make(chan error, 1)
	go func() { shaken <- beyond.Handshake() }()
	g.Consistently(shaken).ShouldNot(Receive())
	g.Expect(first.Close()).To(Succeed())
	g.Eventually(shaken).WithTimeout(30 * time.Second).Should(Receive(BeNil()))
}
