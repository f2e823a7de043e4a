// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	ctrl "sigs.k8s.io/controller-runtime"
)

// flushTimeout bounds how long the end of the process waits for its last spans to be sent.
const flushTimeout = 5 * time.Second

// Any of these variables turns tracing on. OpenTelemetry's exporter reads them itself, and everything else that is said about it
// there: headers, certificates, protocol, sampling.
var tracingVariables = []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"}

// readTracing says whether spans are wanted.
func readTracing(lookup func(string) (string, bool)) bool {
	if disabled, _ := lookup("OTEL_SDK_DISABLED"); strings.EqualFold(disabled, "true") {
		return false
	}
	for _, name := range tracingVariables {
		if value, _ := lookup(name); value != "" {
			return true
		}
	}
	return false
}

// newTracing returns what makes spans, and what sends the last of them. Without tracing, both do nothing.
func newTracing(ctx context.Context, options Options) (trace.TracerProvider, func() error, error) {
	if !options.Tracing {
		return noop.NewTracerProvider(), func() error { return nil }, nil
	}
	exporter, err := otlptracegrpc.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("tracing, which %s turns on: %w", strings.Join(tracingVariables, " or "), err)
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "candor"), attribute.String("service.version", Version)), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, nil, fmt.Errorf("tracing: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	log := ctrl.Log.WithName("tracing")
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Info("Cannot send spans", "error", err.Error()) }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return provider, func() error {
		// ctx has ended by now.
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		return provider.Shutdown(within)
	}, nil
}
