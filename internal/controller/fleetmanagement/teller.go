// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetmanagement

import (
	"context"
	"sync"

	logf "sigs.k8s.io/controller-runtime/pkg/log"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
)

// teller logs once when lists begin to fail, or fail for another reason, and once when they succeed again. Objects that are synced
// do not tell of it.
type teller struct {
	mu     sync.Mutex
	reason string
}

// tell notes how a list of what went.
func (t *teller) tell(ctx context.Context, what string, err error) {
	reason := ""
	if err != nil {
		reason = fault.Of(err, fleetmanagementv1alpha1.ReasonSyncFailed).Reason
	}
	t.mu.Lock()
	last := t.reason
	t.reason = reason
	t.mu.Unlock()
	log := logf.FromContext(ctx).WithName("fleet").WithValues("of", what)
	switch {
	case reason == last:
	case err != nil:
		log.Info("Cannot list what Fleet Management holds; trying again", "reason", reason, "error", err.Error())
	default:
		log.Info("Fleet Management answers again")
	}
}
