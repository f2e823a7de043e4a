// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	module    = "github.com/candor-dev/candor"
	howToHave = "run make test, or set " + assetsVariable + " to the folder that `go run -C test/controlplane .` prints"
)

// assetsFolder checks what envtest would report only after its start timeout.
func assetsFolder(folder string) (string, error) {
	if folder == "" {
		return "", fmt.Errorf("%s is not set: %s", assetsVariable, howToHave)
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return "", fmt.Errorf("%s has no %s (%w): %s", assetsVariable, name, err, howToHave)
		}
	}
	return folder, nil
}

// moduleRoot walks up from the working directory, which for a test is its package's. The source path that the compiler records
// would not do: -trimpath removes it.
func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		name, err := moduleName(filepath.Join(dir, "go.mod"))
		if err != nil {
			return "", err
		}
		if name == module {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod of %s in %s or above: run this from inside the checkout", module, start)
		}
	}
}

// moduleName is empty where there is no go.mod: the checkout has modules inside the module.
func moduleName(path string) (string, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, found := strings.CutPrefix(lines.Text(), "module "); found {
			return strings.TrimSpace(name), nil
		}
	}
	return "", nil
}
