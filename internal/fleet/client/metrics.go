// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// statusOK and statusUnknown are values of the label status; the others are names of Connect's codes.
const (
	statusOK      = "ok"
	statusUnknown = "unknown"
)

// Metrics is what a Client exports. The label operation is the full name of a procedure.
type Metrics struct {
	requests, errors *prometheus.CounterVec
	duration         *prometheus.HistogramVec
	wait             prometheus.Histogram
	paused           *pausedCollector
}

// NewMetrics makes the metrics of one Client.
func NewMetrics() *Metrics {
	buckets := []float64{0.005, 0.025, 0.1, 0.5, 1, 2, 5, 10, 20, 30}
	return &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fleet_api_requests_total", Help: "Requests to Fleet Management.",
		}, []string{"operation"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fleet_api_errors_total", Help: "Requests to Fleet Management that failed, by Connect's code.",
		}, []string{"operation", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fleet_api_request_duration_seconds", Help: "Seconds that requests to Fleet Management took, by ok or Connect's code.", Buckets: buckets,
		}, []string{"operation", "status"}),
		wait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fleet_api_rate_limiter_wait_duration_seconds", Help: "Seconds that calls waited for their turn.", Buckets: buckets,
		}),
		paused: &pausedCollector{description: prometheus.NewDesc("fleet_api_paused",
			"1 while nothing, or not everything, is sent to Fleet Management, by reason: AuthFailed, BaseURLWrong, NoCredentials or RateLimited.", []string{"reason"}, nil)},
	}
}

// Collectors returns everything there is to register.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.errors, m.duration, m.wait, m.paused}
}

func (m *Metrics) watch(a *admission) { m.paused.admission.Store(a) }

func (m *Metrics) waited(wait time.Duration) { m.wait.Observe(wait.Seconds()) }

// pausedCollector looks at each scrape, since a pause ends by itself.
type pausedCollector struct {
	description *prometheus.Desc
	admission   atomic.Pointer[admission]
}

// Describe implements prometheus.Collector.
func (c *pausedCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- c.description
}

// Collect implements prometheus.Collector.
func (c *pausedCollector) Collect(metrics chan<- prometheus.Metric) {
	admission := c.admission.Load()
	if admission == nil {
		return
	}
	for reason, paused := range admission.paused() {
		value := 0.0
		if paused {
			value = 1
		}
		metrics <- prometheus.MustNewConstMetric(c.description, prometheus.GaugeValue, value, reason)
	}
}

// metering counts what is sent.
type metering struct {
	unaryOnly
	metrics *Metrics
	clock   clock.PassiveClock
}

// WrapUnary implements connect.Interceptor.
func (m *metering) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		operation, began := request.Spec().Procedure, m.clock.Now()
		m.metrics.requests.WithLabelValues(operation).Inc()
		response, err := next(ctx, request)
		status := statusOf(err)
		if err != nil {
			m.metrics.errors.WithLabelValues(operation, status).Inc()
		}
		m.metrics.duration.WithLabelValues(operation, status).Observe(m.clock.Since(began).Seconds())
		return response, err
	}
}

// statusOf is the API's code, or the one that is closest to the status of whoever answered in its place.
func statusOf(err error) string {
	if err == nil {
		return statusOK
	}
	e := (*Error)(nil)
	if !errors.As(err, &e) {
		return statusUnknown
	}
	switch {
	case e.Code != "":
		return e.Code
	case errors.Is(err, context.DeadlineExceeded):
		return connect.CodeDeadlineExceeded.String()
	case errors.Is(err, context.Canceled):
		return connect.CodeCanceled.String()
	case e.class == unauthenticated:
		return connect.CodeUnauthenticated.String()
	case e.class == forbidden:
		return connect.CodePermissionDenied.String()
	case e.class == busy:
		return connect.CodeResourceExhausted.String()
	case e.class == wrongURL:
		return connect.CodeUnimplemented.String()
	case e.class == refused:
		return connect.CodeInvalidArgument.String()
	case e.Status == 0 || e.Status >= http.StatusInternalServerError:
		return connect.CodeUnavailable.String()
	}
	return statusUnknown
}
