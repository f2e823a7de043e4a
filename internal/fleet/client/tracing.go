// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"path"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

const tracerName = "candor"

// toldOf leaves out what a server says of a request that it refuses: it may repeat what was sent.
func toldOf(err error) error {
	e := (*Error)(nil)
	if !errors.As(err, &e) || e.class != refused {
		return err
	}
	silent := *e
	silent.Message = ""
	return &silent
}

// tracing makes a span of each call, with the time that it waits for its turn.
type tracing struct {
	unaryOnly
	tracer trace.Tracer
}

// WrapUnary implements connect.Interceptor.
func (t *tracing) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		procedure := request.Spec().Procedure
		ctx, span := t.tracer.Start(ctx, procedure, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.String("rpc.system", "connect"),
			attribute.String("rpc.service", path.Base(path.Dir(procedure))),
			attribute.String("rpc.method", path.Base(procedure)),
		))
		defer span.End()
		response, err := next(ctx, request)
		if err != nil {
			span.SetAttributes(attribute.String("rpc.connect_rpc.error_code", statusOf(err)))
			told := toldOf(err)
			span.RecordError(told)
			span.SetStatus(codes.Error, told.Error())
		}
		return response, err
	}
}
