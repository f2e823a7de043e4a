// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// mysqlKeys are the options that a DSN may have; variables of the session may stand there, too, whose names have an underscore.
var (
	mysqlKeys = []string{
		"allowCleartextPasswords", "allowFallbackToPlaintext", "allowNativePasswords", "charset", "checkConnLiveness", "clientFoundRows", "collation",
		"columnsWithAlias", "connectionAttributes", "interpolateParams", "loc", "maxAllowedPacket", "parseTime", "readTimeout", "rejectReadOnly",
		"timeTruncate", "timeout", "tls", "writeTimeout", "autocommit",
	}
	mysqlVariable = regexp.MustCompile(`^[a-z]+(_[a-z0-9]+)+$`)
	// mysqlRefused are options that are told by name, since people do write them.
	mysqlRefused = []string{"allowAllFiles", "allowOldPasswords", "compress", "multiStatements", "serverPubKey", "strict"}
)

type mysqlDatabase struct{ config *mysql.Config }

// openMySQL reads a DSN. Its error goes on after the name of the key, and shows nothing of the DSN.
func openMySQL(dsn string, roots *x509.CertPool) (database, error) {
	// The driver panics at some options.
	if err := checkMySQLKeys(dsn); err != nil {
		return nil, err
	}
	config, err := mysql.ParseDSN(dsn)
	if err != nil || config.Addr == "" {
		return nil, errors.New("cannot be read: write user:password@tcp(host:3306)/database?tls=true, where tls is true, false, skip-verify or preferred")
	}
	if config.Net != "tcp" {
		return nil, errors.New("must name a server as tcp(host:3306): other networks and sockets are not for databases of others")
	}
	if err := config.Apply(mysql.Charset("utf8mb4", "")); err != nil {
		return nil, errors.New("cannot be read")
	}
	config.Logger = &mysql.NopLogger{}
	config.ParseTime, config.MultiStatements, config.AllowAllFiles, config.InterpolateParams = false, false, false, false
	if config.TLS != nil {
		config.TLS.MinVersion, config.TLS.RootCAs = tls.VersionTLS12, roots
	}
	return &mysqlDatabase{config}, nil
}

func checkMySQLKeys(dsn string) error {
	_, options, _ := strings.Cut(dsn[strings.LastIndex(dsn, "/")+1:], "?")
	for _, option := range strings.Split(options, "&") {
		switch key, _, _ := strings.Cut(option, "="); {
		case key == "" || slices.Contains(mysqlKeys, key) || mysqlVariable.MatchString(key):
		case slices.Contains(mysqlRefused, key):
			return fmt.Errorf("has the option %s, which is not for databases of others: leave it out", key)
		default:
			return errors.New("has an option that is not known: see that what stands behind the database's name is written as the driver has it, or leave it out")
		}
	}
	return nil
}

func (m *mysqlDatabase) hosts() []string { return []string{m.config.Addr} }

// unknownVariable is the number of the error of a server that has no variable of a name.
const unknownVariable = 1193

func (m *mysqlDatabase) read(ctx context.Context, line *line, query string, limits limits, into *table) error {
	// The end of the context ends the connection, so that nobody waits for rows that are not taken.
	ctx, cancel := context.WithCancel(ctx)
	config := m.config.Clone()
	config.DialFunc = line.dial
	connector, err := mysql.NewConnector(config)
	if err != nil {
		cancel()
		return err
	}
	pool := sql.OpenDB(connector)
	defer func() { _ = pool.Close() }()
	defer cancel()
	connection, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	if err := settle(ctx, connection, limits); err != nil {
		return err
	}
	transaction, err := connection.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = transaction.Rollback() }()
	rows, err := transaction.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() {
		cancel()
		_ = rows.Close()
	}()
	return takeRows(rows, into)
}

// settle bounds the time of statements, as MariaDB or as MySQL does it, and has times told in UTC.
func settle(ctx context.Context, connection *sql.Conn, limits limits) error {
	_, err := connection.ExecContext(ctx, "SET SESSION max_statement_time = "+strconv.FormatFloat(limits.statement.Seconds(), 'f', 3, 64))
	if refused := (*mysql.MySQLError)(nil); errors.As(err, &refused) && refused.Number == unknownVariable {
		_, err = connection.ExecContext(ctx, "SET SESSION max_execution_time = "+strconv.FormatInt(limits.statement.Milliseconds(), 10))
	}
	if err != nil {
		return err
	}
	_, err = connection.ExecContext(ctx, "SET SESSION time_zone = '+00:00'")
	return err
}

func takeRows(rows *sql.Rows, into *table) error {
	types, err := rows.ColumnTypes()
	if err != nil {
		return err
	}
	columns, values, targets := make([]string, len(types)), make([]any, len(types)), make([]any, len(types))
	for i, t := range types {
		columns[i], targets[i] = t.Name(), &values[i]
	}
	if err := into.begin(columns); err != nil {
		return err
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		size := 0
		for _, value := range values {
			if raw, ok := value.([]byte); ok {
				size += len(raw)
			}
		}
		if err := into.room(size); err != nil {
			return err
		}
		if err := into.add(func(i int) (any, error) { return mysqlValue(types[i].DatabaseTypeName(), values[i]) }); err != nil {
			return err
		}
	}
	return rows.Err()
}

// mysqlValue reads what the driver returns, which has numbers and NULL as such and all else as bytes.
func mysqlValue(databaseType string, value any) (any, error) {
	if f, ok := value.(float32); ok {
		return float(strconv.FormatFloat(float64(f), 'f', -1, 32)), nil
	}
	raw, ok := value.([]byte)
	if !ok {
		return value, nil
	}
	switch databaseType {
	case "DECIMAL":
		return decimal(raw), nil
	case "BIT":
		return new(big.Int).SetBytes(raw).Uint64(), nil
	case "TIMESTAMP", "DATETIME":
		return moment("2006-01-02 15:04:05", string(raw)), nil
	default:
		return text(raw)
	}
}
