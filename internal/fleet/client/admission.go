// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"path"
	"sync"
	"time"

	"connectrpc.com/connect"
	"k8s.io/utils/clock"

	fleetmanagementv1alpha1 "github.com/candor-dev/candor/api/fleetmanagement/v1alpha1"
	"github.com/candor-dev/candor/internal/fault"
)

// unconfiguredWait is how long to wait before credentials that are not there, or make no sense, are looked for again.
const unconfiguredWait = time.Minute

// admission lets calls through one after the other, with the credentials of the moment, unless there is a pause.
type admission struct {
	unaryOnly
	clock     clock.PassiveClock
	lanes     *lanes
	pauses    *pauses
	metrics   *Metrics
	recovered func()

	mu   sync.Mutex
	read func() (Credentials, error)
	last *Credentials // that were good; behind a pointer, which prints as an address
	// changes counts how often the credentials became others.
	changes int
	// unusable is why there were none to use at the last look: a reason, empty when there were.
	unusable string
}

func newAdmission(options Options) *admission {
	recovered := options.Recovered
	if recovered == nil {
		recovered = func() {}
	}
	return &admission{
		clock:     options.Clock,
		lanes:     newLanes(options.RPS, options.Burst, options.Clock),
		pauses:    &pauses{clock: options.Clock},
		metrics:   options.Metrics,
		recovered: recovered,
		read:      options.Credentials,
	}
}

// WrapUnary implements connect.Interceptor.
func (a *admission) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		procedure := request.Spec().Procedure
		let, credentials, changes, err := a.admit(ctx, procedure)
		if err != nil {
			return nil, err
		}
		response, err := next(context.WithValue(ctx, exchangeKey{}, &exchange{credentials: credentials}), request)
		a.learn(procedure, let, changes, err)
		return response, err
	}
}

// admit waits for the call's turn. What it was let in with may be stale by then, so it looks again.
func (a *admission) admit(ctx context.Context, procedure string) (pass, Credentials, int, error) {
	for {
		if _, _, err := a.credentials(); err != nil {
			return pass{}, Credentials{}, 0, err
		}
		let, f := a.pauses.enter(procedure)
		if f != nil {
			return pass{}, Credentials{}, 0, f
		}
		if err := a.wait(ctx, procedure); err != nil {
			a.pauses.leave(procedure, let)
			return pass{}, Credentials{}, 0, err
		}
		if a.pauses.stale(let) {
			a.pauses.leave(procedure, let)
			continue
		}
		credentials, changes, err := a.credentials()
		if err == nil {
			err = boundTo(ctx, credentials, procedure)
		}
		if err != nil {
			a.pauses.leave(procedure, let)
			return pass{}, Credentials{}, 0, err
		}
		return let, credentials, changes, nil
	}
}

func (a *admission) wait(ctx context.Context, procedure string) error {
	began := a.clock.Now()
	err := a.lanes.wait(ctx, laneOf(procedure))
	a.metrics.waited(a.clock.Since(began))
	if err == nil {
		return nil
	}
	e := &Error{Procedure: path.Base(procedure), procedure: procedure, class: failed, Message: "given up while waiting for its turn", cause: err}
	return e.fault()
}

// learn takes in how a call ended. What became of credentials that are gone says nothing.
func (a *admission) learn(procedure string, let pass, changes int, err error) {
	e := (*Error)(nil)
	if err != nil && !errors.As(err, &e) {
		a.pauses.leave(procedure, let)
		return
	}
	a.mu.Lock()
	outdated := changes != a.changes
	a.mu.Unlock()
	if outdated && (e == nil || e.class != busy) {
		return
	}
	paused, opened := a.pauses.learn(procedure, let, e)
	if paused {
		if e.class == busy {
			a.lanes.rest(a.clock.Now().Add(e.RetryAfter))
		}
		a.lanes.interrupt()
	}
	if opened {
		a.recovered()
	}
}

// credentials reads the present ones. Others than the last open all doors, and whoever asks next finds that told already.
func (a *admission) credentials() (present Credentials, changes int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	read, err := a.read()
	if err != nil {
		return Credentials{}, a.changes, a.without(fleetmanagementv1alpha1.ReasonNoCredentials, err)
	}
	if present, err = read.normalised(); err != nil {
		return Credentials{}, a.changes, a.without(fleetmanagementv1alpha1.ReasonBaseURLWrong, err)
	}
	back := a.unusable != ""
	a.unusable = ""
	if a.last != nil && *a.last != present {
		back = true
		a.pauses.forget()
		a.changes++
	}
	a.last = &present
	if back {
		a.recovered()
	}
	return present, a.changes, nil
}

// bind returns the present stack, empty while none was ever known, and a context that keeps calls to it.
func (a *admission) bind(ctx context.Context) (context.Context, string) {
	if present, _, err := a.credentials(); err == nil {
		return context.WithValue(ctx, stackKey{}, present.stack()), present.stack()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil {
		return ctx, ""
	}
	return context.WithValue(ctx, stackKey{}, a.last.stack()), a.last.stack()
}

type stackKey struct{}

// boundTo refuses a call that was meant for another stack.
func boundTo(ctx context.Context, present Credentials, procedure string) error {
	if stack, bound := ctx.Value(stackKey{}).(string); !bound || stack == present.stack() {
		return nil
	}
	e := &Error{Procedure: path.Base(procedure), procedure: procedure, class: failed, Message: "given up, since the credentials are those of another stack now", cause: ErrOtherStack}
	return e.fault()
}

// without notes why there are no credentials to use.
func (a *admission) without(reason string, err error) *fault.Fault {
	a.unusable = reason
	return &fault.Fault{Kind: fault.Wait, Reason: reason, After: unconfiguredWait, Err: err}
}

func (a *admission) available() error {
	if _, _, err := a.credentials(); err != nil {
		return err
	}
	if f := a.pauses.available(); f != nil {
		return f
	}
	return nil
}

// paused tells why calls are held back, by reason.
func (a *admission) paused() map[string]bool {
	a.mu.Lock()
	unusable := a.unusable
	a.mu.Unlock()
	why := a.pauses.reasons()
	return map[string]bool{
		fleetmanagementv1alpha1.ReasonNoCredentials: unusable == fleetmanagementv1alpha1.ReasonNoCredentials,
		fleetmanagementv1alpha1.ReasonBaseURLWrong:  unusable == fleetmanagementv1alpha1.ReasonBaseURLWrong || why[fleetmanagementv1alpha1.ReasonBaseURLWrong],
		fleetmanagementv1alpha1.ReasonAuthFailed:    why[fleetmanagementv1alpha1.ReasonAuthFailed],
		fleetmanagementv1alpha1.ReasonRateLimited:   why[fleetmanagementv1alpha1.ReasonRateLimited],
	}
}
