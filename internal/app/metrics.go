// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	candorcontroller "github.com/candor-dev/candor/internal/controller/candor"
)

// Registry takes metrics.
type Registry = prometheus.Registerer

// register adds collectors in place of those of an earlier manager in this process. A nil registry is the one that the
// metrics endpoint serves.
func register(registry Registry, collectors []prometheus.Collector) error {
	if registry == nil {
		registry = metrics.Registry
	}
	for _, c := range collectors {
		registry.Unregister(c)
		if err := registry.Register(c); err != nil {
			return fmt.Errorf("registering a metric: %w", err)
		}
	}
	return nil
}

// registerExplainer adds the gauges of what models may still cost.
func registerExplainer(registry Registry, e *candorcontroller.Explainer) error {
	return register(registry, []prometheus.Collector{candorcontroller.NewExplainCollector(e)})
}
