// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package candor

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/policy"
)

// Preview returns the exact bytes that a model would be sent about a Finding, whatever the gate says of it.
func Preview(ctx context.Context, reader client.Reader, models *Models, name types.NamespacedName) ([]byte, *Model, error) {
	operating, err := operatingPolicy(ctx, reader)
	if err != nil {
		return nil, nil, err
	}
	model, unusable := models.For(operating)
	if unusable != nil {
		return nil, nil, errors.New(unusable.Message)
	}
	f := &candorv1alpha1.Finding{}
	if err := reader.Get(ctx, name, f); err != nil {
		return nil, nil, fmt.Errorf("reading the Finding: %w", err)
	}
	pays, err := payer(ctx, reader, f)
	if err != nil {
		return nil, nil, err
	}
	sharing := candorv1alpha1.SharingCluster
	if pays != nil {
		_, sharing = policy.Explains(pays)
	}
	body, err := Compose(f, model, sharing)
	return body, model, err
}
