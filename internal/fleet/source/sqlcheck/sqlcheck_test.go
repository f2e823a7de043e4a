// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package sqlcheck

import (
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestAT07AQueryIsOneSelect(t *testing.T) {
	const (
		begin    = "must begin with SELECT or WITH"
		reads    = "must only read"
		into     = "must only read, but has INTO"
		one      = "must be one statement"
		lock     = "must not lock rows"
		obeyed   = "must not have comments that a database obeys"
		call     = "must not call"
		backlash = "has a backslash before a quote"
	)
	for name, test := range map[string]struct{ query, want string }{
		"a plain SELECT":                           {"SELECT id, team FROM hosts", ""},
		"lower case, lines and tabs":               {"select\n\tid\r\nfrom hosts", ""},
		"a semicolon at the end":                   {"SELECT 1;", ""},
		"a semicolon and a comment at the end":     {"SELECT 1; -- done", ""},
		"a comment at the beginning":               {"-- hosts\nSELECT 1", ""},
		"a block comment between words":            {"SELECT/* a ; b */1", ""},
		"WITH":                                     {"WITH a AS (SELECT 1), b (x) AS (SELECT 2) SELECT * FROM a, b", ""},
		"WITH RECURSIVE":                           {"WITH RECURSIVE t(n) AS (VALUES (1) UNION ALL SELECT n+1 FROM t WHERE n < 9) SELECT n FROM t", ""},
		"WITH of a materialized part":              {"WITH a AS MATERIALIZED (SELECT 1) SELECT * FROM a", ""},
		"WITH inside parentheses":                  {"SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) b", ""},
		"a part of WITH with a word as its name":   {`WITH "update" AS (SELECT 1) SELECT * FROM "update"`, ""},
		"UNION":                                    {"SELECT 1 UNION (SELECT 2)", ""},
		"a column with the name of a verb":         {"SELECT update, delete, count(insert) FROM changes", ""},
		"a verb as a text":                         {"SELECT 'drop table x', 'insert into y' FROM t", ""},
		"a semicolon in a text":                    {"SELECT 'a;b'", ""},
		"INTO in a text":                           {"SELECT 'moved into place'", ""},
		"a quote in a text":                        {"SELECT 'it''s; INTO' FROM t", ""},
		"INTO in a quoted name":                    {`SELECT "into" FROM t`, ""},
		"a quote in a quoted name":                 {`SELECT "a""; INTO b" FROM t`, ""},
		"a backtick around a name":                 {"SELECT `update` FROM t", ""},
		"a dollar-quoted text":                     {"SELECT $$a b$$, $tag$ c $tag$", ""},
		"a backslash in a text":                    {`SELECT host FROM t WHERE host ~ '^\d+\\'`, ""},
		"an international name":                    {"SELECT größe FROM straße", ""},
		"a function named as a verb":               {"SELECT REPLACE(a, 'x', 'y'), INSERT(a, 1, 2, 'z') FROM t", ""},
		"a function that begins as a refused one":  {"SELECT sleepy(1), pg_size_pretty(pg_database_size('a'))", ""},
		"a column named as a refused function":     {"SELECT sleep FROM t", ""},
		"FOR in a function":                        {"SELECT substring(a FROM 2 FOR 3) FROM t", ""},
		"an operator of JSON":                      {"SELECT data #>> '{a,b}' FROM t", ""},
		"a name with a dollar":                     {"SELECT a$b FROM t", ""},
		"nothing":                                  {"", "is empty"},
		"only a comment":                           {"-- nothing", "is empty"},
		"only a semicolon":                         {";", "is empty"},
		"DROP":                                     {"DROP TABLE hosts", begin},
		"UPDATE":                                   {"UPDATE hosts SET a = 1", begin},
		"DELETE behind a comment":                  {"/* SELECT */ DELETE FROM hosts", begin},
		"EXPLAIN ANALYZE":                          {"EXPLAIN ANALYZE SELECT 1", begin},
		"VALUES":                                   {"VALUES (1)", begin},
		"TABLE":                                    {"TABLE hosts", begin},
		"SELECT in parentheses":                    {"(SELECT 1)", begin},
		"CALL":                                     {"CALL purge()", begin},
		"COPY":                                     {"COPY hosts TO '/tmp/x'", begin},
		"SET of MariaDB":                           {"SET STATEMENT max_statement_time=0 FOR SELECT 1", begin},
		"a block of code":                          {"DO $$ BEGIN DELETE FROM t; END $$", begin},
		"a text":                                   {"'SELECT 1'", begin},
		"two statements":                           {"SELECT 1; DROP TABLE hosts", one},
		"two semicolons":                           {"SELECT 1;;", one},
		"a second statement behind a comment":      {"SELECT 1 -- a\n; DELETE FROM t", one},
		"a second statement behind a quoted quote": {"SELECT 'a'''; DROP TABLE t; --'", one},
		"SELECT INTO a table":                      {"SELECT * INTO copy FROM hosts", into},
		"SELECT INTO without a blank before it":    {"SELECT 1INTO copy", into},
		"SELECT INTO behind a number":              {"SELECT 1e5INTO copy", into},
		"SELECT INTO behind a comment":             {"SELECT * /**/INTO/**/ copy FROM hosts", into},
		"INTO OUTFILE":                             {"SELECT * FROM hosts INTO OUTFILE '/tmp/x'", into},
		"INTO DUMPFILE":                            {"SELECT * FROM hosts INTO DUMPFILE '/tmp/x'", into},
		"INTO a variable":                          {"SELECT 1 INTO @a", into},
		"DELETE in WITH":                           {"WITH gone AS (DELETE FROM hosts RETURNING *) SELECT * FROM gone", reads},
		"INSERT in WITH":                           {"WITH made AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM made", reads},
		"UPDATE in WITH":                           {"WITH a AS (SELECT 1), b AS (UPDATE t SET x = 1 RETURNING *) SELECT * FROM b", reads},
		"UPDATE in a materialized part of WITH":    {"WITH b AS MATERIALIZED (UPDATE t SET x = 1 RETURNING *) SELECT * FROM b", reads},
		"DELETE behind WITH":                       {"WITH a AS (SELECT 1) DELETE FROM hosts", reads},
		"DELETE behind WITH in WITH":               {"WITH b AS (WITH a AS (SELECT 1) DELETE FROM t RETURNING *) SELECT * FROM b", reads},
		"UPDATE behind a cycle of WITH":            {"WITH RECURSIVE a(n) AS (SELECT 1) CYCLE n SET c USING p UPDATE t SET x = 1", reads},
		"MERGE behind WITH":                        {"WITH a AS (SELECT 1) MERGE INTO t USING a ON true WHEN MATCHED THEN DELETE", reads},
		"WITH alone":                               {"WITH a AS (SELECT 1)", "has a WITH without a SELECT"},
		"FOR UPDATE":                               {"SELECT * FROM t FOR UPDATE", lock},
		"FOR SHARE":                                {"SELECT * FROM t FOR SHARE OF t", lock},
		"FOR NO KEY UPDATE":                        {"SELECT * FROM t FOR NO KEY UPDATE", lock},
		"FOR KEY SHARE":                            {"SELECT * FROM t FOR KEY SHARE", lock},
		"LOCK IN SHARE MODE":                       {"SELECT * FROM t LOCK IN SHARE MODE", lock},
		"FOR UPDATE in parentheses":                {"SELECT * FROM (SELECT * FROM t FOR/**/UPDATE) a", lock},
		"an executable comment":                    {"SELECT 1 /*!50000 INTO OUTFILE '/tmp/x' */", obeyed},
		"an executable comment of MariaDB":         {"SELECT 1 /*M! INTO OUTFILE '/tmp/x' */", obeyed},
		"a hint":                                   {"SELECT /*+ MAX_EXECUTION_TIME(0) */ 1", obeyed},
		"a comment without an end":                 {"SELECT 1 /* a", "has a comment without an end"},
		"a text without an end":                    {"SELECT 'a", "has a quote without an end"},
		"a dollar-quoted text without an end":      {"SELECT $a$ b $b$", "has a quote without an end"},
		"a backslash before a quote":               {`SELECT 'a\' INTO copy --'`, backlash},
		"a backslash before a quote of a name":     {`SELECT "a\" INTO copy --"`, backlash},
		"a backslash at the end of a text":         {`SELECT 'C:\'`, backlash},
		"a comment that only PostgreSQL nests":     {"SELECT 1 /* /* */ INTO copy -- */", into},
		"a comment that only MySQL sees":           {"SELECT '#' # '\n; DROP TABLE t -- '", one},
		"a comment that only PostgreSQL sees":      {"SELECT 1--1 INTO copy", into},
		"a comment that a line feed does not end":  {"SELECT 1 -- a\rINTO copy", into},
		"a text that only PostgreSQL sees":         {"SELECT $a$ ; DROP TABLE t $a$", one},
		"a name that only MySQL sees":              {"SELECT ` ; DROP TABLE t; SELECT `", one},
		"a name in escapes":                        {`SELECT U&"pg_read\005ffile"('/etc/passwd')`, `must not write names as U&"…"`},
		"parentheses that do not close":            {"SELECT (1", "has an opening parenthesis too many"},
		"parentheses that do not open":             {"SELECT 1)", "has a closing parenthesis too many"},
		"a function that waits":                    {"SELECT pg_sleep(100)", call},
		"a function that waits, of MySQL":          {"SELECT SLEEP (100)", call},
		"a function that ends sessions":            {"SELECT pg_terminate_backend(pid) FROM pg_stat_activity", call},
		"a function of another schema":             {"SELECT pg_catalog.pg_read_file('/etc/passwd')", call},
		"a function in quotes":                     {`SELECT "pg_read_file"('/etc/passwd')`, call},
		"a function that reads files, of MySQL":    {"SELECT LOAD_FILE('/etc/passwd')", call},
		"a function that writes files":             {"SELECT lo_export(1, '/tmp/x')", call},
		"a function that reaches another server":   {"SELECT dblink_exec('host=a', 'DROP TABLE t')", call},
		"a zero byte":                              {"SELECT 1\x00", "has the control character U+0000"},
		"no UTF-8":                                 {"SELECT '\xbf' INTO copy", "must be UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckQuery(test.query)
			if test.want == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(MatchError(HavePrefix(test.want)))
		})
	}
}

func TestARefusalThatIsOfOneDatabaseSaysSo(t *testing.T) {
	g := NewWithT(t)
	g.Expect(CheckQuery("SELECT ` ; DROP TABLE t; SELECT `")).To(MatchError(
		"must be one statement: a semicolon may only end it (as PostgreSQL reads it)"))
	g.Expect(CheckQuery("SELECT (a #> '{b}') FROM t")).To(MatchError(
		"has an opening parenthesis too many (as MySQL reads it, where # begins a comment)"))
}

func TestDriversAreKnownByName(t *testing.T) {
	g := NewWithT(t)
	g.Expect(CheckDriver(Postgres)).To(Succeed())
	g.Expect(CheckDriver(MySQL)).To(Succeed())
	for _, other := range []string{"", "mariadb", "Postgres", "sqlite"} {
		g.Expect(CheckDriver(other)).To(MatchError("must be postgres or mysql, which serves MariaDB, too"), other)
	}
}

// plain matches queries that no rule about quotes and comments concerns, and writes those that a reader sees to write.
var (
	plain = regexp.MustCompile("^[^'\"`#$/\\\\-]*$")
	write = regexp.MustCompile(`(?i);\s*\S|\binto\b|\(\s*(insert|update|delete|merge)\s+[a-z_]|\bfor\s+(update|share)\b|\b(pg_sleep|load_file)\s*\(`)
)

func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"SELECT 1", "WITH a AS (SELECT 1) SELECT * FROM a", "SELECT 'it''s' -- x", `SELECT "a\"b"`, "SELECT $a$ x $a$", "SELECT 1 /* /* */ */", "SELECT `a` # b",
		"SELECT 1INTO x", "WITH x AS (DELETE FROM t) SELECT 1", "SELECT a FROM t FOR UPDATE", "SELECT E'\\'' ; DROP", "SELECT U&\"a\"(1)", "SELECT /*!1 INTO*/",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		if CheckQuery(query) != nil {
			return
		}
		for _, after := range []string{"\nINTO x", "\n; DROP TABLE x", "\n FOR UPDATE", "\n)"} {
			if trimmed := strings.TrimRight(query, "; \t\r\n"); CheckQuery(trimmed+after) == nil {
				t.Fatalf("%q passes with %q behind it", query, after)
			}
		}
		if plain.MatchString(query) && write.MatchString(query) {
			t.Fatalf("%q passes and writes", query)
		}
	})
}
