// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/candor-dev/candor/internal/netguard"
)

// line dials for one fetch, and bounds what all its connections read: drivers take what they are sent, as much as it may be.
type line struct {
	dialer *net.Dialer
	most   int64 // bytes
	read   atomic.Int64
}

var errWire = errors.New("the database sends too much")

func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	connection, err := l.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return metered{connection, l}, nil
}

func (l *line) exceeded() bool { return l.read.Load() > l.most }

type metered struct {
	net.Conn
	line *line
}

func (m metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if m.line.read.Add(int64(n)); m.line.exceeded() {
		return 0, errWire
	}
	return n, err
}

// checkHost judges one server, as it is written.
func checkHost(guard *netguard.Guard, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return errors.New("it must be a host and a port")
	}
	return guard.CheckHost(host)
}
