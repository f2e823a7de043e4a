// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetserver

import (
	"context"
	"mime"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/structpb"
)

const getLimits = "/tenant.v1.TenantService/GetLimits"

// tenantService answers GetLimits in JSON: its messages are not public, so there is no other form to speak. Numbers are numbers, and
// names are as in the API's description.
func (s *Server) tenantService(options ...connect.HandlerOption) http.Handler {
	procedure := connect.NewUnaryHandler(getLimits, func(context.Context, *connect.Request[structpb.Struct]) (*connect.Response[structpb.Struct], error) {
		told := map[string]*structpb.Value{}
		for name, limit := range map[string]int64{
			"collectors": s.options.Limits.Collectors, "pipelines": s.options.Limits.Pipelines,
			"requests_per_second_collector": s.options.Limits.RequestsPerSecondCollector,
			"requests_per_second_api":       s.options.Limits.RequestsPerSecondAPI,
		} {
			if limit != 0 {
				told[name] = structpb.NewNumberValue(float64(limit))
			}
		}
		return connect.NewResponse(&structpb.Struct{Fields: told}), nil
	}, options...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
			w.Header().Set("Accept-Post", "application/json")
			http.Error(w, "the request is not application/json", http.StatusUnsupportedMediaType)
			return
		}
		procedure.ServeHTTP(w, r)
	})
}
