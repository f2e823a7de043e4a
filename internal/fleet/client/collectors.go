// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	collectorv1 "github.com/grafana/fleet-management-api/api/gen/proto/go/collector/v1"
	"google.golang.org/protobuf/types/known/structpb"
)

// ListCollectors returns the collectors that all matchers match, hence all of them when there are none.
func (c *Client) ListCollectors(ctx context.Context, matchers ...string) ([]Collector, error) {
	list, err := answer(ctx, c.collectors.ListCollectors, &collectorv1.ListCollectorsRequest{Matchers: matchers})
	if err != nil {
		return nil, err
	}
	collectors := make([]Collector, 0, len(list.GetCollectors()))
	for _, collector := range list.GetCollectors() {
		collectors = append(collectors, collectorOf(collector))
	}
	return collectors, nil
}

// GetCollector returns the collector of an ID, or a NotFound fault.
func (c *Client) GetCollector(ctx context.Context, id string) (Collector, error) {
	collector, err := answer(ctx, c.collectors.GetCollector, &collectorv1.GetCollectorRequest{Id: id})
	if err != nil {
		return Collector{}, err
	}
	return collectorOf(collector), nil
}

// UpdateCollector replaces name, enabled and all remote attributes of the collector of an ID. A nil Enabled leaves that as it is.
func (c *Client) UpdateCollector(ctx context.Context, collector Collector) error {
	_, err := answer(ctx, c.collectors.UpdateCollector, &collectorv1.UpdateCollectorRequest{Collector: collector.message()})
	return err
}

// BulkUpdateCollectors applies the operations, in their order, to each of the collectors, or to none when one of them fails.
func (c *Client) BulkUpdateCollectors(ctx context.Context, ids []string, ops []Op) error {
	request := &collectorv1.BulkUpdateCollectorsRequest{Ids: ids}
	for _, op := range ops {
		request.Ops = append(request.Ops, op.message())
	}
	_, err := answer(ctx, c.collectors.BulkUpdateCollectors, request)
	return err
}

// Limits returns what Fleet Management grants; all zero where the server, or what the credentials may do, does not tell.
func (c *Client) Limits(ctx context.Context) (Limits, error) {
	told, err := answer(ctx, c.limits.CallUnary, &structpb.Struct{})
	if e := (*Error)(nil); errors.As(err, &e) && e.procedure == getLimits && untold[e.Status] {
		return Limits{}, nil
	}
	if err != nil {
		return Limits{}, err
	}
	number := func(names ...string) float64 {
		for _, name := range names {
			switch value := told.GetFields()[name].GetKind().(type) {
			case *structpb.Value_NumberValue:
				return value.NumberValue
			case *structpb.Value_StringValue: // as JSON writes 64 bits
				if parsed, err := strconv.ParseFloat(value.StringValue, 64); err == nil {
					return parsed
				}
			}
		}
		return 0
	}
	return Limits{
		Collectors:           int64(number("collectors")),
		Pipelines:            int64(number("pipelines")),
		APIRequestsPerSecond: number("requestsPerSecondApi", "requests_per_second_api"),
	}, nil
}

// untold are statuses of servers that have no limits to tell, or not to us.
var untold = map[int]bool{http.StatusForbidden: true, http.StatusNotFound: true, http.StatusNotImplemented: true}
