// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
	"github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/pipelines"
)

// remoteTimeout bounds the question to Fleet Management, its wait for a turn included. The API server gives the webhook 5 s.
const remoteTimeout = 2 * time.Second

// Checker asks Fleet Management about Pipelines.
type Checker interface {
	// Check returns nil for a Pipeline that Fleet Management would take. A Terminal fault of reason ValidationError says that it would
	// refuse it, and any other error that there is no answer. Nothing is stored.
	Check(ctx context.Context, p *fleetmanagementv1alpha1.Pipeline) error
}

// askRemote says what Fleet Management refuses. It asks only about what an update changes of that which is sent there, so that
// nobody who pauses or annotates an object has to wait, and an answer that does not come stands in nobody's way.
func askRemote(ctx context.Context, old, p *fleetmanagementv1alpha1.Pipeline, o Options) ([]string, field.ErrorList) {
	if o.Checker == nil || pipelines.IsMirror(p) || old != nil && sent(old) == sent(p) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	path, err := field.NewPath("spec", "contents"), o.Checker.Check(ctx, p)
	if err == nil {
		return nil, nil
	}
	if f := fault.Of(err, fleetmanagementv1alpha1.ReasonSyncFailed); f.Kind != fault.Terminal || f.Reason != fleetmanagementv1alpha1.ReasonValidationError {
		return []string{path.String() + ": Fleet Management could not be asked about it: " + err.Error()}, nil
	}
	refusal := "correct what Fleet Management refuses: " + wordsOf(err)
	if o.Enforce {
		return nil, field.ErrorList{field.Invalid(path, field.OmitValueType{}, refusal)}
	}
	return []string{path.String() + ": " + refusal}, nil
}

// sent tells apart what Pipelines send to Fleet Management.
func sent(p *fleetmanagementv1alpha1.Pipeline) string {
	return pipelines.Hash(pipelines.Desired(p, nameOf(p)))
}

// wordsOf returns what Fleet Management itself says, where it says anything.
func wordsOf(err error) string {
	if e := (*client.Error)(nil); errors.As(err, &e) && e.Message != "" {
		return e.Message
	}
	return err.Error()
}
