// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/template"
)

// fires returns what Prometheus shows of the alerts that fire at a time: the name, the labels and the summary.
func fires(t *testing.T, rules []rulefmt.Rule, m memory, at time.Duration) []string {
	t.Helper()
	alerts := []string{}
	for _, rule := range rules {
		since := map[string]time.Duration{}
		last := map[string]promql.Sample{}
		for now := time.Duration(0); now <= at; now += step {
			holds := map[string]promql.Sample{}
			for _, sample := range m.at(t, rule.Expr, now) {
				holds[sample.Metric.String()] = sample
			}
			maps.DeleteFunc(since, func(key string, _ time.Duration) bool { _, still := holds[key]; return !still })
			for key := range holds {
				if _, known := since[key]; !known {
					since[key] = now
				}
			}
			last = holds
		}
		for key, start := range since {
			if at-start >= time.Duration(rule.For) {
				alerts = append(alerts, rule.Alert+": "+expand(t, rule.Annotations["summary"], last[key]))
				expand(t, rule.Annotations["description"], last[key])
			}
		}
	}
	slices.Sort(alerts)
	return alerts
}

// expand fills in a template as Prometheus does. A label that the alert does not have is a mistake.
func expand(t *testing.T, text string, sample promql.Sample) string {
	t.Helper()
	g := NewWithT(t)
	data := template.AlertTemplateData(sample.Metric.Map(), nil, "", sample)
	prefix := "{{$labels := .Labels}}{{$value := .Value}}"
	query := func(context.Context, string, time.Time) (promql.Vector, error) { return nil, nil }
	expanded, err := template.NewTemplateExpander(context.Background(), prefix+text, "annotation", data, model.Time(0), query, &url.URL{}, []string{"missingkey=error"}).Expand()
	g.Expect(err).NotTo(HaveOccurred(), text)
	g.Expect(expanded).NotTo(ContainSubstring("<no value>"))
	return expanded
}

// of puts the labels of a replica into the descriptions of series.
func of(pod string, descriptions ...string) []string {
	target := fmt.Sprintf(`namespace="candor-system", job="candor", pod=%q`, pod)
	filled := make([]string, 0, len(descriptions))
	for _, d := range descriptions {
		filled = append(filled, strings.NewReplacer("{}", "{"+target+"}", "{", "{"+target+", ").Replace(d))
	}
	return filled
}

// healthy is a leader with a model, which has been at work for as long as the test looks.
func healthy(more ...string) []string {
	return of("candor-0", append([]string{
		`leader_election_master_status{} 1x400`,
		`candor_provider_up{provider="trivy"} 1x400`,
		`candor_circuit_open{backend="anthropic"} 0x400`,
		`candor_budget_remaining{unit="calls"} 200x400`,
		`candor_budget_remaining{unit="tokens"} 1000000x400`,
		`candor_llm_calls_total{backend="anthropic", model="m", outcome="ok"} 0+1x400`,
		`controller_runtime_reconcile_total{controller="finding", result="success"} 0+10x400`,
		`controller_runtime_reconcile_errors_total{controller="finding"} 0x400`,
		`workqueue_depth{controller="finding", name="finding", priority="0"} 0x400`,
	}, more...)...)
}

// but replaces the series of the same metric and labels.
func but(series []string, changes ...string) []string {
	for _, change := range of("candor-0", changes...) {
		name := change[:strings.LastIndex(change, "}")]
		series = append(slices.DeleteFunc(slices.Clone(series), func(s string) bool { return strings.HasPrefix(s, name+"}") }), change)
	}
	return series
}

func TestRules(t *testing.T) {
	waiting := of("candor-1", `leader_election_master_status{} 0x400`, `candor_provider_up{provider="trivy"} 0x400`)
	for name, c := range map[string]struct {
		series []string
		at     time.Duration
		want   []string
	}{
		"a leader at work and a replica that waits":     {append(healthy(), waiting...), 3 * time.Hour, nil},
		"a leader without a model":                      {of("candor-0", `leader_election_master_status{} 1x400`, `candor_provider_up{provider="trivy"} 1x400`), 3 * time.Hour, nil},
		"nothing is scraped":                            {nil, 10 * time.Minute, []string{"CandorDown: No Candor is at work."}},
		"nothing has been scraped for 9 minutes":        {nil, 9 * time.Minute, nil},
		"every replica waits":                           {waiting, time.Hour, []string{"CandorDown: No Candor is at work."}},
		"the leader changes after a crash":              {append(of("candor-0", `leader_election_master_status{} 1x60`), of("candor-1", `leader_election_master_status{} 0x63 1x200`)...), 75 * time.Minute, nil},
		"the reports of a provider are not watched":     {but(healthy(), `candor_provider_up{provider="trivy"} 1x60 0x100`), 95 * time.Minute, []string{"CandorProviderDown: Reports of trivy are not being read."}},
		"they have not been watched for 20 minutes":     {but(healthy(), `candor_provider_up{provider="trivy"} 1x60 0x100`), 81 * time.Minute, nil},
		"without leader election, they are not watched": {of("candor-0", `candor_provider_up{provider="trivy"} 0x100`), 9 * time.Minute, nil},
		"a first report is dropped": {
			healthy(`candor_reports_dropped_total{provider="trivy", reason="malformed"} _x90 1x300`), 100 * time.Minute,
			[]string{"CandorReportsDropped: Reports of trivy cannot be used."},
		},
		"a report was dropped two hours ago": {healthy(`candor_reports_dropped_total{provider="trivy", reason="malformed"} _x90 1x300`), 220 * time.Minute, nil},
		"one more report is dropped": {
			healthy(`candor_reports_dropped_total{provider="trivy", reason="no_resource_name"} 3x90 4x300`), 100 * time.Minute,
			[]string{"CandorReportsDropped: Reports of trivy cannot be used."},
		},
		"reports of the scanner's own Jobs and of ended ReplicaSets are dropped": {
			healthy(`candor_reports_dropped_total{provider="trivy", reason="scan_job"} 0+1x300`, `candor_reports_dropped_total{provider="trivy", reason="owner_gone"} 0+1x300`),
			2 * time.Hour, nil,
		},
		"the server refuses the key, and is asked now and then": {
			but(healthy(), `candor_circuit_open{backend="anthropic"} 0x60 1x14 0 1x14 0 1x14 0 1x40`), 95 * time.Minute,
			[]string{"CandorModelPaused: The model's server (anthropic) cannot be used."},
		},
		"the server asks to wait for ten minutes": {but(healthy(), `candor_circuit_open{backend="anthropic"} 0x60 1x10 0x200`), 95 * time.Minute, nil},
		"two of three calls give no answer": {
			healthy(`candor_llm_calls_total{backend="anthropic", model="m", outcome="InvalidOutput"} 0+2x400`), 2 * time.Hour,
			[]string{"CandorModelFailing: Most calls of m give no answer."},
		},
		"one of three calls gives no answer": {
			but(healthy(`candor_llm_calls_total{backend="anthropic", model="m", outcome="InvalidOutput"} 0+1x400`),
				`candor_llm_calls_total{backend="anthropic", model="m", outcome="ok"} 0+2x400`), 2 * time.Hour, nil,
		},
		"three calls in an hour give no answer": {
			but(healthy(`candor_llm_calls_total{backend="anthropic", model="m", outcome="Timeout"} 0x70 1x15 2x15 3x200`),
				`candor_llm_calls_total{backend="anthropic", model="m", outcome="ok"} 9x400`), 2 * time.Hour, nil,
		},
		"the calls of the budget are used up": {
			but(healthy(), `candor_budget_remaining{unit="calls"} 200x60 0x400`), 3 * time.Hour,
			[]string{"CandorBudgetExhausted: The cluster's budget of calls is used up."},
		},
		"too few tokens for a question are left": {
			but(healthy(), `candor_budget_remaining{unit="tokens"} 1000000x60 5000x400`), 4 * time.Hour,
			[]string{"CandorBudgetExhausted: The cluster's budget of tokens is used up."},
		},
		"the calls have been used up for 45 minutes": {but(healthy(), `candor_budget_remaining{unit="calls"} 200x60 0x400`), 105 * time.Minute, nil},
		"a used-up budget frees within the hour":     {but(healthy(), `candor_budget_remaining{unit="calls"} 200x60 0x50 10x400`), 150 * time.Minute, nil},
		"the rest of the budget lasts for two hours": {
			but(healthy(), `candor_budget_remaining{unit="calls"} 200-1x120 80x20`), 110 * time.Minute,
			[]string{"CandorSpendingFast: The cluster's budget of calls will be used up within 4 hours."},
		},
		"the rest of the budget lasts for hours yet":  {but(healthy(), `candor_budget_remaining{unit="tokens"} 1000000-1000x400`), 3 * time.Hour, nil},
		"the window frees as much as is spent":        {but(healthy(), `candor_budget_remaining{unit="calls"} 3x400`), 3 * time.Hour, nil},
		"a manager that has just started spends fast": {but(healthy(), `candor_budget_remaining{unit="calls"} 200-3x50`), 45 * time.Minute, nil},
		"every fifth pass fails": {
			but(healthy(), `controller_runtime_reconcile_errors_total{controller="finding"} 0+2x400`), 2 * time.Hour,
			[]string{"CandorReconcileErrors: The finding controller fails again and again."},
		},
		"every fiftieth pass fails": {but(healthy(), `controller_runtime_reconcile_errors_total{controller="finding"} 0+0.2x400`), 2 * time.Hour, nil},
		"objects wait and no pass ends": {
			but(healthy(), `workqueue_depth{controller="finding", name="finding", priority="0"} 0x60 7x400`,
				`controller_runtime_reconcile_total{controller="finding", result="success"} 0+10x60 600x400`), 90 * time.Minute,
			[]string{"CandorQueueStuck: The finding controller does not work on its queue."},
		},
		"many objects wait and passes end": {but(healthy(), `workqueue_depth{controller="finding", name="finding", priority="0"} 5000x400`), 3 * time.Hour, nil},
		"nothing waits and no pass ends":   {but(healthy(), `controller_runtime_reconcile_total{controller="finding", result="success"} 600x400`), 3 * time.Hour, nil},
		"another operator fails": {
			append(healthy(), `controller_runtime_reconcile_total{namespace="other", job="other", controller="x"} 0+1x400`,
				`controller_runtime_reconcile_errors_total{namespace="other", job="other", controller="x"} 0+1x400`,
				`workqueue_depth{namespace="other", job="other", controller="y"} 5x400`), 3 * time.Hour, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var m memory
			m.load(t, c.series...)
			NewWithT(t).Expect(fires(t, loadRules(t), m, c.at)).To(HaveExactElements(toAny(c.want)...))
		})
	}
}

func toAny(list []string) []any {
	all := make([]any, 0, len(list))
	for _, each := range list {
		all = append(all, each)
	}
	return all
}
