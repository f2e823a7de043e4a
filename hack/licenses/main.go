// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Command licenses copies the licences of everything that is linked into a command: this module's, that of Go itself, and of
// each package of another module every one from its folder up to the module's root. It runs in the folder of go.mod.
//
//	go run ./hack/licenses FOLDER PACKAGE
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// legal are the names of files that say on what terms the rest may be used.
var legal = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|notice|patents|copyright)([-._].*)?$`)

// dependency is what go list says of a package.
type dependency struct {
	Dir      string
	Standard bool
	Module   *struct {
		Path, Dir string
		Main      bool
	}
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: licenses FOLDER PACKAGE")
		os.Exit(2)
	}
	if err := save(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func save(folder, pkg string) error {
	dependencies, err := list(pkg)
	if err != nil {
		return err
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("finding Go: %w", err)
	}
	if err := covered("Go", strings.TrimSpace(string(goroot)), filepath.Join(folder, "go")); err != nil {
		return err
	}
	for _, d := range dependencies {
		switch {
		case d.Standard:
		case d.Module.Main:
			err = covered(d.Module.Path, d.Module.Dir, folder)
		default:
			err = saveModule(d, filepath.Join(folder, filepath.FromSlash(d.Module.Path)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// list returns the packages that are linked into a command.
func list(pkg string) ([]dependency, error) {
	command := exec.Command("go", "list", "-deps", "-json=Dir,Standard,Module", pkg)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("listing what %s is made of: %w", pkg, err)
	}
	var all []dependency
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var d dependency
		if err := decoder.Decode(&d); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading what go list says: %w", err)
		}
		all = append(all, d)
	}
}

// saveModule copies what holds for a package of a module.
func saveModule(d dependency, folder string) error {
	for dir := d.Dir; dir != d.Module.Dir; dir = filepath.Dir(dir) {
		below, err := filepath.Rel(d.Module.Dir, dir)
		if err != nil {
			return err
		}
		if _, err := copyLegal(dir, filepath.Join(folder, below)); err != nil {
			return err
		}
	}
	return covered(d.Module.Path, d.Module.Dir, folder)
}

// covered copies the licences in the root of something, which must have one.
func covered(name, from, to string) error {
	n, err := copyLegal(from, to)
	if err == nil && n == 0 {
		err = fmt.Errorf("%s has no licence in %s: it may not be shipped", name, from)
	}
	return err
}

// copyLegal copies the licences of one folder, and counts them.
func copyLegal(from, to string) (int, error) {
	entries, err := os.ReadDir(from)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, e := range entries {
		if !e.Type().IsRegular() || !legal.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			return n, err
		}
		if err := os.MkdirAll(to, 0o755); err != nil {
			return n, err
		}
		if err := os.WriteFile(filepath.Join(to, e.Name()), content, 0o644); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
