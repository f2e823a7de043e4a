// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestAssetsFolder(t *testing.T) {
	whole, half := t.TempDir(), t.TempDir()
	for _, file := range []string{filepath.Join(whole, "etcd"), filepath.Join(whole, "kube-apiserver"), filepath.Join(half, "etcd")} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct{ folder, problem string }{
		"a folder with both programs is taken":       {folder: whole},
		"an unset variable says how to set it":       {problem: "KUBEBUILDER_ASSETS is not set: run make test"},
		"a missing program is named":                 {folder: half, problem: "KUBEBUILDER_ASSETS has no kube-apiserver"},
		"a folder that does not exist has no etcd":   {folder: "/nowhere", problem: "KUBEBUILDER_ASSETS has no etcd"},
		"the way out stands in the error every time": {folder: half, problem: "go run -C test/controlplane ."},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := assetsFolder(test.folder)
			if test.problem == "" {
				g.Expect(got, err).To(Equal(test.folder))
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(test.problem)))
		})
	}
}

func TestModuleRootPassesOverModulesInside(t *testing.T) {
	g := NewWithT(t)
	here, err := os.Getwd()
	g.Expect(err).NotTo(HaveOccurred())
	root := filepath.Dir(filepath.Dir(here))
	g.Expect(moduleRoot()).To(Equal(root))
	t.Chdir(filepath.Join(root, "test", "controlplane"))
	g.Expect(moduleRoot()).To(Equal(root))
	t.Chdir(t.TempDir())
	_, err = moduleRoot()
	g.Expect(err).To(MatchError(ContainSubstring("run this from inside the checkout")))
}
