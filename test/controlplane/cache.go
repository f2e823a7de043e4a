// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	manifest = "manifest"
	building = ".building-"
)

// cache holds finished builds, one folder each. A folder appears by a rename when its build is complete, and only one process
// builds at a time.
type cache struct {
	root    string
	files   []string // executables that a folder must hold
	waiting func()   // called once when another process builds
}

// cacheRoot is the same place on every system, so that documents and continuous integration can name it.
func cacheRoot(getenv func(string) string) (string, error) {
	base := getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(base) {
		home := getenv("HOME")
		if home == "" {
			return "", errors.New("neither XDG_CACHE_HOME (an absolute path) nor HOME is set: set one, the binaries are kept under it")
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "candor", "controlplane"), nil
}

// ensure returns the folder name under the root, calling build for a new one. build fills the folder it is given.
func (c cache) ensure(ctx context.Context, name string, build func(dir string) error) (string, error) {
	dir := filepath.Join(c.root, name)
	if c.whole(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(c.root, 0o755); err != nil {
		return "", fmt.Errorf("making the folder for the binaries: %w; set XDG_CACHE_HOME to a folder that can be written", err)
	}
	unlock, err := lock(ctx, filepath.Join(c.root, ".lock"), c.waiting)
	if err != nil {
		return "", err
	}
	defer unlock()
	if c.whole(dir) { // the process that held the lock built it
		return dir, nil
	}
	return dir, c.fill(dir, build)
}

// fill builds beside dir and renames. The caller holds the lock, so any unfinished folder is a dead process's.
func (c cache) fill(dir string, build func(dir string) error) error {
	unfinished, _ := filepath.Glob(filepath.Join(c.root, building+"*"))
	for _, old := range unfinished {
		_ = os.RemoveAll(old) // worth only its disk space
	}
	work, err := os.MkdirTemp(c.root, building)
	if err != nil {
		return fmt.Errorf("making the folder for the binaries: %w", err)
	}
	defer os.RemoveAll(work)
	if err := build(work); err != nil {
		return err
	}
	if err := c.seal(work); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the damaged %s: %w", dir, err)
	}
	return os.Rename(work, dir)
}

// seal records the size of each file: a folder that lost one, or a part of one, is built again and not run.
func (c cache) seal(dir string) error {
	content, err := c.inventory(dir)
	if err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifest), []byte(content), 0o644)
}

func (c cache) whole(dir string) bool {
	recorded, err := os.ReadFile(filepath.Join(dir, manifest))
	if err != nil {
		return false
	}
	found, err := c.inventory(dir)
	return err == nil && found == string(recorded)
}

func (c cache) inventory(dir string) (string, error) {
	var lines strings.Builder
	for _, name := range c.files {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		if !info.Mode().IsRegular() || info.Mode()&0o100 == 0 {
			return "", fmt.Errorf("%s is not an executable file", filepath.Join(dir, name))
		}
		fmt.Fprintf(&lines, "%s %d\n", name, info.Size())
	}
	return lines.String(), nil
}
