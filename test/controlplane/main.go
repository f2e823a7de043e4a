// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Command controlplane builds etcd and kube-apiserver from source, once, and prints the folder that holds them:
//
//	export KUBEBUILDER_ASSETS=$(go run -C test/controlplane .)
//
// It imports nothing but the standard library, so that go run compiles it in a second; what it builds is pinned by the go.mod
// beside it. Standard output carries the folder alone, everything for people goes to standard error.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := controlPlane(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "controlplane: %v\n", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}

// controlPlane returns the folder of the pinned binaries, building them when no earlier run has.
func controlPlane(ctx context.Context) (string, error) {
	root, err := cacheRoot(os.Getenv)
	if err != nil {
		return "", err
	}
	pins, err := readPins(goMod, goSum)
	if err != nil {
		return "", err
	}
	meter := newMeter(os.Stderr, isTerminal(os.Stderr), pins.title())
	store := cache{root: root, files: pins.names(), waiting: meter.waiting}
	return store.ensure(ctx, pins.folder(), func(dir string) error {
		return build(ctx, pins, dir, meter)
	})
}
