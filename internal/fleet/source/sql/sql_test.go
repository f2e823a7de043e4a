// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/source"
	"github.com/candor-dev/candor/internal/netguard"
)

func guard(t *testing.T, options netguard.Options) *netguard.Guard {
	t.Helper()
	g, err := netguard.New(netguard.Tenant, options)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return g
}

func tenant(t *testing.T) *netguard.Guard { return guard(t, netguard.Options{}) }

// loopback is where the databases of tests are, or another network of those who run them.
func loopback(t *testing.T) *netguard.Guard {
	return guard(t, netguard.Options{Allow: []string{"127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"}})
}

func spec(driver, query string) *fleetmanagementv1alpha1.SQLSource {
	return &fleetmanagementv1alpha1.SQLSource{Driver: driver, Query: query}
}

// with returns what comes of a DSN.
func with(t *testing.T, g *netguard.Guard, driver, dsn string) (*Source, error) {
	t.Helper()
	return New(Options{Guard: g}, spec(driver, "SELECT 1"), map[string][]byte{"dsn": []byte(dsn)})
}

func TestAT07ADSNIsReadOrRefusedWithoutAWordOfIt(t *testing.T) {
	const (
		unreadablePG = "key dsn of the Secret cannot be read: write postgres://user:password@host:5432/database?sslmode=verify-full"
		unreadableMy = "key dsn of the Secret cannot be read: write user:password@tcp(host:3306)/database?tls=true"
		unknownMy    = "key dsn of the Secret has an option that is not known"
		files        = "which reads a file of the operator"
		host         = "must name a server by its host"
		networks     = "must name a server as tcp(host:3306)"
		forbidden    = "which is not for databases of others"
	)
	for name, test := range map[string]struct{ driver, dsn, target, want string }{
		"a URL":                                {"postgres", "postgres://u:hunter2@db.example.com/inventory", "sql:postgres@db.example.com:5432", ""},
		"a URL of the other scheme":            {"postgres", "postgresql://u:hunter2@DB.example.com:6432/inventory?sslmode=verify-full&connect_timeout=5", "sql:postgres@db.example.com:6432", ""},
		"a line break behind it":               {"postgres", "postgres://u:hunter2@db.example.com/inventory\n", "sql:postgres@db.example.com:5432", ""},
		"a question mark in the password":      {"postgres", "postgres://u:hunter2?x@db.example.com/inventory", "sql:postgres@db.example.com:5432", ""},
		"keywords":                             {"postgres", "host=db.example.com user=u password='hunter2 x' dbname=inventory sslmode=require", "sql:postgres@db.example.com:5432", ""},
		"several hosts":                        {"postgres", "postgres://u:hunter2@a.example.com,b.example.com:5433/inventory?target_session_attrs=any", "sql:postgres@a.example.com:5432,b.example.com:5433", ""},
		"a DSN of MySQL":                       {"mysql", "u:hunter2@tcp(db.example.com)/inventory", "sql:mysql@db.example.com:3306", ""},
		"options of MySQL":                     {"mysql", "u:hunter2@tcp(DB.example.com:3307)/inventory?tls=true&parseTime=true&loc=Local&charset=utf8mb4&sql_mode=ANSI", "sql:mysql@db.example.com:3307", ""},
		"a slash in the password":              {"mysql", "u:hun/ter2@tcp(db.example.com)/inventory", "sql:mysql@db.example.com:3306", ""},
		"nothing":                              {"postgres", " \n", "", "a database needs secretRef, and in that Secret the key dsn"},
		"no DSN":                               {"postgres", "hunter2", "", unreadablePG},
		"a DSN of the other driver":            {"postgres", "u:hunter2@tcp(db.example.com:3306)/inventory", "", unreadablePG},
		"a URL for MySQL":                      {"mysql", "mysql://u:hunter2@db.example.com:3306/inventory", "", ""},
		"a colon in the password":              {"postgres", "postgres://u:x:hunter2@db.example.com/inventory", "sql:postgres@db.example.com:5432", ""},
		"a port that is a password":            {"postgres", "postgres://u@db.example.com:hunter2/inventory", "", unreadablePG},
		"percent signs in the password":        {"postgres", "postgres://u:hunter2%zz@db.example.com/inventory", "", unreadablePG},
		"a quote without an end":               {"postgres", "host=db.example.com password='hunter2", "", unreadablePG},
		"a zero byte":                          {"postgres", "host=db.example.com password=hunter2\x00", "", unreadablePG},
		"an option that nobody knows":          {"postgres", "postgres://u:p@db.example.com/x?hunter2=hunter2", "", unreadablePG},
		"a mode that is none":                  {"postgres", "postgres://u:p@db.example.com/x?sslmode=hunter2", "", unreadablePG},
		"a certificate of the operator":        {"postgres", "postgres://u:hunter2@db.example.com/x?sslcert=/etc/passwd&sslkey=/etc/passwd", "", "has the option sslcert, " + files},
		"a root of the operator":               {"postgres", "host=db.example.com sslrootcert=/etc/passwd password=hunter2", "", "has the option sslrootcert, " + files},
		"passwords of the operator":            {"postgres", "passfile=/home/hunter2/.pgpass host=db.example.com", "", "has the option passfile, " + files},
		"a service of the operator":            {"postgres", "host=db.example.com service=hunter2", "", "has the option service, " + files},
		"a service in escapes":                 {"postgres", "postgres://u:p@db.example.com/x?servic%65=hunter2", "", unreadablePG},
		"a service file":                       {"postgres", "host=db.example.com servicefile = /tmp/hunter2", "", "has the option servicefile, " + files},
		"replication":                          {"postgres", "postgres://u:hunter2@db.example.com/x?replication=database", "", unreadablePG},
		"a socket":                             {"postgres", "host=/var/run/hunter2 user=u", "", host},
		"a socket behind a server":             {"postgres", "host=db.example.com,/var/run/hunter2 user=u", "", host},
		"no host":                              {"postgres", "user=u password=hunter2", "", host},
		"no DSN of MySQL":                      {"mysql", "hunter2", "", unreadableMy},
		"an address without an end":            {"mysql", "u:hunter2@tcp(db.example.com:3306/inventory", "", unreadableMy},
		"a socket for MySQL":                   {"mysql", "u:hunter2@unix(/run/mysqld/mysqld.sock)/inventory", "", networks},
		"a network that is none":               {"mysql", "u:p@hunter2(db.example.com:3306)/inventory", "", networks},
		"a configuration of TLS that is none":  {"mysql", "u:p@tcp(db.example.com)/x?tls=hunter2", "", unreadableMy},
		"files of the operator, for MySQL":     {"mysql", "u:hunter2@tcp(db.example.com)/x?allowAllFiles=true", "", "has the option allowAllFiles, " + forbidden},
		"several statements":                   {"mysql", "u:hunter2@tcp(db.example.com)/x?parseTime=true&multiStatements=true", "", "has the option multiStatements, " + forbidden},
		"an option at which the driver panics": {"mysql", "u:hunter2@tcp(db.example.com)/x?strict=true", "", "has the option strict, " + forbidden},
		"compression, which may hide a bomb":   {"mysql", "u:hunter2@tcp(db.example.com)/x?compress=true", "", "has the option compress, " + forbidden},
		"an option of MySQL that nobody knows": {"mysql", "u:p@tcp(db.example.com)/x?hunter2=1", "", unknownMy},
		"a password that looks like an option": {"mysql", "u:p/a?hunter2=x@tcp(db.example.com)", "", unknownMy},
		"a private address":                    {"postgres", "postgres://u:hunter2@10.0.0.1/x", "", "key dsn of the Secret names a server that cannot be asked: destination not allowed: 10.0.0.1 is in 10.0.0.0/8 (private)"},
		"metadata of a cloud behind a server":  {"postgres", "postgres://u:hunter2@db.example.com,169.254.169.254/x", "", "destination not allowed: 169.254.169.254 is in"},
		"this machine, for MySQL":              {"mysql", "u:hunter2@tcp(localhost)/x", "", "destination not allowed: localhost, which is 127.0.0.1, is in"},
		"no address, for MySQL":                {"mysql", "u:hunter2@/x", "", "destination not allowed: 127.0.0.1 is in"},
		"shared address space":                 {"mysql", "u:hunter2@tcp(100.64.0.1:3306)/x", "", "destination not allowed: 100.64.0.1 is in 100.64.0.0/10"},
		"IPv4 in IPv6":                         {"mysql", "u:hunter2@tcp([64:ff9b::a00:1]:3306)/x", "", "destination not allowed: 64:ff9b::a00:1, which is 10.0.0.1, is in"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, err := with(t, tenant(t), test.driver, test.dsn)
			if test.target != "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(s.Target()).To(Equal(test.target))
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(test.want)))
			g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"))
			var f *fault.Fault
			g.Expect(errors.As(err, &f)).To(BeTrue())
			g.Expect(f.Kind).To(Equal(fault.Retry), "the Secret may change")
		})
	}
}

func TestAT07ASpecThatCannotBeFollowedEndsTheTries(t *testing.T) {
	for name, test := range map[string]struct {
		spec *fleetmanagementv1alpha1.SQLSource
		want string
	}{
		"no driver":           {spec("", "SELECT 1"), "source.sql.driver must be postgres or mysql, which serves MariaDB, too"},
		"a query that writes": {spec("mysql", "DROP TABLE x"), `source.sql.query must begin with SELECT or WITH, not with "drop"`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := New(Options{Guard: tenant(t)}, test.spec, map[string][]byte{"dsn": []byte("postgres://u:p@db.example.com/x")})
			g.Expect(err).To(MatchError(test.want))
			var f *fault.Fault
			g.Expect(errors.As(err, &f)).To(BeTrue())
			g.Expect(f.Kind).To(Equal(fault.Terminal))
		})
	}
}

func TestAServerThatIsNotThereIsToldWithoutTheDSN(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	port := listener.Addr().(*net.TCPAddr).Port
	NewWithT(t).Expect(listener.Close()).To(Succeed())
	for driver, dsn := range map[string]string{"postgres": "postgres://hunter2:hunter2@127.0.0.1:%d/hunter2", "mysql": "hunter2:hunter2@tcp(127.0.0.1:%d)/hunter2"} {
		t.Run(driver, func(t *testing.T) {
			g := NewWithT(t)
			s, err := with(t, loopback(t), driver, fmt.Sprintf(dsn, port))
			g.Expect(err).NotTo(HaveOccurred())
			_, err = s.Fetch(t.Context(), "")
			g.Expect(err).To(MatchError("the database cannot be asked: connection refused"))
		})
	}
}

func TestAServerThatSpeaksAnotherLanguageIsToldWithoutTheDSN(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = connection.Write([]byte("HTTP/1.1 400 Bad Request\r\nhunter2\r\n\r\n"))
			_ = connection.Close()
		}
	}()
	for driver, dsn := range map[string]string{"postgres": "postgres://hunter2:hunter2@%s/hunter2", "mysql": "hunter2:hunter2@tcp(%s)/hunter2"} {
		t.Run(driver, func(t *testing.T) {
			g := NewWithT(t)
			s, err := with(t, loopback(t), driver, fmt.Sprintf(dsn, listener.Addr()))
			g.Expect(err).NotTo(HaveOccurred())
			_, err = s.Fetch(t.Context(), "")
			g.Expect(err).To(MatchError(HavePrefix("the database ")))
			g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"))
		})
	}
}

func TestNothingOfTheOperatorIsUsedForADatabase(t *testing.T) {
	g := NewWithT(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	write(t, home+"/.pgpass", "*:*:*:*:of-the-operator\n")
	s, err := with(t, tenant(t), "postgres", "postgres://u@db.example.com/x?sslmode=verify-full")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.database.(*postgres).config.Password).To(BeEmpty())
	s, err = with(t, tenant(t), "postgres", "host=db.example.com user=u")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.database.(*postgres).config.Password).To(BeEmpty())
}

func TestCertificatesOfTheSecretAreTrusted(t *testing.T) {
	for name, test := range map[string]struct{ driver, dsn string }{
		"PostgreSQL": {"postgres", "postgres://u:p@a.example.com,b.example.com/x?sslmode=verify-full"},
		"MySQL":      {"mysql", "u:p@tcp(a.example.com)/x?tls=true"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			secret := map[string][]byte{"dsn": []byte(test.dsn), "ca.crt": []byte(authority(t))}
			s, err := New(Options{Guard: tenant(t)}, spec(test.driver, "SELECT 1"), secret)
			g.Expect(err).NotTo(HaveOccurred())
			var configs []*tls.Config
			if p, ok := s.database.(*postgres); ok {
				configs = tlsOf(p.config)
				g.Expect(configs).To(HaveLen(2))
			} else {
				configs = append(configs, s.database.(*mysqlDatabase).config.TLS)
			}
			for _, config := range configs {
				g.Expect(config.RootCAs).NotTo(BeNil())
				g.Expect(config.InsecureSkipVerify).To(BeFalse())
				g.Expect(config.ServerName).To(HaveSuffix(".example.com"))
			}

			secret["ca.crt"] = []byte("hunter2")
			_, err = New(Options{Guard: tenant(t)}, spec(test.driver, "SELECT 1"), secret)
			g.Expect(err).To(MatchError(HavePrefix("key ca.crt of the Secret: holds no certificate in PEM")))
		})
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	NewWithT(t).Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
}

// authority is a certificate that signs itself.
func authority(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// secured is a server that begins TLS as PostgreSQL does, and then ends the connection. It returns its address and certificate.
func secured(t *testing.T) (string, string) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(connection, make([]byte, 8))
			_, _ = connection.Write([]byte("S"))
			secure := tls.Server(connection, &tls.Config{Certificates: server.TLS.Certificates})
			_, _ = secure.Read(make([]byte, 1<<10)) // what is left unread would make the end a reset
			_ = secure.Close()
		}
	}()
	return listener.Addr().String(), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

func TestAServerIsVerifiedByTheCertificatesOfTheSecret(t *testing.T) {
	address, certificate := secured(t)
	for name, test := range map[string]struct{ mode, ca, want string }{
		"not without them":               {"verify-full", "", "the database cannot be asked: the certificate of the server is not trusted: x509: "},
		"nor without them by chain only": {"verify-ca", "", "the database cannot be asked: the certificate of the server is not trusted: x509: "},
		"with them":                      {"verify-full", certificate, "the database cannot be asked: the server ends the connection"},
		"with them by chain only":        {"verify-ca", certificate, "the database cannot be asked: the server ends the connection"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			secret := map[string][]byte{"dsn": []byte("postgres://u:hunter2@" + address + "/x?sslmode=" + test.mode), "ca.crt": []byte(test.ca)}
			s, err := New(Options{Guard: loopback(t)}, spec("postgres", "SELECT 1"), secret)
			g.Expect(err).NotTo(HaveOccurred())
			_, err = s.Fetch(t.Context(), "")
			g.Expect(err).To(MatchError(HavePrefix(test.want)))
		})
	}
}

func TestValuesAreBoundedHoweverShortTheyAre(t *testing.T) {
	g := NewWithT(t)
	rows := &table{limits: defaults}
	columns := make([]string, 1000)
	for i := range columns {
		columns[i] = strconv.Itoa(i)
	}
	g.Expect(rows.begin(columns)).To(Succeed())
	for range source.MaxValues / len(columns) {
		g.Expect(rows.room(0)).To(Succeed())
	}
	g.Expect(rows.room(0)).To(MatchError("the query returns more than 1000000 values: select only the columns that are mapped"))
}
