// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fleet/pipelines"
)

// Check asks Fleet Management what it would say of a Pipeline. An admission webhook asks it, on every replica, before p is stored.
func (s *PipelineSyncer) Check(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) error {
	return s.API.ValidatePipeline(ctx, pipelines.Desired(p, s.name(p)))
}

// checkFirst has Fleet Management check contents that it does not hold yet, where that is asked for. A pass that decides anew does
// not ask twice.
func (s *pipelinePass) checkFirst(ctx context.Context, d pipelines.Decision, hash string) error {
	if !s.ValidateBeforeApply || s.passed == hash || !d.BringsContents() {
		return nil
	}
	write := d.Write
	write.ID = "" // what is checked goes by its name
	if err := s.API.ValidatePipeline(ctx, write); err != nil {
		return err
	}
	s.passed = hash
	return nil
}
