// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	candorcontroller "github.com/candor-dev/candor/internal/controller/candor"
	fleetcontroller "github.com/candor-dev/candor/internal/controller/fleetmanagement"
	"github.com/candor-dev/candor/internal/fleet/client"
	"github.com/candor-dev/candor/internal/fleet/mirror"
	"github.com/candor-dev/candor/internal/signals/receiver"
)

// description is how a prometheus.Desc writes itself; nothing else tells its name.
var description = regexp.MustCompile(`fqName: "(.*?)", help: "(.*?)", .*variableLabels: \{(.*)\}\}`)

func metricsPage() (string, error) {
	var rows table
	collectors := append(candorcontroller.NewMetrics(nil).Collectors(), candorcontroller.NewExplainCollector(nil))
	collectors = slices.Concat(collectors, fleetcontroller.NewMetrics().Collectors(), client.NewMetrics().Collectors(), mirror.NewMetrics().Collectors(),
		receiver.NewMetrics().Collectors())
	for _, collector := range collectors {
		descriptions := make(chan *prometheus.Desc, 16)
		collector.Describe(descriptions)
		close(descriptions)
		for d := range descriptions {
			match := description.FindStringSubmatch(d.String())
			if match == nil {
				return "", fmt.Errorf("%s does not look like the description of a metric", d)
			}
			rows = append(rows, []string{code(match[1]), kindOf(collector, match[1]), strings.ReplaceAll(match[3], ",", ", "), match[2]})
		}
	}
	slices.SortFunc(rows, slices.Compare[[]string])
	drops, err := values("reason", "internal/signals/report.go")
	outcomes, outcomesErr := values("outcome", "internal/signals/llm/error.go")
	refusals, refusalsErr := values("reason", "internal/signals/receiver/reason.go")
	results, resultsErr := values("result", "internal/signals/receiver/signal.go")
	return "`--metrics-bind-address` turns the endpoint on. No label names an object or a namespace. The endpoint also serves the\n" +
		"metrics of controller-runtime, client-go and the Go runtime.\n\n" + append(table{{"Name", "Type", "Labels", "Meaning"}}, rows...).String() +
		"\n## Reasons of `candor_reports_dropped_total`\n\n" + drops.String() +
		"\n## Outcomes of `candor_llm_calls_total`\n\n`ok` is an answer that could be used. The others are the reasons of the condition Enriched, or stand in its message.\n\n" +
		outcomes.String() +
		"\n## Results of `candor_signals_received_total`\n\n" + results.String() +
		"\n## Reasons of `candor_signals_refused_total`\n\n" + refusals.String(), errors.Join(err, outcomesErr, refusalsErr, resultsErr)
}

// values lists what a label may say: the text constants of a file.
func values(label, path string) (table, error) {
	rows := table{{code(label), "Meaning"}}
	all, err := constants(path)
	for _, c := range all {
		rows = append(rows, []string{code(c.value), c.meaning})
	}
	return rows, err
}

// kindOf returns the type of a metric, which its description does not tell.
func kindOf(collector prometheus.Collector, name string) string {
	switch collector.(type) {
	case prometheus.Histogram, *prometheus.HistogramVec:
		return "histogram"
	}
	if strings.HasSuffix(name, "_total") {
		return "counter"
	}
	return "gauge"
}
