// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// postgresKeys are the options that a DSN may have: none that makes the driver read a file.
var postgresKeys = []string{
	"host", "port", "dbname", "user", "password", "sslmode", "ssl", "sslnegotiation", "sslsni", "connect_timeout", "channel_binding",
	"require_auth", "target_session_attrs", "min_protocol_version", "max_protocol_version", "application_name", "options", "search_path",
}

// postgresFiles finds options that make it read one.
var postgresFiles = regexp.MustCompile(`(?:^|[\s?&])(passfile|service|servicefile|sslcert|sslkey|sslrootcert|sslpassword)\s*=`)

type postgres struct{ config *pgconn.Config }

// openPostgres reads a DSN. Its error goes on after the name of the key, and shows nothing of the DSN.
func openPostgres(dsn string, roots *x509.CertPool) (database, error) {
	if found := postgresFiles.FindStringSubmatch(dsn); found != nil {
		return nil, fmt.Errorf("has the option %s, which reads a file of the operator: leave it out; %s in the Secret holds certificates to trust", found[1], caKey)
	}
	allowed := pgconn.ParseConfigOptions{ConnStringAllowedKeys: postgresKeys}
	if _, err := pgconn.ParseConfigWithOptions(dsn, allowed); err != nil {
		return nil, errors.New("cannot be read: write postgres://user:password@host:5432/database?sslmode=verify-full, " +
			"with special characters of the password percent-encoded and none but the usual options, or host=… user=… password=… dbname=…")
	}
	// What stands in the operator's own home folder is not for the databases of others.
	config, err := pgconn.ParseConfig(dsn + withoutFiles(dsn))
	if err != nil {
		return nil, errors.New("cannot be read")
	}
	config.MaxProtocolMessageBodyLen = int(defaults.bytes) + 1<<20
	for _, c := range tlsOf(config) {
		c.MinVersion, c.RootCAs = tls.VersionTLS12, roots
	}
	p := &postgres{config}
	for _, address := range p.hosts() {
		if strings.ContainsAny(address, `/\@`) {
			return nil, errors.New("must name a server by its host: sockets of the operator's own machine are not for databases of others")
		}
	}
	return p, nil
}

// withoutFiles is what a DSN needs at its end to read no file.
func withoutFiles(dsn string) string {
	rest, isURL := strings.CutPrefix(dsn, "postgres://")
	if !isURL {
		rest, isURL = strings.CutPrefix(dsn, "postgresql://")
	}
	if !isURL {
		return " passfile='' sslcert='' sslkey='' sslrootcert=''"
	}
	if i := strings.IndexAny(rest, "@/"); i >= 0 && rest[i] == '@' {
		rest = rest[i+1:]
	}
	separator := "?"
	if strings.Contains(rest, "?") {
		separator = "&"
	}
	return separator + "passfile=&sslcert=&sslkey=&sslrootcert="
}

func tlsOf(config *pgconn.Config) (all []*tls.Config) {
	if config.TLSConfig != nil {
		all = append(all, config.TLSConfig)
	}
	for _, fallback := range config.Fallbacks {
		if fallback.TLSConfig != nil {
			all = append(all, fallback.TLSConfig)
		}
	}
	return all
}

func (p *postgres) hosts() (hosts []string) {
	seen := map[string]bool{}
	add := func(host string, port uint16) {
		if address := net.JoinHostPort(host, strconv.Itoa(int(port))); !seen[address] {
			seen[address] = true
			hosts = append(hosts, address)
		}
	}
	add(p.config.Host, p.config.Port)
	for _, fallback := range p.config.Fallbacks {
		add(fallback.Host, fallback.Port)
	}
	return hosts
}

// beginning makes the transaction: it only reads, and values come in one form whatever the server is set to.
const beginning = `BEGIN READ ONLY; SET LOCAL statement_timeout = %d; SET LOCAL client_encoding = 'UTF8'; SET LOCAL datestyle = 'ISO'; ` +
	`SET LOCAL timezone = 'UTC'; SET LOCAL bytea_output = 'hex'; SET LOCAL standard_conforming_strings = on`

func (p *postgres) read(ctx context.Context, line *line, query string, limits limits, into *table) error {
	config := p.config.Copy()
	config.DialFunc = line.dial
	connection, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	// Closing rolls back what is not over; a server that does not hear of it is not waited for.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = connection.Close(ctx)
	}()
	if _, err := connection.Exec(ctx, fmt.Sprintf(beginning, limits.statement.Milliseconds())).ReadAll(); err != nil {
		return err
	}
	// This is the extended protocol, in which a query is one statement.
	rows := connection.ExecParams(ctx, query, nil, nil, nil, nil)
	if err := take(rows, into); err != nil {
		return err
	}
	if _, err := rows.Close(); err != nil {
		return err
	}
	_, err = connection.Exec(ctx, "ROLLBACK").ReadAll()
	return err
}

// take reads rows as long as they fit.
func take(rows *pgconn.ResultReader, into *table) error {
	for begun := false; rows.NextRow(); begun = true {
		fields := rows.FieldDescriptions()
		if !begun {
			columns := make([]string, len(fields))
			for i, field := range fields {
				columns[i] = field.Name
			}
			if err := into.begin(columns); err != nil {
				return err
			}
		}
		values, size := rows.Values(), 0
		for _, value := range values {
			size += len(value)
		}
		if err := into.room(size); err != nil {
			return err
		}
		if err := into.add(func(i int) (any, error) { return postgresValue(fields[i].DataTypeOID, values[i]) }); err != nil {
			return err
		}
	}
	return nil
}

// postgresValue reads a value from the form of text.
func postgresValue(oid uint32, raw []byte) (any, error) {
	if raw == nil {
		return nil, nil
	}
	switch written := string(raw); oid {
	case pgtype.BoolOID:
		return written == "t", nil
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.OIDOID, pgtype.NumericOID:
		return decimal(raw), nil
	case pgtype.Float4OID, pgtype.Float8OID:
		return float(written), nil
	case pgtype.TimestamptzOID:
		return moment("2006-01-02 15:04:05Z07", written), nil
	case pgtype.TimestampOID:
		return moment("2006-01-02 15:04:05", written), nil
	case pgtype.ByteaOID:
		bytes, err := hex.DecodeString(strings.TrimPrefix(written, `\x`))
		if err != nil {
			return nil, errBinary
		}
		return text(bytes)
	default:
		return text(raw)
	}
}
