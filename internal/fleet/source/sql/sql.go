// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sql reads records from a database: the rows of one query, in a transaction that only reads and is always rolled back.
package sql

import (
	"context"
	"crypto/x509"
	"strings"
	"time"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/egress"
	"github.com/candor-dev/candor/internal/fleet/source"
	"github.com/candor-dev/candor/internal/fleet/source/sqlcheck"
	"github.com/candor-dev/candor/internal/netguard"
)

// Keys of the Secret.
const (
	dsnKey = "dsn"
	// caKey are PEM certificates that the database is trusted by, beside those of the system. Optional.
	caKey = "ca.crt"
)

// limits bound a fetch.
type limits struct {
	// fetch is how long all of it may take, statement how long the database may work on the query. The latter is shorter, so that the
	// database itself ends what takes too long.
	fetch, statement time.Duration
	// records and bytes bound what is taken, wire what is read of the connection, in bytes.
	records     int
	bytes, wire int64
}

var defaults = limits{fetch: 30 * time.Second, statement: 25 * time.Second, records: source.MaxRecords, bytes: 10 << 20, wire: 40 << 20}

// Options are what all sources have in common.
type Options struct {
	// Guard judges where a database may be. Required.
	Guard *netguard.Guard
}

// database runs a query and hands its rows to a table.
type database interface {
	read(ctx context.Context, line *line, query string, limits limits, into *table) error
	// hosts are the servers, each with its port.
	hosts() []string
}

// Source is one database.
type Source struct {
	guard    *netguard.Guard
	database database
	target   string
	query    string
	limits   limits
}

var _ source.Source = &Source{}

// New returns the source that a spec describes, without a connection to it. secret are the data of the Secret that the spec names.
// Its errors are *fault.Fault.
func New(options Options, spec *fleetmanagementv1alpha1.SQLSource, secret map[string][]byte) (*Source, error) {
	if err := sqlcheck.CheckDriver(spec.Driver); err != nil {
		return nil, source.Invalid("source.sql.driver %w", err)
	}
	if err := sqlcheck.CheckQuery(spec.Query); err != nil {
		return nil, source.Invalid("source.sql.query %w", err)
	}
	dsn := strings.TrimSpace(string(secret[dsnKey]))
	if dsn == "" {
		return nil, source.SecretUnreadable("a database needs secretRef, and in that Secret the key %s", dsnKey)
	}
	roots, err := egress.Roots(secret[caKey])
	if err != nil {
		return nil, source.SecretUnreadable("key %s of the Secret: %w", caKey, err)
	}
	database, err := open(spec.Driver, dsn, roots)
	if err != nil {
		return nil, source.SecretUnreadable("key %s of the Secret %w", dsnKey, err)
	}
	for _, address := range database.hosts() {
		if err := checkHost(options.Guard, address); err != nil {
			return nil, source.Failed("key %s of the Secret names a server that cannot be asked: %w", dsnKey, err)
		}
	}
	target := "sql:" + spec.Driver + "@" + strings.ToLower(strings.Join(database.hosts(), ","))
	return &Source{guard: options.Guard, database: database, target: target, query: spec.Query, limits: defaults}, nil
}

func open(driver, dsn string, roots *x509.CertPool) (database, error) {
	if driver == sqlcheck.Postgres {
		return openPostgres(dsn, roots)
	}
	return openMySQL(dsn, roots)
}

// Target is who a limit on the rate of fetches counts for: the driver, and the servers with their ports.
func (s *Source) Target() string { return s.target }

// Close does nothing: a connection lives as long as a fetch.
func (s *Source) Close() error { return nil }

// Fetch runs the query. No database has versions of its rows to tell, so that it returns none.
func (s *Source) Fetch(ctx context.Context, _ string) (source.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limits.fetch)
	defer cancel()
	line := &line{dialer: s.guard.Dialer(), most: s.limits.wire}
	rows := &table{limits: s.limits}
	err := s.database.read(ctx, line, s.query, s.limits, rows)
	if line.exceeded() {
		err = rows.tooLarge()
	}
	if err != nil {
		return source.Result{}, told(err, s.limits)
	}
	return source.Result{Records: rows.records}, nil
}
