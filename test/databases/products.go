// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package databases

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
)

// owner and password are those of a user that may do everything in a database of a test.
const owner, password = "candor", "owner-of-a-test"

func startPostgres(ctx context.Context, s *server) (string, error) {
	const folders = "/usr/lib/postgresql/*/bin"
	initdb, err := find("initdb", folders)
	if err != nil {
		return "", err
	}
	program, err := find("postgres", folders)
	if err != nil {
		return "", err
	}
	secret, err := s.write("password", password)
	if err != nil {
		return "", err
	}
	data := filepath.Join(s.folder, "data")
	if err := s.prepare(ctx, initdb, "--pgdata="+data, "--username="+owner, "--pwfile="+secret, "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"); err != nil {
		return "", err
	}
	err = s.serve(ctx, "ready to accept connections", program, "-D", data, "-p", strconv.Itoa(s.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "shared_buffers=32MB", "-c", "logging_collector=off")
	return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/postgres?sslmode=disable", owner, password, s.port), err
}

// firstOfMariaDB has one statement a line, as the server asks for.
const firstOfMariaDB = `CREATE DATABASE test;
CREATE USER '%[1]s'@'127.0.0.1' IDENTIFIED BY '%[2]s';
GRANT ALL ON *.* TO '%[1]s'@'127.0.0.1' WITH GRANT OPTION;
`

func startMariaDB(ctx context.Context, s *server) (string, error) {
	install, err := find("mariadb-install-db")
	if err != nil {
		return "", err
	}
	program, err := find("mariadbd", "/usr/sbin")
	if err != nil {
		return "", err
	}
	data := filepath.Join(s.folder, "data")
	if err := s.prepare(ctx, install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db"); err != nil {
		return "", err
	}
	first, err := s.write("first.sql", fmt.Sprintf(firstOfMariaDB, owner, password))
	if err != nil {
		return "", err
	}
	err = s.serve(ctx, "ready for connections", program, "--no-defaults", "--datadir="+data, "--port="+strconv.Itoa(s.port), "--bind-address=127.0.0.1",
		"--socket="+filepath.Join(s.folder, "socket"), "--pid-file="+filepath.Join(s.folder, "pid"), "--init-file="+first, "--skip-name-resolve",
		"--innodb-buffer-pool-size=16M", "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync")
	return fmt.Sprintf("%s:%s@tcp(127.0.0.1:%d)/test", owner, password, s.port), err
}
