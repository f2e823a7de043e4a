// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"flag"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/candor-dev/candor/internal/netguard"
)

const flagSourceSelector = "external-source-secret-label-selector"

// SourceOptions are what a person can set about the servers and databases that ExternalAttributeSyncs fetch from.
type SourceOptions struct {
	// AllowCIDRs and DenyCIDRs are networks, with commas between them, where they may be though they are closed, and may not be
	// though they are open.
	AllowCIDRs, DenyCIDRs string
	// SecretSelector is a label selector that a Secret must meet to be used; empty for all.
	SecretSelector string
	// TargetRate bounds the fetches a second from one server or database, TargetBurst how many may come at once; a rate of 0 bounds
	// nothing.
	TargetRate  float64
	TargetBurst int
}

func (o *SourceOptions) addFlags(fs *flag.FlagSet) {
	fs.StringVar(&o.AllowCIDRs, "external-source-allow-cidrs", "", "Closed networks where the servers and databases of ExternalAttributeSyncs may be, such as 10.20.0.0/16, with commas between them. Closed are those that are not public.")
	fs.StringVar(&o.DenyCIDRs, "external-source-deny-cidrs", "", "Further networks where they may not be, with commas between them.")
	fs.StringVar(&o.SecretSelector, flagSourceSelector, "", "Label selector that a Secret must meet to be used by an ExternalAttributeSync, such as fleetmanagement.grafana.com/external-source=true; empty takes any.")
	fs.Float64Var(&o.TargetRate, "controller-sync-target-rate", 0, "Fetches a second from one server or database at most, of all ExternalAttributeSyncs together; 0 bounds nothing.")
	fs.IntVar(&o.TargetBurst, "controller-sync-target-burst", 4, "How many such fetches may come at once, at least 1.")
}

func (o *SourceOptions) validate() error {
	var errs []error
	if o.TargetRate < 0 {
		errs = append(errs, fmt.Errorf("--controller-sync-target-rate=%v: must be 0, which bounds nothing, or more", o.TargetRate))
	}
	if o.TargetBurst < 1 {
		errs = append(errs, fmt.Errorf("--controller-sync-target-burst=%d: must be at least 1", o.TargetBurst))
	}
	_, selectorErr := o.selector()
	_, guardErr := o.guard()
	return errors.Join(append(errs, selectorErr, guardErr)...)
}

// selector returns the selector of Secrets; nil for all.
func (o *SourceOptions) selector() (labels.Selector, error) {
	if strings.TrimSpace(o.SecretSelector) == "" {
		return nil, nil
	}
	selector, err := labels.Parse(o.SecretSelector)
	if err != nil {
		return nil, fmt.Errorf("--%s=%s: must be a label selector: %w", flagSourceSelector, o.SecretSelector, err)
	}
	return selector, nil
}

// guard judges where sources may be.
func (o *SourceOptions) guard() (*netguard.Guard, error) {
	return outbound{prefix: "external-source", profile: netguard.Tenant, allow: o.AllowCIDRs, deny: o.DenyCIDRs}.guard()
}
