// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/pipelines"
)

// Taken returns namespace and name of another Pipeline that has the name which p would have in Fleet Management; empty for none.
// An admission webhook asks it before p is stored. Any number of mirrors may show one pipeline.
func (s *PipelineSyncer) Taken(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) (string, error) {
	if pipelines.IsMirror(p) {
		return "", nil
	}
	var list fleetmanagementv1alpha1.PipelineList
	if err := s.Client.List(ctx, &list, client.MatchingFields{indexPipelineName: s.name(p)}, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing the Pipelines of a name: %w", err)
	}
	for i := range list.Items {
		if other := &list.Items[i]; other.DeletionTimestamp.IsZero() && !pipelines.IsMirror(other) && client.ObjectKeyFromObject(other) != client.ObjectKeyFromObject(p) {
			return other.Namespace + "/" + other.Name, nil
		}
	}
	return "", nil
}

// Taken returns namespace and name of another Collector with the spec.id of c; empty for none. An admission webhook asks it before
// c is stored.
func (s *CollectorSyncer) Taken(ctx context.Context, c *fleetmanagementv1alpha1.Collector) (string, error) {
	same, err := s.sameID(ctx, c.Spec.ID)
	if err != nil {
		return "", err
	}
	for i := range same {
		if other := &same[i]; other.DeletionTimestamp.IsZero() && client.ObjectKeyFromObject(other) != client.ObjectKeyFromObject(c) {
			return other.Namespace + "/" + other.Name, nil
		}
	}
	return "", nil
}
