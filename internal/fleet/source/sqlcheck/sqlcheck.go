// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sqlcheck says early and in words what a query must not do. It keeps mistakes out; that nothing is written is the word of
// the read-only transaction in which a query runs, and of the rights of its user.
package sqlcheck

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Drivers. MySQL serves MariaDB, too.
const (
	Postgres = "postgres"
	MySQL    = "mysql"
)

// CheckDriver says which drivers there are, where a name is none of them. The error goes with the name of the field before it.
func CheckDriver(driver string) error {
	if driver == Postgres || driver == MySQL {
		return nil
	}
	return fmt.Errorf("must be %s or %s, which serves MariaDB, too", Postgres, MySQL)
}

// CheckQuery returns nil for one SELECT, with or without WITH before it, that neither writes, nor locks rows, nor calls what a read-only
// transaction lets pass. PostgreSQL and MySQL read some texts differently; a query has to pass by the rules of both. The error goes
// with the name of the field before it.
func CheckQuery(query string) error {
	if err := checkText(query); err != nil {
		return err
	}
	postgres, mysql := checkAs(query, postgresRules), checkAs(query, mysqlRules)
	switch {
	case postgres == nil && mysql == nil:
		return nil
	case mysql == nil:
		return fmt.Errorf("%w (as PostgreSQL reads it)", postgres)
	case postgres == nil:
		return fmt.Errorf("%w (as MySQL reads it, where # begins a comment)", mysql)
	default:
		return postgres
	}
}

// checkText refuses what is invisible, and may be read as one thing here and as another by a database.
func checkText(query string) error {
	if !utf8.ValidString(query) {
		return errors.New("must be UTF-8")
	}
	for _, r := range query {
		if r < ' ' && !strings.ContainsRune("\t\n\r", r) || r == 0x7f {
			return fmt.Errorf("has the control character %U: leave it out, in literals too", r)
		}
	}
	return nil
}

func checkAs(query string, rules rules) error {
	tokens, err := scan(query, rules)
	if err != nil {
		return err
	}
	if n := len(tokens); n > 0 && tokens[n-1].is(";") {
		tokens = tokens[:n-1]
	}
	switch {
	case len(tokens) == 0:
		return errors.New("is empty: write one SELECT")
	case !tokens[0].oneOf("select", "with"):
		return fmt.Errorf("must begin with SELECT or WITH, not with %.40q", tokens[0].text)
	}
	if err := checkStatements(tokens); err != nil {
		return err
	}
	for i := range tokens {
		if err := checkAt(tokens[i:]); err != nil {
			return err
		}
	}
	return nil
}

// verbs begin a statement that writes; begins are all words that the statement after WITH may begin with.
var (
	verbs  = []string{"insert", "update", "delete", "merge", "replace"}
	begins = append([]string{"select", "values", "table"}, verbs...)
)

// checkStatements looks at the beginning of the query and of whatever stands in parentheses, where a statement can be.
func checkStatements(tokens []token) error {
	type group struct{ with, decided bool }
	groups := []group{{with: tokens[0].oneOf("with")}}
	for i, t := range tokens {
		inner := &groups[len(groups)-1]
		switch {
		case t.is("("):
			first, second := at(tokens, i+1), at(tokens, i+2)
			if first.oneOf(verbs...) && (second.kind == word || second.kind == quoted) {
				return writes(first)
			}
			groups = append(groups, group{with: first.oneOf("with")})
		case t.is(")"):
			if groups = groups[:len(groups)-1]; len(groups) == 0 {
				return errors.New("has a closing parenthesis too many")
			}
		case inner.with && !inner.decided && t.oneOf(begins...):
			if !t.oneOf("select") {
				return writes(t)
			}
			inner.decided = true
		}
	}
	if len(groups) > 1 {
		return errors.New("has an opening parenthesis too many")
	}
	if groups[0].with && !groups[0].decided {
		return errors.New("has a WITH without a SELECT after it")
	}
	return nil
}

func writes(verb token) error {
	return fmt.Errorf("must only read, but has a statement that begins with %s; quote that word where it is a name", strings.ToUpper(verb.text))
}

// checkAt looks at what begins with the first of some tokens.
func checkAt(tokens []token) error {
	first, second := tokens[0], at(tokens, 1)
	switch {
	case first.is(";"):
		return errors.New("must be one statement: a semicolon may only end it")
	case first.oneOf("into"):
		return errors.New("must only read, but has INTO, which writes a table, a file or a variable; quote that word where it is a name")
	case first.oneOf("for") && (second.oneOf("update", "share") || second.oneOf("no", "key") && at(tokens, 2).oneOf("key", "share")),
		first.oneOf("lock") && second.oneOf("in") && at(tokens, 2).oneOf("share"):
		return errors.New("must not lock rows: leave out FOR UPDATE, FOR SHARE and the like")
	case (first.kind == word || first.kind == quoted) && second.is("(") && reachesOut(first.text):
		return fmt.Errorf("must not call %.60s, which a read-only transaction lets pass though it does more than read tables", first.text)
	}
	return nil
}

// outside are functions, or how their names begin when a star follows, that read files, reach other servers or sessions, or wait.
var outside = []string{
	"pg_sleep*", "pg_read_*", "pg_ls_*", "pg_stat_file", "pg_file_*", "pg_terminate_backend", "pg_cancel_backend", "pg_reload_conf",
	"pg_rotate_logfile", "pg_promote", "pg_switch_wal", "pg_create_*", "pg_drop_*", "pg_logical_*", "pg_replication_*", "pg_advisory_*", "pg_try_advisory_*",
	"pg_notify", "lo_*", "dblink*",
	"load_file", "sleep", "benchmark", "get_lock", "release_lock", "release_all_locks", "master_pos_wait", "source_pos_wait", "master_gtid_wait",
	"wait_for_executed_gtid_set", "sys_exec", "sys_eval",
}

func reachesOut(function string) bool {
	return slices.ContainsFunc(outside, func(name string) bool {
		if prefix, many := strings.CutSuffix(name, "*"); many {
			return strings.HasPrefix(function, prefix)
		}
		return function == name
	})
}
