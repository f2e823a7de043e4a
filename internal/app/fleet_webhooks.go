// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/candor-dev/candor/internal/fleet/validation"
	fleetwebhook "github.com/candor-dev/candor/internal/webhook/fleetmanagement/v1alpha1"
)

// serveFleet registers the webhook of a row.
func (b *building) serveFleet(row string, setUp func(manager.Manager, fleetwebhook.Options) error) error {
	o, err := b.fleetWebhook(row)
	if err != nil {
		return err
	}
	return setUp(b.mgr, o)
}

// fleetWebhook is what the webhook of a row is told.
func (b *building) fleetWebhook(row string) (fleetwebhook.Options, error) {
	options, f := b.options.Fleet, b.fleet
	guard, err := options.Sources.guard()
	if err != nil {
		return fleetwebhook.Options{}, err
	}
	o := fleetwebhook.Options{ControllerOff: b.off(row), Options: validation.Options{
		MaxPipelineBytes: options.MaxPipelineBytes, AttributeValueMax: options.AttributeValueMax, NameScope: options.NameScope, CheckURL: guard.CheckURL,
	}}
	if f.pipelines != nil {
		o.Names = f.pipelines
		if mode := options.WebhookRemoteValidate; mode != remoteOff {
			o.Checker, o.Enforce = f.pipelines, mode == remoteEnforce
		}
	}
	if f.collectors != nil {
		o.CollectorIDs = f.collectors
	}
	uncached, err := b.uncached()
	if err != nil {
		return o, err
	}
	if options.AuthorizeDiscoveries {
		o.Access = uncached
	}
	if f.tenancy == nil {
		return o, nil
	}
	if f.self == "" {
		if f.self, err = self(context.Background(), uncached); err != nil {
			return o, err
		}
	}
	o.Tenancy, o.Self = f.tenancy, f.self
	return o, nil
}

// off says that the controller of a row does not run.
func (b *building) off(row string) bool {
	return slices.ContainsFunc(setups(), func(s setup) bool { return s.name == row && b.options.offBecause(s) != "" })
}

// selfTimeout bounds the question who this operator is.
const selfTimeout = 30 * time.Second

// self returns the name of the user that this operator is. Without it TenantPolicies could bind the operator, so that an error ends it.
func self(ctx context.Context, c client.Client) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, selfTimeout)
	defer cancel()
	var review authenticationv1.SelfSubjectReview
	err := c.Create(ctx, &review)
	if err == nil && review.Status.UserInfo.Username == "" {
		err = errors.New("the answer names nobody")
	}
	if err != nil {
		return "", fmt.Errorf("asking the API server who this operator is, whom no TenantPolicy binds: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

func servePipelines(b *building) error {
	return b.serveFleet("pipeline", fleetwebhook.SetupPipelineWebhook)
}

func serveCollectors(b *building) error {
	return b.serveFleet("collector", fleetwebhook.SetupCollectorWebhook)
}

func serveRemoteAttributePolicies(b *building) error {
	return b.serveFleet("policy", fleetwebhook.SetupRemoteAttributePolicyWebhook)
}

func servePipelineDiscoveries(b *building) error {
	return b.serveFleet("pipeline-discovery", fleetwebhook.SetupPipelineDiscoveryWebhook)
}

func serveCollectorDiscoveries(b *building) error {
	return b.serveFleet("collector-discovery", fleetwebhook.SetupCollectorDiscoveryWebhook)
}

func serveExternalAttributeSyncs(b *building) error {
	return b.serveFleet("external-sync", fleetwebhook.SetupExternalAttributeSyncWebhook)
}

func serveTenantPolicies(b *building) error {
	return b.serveFleet("tenant-policy", fleetwebhook.SetupTenantPolicyWebhook)
}
