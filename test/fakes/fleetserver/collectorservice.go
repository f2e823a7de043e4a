// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetserver

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"connectrpc.com/connect"
	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	"github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1/collectorv1connect"
	"google.golang.org/protobuf/proto"
)

// collectorService is CollectorService.
type collectorService struct {
	collectorv1connect.UnimplementedCollectorServiceHandler
	server *Server
}

// GetCollector implements CollectorService.
func (c collectorService) GetCollector(_ context.Context, request *connect.Request[collectorv1.GetCollectorRequest]) (*connect.Response[collectorv1.Collector], error) {
	c.server.mutex.Lock()
	defer c.server.mutex.Unlock()
	collector, found := c.server.collectors.get(request.Msg.GetId())
	if !found {
		return nil, notFound("collector", request.Msg.GetId())
	}
	return connect.NewResponse(collector), nil
}

// ListCollectors implements CollectorService.
func (c collectorService) ListCollectors(_ context.Context, request *connect.Request[collectorv1.ListCollectorsRequest]) (*connect.Response[collectorv1.Collectors], error) {
	wanted, err := parseMatchers(request.Msg.GetMatchers())
	if err != nil {
		return nil, err
	}
	c.server.mutex.Lock()
	listed := c.server.collectors.list()
	c.server.mutex.Unlock()
	if len(wanted) > 0 {
		all := listed
		listed = nil
		for _, collector := range all {
			if wanted.all(attributesOf(collector)) {
				listed = append(listed, collector)
			}
		}
	}
	return connect.NewResponse(&collectorv1.Collectors{Collectors: listed}), nil
}

// CreateCollector implements CollectorService. Local attributes come from collectors only.
func (c collectorService) CreateCollector(_ context.Context, request *connect.Request[collectorv1.CreateCollectorRequest]) (*connect.Response[collectorv1.Collector], error) {
	given := request.Msg.GetCollector()
	if err := checkCollector(given); err != nil {
		return nil, err
	}
	c.server.mutex.Lock()
	defer c.server.mutex.Unlock()
	if _, found := c.server.collectors.get(given.GetId()); found {
		return nil, connect.NewError(connect.CodeAlreadyExists, fmt.Errorf("collector %q already exists", given.GetId()))
	}
	now := c.server.now()
	next := &collectorv1.Collector{
		Id: given.GetId(), Name: given.GetName(), RemoteAttributes: given.GetRemoteAttributes(), CollectorType: given.GetCollectorType(),
		Enabled: proto.Bool(given.Enabled == nil || given.GetEnabled()), CreatedAt: now, UpdatedAt: now,
	}
	next = proto.CloneOf(next)
	c.server.collectors.put(next.GetId(), next)
	return connect.NewResponse(next), nil
}

// UpdateCollector implements CollectorService. Name and remote attributes become those of the request, also where it has none.
func (c collectorService) UpdateCollector(_ context.Context, request *connect.Request[collectorv1.UpdateCollectorRequest]) (*connect.Response[collectorv1.Collector], error) {
	given := request.Msg.GetCollector()
	if err := checkCollector(given); err != nil {
		return nil, err
	}
	c.server.mutex.Lock()
	defer c.server.mutex.Unlock()
	former, found := c.server.collectors.get(given.GetId())
	if !found {
		return nil, notFound("collector", given.GetId())
	}
	next := proto.CloneOf(former)
	next.Name, next.RemoteAttributes, next.UpdatedAt = given.GetName(), proto.CloneOf(given).GetRemoteAttributes(), c.server.now()
	if given.Enabled != nil || c.server.options.OmittedEnabledDisables {
		next.Enabled = proto.Bool(given.GetEnabled())
	}
	if given.GetCollectorType() != collectorv1.CollectorType_COLLECTOR_TYPE_UNSPECIFIED {
		next.CollectorType = given.GetCollectorType()
	}
	c.server.collectors.put(next.GetId(), next)
	return connect.NewResponse(next), nil
}

// DeleteCollector implements CollectorService.
func (c collectorService) DeleteCollector(_ context.Context, request *connect.Request[collectorv1.DeleteCollectorRequest]) (*connect.Response[collectorv1.DeleteCollectorResponse], error) {
	if err := c.delete(request.Msg.GetId()); err != nil {
		return nil, err
	}
	return connect.NewResponse(&collectorv1.DeleteCollectorResponse{}), nil
}

// BulkDeleteCollectors implements CollectorService.
func (c collectorService) BulkDeleteCollectors(_ context.Context, request *connect.Request[collectorv1.BulkDeleteCollectorsRequest]) (*connect.Response[collectorv1.BulkDeleteCollectorsResponse], error) {
	if len(request.Msg.GetIds()) == 0 {
		return nil, invalid("ids are required")
	}
	if err := c.delete(request.Msg.GetIds()...); err != nil {
		return nil, err
	}
	return connect.NewResponse(&collectorv1.BulkDeleteCollectorsResponse{}), nil
}

// delete deletes all or none.
func (c collectorService) delete(ids ...string) error {
	c.server.mutex.Lock()
	defer c.server.mutex.Unlock()
	for _, id := range ids {
		if _, found := c.server.collectors.get(id); !found {
			return notFound("collector", id)
		}
	}
	for _, id := range ids {
		c.server.collectors.remove(id)
	}
	return nil
}

// ListCollectorAttributes implements CollectorService.
func (c collectorService) ListCollectorAttributes(context.Context, *connect.Request[collectorv1.ListCollectorAttributesRequest]) (*connect.Response[collectorv1.ListCollectorAttributesResponse], error) {
	c.server.mutex.Lock()
	listed := c.server.collectors.list()
	c.server.mutex.Unlock()
	return connect.NewResponse(&collectorv1.ListCollectorAttributesResponse{
		LocalAttributes:  values(listed, (*collectorv1.Collector).GetLocalAttributes),
		RemoteAttributes: values(listed, (*collectorv1.Collector).GetRemoteAttributes),
	}), nil
}

// values gathers the distinct values of each attribute, sorted.
func values(listed []*collectorv1.Collector, of func(*collectorv1.Collector) map[string]string) map[string]*collectorv1.Attributes {
	sets := map[string]map[string]bool{}
	for _, collector := range listed {
		for name, value := range of(collector) {
			if sets[name] == nil {
				sets[name] = map[string]bool{}
			}
			sets[name][value] = true
		}
	}
	found := make(map[string]*collectorv1.Attributes, len(sets))
	for name, set := range sets {
		found[name] = &collectorv1.Attributes{}
		for _, value := range slices.Sorted(maps.Keys(set)) {
			found[name].Values = append(found[name].Values, &collectorv1.Value{Value: value})
		}
	}
	return found
}

func checkCollector(collector *collectorv1.Collector) error {
	if collector.GetId() == "" {
		return invalid("collector id is required")
	}
	return checkRemote(collector.GetRemoteAttributes())
}
