// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	_ "embed" // the two files below
	"encoding/hex"
	"fmt"
	"regexp"
	"runtime"
	"strings"
)

// The pins travel inside the program: it builds the same from any working directory.
var (
	//go:embed go.mod
	goMod string
	//go:embed go.sum
	goSum string
)

// binary is one program of the control plane.
type binary struct {
	name, pkg, module string
	version           string // of module, from go.mod
}

// pins is everything that decides what the binaries are.
type pins struct {
	binaries  []binary
	mod, sum  string
	toolchain string
	os, arch  string
}

func readPins(mod, sum string) (pins, error) {
	p := pins{mod: mod, sum: sum, toolchain: runtime.Version(), os: runtime.GOOS, arch: runtime.GOARCH}
	for _, b := range []binary{
		{name: "etcd", pkg: "go.etcd.io/etcd/server/v3", module: "go.etcd.io/etcd/server/v3"},
		{name: "kube-apiserver", pkg: "k8s.io/kubernetes/cmd/kube-apiserver", module: "k8s.io/kubernetes"},
	} {
		line := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(b.module) + ` (v\S+)`).FindStringSubmatch(mod)
		if line == nil {
			return pins{}, fmt.Errorf("go.mod requires no %s: restore that line, its version decides which %s is built", b.module, b.name)
		}
		b.version = line[1]
		p.binaries = append(p.binaries, b)
	}
	return p, nil
}

func (p pins) names() []string {
	var names []string
	for _, b := range p.binaries {
		names = append(names, b.name)
	}
	return names
}

func (p pins) title() string {
	var parts []string
	for _, b := range p.binaries {
		parts = append(parts, b.name+" "+b.version)
	}
	return "Control plane (" + strings.Join(parts, ", ") + ")"
}

// folder names the build: versions for people, and a hash over all else that changes the result.
func (p pins) folder() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{p.mod, p.sum, p.toolchain, p.os, p.arch, p.linkerFlags()}, "\n")))
	var parts []string
	for _, b := range p.binaries {
		parts = append(parts, b.name+"-"+b.version)
	}
	return strings.Join(append(parts, hex.EncodeToString(sum[:4])), "-")
}

// linkerFlags sets the version that kube-apiserver reports at /version; without them it would be v0.0.0-master, which clients
// that look at the version refuse. etcd has no such variables and ignores them.
func (p pins) linkerFlags() string {
	const version = "k8s.io/component-base/version."
	for _, b := range p.binaries {
		if b.name == "kube-apiserver" {
			numbers := strings.SplitN(strings.TrimPrefix(b.version, "v"), ".", 3)
			return fmt.Sprintf("-s -w -X %sgitVersion=%s -X %sgitMajor=%s -X %sgitMinor=%s",
				version, b.version, version, numbers[0], version, numbers[1])
		}
	}
	return "-s -w"
}
