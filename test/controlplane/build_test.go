// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"strings"
	"testing"
)

func TestAFailingGoCommandSaysWhatWasTried(t *testing.T) {
	err := goCommand(t.Context(), t.TempDir(), io.Discard, ignoreLines, "build", "example.invalid/none")
	if err == nil {
		t.Fatal("want an error")
	}
	for _, part := range []string{"go build example.invalid/none", "exit status", "GOPROXY"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
}

func TestAnInterruptedBuildSaysThatItCanGoOn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := failed(ctx, context.Canceled, []string{"go", "build"}, nil)
	if !strings.Contains(err.Error(), "run it again") {
		t.Errorf("got %q", err)
	}
}
