// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	. "github.com/onsi/gomega"

	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/source"
	"github.com/candor-dev/candor/internal/fleet/source/sqlcheck"
	"github.com/candor-dev/candor/test/databases"
)

func TestMain(m *testing.M) { os.Exit(databases.Run(m)) }

// world is a database of a test with the means to change it.
type world struct {
	driver, dsn string
	exec        func(t *testing.T, statements ...string)
	// count is how many rows a table has.
	count func(t *testing.T, table string) int
}

func postgresWorld(t *testing.T) world {
	w := world{driver: sqlcheck.Postgres, dsn: databases.Postgres(t)}
	run := func(t *testing.T, statement string) []*pgconn.Result {
		t.Helper()
		connection, err := pgconn.Connect(t.Context(), w.dsn)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		defer func() { _ = connection.Close(context.Background()) }()
		results, err := connection.Exec(t.Context(), statement).ReadAll()
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), statement)
		return results
	}
	w.exec = func(t *testing.T, statements ...string) {
		t.Helper()
		run(t, strings.Join(statements, ";"))
	}
	w.count = func(t *testing.T, table string) int {
		t.Helper()
		return len(run(t, "SELECT 1 FROM "+table)[0].Rows)
	}
	return w
}

func mariadbWorld(t *testing.T) world {
	w := world{driver: sqlcheck.MySQL, dsn: databases.MariaDB(t)}
	pool, err := sql.Open("mysql", w.dsn)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = pool.Close() })
	w.exec = func(t *testing.T, statements ...string) {
		t.Helper()
		for _, statement := range statements {
			_, err := pool.ExecContext(t.Context(), statement)
			NewWithT(t).Expect(err).NotTo(HaveOccurred(), statement)
		}
	}
	w.count = func(t *testing.T, table string) (n int) {
		t.Helper()
		NewWithT(t).Expect(pool.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n)).To(Succeed())
		return n
	}
	return w
}

// each runs a test on both databases.
func each(t *testing.T, test func(*testing.T, world)) {
	for name, of := range map[string]func(*testing.T) world{"PostgreSQL": postgresWorld, "MariaDB": mariadbWorld} {
		t.Run(name, func(t *testing.T) { test(t, of(t)) })
	}
}

// query returns a source that asks a query, and the limits that it may change.
func (w world) query(t *testing.T, query string) *Source {
	t.Helper()
	s, err := New(Options{Guard: loopback(t)}, spec(w.driver, query), map[string][]byte{"dsn": []byte(w.dsn)})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return s
}

func (w world) fetch(t *testing.T, query string) ([]source.Record, error) {
	t.Helper()
	result, err := w.query(t, query).Fetch(t.Context(), "")
	return result.Records, err
}

func TestAT07ATransactionRefusesWhatTheCheckLetsThrough(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		var queries []string
		if w.driver == sqlcheck.Postgres {
			w.exec(t, "DROP TABLE IF EXISTS written", "CREATE TABLE written (a int)", "DROP SEQUENCE IF EXISTS numbers", "CREATE SEQUENCE numbers",
				"CREATE OR REPLACE FUNCTION write_it() RETURNS int LANGUAGE sql AS 'INSERT INTO written VALUES (1); SELECT 1'")
			queries = []string{
				"SELECT write_it()", "WITH a AS (SELECT write_it()) SELECT * FROM a", "SELECT nextval('numbers')", "SELECT setval('numbers', 9)",
			}
		} else {
			w.exec(t, "DROP TABLE IF EXISTS written", "CREATE TABLE written (a int)", "DROP SEQUENCE IF EXISTS numbers", "CREATE SEQUENCE numbers",
				"DROP FUNCTION IF EXISTS write_it", "CREATE FUNCTION write_it() RETURNS int MODIFIES SQL DATA BEGIN INSERT INTO written VALUES (1); RETURN 1; END")
			queries = []string{"SELECT write_it()", "SELECT NEXTVAL(numbers)", "SELECT NEXT VALUE FOR numbers", "SELECT SETVAL(numbers, 9)"}
		}
		for _, query := range queries {
			t.Run(query, func(t *testing.T) {
				g := NewWithT(t)
				_, err := w.fetch(t, query)
				g.Expect(err).To(MatchError(HavePrefix("the query writes, which a read-only transaction refuses: ")))
				g.Expect(w.count(t, "written")).To(BeZero())
			})
		}
	})
}

func TestAT07AQueryCannotLeaveItsTransaction(t *testing.T) {
	w := postgresWorld(t)
	g := NewWithT(t)
	_, err := w.fetch(t, "SELECT set_config('transaction_read_only', 'off', true)")
	g.Expect(err).To(HaveOccurred())
	s := w.query(t, "SELECT 1")
	s.query = "COMMIT; DELETE FROM pg_class"
	_, err = s.Fetch(t.Context(), "")
	g.Expect(err).To(MatchError(ContainSubstring("cannot insert multiple commands into a prepared statement")))
}

func TestAT07ALongQueryIsEnded(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		endless := "SELECT count(*) FROM seq_1_to_1000000 a, seq_1_to_1000000 b"
		if w.driver == sqlcheck.Postgres {
			endless = "SELECT count(*) FROM generate_series(1, 1000000000000)"
		}
		t.Run("by the database", func(t *testing.T) {
			s := w.query(t, endless)
			s.limits.statement = 200 * time.Millisecond
			_, err := s.Fetch(t.Context(), "")
			NewWithT(t).Expect(err).To(MatchError("the query takes more than 200ms: make it faster, such as with an index"))
		})
		t.Run("by ourselves", func(t *testing.T) {
			s := w.query(t, endless)
			s.limits.fetch, s.limits.statement = time.Second, 5*time.Second
			_, err := s.Fetch(t.Context(), "")
			NewWithT(t).Expect(err).To(MatchError("the database cannot be asked: it takes too long"))
		})
		t.Run("by who asks", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := w.query(t, endless).Fetch(ctx, "")
			NewWithT(t).Expect(err).To(MatchError(context.Canceled))
		})
	})
}

func TestAT07RowsAreBounded(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		rows := func(n string) string {
			if w.driver == sqlcheck.Postgres {
				return "SELECT generate_series(1, " + n + ") AS n, 'ten bytes.' AS text"
			}
			return "SELECT seq AS n, 'ten bytes.' AS text FROM seq_1_to_" + n
		}
		for name, test := range map[string]struct {
			query string
			limit func(*limits)
			want  string
		}{
			"as many as may be":                     {rows("5"), func(l *limits) { l.records = 5 }, ""},
			"one more":                              {rows("6"), func(l *limits) { l.records = 5 }, "the query returns more than 5 rows: narrow it, and split the sync where more are needed"},
			"far more, of which most are not taken": {rows("1000000000"), func(l *limits) { l.records = 5 }, "the query returns more than 5 rows"},
			"more bytes":                            {rows("9"), func(l *limits) { l.bytes = 50 }, "the query returns more than 50 bytes: select only the columns that are mapped"},
			"more bytes on the wire":                {rows("100000"), func(l *limits) { l.wire = 10_000 }, "bytes: select only the columns that are mapped"},
		} {
			t.Run(name, func(t *testing.T) {
				g := NewWithT(t)
				s := w.query(t, test.query)
				test.limit(&s.limits)
				result, err := s.Fetch(t.Context(), "")
				if test.want != "" {
					g.Expect(err).To(MatchError(ContainSubstring(test.want)))
					g.Expect(result.Records).To(BeNil())
					return
				}
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(result.Records).To(HaveLen(5))
			})
		}
	})
}

func TestAT07AT17ValuesOfPostgreSQLStayWhatTheyAre(t *testing.T) {
	w := postgresWorld(t)
	records, err := w.fetch(t, `SELECT 1000000::int4 AS million, 9007199254740993::int8 AS big, 1.50::numeric AS exact, 'NaN'::numeric AS nan, 1e15::float8 AS float,
		0.1::float4 AS single, 'Infinity'::float8 AS endless, true AS yes, false AS no, NULL AS nothing, 'größe' AS text, '' AS empty,
		'2026-03-01 12:30:00.5+02'::timestamptz AS moment, '2026-03-01 12:30:00'::timestamp AS local, '2026-03-01'::date AS day, 'infinity'::timestamptz AS never,
		'\x68c3a9'::bytea AS bytes, '{"a": 1}'::jsonb AS object, ARRAY[1,2] AS list, '10.0.0.1'::inet AS address, '1 day'::interval AS span`)
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(records).To(Equal([]source.Record{{
		"million": json.Number("1000000"), "big": json.Number("9007199254740993"), "exact": json.Number("1.50"), "nan": "NaN", "float": 1e15,
		"single": 0.1, "endless": "Infinity", "yes": true, "no": false, "nothing": nil, "text": "größe", "empty": "",
		"moment": "2026-03-01T10:30:00.5Z", "local": "2026-03-01T12:30:00Z", "day": "2026-03-01", "never": "infinity",
		"bytes": "hé", "object": `{"a": 1}`, "list": "{1,2}", "address": "10.0.0.1", "span": "1 day",
	}}))
	texts := map[string]string{}
	for _, field := range []string{"million", "big", "exact", "float", "single", "yes"} {
		texts[field], _ = source.Text(records[0][field])
	}
	g.Expect(texts).To(Equal(map[string]string{
		"million": "1000000", "big": "9007199254740993", "exact": "1.50", "float": "1000000000000000", "single": "0.1", "yes": "true",
	}))
}

func TestAT07AT17ValuesOfMariaDBStayWhatTheyAre(t *testing.T) {
	w := mariadbWorld(t)
	w.exec(t, "DROP TABLE IF EXISTS `values`", "CREATE TABLE `values` (million int, big bigint, huge bigint unsigned, exact decimal(10,2), real_ double, single float, yes boolean, "+
		"bits bit(10), text_ text, empty varchar(9), moment timestamp null, local datetime(3), zero datetime, day date, bytes blob, object json, nothing int)",
		"SET STATEMENT sql_mode='', time_zone='+02:00' FOR INSERT INTO `values` VALUES (1000000, 9007199254740993, 18446744073709551615, 1.50, 1e15, 0.1, true, b'1000000001', 'größe', '', "+
			"'2026-03-01 12:30:00', '2026-03-01 12:30:00.5', '0000-00-00 00:00:00', '2026-03-01', x'68c3a9', '{\"a\": 1}', NULL)")
	records, err := w.fetch(t, "SELECT * FROM `values`")
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(records).To(Equal([]source.Record{{
		"million": int64(1000000), "big": int64(9007199254740993), "huge": uint64(18446744073709551615), "exact": json.Number("1.50"), "real_": 1e15, "single": 0.1,
		"yes": int64(1), "bits": uint64(513), "text_": "größe", "empty": "", "moment": "2026-03-01T10:30:00Z", "local": "2026-03-01T12:30:00.5Z",
		"zero": "0000-00-00 00:00:00", "day": "2026-03-01", "bytes": "hé", "object": `{"a": 1}`, "nothing": nil,
	}}))
}

func TestAT07WhatIsNoTextNamesItsColumn(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		query := "SELECT 1 AS id, x'ff00' AS token"
		if w.driver == sqlcheck.Postgres {
			query = `SELECT 1 AS id, '\xff00'::bytea AS token`
		}
		_, err := w.fetch(t, query)
		NewWithT(t).Expect(err).To(MatchError(`column "token" holds bytes that are no UTF-8 text: select it as text, such as with encode() or hex()`))
	})
}

func TestAT07ColumnsOfOneNameAreAnError(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		_, err := w.fetch(t, "SELECT 1 AS id, 2 AS id")
		NewWithT(t).Expect(err).To(MatchError(`the query has two columns named "id": name one of them with AS`))
	})
}

func TestNoRowsAreNoRecords(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		g := NewWithT(t)
		records, err := w.fetch(t, "SELECT 1 AS id WHERE 1 = 2")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(records).To(BeEmpty())
	})
}

func TestAT07ErrorsOfADatabaseHoldNothingOfTheDSNOrOfRows(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		for name, test := range map[string]struct {
			change func(user, password, database *string)
			query  string
			want   string
		}{
			"a wrong password": {func(_, password, _ *string) { *password = "hunter2" }, "SELECT 1", "the database refuses the user or the password of the dsn ("},
			"a wrong user":     {func(user, _, _ *string) { *user = "hunter2" }, "SELECT 1", "the database refuses the user or the password of the dsn ("},
			"a wrong database": {func(_, _, database *string) { *database = "hunter2" }, "SELECT 1", "the server has no database of the name in the dsn"},
			"no table":         {nil, "SELECT * FROM missing", "the database refuses the query: "},
			"no column":        {nil, "SELECT missing", "the database refuses the query: "},
			"no SQL":           {nil, "SELECT FROM WHERE", "the database refuses the query: "},
			"a value of a row": {nil, valueInError(w), "the database answers with "},
		} {
			t.Run(name, func(t *testing.T) {
				g := NewWithT(t)
				changed := w
				if test.change != nil {
					changed.dsn = rewrite(t, w, test.change)
				}
				_, err := changed.fetch(t, test.query)
				g.Expect(err).To(MatchError(HavePrefix(test.want)))
				g.Expect(err.Error()).NotTo(Or(ContainSubstring("hunter2"), ContainSubstring("owner"), ContainSubstring("candor"), ContainSubstring("127.0.0.1")))
				var f *fault.Fault
				g.Expect(errors.As(err, &f)).To(BeTrue())
				g.Expect(f.Reason).To(Equal("SourceFailed"))
			})
		}
	})
}

// valueInError is a query for which a database quotes a value in its error.
func valueInError(w world) string {
	if w.driver == sqlcheck.Postgres {
		return "SELECT a::int FROM (VALUES ('hunter2')) AS t(a)"
	}
	return "SELECT JSON_VALUE(a, '$.x'), EXTRACTVALUE('<a>', concat('/', a, '(')) FROM (SELECT 'hunter2' AS a) t"
}

// rewrite changes the parts of a world's DSN.
func rewrite(t *testing.T, w world, change func(user, password, database *string)) string {
	t.Helper()
	if w.driver == sqlcheck.MySQL {
		config, err := mysql.ParseDSN(w.dsn)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		change(&config.User, &config.Passwd, &config.DBName)
		return config.FormatDSN()
	}
	u, err := url.Parse(w.dsn)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	user, database := u.User.Username(), strings.TrimPrefix(u.Path, "/")
	password, _ := u.User.Password()
	change(&user, &password, &database)
	u.User, u.Path = url.UserPassword(user, password), "/"+database
	return u.String()
}

func TestAT07TheDialIsJudgedToo(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		s := w.query(t, "SELECT 1")
		s.guard = tenant(t)
		_, err := s.Fetch(t.Context(), "")
		NewWithT(t).Expect(err).To(MatchError("the database cannot be asked: destination not allowed: 127.0.0.1 is in 127.0.0.0/8 (loopback): use another address"))
	})
}

func TestManyFetchesOfOneSource(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		g := NewWithT(t)
		s := w.query(t, "SELECT 1 AS id")
		for range 3 {
			result, err := s.Fetch(t.Context(), "")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result.Records).To(HaveLen(1))
		}
		g.Expect(s.Close()).To(Succeed())
	})
}

func TestADatabaseWithoutTLSIsToldToBeSo(t *testing.T) {
	each(t, func(t *testing.T, w world) {
		if !strings.HasSuffix(w.dsn, "?sslmode=disable") && !strings.HasSuffix(w.dsn, "/test") {
			t.Skip("a database that somebody names may speak TLS")
		}
		w.dsn = map[string]string{sqlcheck.Postgres: strings.TrimSuffix(w.dsn, "disable") + "require", sqlcheck.MySQL: w.dsn + "?tls=true"}[w.driver]
		_, err := w.fetch(t, "SELECT 1")
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("TLS")))
	})
}
