// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetserver

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"connectrpc.com/connect"
	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
)

// The two forms of the path of a remote attribute: a JSON pointer (RFC 6901), and the one of the API's description.
const (
	pointerPrefix = "/remote_attributes/"
	dottedPrefix  = "remoteAttributes."
)

// BulkUpdateCollectors implements CollectorService: all operations on all collectors, or nothing.
func (c collectorService) BulkUpdateCollectors(_ context.Context, request *connect.Request[collectorv1.BulkUpdateCollectorsRequest]) (*connect.Response[collectorv1.BulkUpdateCollectorsResponse], error) {
	steps, err := stepsOf(request.Msg)
	if err != nil {
		return nil, err
	}
	c.server.mutex.Lock()
	defer c.server.mutex.Unlock()
	now := c.server.now()
	changed := make(map[string]*collectorv1.Collector, len(request.Msg.GetIds()))
	for _, id := range request.Msg.GetIds() {
		former, found := c.server.collectors.get(id)
		if !found {
			return nil, notFound("collector", id)
		}
		remote := maps.Clone(former.GetRemoteAttributes())
		if remote == nil {
			remote = map[string]string{}
		}
		if err := apply(steps, id, remote); err != nil {
			return nil, err
		}
		next := withRemote(former, remote)
		next.UpdatedAt = now
		changed[id] = next
	}
	for id, next := range changed {
		c.server.collectors.put(id, next)
	}
	return connect.NewResponse(&collectorv1.BulkUpdateCollectorsResponse{}), nil
}

func apply(steps []step, id string, remote map[string]string) error {
	for _, step := range steps {
		if err := step(id, remote); err != nil {
			return err
		}
	}
	return checkNumber(remote)
}

// withRemote copies a collector, but for the maps.
func withRemote(former *collectorv1.Collector, remote map[string]string) *collectorv1.Collector {
	return &collectorv1.Collector{
		Id: former.Id, Name: former.Name, RemoteAttributes: remote, LocalAttributes: former.LocalAttributes, Enabled: former.Enabled,
		CreatedAt: former.CreatedAt, UpdatedAt: former.UpdatedAt, MarkedInactiveAt: former.MarkedInactiveAt, CollectorType: former.CollectorType,
	}
}

// step is an operation on the remote attributes of one collector.
type step func(id string, remote map[string]string) error

// stepsOf checks what can be checked without the collectors.
func stepsOf(request *collectorv1.BulkUpdateCollectorsRequest) ([]step, error) {
	switch {
	case len(request.GetIds()) == 0:
		return nil, invalid("ids are required")
	case len(request.GetOps()) == 0:
		return nil, invalid("ops are required")
	}
	steps := make([]step, 0, len(request.GetOps()))
	for _, operation := range request.GetOps() {
		next, err := stepOf(operation)
		if err != nil {
			return nil, err
		}
		steps = append(steps, next)
	}
	return steps, nil
}

func stepOf(operation *collectorv1.Operation) (step, error) {
	name, err := nameOf(operation.GetPath())
	if err != nil {
		return nil, err
	}
	switch kind := operation.GetOp(); kind {
	case collectorv1.Operation_ADD, collectorv1.Operation_REPLACE:
		if operation.Value == nil {
			return nil, invalid("%s of %q needs a value", kind, name)
		}
		if err := checkValue(name, operation.GetValue()); err != nil {
			return nil, err
		}
		if kind == collectorv1.Operation_ADD {
			return add(name, operation.GetValue()), nil
		}
		return replace(name, operation.GetValue(), operation.OldValue), nil
	case collectorv1.Operation_REMOVE:
		return remove(name, operation.Value), nil
	case collectorv1.Operation_MOVE, collectorv1.Operation_COPY:
		from, err := nameOf(operation.GetFrom())
		if err != nil {
			return nil, err
		}
		return transfer(from, name, kind == collectorv1.Operation_MOVE), nil
	default:
		return nil, invalid("operation %q is unknown", kind)
	}
}

func add(name, value string) step {
	return func(_ string, remote map[string]string) error {
		remote[name] = value
		return nil
	}
}

func replace(name, value string, old *string) step {
	return func(id string, remote map[string]string) error {
		if err := expect(id, remote, name, old); err != nil {
			return err
		}
		remote[name] = value
		return nil
	}
}

func remove(name string, value *string) step {
	return func(id string, remote map[string]string) error {
		if err := expect(id, remote, name, value); err != nil {
			return err
		}
		delete(remote, name)
		return nil
	}
}

func transfer(from, to string, move bool) step {
	return func(id string, remote map[string]string) error {
		if err := expect(id, remote, from, nil); err != nil {
			return err
		}
		value := remote[from]
		if move {
			delete(remote, from)
		}
		remote[to] = value
		return nil
	}
}

// expect wants an attribute to be there, and where value is not nil to have it. That another value stands there is told apart from
// a request that is wrong whatever stands there.
func expect(id string, remote map[string]string, name string, value *string) error {
	switch current, found := remote[name]; {
	case found && (value == nil || *value == current):
		return nil
	case value == nil:
		return invalid("collector %q has no remote attribute %q", id, name)
	default:
		return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("remote attribute %q of collector %q has another value", name, id))
	}
}

// nameOf reads the path of a remote attribute.
func nameOf(path string) (string, error) {
	name, dotted := strings.CutPrefix(path, dottedPrefix)
	if !dotted {
		escaped, pointer := strings.CutPrefix(path, pointerPrefix)
		unescaped, ok := unescape(escaped)
		if !pointer || !ok {
			return "", invalid("path %q is not that of a remote attribute", path)
		}
		name = unescaped
	}
	return name, checkName(name)
}

// unescape reads one token of a JSON pointer.
func unescape(token string) (name string, ok bool) {
	rest := strings.NewReplacer("~0", "", "~1", "").Replace(token)
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(token), !strings.ContainsAny(rest, "~/")
}
