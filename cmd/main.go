// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Command manager runs Candor.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/candor-dev/candor/internal/app"
	// +kubebuilder:scaffold:imports
)

func main() {
	options, err := app.Parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "candor:", err)
		os.Exit(2)
	case options.PrintVersion:
		fmt.Println("candor", app.Version)
		return
	}
	logger := options.Logger()
	ctrl.SetLogger(logger)
	klog.SetLogger(logger) // what client-go says is in one form with the rest
	if options.Preview.Name != "" {
		if err := app.Preview(ctrl.SetupSignalHandler(), options, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, "candor:", err)
			os.Exit(1)
		}
		return
	}
	if err := app.Run(ctrl.SetupSignalHandler(), options); err != nil {
		ctrl.Log.Error(err, "Candor stopped")
		os.Exit(1)
	}
	// What the SDK's commands insert here belongs in internal/app: scheme.go and the table in setups.go.
	// +kubebuilder:scaffold:scheme
	// +kubebuilder:scaffold:builder
}
