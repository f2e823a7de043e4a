// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	candorcontroller "github.com/candor-dev/candor/internal/controller/candor"
)

// description is how a prometheus.Desc writes itself; nothing else tells its name.
var description = regexp.MustCompile(`fqName: "(.*?)", help: "(.*?)", .*variableLabels: \{(.*)\}\}`)

func metricsPage() (string, error) {
	var rows table
	for _, collector := range candorcontroller.NewMetrics(nil).Collectors() {
		descriptions := make(chan *prometheus.Desc, 16)
		collector.Describe(descriptions)
		close(descriptions)
		for d := range descriptions {
			match := description.FindStringSubmatch(d.String())
			if match == nil {
				return "", fmt.Errorf("%s does not look like the description of a metric", d)
			}
			kind := map[bool]string{true: "counter", false: "gauge"}[strings.HasSuffix(match[1], "_total")]
			rows = append(rows, []string{code(match[1]), kind, strings.ReplaceAll(match[3], ",", ", "), match[2]})
		}
	}
	slices.SortFunc(rows, slices.Compare[[]string])
	drops := table{{"`reason`", "Meaning"}}
	reasons, err := constants("internal/signals/report.go")
	for _, r := range reasons {
		drops = append(drops, []string{code(r.value), r.meaning})
	}
	return "`--metrics-bind-address` turns the endpoint on. No label names an object or a namespace. The endpoint also serves the\n" +
		"metrics of controller-runtime, client-go and the Go runtime.\n\n" + append(table{{"Name", "Type", "Labels", "Meaning"}}, rows...).String() +
		"\n## Reasons of `candor_reports_dropped_total`\n\n" + drops.String(), err
}
