// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func newCache(t *testing.T) cache {
	t.Helper()
	return cache{root: filepath.Join(t.TempDir(), "root"), files: []string{"etcd"}, waiting: func() {}}
}

func writeEtcd(dir string) error {
	return os.WriteFile(filepath.Join(dir, "etcd"), []byte("binary"), 0o755)
}

func ensure(t *testing.T, c cache, build func(string) error) string {
	t.Helper()
	dir, err := c.ensure(t.Context(), "v1", build)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustNotBuild(t *testing.T) func(string) error {
	return func(string) error {
		t.Error("built again")
		return nil
	}
}

func TestASecondRunFindsTheFirst(t *testing.T) {
	c := newCache(t)
	first := ensure(t, c, writeEtcd)
	second := ensure(t, c, mustNotBuild(t))
	if first != second {
		t.Errorf("%s, then %s", first, second)
	}
}

func TestADamagedFolderIsBuiltAgain(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"a file is gone":       func(dir string) error { return os.Remove(filepath.Join(dir, "etcd")) },
		"a file was cut short": func(dir string) error { return os.Truncate(filepath.Join(dir, "etcd"), 1) },
		"a file cannot be run": func(dir string) error { return os.Chmod(filepath.Join(dir, "etcd"), 0o600) },
		"it was never sealed":  func(dir string) error { return os.Remove(filepath.Join(dir, manifest)) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCache(t)
			if err := damage(ensure(t, c, writeEtcd)); err != nil {
				t.Fatal(err)
			}
			built := false
			ensure(t, c, func(dir string) error { built = true; return writeEtcd(dir) })
			if !built {
				t.Error("the damaged folder was taken for a whole one")
			}
			ensure(t, c, mustNotBuild(t))
		})
	}
}

func TestAFailedBuildLeavesNothing(t *testing.T) {
	c := newCache(t)
	broken := errors.New("no space left")
	_, err := c.ensure(t.Context(), "v1", func(dir string) error {
		return errors.Join(writeEtcd(dir), broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if left, _ := filepath.Glob(filepath.Join(c.root, "*")); len(left) != 1 || filepath.Base(left[0]) != ".lock" {
		t.Errorf("left %v, want the lock alone", left)
	}
}

func TestABuildWithoutAllFilesFails(t *testing.T) {
	c := newCache(t)
	if dir, err := c.ensure(t.Context(), "v1", func(string) error { return nil }); err == nil {
		t.Errorf("an empty build became %s", dir)
	}
}

func TestTheFolderOfAKilledRunIsRemoved(t *testing.T) {
	c := newCache(t)
	killed := filepath.Join(c.root, building+"123")
	if err := os.MkdirAll(killed, 0o750); err != nil {
		t.Fatal(err)
	}
	ensure(t, c, writeEtcd)
	if _, err := os.Stat(killed); !os.IsNotExist(err) {
		t.Errorf("%s is still there (%v)", killed, err)
	}
}

func TestTwoRunsAtOnceBuildOnce(t *testing.T) {
	c := newCache(t)
	var builds atomic.Int32
	started, waiting := make(chan struct{}), make(chan struct{})
	c.waiting = func() { close(waiting) }
	var runs sync.WaitGroup
	runs.Go(func() {
		ensure(t, c, func(dir string) error {
			builds.Add(1)
			close(started)
			<-waiting
			return writeEtcd(dir)
		})
	})
	<-started
	ensure(t, c, func(dir string) error { builds.Add(1); return writeEtcd(dir) })
	runs.Wait()
	if builds.Load() != 1 {
		t.Errorf("%d builds, want 1", builds.Load())
	}
}

func TestWaitingForAnotherRunCanBeInterrupted(t *testing.T) {
	c := newCache(t)
	ctx, cancel := context.WithCancel(t.Context())
	c.waiting = cancel
	ensure(t, c, func(dir string) error {
		if _, err := c.ensure(ctx, "v2", writeEtcd); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		return writeEtcd(dir)
	})
}

func TestCacheRoot(t *testing.T) {
	for name, test := range map[string]struct{ xdg, home, want, problem string }{
		"XDG_CACHE_HOME comes first":       {xdg: "/c", home: "/h", want: "/c/candor/controlplane"},
		"HOME is the usual place":          {home: "/h", want: "/h/.cache/candor/controlplane"},
		"a relative XDG_CACHE_HOME is off": {xdg: "c", home: "/h", want: "/h/.cache/candor/controlplane"},
		"neither set says so":              {problem: "XDG_CACHE_HOME"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := cacheRoot(func(key string) string {
				return map[string]string{"XDG_CACHE_HOME": test.xdg, "HOME": test.home}[key]
			})
			if got != test.want || (err == nil) != (test.problem == "") {
				t.Errorf("got %q, %v", got, err)
			}
			if err != nil && !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%v does not name %s", err, test.problem)
			}
		})
	}
}
