// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"sigs.k8s.io/yaml"

	"github.com/candor-dev/candor/test/needs"
)

// needPromtool returns a promtool, and ends the test without one.
func needPromtool(t *testing.T) string {
	t.Helper()
	return needs.Variable(t, "PROMTOOL", "to a promtool to test the rules, as make test does: make tool-promtool builds one and prints its path")
}

// promtool runs it, and ends the test with what it says where it finds a fault.
func promtool(t *testing.T, arguments ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), needPromtool(t), arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool %s: %s\n%s", strings.Join(arguments, " "), err, out)
	}
}

// alert is one that fires: its name and labels in Prometheus' notation, and its annotations but for the runbook's address.
type alert struct{ metric, summary, description string }

type object = map[string]any

// unitTest writes a file for promtool: over these series, which start at 0, exactly these alerts fire at a time.
func unitTest(t *testing.T, rules, name string, series []string, at time.Duration, want []alert) []byte {
	t.Helper()
	g := NewWithT(t)
	var input, firing, alertTests []object
	for _, s := range series {
		end := strings.LastIndex(s, "}") + 1
		input = append(input, object{"series": s[:end], "values": s[end:]})
	}
	alerts := map[string][]object{}
	for _, a := range want {
		metric, err := promQL.ParseMetric(a.metric)
		g.Expect(err).NotTo(HaveOccurred(), a.metric)
		alertName := metric.Get(model.MetricNameLabel)
		firing = append(firing, object{"value": 1, "labels": labels.NewBuilder(metric).
			Set(model.MetricNameLabel, "ALERTS").Set(model.AlertNameLabel, alertName).Set("alertstate", "firing").Labels().String()})
		alerts[alertName] = append(alerts[alertName], object{
			"exp_labels":      metric.MatchLabels(false, model.MetricNameLabel).Map(),
			"exp_annotations": object{"summary": a.summary, "description": a.description, "runbook_url": runbookURL + alertName + ".md"},
		})
	}
	for alertName, expected := range alerts {
		alertTests = append(alertTests, object{"eval_time": at.String(), "alertname": alertName, "exp_alerts": expected})
	}
	file, err := yaml.Marshal(object{
		"rule_files":          []string{rules},
		"evaluation_interval": step.String(),
		"tests": []object{{
			"name":             name,
			"interval":         step.String(),
			"input_series":     input,
			"promql_expr_test": []object{{"eval_time": at.String(), "expr": `ALERTS{alertstate="firing"}`, "exp_samples": firing}},
			"alert_rule_test":  alertTests,
		}},
	})
	g.Expect(err).NotTo(HaveOccurred())
	return file
}
