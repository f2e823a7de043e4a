// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/source"
)

// maxMessage bounds what is told of the words of a database, in bytes.
const maxMessage = 200

// told says what happened. Words of drivers are not repeated, since they name users, databases and addresses; those of a database
// only where they speak of the query, since others may quote a row.
func told(err error, limits limits) *fault.Fault {
	var (
		ours      problem
		ofPG      *pgconn.PgError
		ofMySQL   *mysql.MySQLError
		oversized *pgproto3.ExceededMaxBodyLenErr
	)
	switch {
	case errors.As(err, &ours):
		return source.Failed("%w", ours.error)
	case errors.As(err, &ofPG):
		return source.Failed("%s", postgresSays(ofPG, limits))
	case errors.As(err, &ofMySQL):
		return source.Failed("%s", mysqlSays(ofMySQL, limits))
	case errors.As(err, &oversized):
		return source.Failed("the database sends more than %d bytes at once: check host and port of the dsn, and select only the columns that are mapped", limits.bytes)
	case errors.Is(err, mysql.ErrNoTLS):
		return source.Failed("the database does not speak TLS, which the dsn asks for")
	case errors.Is(err, mysql.ErrInvalidConn), errors.Is(err, driver.ErrBadConn):
		return source.Failed("the database ends the connection")
	default:
		return source.Failed("the database cannot be asked: %w", source.Unreachable(err))
	}
}

func tooSlow(limits limits) string {
	return fmt.Sprintf("the query takes more than %s: make it faster, such as with an index", limits.statement)
}

const (
	refusesUser  = "the database refuses the user or the password of the dsn"
	hasNone      = "the server has no database of the name in the dsn"
	refusesWrite = "the query writes, which a read-only transaction refuses: "
	refusesQuery = "the database refuses the query: "
)

func postgresSays(e *pgconn.PgError, limits limits) string {
	code, words := fault.OneLine(e.Code, 10), fault.OneLine(e.Message, maxMessage)
	switch {
	case e.Code == "57014":
		return tooSlow(limits)
	case e.Code == "25006":
		return refusesWrite + words
	case strings.HasPrefix(e.Code, "28"):
		return refusesUser + " (SQLSTATE " + code + ")"
	case e.Code == "3D000":
		return hasNone
	case strings.HasPrefix(e.Code, "42"), strings.HasPrefix(e.Code, "0A"):
		return refusesQuery + words + " (SQLSTATE " + code + ")"
	default:
		return "the database answers with an error (SQLSTATE " + code + ")"
	}
}

func mysqlSays(e *mysql.MySQLError, limits limits) string {
	words := fault.OneLine(e.Message, maxMessage)
	switch e.Number {
	case 1969, 3024, 1317: // MariaDB's time is over, MySQL's, or somebody ended the query
		return tooSlow(limits)
	case 1792:
		return refusesWrite + words
	case 1044, 1045, 1698:
		return fmt.Sprintf("%s (error %d)", refusesUser, e.Number)
	case 1049:
		return hasNone
	case 1142, 1143, 1227, 1370: // the words name the user
		return fmt.Sprintf("the user of the dsn lacks a right that the query needs (error %d)", e.Number)
	case 1052, 1054, 1055, 1060, 1064, 1066, 1109, 1146, 1149, 1305:
		return fmt.Sprintf("%s%s (error %d)", refusesQuery, words, e.Number)
	default:
		return fmt.Sprintf("the database answers with error %d", e.Number)
	}
}
