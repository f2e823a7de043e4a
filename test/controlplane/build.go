// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	listFormat = `{{.ImportPath}} {{join .Imports " "}}`
	keptLines  = 20 // of a failed command's output
	interrupt  = 10 * time.Second
)

// build compiles every pinned binary into dir, one after the other: the second finds the shared packages compiled.
func build(ctx context.Context, p pins, dir string, m *meter) error {
	began := time.Now()
	module, err := writeModule(p)
	if err != nil {
		return err
	}
	defer os.RemoveAll(module)
	m.start()
	defer m.end()

	list := []string{"list", "-deps", "-trimpath", "-f", listFormat}
	for _, b := range p.binaries {
		list = append(list, b.pkg)
	}
	var listing bytes.Buffer
	if err := goCommand(ctx, module, &listing, ignoreLines, list...); err != nil {
		return err
	}
	packages := newTracker(listing.String())
	for _, b := range p.binaries {
		seen := func(line string) bool {
			if !packages.saw(line) {
				return false
			}
			m.show(b.name, packages.percent())
			return true
		}
		err := goCommand(ctx, module, io.Discard, seen, "build", "-v", "-trimpath", "-tags", "", "-ldflags", p.linkerFlags(),
			"-o", filepath.Join(dir, b.name), b.pkg)
		if err != nil {
			return err
		}
	}
	m.built(time.Since(began), filepath.Dir(dir))
	return nil
}

// writeModule lays the pins down outside the checkout, which stays untouched and may be read-only.
func writeModule(p pins) (string, error) {
	dir, err := os.MkdirTemp("", "candor-controlplane-")
	if err != nil {
		return "", err
	}
	for name, content := range map[string]string{"go.mod": p.mod, "go.sum": p.sum} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}

func ignoreLines(string) bool { return false }

// goCommand runs the go command in dir. seen consumes lines of its standard error; the last of the others go into the error.
func goCommand(ctx context.Context, dir string, stdout io.Writer, seen func(line string) bool, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout = dir, stdout
	// A caller's GOFLAGS or workspace must not change the binaries; an empty GOFLAGS would fall back to the one of go env -w.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly", "PWD="+dir)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interrupt
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the go command, which has to be on the PATH: %w", err)
	}
	var rest []string
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if line := lines.Text(); !seen(line) {
			rest = append(rest, line)
		}
	}
	if err := cmd.Wait(); err != nil {
		return failed(ctx, err, cmd.Args, rest)
	}
	return nil
}

func failed(ctx context.Context, err error, args, output []string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted; run it again to go on, what was compiled is kept in Go's build cache")
	}
	output = output[max(0, len(output)-keptLines):]
	return fmt.Errorf("%s: %w\n  %s\nIt needs a Go module proxy (go env GOPROXY) and disk space for the build cache (go env GOCACHE). "+
		"Run it again when that is mended; what was compiled is kept", strings.Join(args, " "), err, strings.Join(output, "\n  "))
}
