// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"
)

func TestMeterWithoutATerminalPrintsALineForTenPercent(t *testing.T) {
	var out strings.Builder
	m := newMeter(&out, false, "Control plane (etcd v1)")
	m.start()
	for percent := range 35 {
		m.show("etcd", percent)
	}
	m.show("kube-apiserver", 99)
	m.built(90*time.Second, "/cache")
	want := `▸ Control plane (etcd v1): building once, about 5 minutes on two cores …
  etcd 10 %
  etcd 20 %
  etcd 30 %
  kube-apiserver 99 %
  built in 1m30s; kept in /cache
`
	if got := out.String(); got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
}

func TestMeterOnATerminalRedrawsOneLine(t *testing.T) {
	var out strings.Builder
	m := newMeter(&out, true, "Control plane")
	m.show("etcd", 50)
	m.show("etcd", 50)
	m.end()
	const want = "\r  [============>            ] etcd 50 %\x1b[K" + "\r\x1b[K"
	if got := out.String(); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}
