// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

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
		`fleet_api_paused{reason="AuthFailed"} 0x400`,
		`fleet_api_paused{reason="BaseURLWrong"} 0x400`,
		`fleet_api_paused{reason="NoCredentials"} 0x400`,
		`fleet_api_paused{reason="RateLimited"} 0x400`,
		`fleet_pipelines_orphaned{} 0x400`,
		`fleet_resources{kind="Pipeline", ready="True", reason="Synced"} 40x400`,
		`fleet_stack_objects{kind="pipelines"} 50x400`,
		`fleet_stack_objects{kind="collectors"} 300x400`,
		`fleet_stack_limit{limit="pipelines"} 100x400`,
		`fleet_stack_limit{limit="requests_per_second"} 3x400`,
	}, more...)...)
}

// fleetScenarios are those of Fleet Management.
func fleetScenarios() map[string]scenario {
	const warning = `severity="warning"}`
	wait := func(upTo5s, upTo10s string) []string {
		return healthy(`fleet_api_rate_limiter_wait_duration_seconds_bucket{le="5"} `+upTo5s, `fleet_api_rate_limiter_wait_duration_seconds_bucket{le="10"} `+upTo10s,
			`fleet_api_rate_limiter_wait_duration_seconds_bucket{le="+Inf"} `+upTo10s)
	}
	rateLimited := []alert{{
		`CandorFleetRateLimited{namespace="candor-system", ` + warning,
		"Requests to Fleet Management are too many.",
		"For 15 minutes requests have waited longer than 5 seconds for their turn, or Fleet Management has asked to wait most of the time. Changes reach collectors late.",
	}}
	return map[string]scenario{
		"Fleet Management refuses the credentials": {
			but(healthy(), `fleet_api_paused{reason="AuthFailed"} 0x60 1x100`), 80 * time.Minute,
			[]alert{{
				`CandorFleetPaused{namespace="candor-system", reason="AuthFailed", ` + warning,
				"Fleet Management is not being asked: AuthFailed.",
				"For 15 minutes some or all requests to Fleet Management have been held back, since its address makes no sense or it refuses the credentials. Pipelines and Collectors stay as they are.",
			}},
		},
		"no request to Fleet Management gets an answer": {
			healthy(
				`fleet_api_errors_total{operation="/pipeline.v1.PipelineService/ListPipelines", status="unavailable"} 0x60 1+1x100`,
				`fleet_api_request_duration_seconds_count{operation="/pipeline.v1.PipelineService/ListPipelines", status="ok"} 60x160`,
			), 100 * time.Minute,
			[]alert{{
				`CandorFleetUnreachable{namespace="candor-system", ` + warning,
				"Fleet Management cannot be reached.",
				"For 15 minutes every request to Fleet Management has failed. Pipelines and Collectors stay as they are, and what others change is not found.",
			}},
		},
		"every second request to Fleet Management fails": {
			healthy(
				`fleet_api_errors_total{operation="/pipeline.v1.PipelineService/ListPipelines", status="unavailable"} 0+1x160`,
				`fleet_api_request_duration_seconds_count{operation="/pipeline.v1.PipelineService/ListPipelines", status="ok"} 0+1x160`,
			), 100 * time.Minute, nil,
		},
		"it has refused them for 10 minutes": {but(healthy(), `fleet_api_paused{reason="AuthFailed"} 0x60 1x100`), 71 * time.Minute, nil},
		"there are no credentials": {
			but(healthy(`fleet_resources{kind="Collector", ready="False", reason="NoCredentials"} 9x400`), `fleet_api_paused{reason="NoCredentials"} 1x400`), 5 * time.Hour, nil,
		},
		"every second request waits long":     {wait("0+1x400", "0+2x400"), 2 * time.Hour, rateLimited},
		"one request in a hundred waits long": {wait("0+99x400", "0+100x400"), 2 * time.Hour, nil},
		"requests waited long for a moment":   {wait("0+1x60 60x5 61+1x300", "0+1x60 65x5 66+1x300"), 70 * time.Minute, nil},
		"Fleet Management asks to wait a lot": {but(healthy(), `fleet_api_paused{reason="RateLimited"} 0x60 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0 1 1 0`), 89 * time.Minute, rateLimited},
		"it asks to wait now and then":        {but(healthy(), `fleet_api_paused{reason="RateLimited"} 0x60 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0 1 0 0`), 89 * time.Minute, nil},
		"specs that Fleet Management refuses": {
			healthy(`fleet_resources{kind="Pipeline", ready="False", reason="ValidationError"} 2x400`), 61 * time.Minute,
			[]alert{{
				`CandorFleetNotReady{namespace="candor-system", kind="Pipeline", reason="ValidationError", ` + warning,
				"Objects of the kind Pipeline are not Ready: ValidationError.",
				"For an hour 2 of them have not been what their specs ask for.",
			}},
		},
		"it has refused them for half an hour": {healthy(`fleet_resources{kind="Pipeline", ready="False", reason="ValidationError"} _x60 2x400`), 90 * time.Minute, nil},
		"objects that are meant to be so, or become well by themselves": {
			healthy(
				`fleet_resources{kind="Pipeline", ready="False", reason="Paused"} 1x400`, `fleet_resources{kind="Pipeline", ready="False", reason="DryRun"} 1x400`,
				`fleet_resources{kind="Collector", ready="False", reason="NotRegistered"} 1x400`, `fleet_resources{kind="Collector", ready="Unknown", reason="RateLimited"} 1x400`,
				`fleet_resources{kind="RemoteAttributePolicy", ready="False", reason="NoMatch"} 1x400`), 3 * time.Hour, nil,
		},
		"a discovery holds back what would go, and a sync what it would take away": {
			healthy(`fleet_resources{kind="PipelineDiscovery", ready="False", reason="RemovalSuspended"} _x60 1x400`,
				`fleet_resources{kind="ExternalAttributeSync", ready="False", reason="Stalled"} _x60 2x400`), 3 * time.Hour,
			[]alert{{
				`CandorFleetHeldBack{namespace="candor-system", kind="ExternalAttributeSync", reason="Stalled", ` + warning,
				"More would be taken away at once than is taken for granted: ExternalAttributeSync.",
				"For 30 minutes 2 of them have held back a removal. Nothing is taken away until somebody approves, or what is missing comes back.",
			}, {
				`CandorFleetHeldBack{namespace="candor-system", kind="PipelineDiscovery", reason="RemovalSuspended", ` + warning,
				"More would be taken away at once than is taken for granted: PipelineDiscovery.",
				"For 30 minutes 1 of them have held back a removal. Nothing is taken away until somebody approves, or what is missing comes back.",
			}},
		},
		"one fetch was held back": {
			healthy(`fleet_resources{kind="ExternalAttributeSync", ready="False", reason="Stalled"} _x60 1x15 _x200`), 80 * time.Minute, nil,
		},
		"a source does not answer": {
			healthy(`fleet_resources{kind="ExternalAttributeSync", ready="False", reason="SourceFailed"} _x60 1x400`), 3 * time.Hour,
			[]alert{{
				`CandorFleetSourceFailing{namespace="candor-system", reason="SourceFailed", ` + warning,
				"A source of attributes cannot be read: SourceFailed.",
				"For an hour 1 ExternalAttributeSyncs have had no answer from their source. Collectors keep the attributes that they have, which grow old.",
			}},
		},
		"it did not for half an hour": {
			healthy(`fleet_resources{kind="ExternalAttributeSync", ready="False", reason="SourceFailed"} _x60 1x30 _x200`), 100 * time.Minute, nil,
		},
		"somebody undoes each correction, of which one comes in a quarter of an hour": {
			healthy(`fleet_resources{kind="Pipeline", ready="False", reason="Contended"} _x60 1x14 _x9 1x14 _x9 1x14 _x200`), 100 * time.Minute,
			[]alert{{
				`CandorFleetContended{namespace="candor-system", ` + warning,
				"Somebody undoes what Candor writes to Fleet Management.",
				"1 pipelines are changed back again and again. Between two corrections collectors run what the other side wrote.",
			}},
		},
		"nobody has done so for two hours": {
			healthy(`fleet_resources{kind="Pipeline", ready="False", reason="Contended"} _x60 1x14 _x300`), 3 * time.Hour, nil,
		},
		"an object cannot be deleted": {
			healthy(`fleet_deletions_blocked{kind="Collector", reason="SyncFailed"} 3x400`, `fleet_resources{kind="Collector", ready="False", reason="DeleteFailed"} 3x400`), 2 * time.Hour,
			[]alert{{
				`CandorFleetDeletionBlocked{namespace="candor-system", kind="Collector", reason="SyncFailed", ` + warning,
				"Objects of the kind Collector cannot be deleted: SyncFailed.",
				"For 15 minutes 3 of them could not be removed from Fleet Management. They, and their namespace if that is being deleted, stay.",
			}},
		},
		"it could not for 5 minutes": {healthy(`fleet_deletions_blocked{kind="Collector", reason="SyncFailed"} _x60 3x5 _x300`), 70 * time.Minute, nil},
		"pipelines have lost their object": {
			but(healthy(), `fleet_pipelines_orphaned{} 0x60 4x300`), 125 * time.Minute,
			[]alert{{
				`CandorFleetOrphans{namespace="candor-system", ` + warning,
				"Pipelines in Fleet Management have lost their object.",
				"For an hour 4 pipelines have carried the stamp of this cluster while no Pipeline stands for them. Collectors go on running them, and nobody looks after them.",
			}},
		},
		"they are collected": {but(healthy(), `fleet_pipelines_orphaned{} 0x60 4x10 0x300`), 125 * time.Minute, nil},
		"the stack holds nearly all the pipelines that it may": {
			but(append(healthy(), of("candor-1", `fleet_pipelines_orphaned{} 0x400`)...), `fleet_stack_objects{kind="pipelines"} 50x60 95x300`), 80 * time.Minute,
			[]alert{{
				`CandorFleetNearLimit{namespace="candor-system", kind="pipelines", ` + warning,
				"The stack has nearly as many pipelines as it may have.",
				"95% of the pipelines that Fleet Management grants the stack are in use. It refuses more than that.",
			}},
		},
	}
}

// but replaces the series of the same metric and labels.
func but(series []string, changes ...string) []string {
	for _, change := range of("candor-0", changes...) {
		name := change[:strings.LastIndex(change, "}")]
		series = append(slices.DeleteFunc(slices.Clone(series), func(s string) bool { return strings.HasPrefix(s, name+"}") }), change)
	}
	return series
}

// scenario is what a Prometheus has, and which alerts fire at a time then.
type scenario struct {
	series []string
	at     time.Duration
	want   []alert
}

// TestRules holds each scenario to exactly the alerts that fire then, with all that they say.
func TestRules(t *testing.T) {
	needPromtool(t)
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	NewWithT(t).Expect(os.WriteFile(rules, ruleGroups(t), 0o600)).To(Succeed())
	promtool(t, "check", "rules", "--lint-fatal", rules)
	waiting := of("candor-1", `leader_election_master_status{} 0x400`, `candor_provider_up{provider="trivy"} 0x400`)
	down := alert{
		`CandorDown{severity="critical"}`,
		"No Candor is at work.",
		"For 10 minutes no replica has been scraped that holds the lease. Findings are neither made nor brought up to date.",
	}
	scenarios := map[string]scenario{
		"a leader at work and a replica that waits": {append(healthy(), waiting...), 3 * time.Hour, nil},
		"a leader without a model":                  {of("candor-0", `leader_election_master_status{} 1x400`, `candor_provider_up{provider="trivy"} 1x400`), 3 * time.Hour, nil},
		"nothing is scraped":                        {nil, 10 * time.Minute, []alert{down}},
		"nothing has been scraped for 9 minutes":    {nil, 9 * time.Minute, nil},
		"every replica waits":                       {waiting, time.Hour, []alert{down}},
		"the leader changes after a crash":          {append(of("candor-0", `leader_election_master_status{} 1x60`), of("candor-1", `leader_election_master_status{} 0x63 1x200`)...), 75 * time.Minute, nil},
		"the reports of a provider are not watched": {
			but(healthy(), `candor_provider_up{provider="trivy"} 1x60 0x100`), 95 * time.Minute,
			[]alert{{
				`CandorProviderDown{namespace="candor-system", provider="trivy", severity="warning"}`,
				"Reports of trivy are not being read.",
				"For 30 minutes Candor has not been watching the reports of trivy. Its Findings go Stale, and new problems are not found.",
			}},
		},
		"they have not been watched for 20 minutes":     {but(healthy(), `candor_provider_up{provider="trivy"} 1x60 0x100`), 81 * time.Minute, nil},
		"without leader election, they are not watched": {of("candor-0", `candor_provider_up{provider="trivy"} 0x100`), 9 * time.Minute, nil},
		"a first report is dropped": {
			healthy(`candor_reports_dropped_total{provider="trivy", reason="malformed"} _x90 1x300`), 100 * time.Minute,
			[]alert{{
				`CandorReportsDropped{namespace="candor-system", provider="trivy", reason="malformed", severity="warning"}`,
				"Reports of trivy cannot be used.",
				"In the last hour reports of trivy were dropped with the reason malformed. No Finding says what they say.",
			}},
		},
		"a report was dropped two hours ago": {healthy(`candor_reports_dropped_total{provider="trivy", reason="malformed"} _x90 1x300`), 220 * time.Minute, nil},
		"one more report is dropped": {
			healthy(`candor_reports_dropped_total{provider="trivy", reason="no_resource_name"} 3x90 4x300`), 100 * time.Minute,
			[]alert{{
				`CandorReportsDropped{namespace="candor-system", provider="trivy", reason="no_resource_name", severity="warning"}`,
				"Reports of trivy cannot be used.",
				"In the last hour reports of trivy were dropped with the reason no_resource_name. No Finding says what they say.",
			}},
		},
		"reports of the scanner's own Jobs and of ended ReplicaSets are dropped": {
			healthy(`candor_reports_dropped_total{provider="trivy", reason="scan_job"} 0+1x300`, `candor_reports_dropped_total{provider="trivy", reason="owner_gone"} 0+1x300`),
			2 * time.Hour, nil,
		},
		"the server refuses the key, and is asked now and then": {
			but(healthy(), `candor_circuit_open{backend="anthropic"} 0x60 1x14 0 1x14 0 1x14 0 1x40`), 95 * time.Minute,
			[]alert{{
				`CandorModelPaused{namespace="candor-system", backend="anthropic", severity="warning"}`,
				"The model's server (anthropic) cannot be used.",
				"For 30 minutes the server has refused the key, asked to wait, or not answered. Findings wait for their explanation; nothing else is held up.",
			}},
		},
		"the server asks to wait for ten minutes": {but(healthy(), `candor_circuit_open{backend="anthropic"} 0x60 1x10 0x200`), 95 * time.Minute, nil},
		"two of three calls give no answer": {
			healthy(`candor_llm_calls_total{backend="anthropic", model="m", outcome="InvalidOutput"} 0+2x400`), 2 * time.Hour,
			[]alert{{
				`CandorModelFailing{namespace="candor-system", backend="anthropic", model="m", severity="warning"}`,
				"Most calls of m give no answer.",
				"66.67% of the last hour's calls of m (anthropic) gave no usable answer. Some of them are paid for.",
			}},
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
			[]alert{{
				`CandorBudgetExhausted{namespace="candor-system", unit="calls", severity="warning"}`,
				"The cluster's budget of calls is used up.",
				"For an hour the budget of the cluster has had 0 calls left. Findings wait for their explanation until its window frees.",
			}},
		},
		"too few tokens for a question are left": {
			but(healthy(), `candor_budget_remaining{unit="tokens"} 1000000x60 5000x400`), 4 * time.Hour,
			[]alert{{
				`CandorBudgetExhausted{namespace="candor-system", unit="tokens", severity="warning"}`,
				"The cluster's budget of tokens is used up.",
				"For an hour the budget of the cluster has had 5k tokens left. Findings wait for their explanation until its window frees.",
			}},
		},
		"the calls have been used up for 45 minutes": {but(healthy(), `candor_budget_remaining{unit="calls"} 200x60 0x400`), 105 * time.Minute, nil},
		"a used-up budget frees within the hour":     {but(healthy(), `candor_budget_remaining{unit="calls"} 200x60 0x50 10x400`), 150 * time.Minute, nil},
		"the rest of the budget lasts for two hours": {
			but(healthy(), `candor_budget_remaining{unit="calls"} 200-1x120 80x20`), 110 * time.Minute,
			[]alert{{
				`CandorSpendingFast{namespace="candor-system", unit="calls", severity="warning"}`,
				"The cluster's budget of calls will be used up within 4 hours.",
				"90 calls are left. At the pace of the last hour they are used up within 4 hours.",
			}},
		},
		"the rest of the budget lasts for hours yet":  {but(healthy(), `candor_budget_remaining{unit="tokens"} 1000000-1000x400`), 3 * time.Hour, nil},
		"the window frees as much as is spent":        {but(healthy(), `candor_budget_remaining{unit="calls"} 3x400`), 3 * time.Hour, nil},
		"a manager that has just started spends fast": {but(healthy(), `candor_budget_remaining{unit="calls"} 200-3x50`), 45 * time.Minute, nil},
		"a sink takes nothing, and another has no Secret": {
			healthy(`candor_notification_sinks{sink_type="Slack", state="Failing"} _x60 2x100`, `candor_notification_sinks{sink_type="Webhook", state="Misconfigured"} _x60 1x100`,
				`candor_notification_sinks{sink_type="Slack", state="Active"} 5x400`), 95 * time.Minute,
			[]alert{
				{
					`CandorNotificationsFailing{namespace="candor-system", sink_type="Slack", state="Failing", severity="warning"}`,
					"People are not told of Findings: sinks of the type Slack are Failing.",
					"For 30 minutes 2 sinks of the type Slack have taken nothing. What they are to be told is kept for a day.",
				},
				{
					`CandorNotificationsFailing{namespace="candor-system", sink_type="Webhook", state="Misconfigured", severity="warning"}`,
					"People are not told of Findings: sinks of the type Webhook are Misconfigured.",
					"For 30 minutes 1 sinks of the type Webhook have taken nothing. What they are to be told is kept for a day.",
				},
			},
		},
		"a sink has taken nothing for 20 minutes": {healthy(`candor_notification_sinks{sink_type="Slack", state="Failing"} _x60 2x20 _x100`), 81 * time.Minute, nil},
		"sinks are told, or wait for a first sync": {
			healthy(`candor_notification_sinks{sink_type="Slack", state="Active"} 5x400`, `candor_notification_sinks{sink_type="Slack", state="Waiting"} 5x400`), 3 * time.Hour, nil,
		},
		"every fifth pass fails": {
			but(healthy(), `controller_runtime_reconcile_errors_total{controller="finding"} 0+2x400`), 2 * time.Hour,
			[]alert{{
				`CandorReconcileErrors{namespace="candor-system", controller="finding", severity="warning"}`,
				"The finding controller fails again and again.",
				"For 30 minutes 20% of the passes of the finding controller have ended with an error.",
			}},
		},
		"every fiftieth pass fails": {but(healthy(), `controller_runtime_reconcile_errors_total{controller="finding"} 0+0.2x400`), 2 * time.Hour, nil},
		"objects wait and no pass ends": {
			but(healthy(), `workqueue_depth{controller="finding", name="finding", priority="0"} 0x60 7x400`,
				`controller_runtime_reconcile_total{controller="finding", result="success"} 0+10x60 600x400`), 90 * time.Minute,
			[]alert{{
				`CandorQueueStuck{namespace="candor-system", controller="finding", severity="critical"}`,
				"The finding controller does not work on its queue.",
				"7 objects wait for the finding controller, which has not ended a pass for 20 minutes.",
			}},
		},
		"many objects wait and passes end": {but(healthy(), `workqueue_depth{controller="finding", name="finding", priority="0"} 5000x400`), 3 * time.Hour, nil},
		"nothing waits and no pass ends":   {but(healthy(), `controller_runtime_reconcile_total{controller="finding", result="success"} 600x400`), 3 * time.Hour, nil},
		"another operator fails": {
			append(healthy(), `controller_runtime_reconcile_total{namespace="other", job="other", controller="x"} 0+1x400`,
				`controller_runtime_reconcile_errors_total{namespace="other", job="other", controller="x"} 0+1x400`,
				`workqueue_depth{namespace="other", job="other", controller="y"} 5x400`), 3 * time.Hour, nil,
		},
	}
	maps.Copy(scenarios, fleetScenarios())
	for name, c := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "test.yaml")
			NewWithT(t).Expect(os.WriteFile(file, unitTest(t, rules, name, c.series, c.at, c.want), 0o600)).To(Succeed())
			promtool(t, "test", "rules", file)
		})
	}
}
