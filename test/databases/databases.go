// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package databases starts real databases for tests, of programs that Debian packages as postgresql, mariadb-server-core and
// mariadb-client-core.
//
// A database listens on a random port of the loopback address, keeps its data in a folder of its own under the temporary one, and
// ends with the tests of its package. CANDOR_POSTGRES_DSN and CANDOR_MARIADB_DSN name others to use, with a user that may create
// tables and users. Without a program and without such a variable a test is skipped, or fails where CI is true.
package databases

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"
)

// patience bounds how long a database may take to be made, and then to be ready.
const patience = 2 * time.Minute

// product is a database that can be started.
type product struct {
	name, variable, packages string
	// start returns the DSN of a user with all rights.
	start func(context.Context, *server) (string, error)

	once   sync.Once
	server *server
	dsn    string
	err    error
}

var (
	postgres = &product{name: "PostgreSQL", variable: "CANDOR_POSTGRES_DSN", packages: "postgresql", start: startPostgres}
	mariadb  = &product{name: "MariaDB", variable: "CANDOR_MARIADB_DSN", packages: "mariadb-server-core and mariadb-client-core", start: startMariaDB}
)

// errMissing says that a program is not installed.
var errMissing = errors.New("is not installed")

// Postgres returns the DSN of a PostgreSQL, which all tests of a package share. Run has to run them.
func Postgres(t testing.TB) string { return postgres.use(t) }

// MariaDB returns the DSN of a MariaDB, which all tests of a package share. Run has to run them.
func MariaDB(t testing.TB) string { return mariadb.use(t) }

// Run is for TestMain: it runs tests and ends the databases that they started.
func Run(m *testing.M) int {
	defer postgres.stop()
	defer mariadb.stop()
	return m.Run()
}

func (p *product) use(t testing.TB) string {
	t.Helper()
	if dsn := os.Getenv(p.variable); dsn != "" {
		return dsn
	}
	p.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if p.server, p.err = newServer(); p.err == nil {
			p.dsn, p.err = p.start(ctx, p.server)
		}
	})
	switch {
	case p.err == nil:
		return p.dsn
	case errors.Is(p.err, errMissing) && os.Getenv("CI") != "true":
		t.Skipf("%v: install %s, or name a %s with %s", p.err, p.packages, p.name, p.variable)
	default:
		t.Fatalf("%s: %v: install %s, or name another with %s", p.name, p.err, p.packages, p.variable)
	}
	return ""
}

func (p *product) stop() {
	if p.server != nil {
		p.server.stop()
	}
}
