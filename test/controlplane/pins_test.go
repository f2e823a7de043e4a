// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func pinsOf(t *testing.T, mod, sum string) pins {
	t.Helper()
	p, err := readPins(mod, sum)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const smallMod = `module x
// k8s.io/kubernetes v9.9.9 in a comment does not count
require (
	go.etcd.io/etcd/server/v3 v3.6.5 // indirect
	k8s.io/kubernetes v1.35.4 // indirect
)
`

func TestPinsComeFromGoMod(t *testing.T) {
	p := pinsOf(t, smallMod, "")
	if got, want := p.title(), "Control plane (etcd v3.6.5, kube-apiserver v1.35.4)"; got != want {
		t.Errorf("title %q, want %q", got, want)
	}
	if got, want := p.linkerFlags(), "gitVersion=v1.35.4 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=35"; !strings.HasSuffix(got, want) {
		t.Errorf("linker flags %q, want the suffix %q", got, want)
	}
}

func TestTheFolderChangesWithEveryPin(t *testing.T) {
	before := pinsOf(t, smallMod, "")
	if !strings.HasPrefix(before.folder(), "etcd-v3.6.5-kube-apiserver-v1.35.4-") {
		t.Errorf("%s does not say what it holds", before.folder())
	}
	otherToolchain, otherArch := before, before
	otherToolchain.toolchain += "x"
	otherArch.arch += "x"
	for name, after := range map[string]pins{
		"a dependency": pinsOf(t, smallMod+"// more", ""),
		"a checksum":   pinsOf(t, smallMod, "sum"),
		"toolchain":    otherToolchain,
		"architecture": otherArch,
	} {
		if after.folder() == before.folder() {
			t.Errorf("another %s has the same folder %s", name, after.folder())
		}
	}
}

func TestPinsSayWhichLineIsMissing(t *testing.T) {
	_, err := readPins("module x\n", "")
	if err == nil || !strings.Contains(err.Error(), "etcd") {
		t.Errorf("got %v, want an error about etcd", err)
	}
}

func TestTheModulePinsBoth(t *testing.T) {
	pinsOf(t, goMod, goSum)
}
