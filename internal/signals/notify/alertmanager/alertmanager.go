// Copyright The Candor Authors.
// SPDX-License-Identifier: Apache-2.0

// Package alertmanager writes messages as alerts for the API v2 of Alertmanager.
//
// An open Finding is an alert that fires. Alertmanager forgets an alert whose end is past, so that each alert ends some time
// after it was posted, and digests and summaries post the open ones again. They also end what has been muted meanwhile, or has
// become milder. Neither is an alert itself.
package alertmanager

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	candorv1alpha1 "github.com/candor-dev/candor/api/candor/v1alpha1"
	"github.com/candor-dev/candor/internal/signals/notify"
)

const (
	path        = "/api/v2/alerts"
	contentType = "application/json"
	// maxAlerts is how many alerts are posted at once.
	maxAlerts = 200
	// keep is how long an alert stands where the digest does not say.
	keep = 72 * time.Hour
	// skew is how far the clock of Alertmanager may be behind.
	skew = time.Minute
	// budgetHolds is how long an exhausted budget is told of, if it is not known when it frees.
	budgetHolds = time.Hour
)

// Names of the alerts.
const (
	alertFinding = "CandorFinding"
	alertBudget  = "CandorBudgetExhausted"
)

// severities are all that an alert may have been posted with, mildest first.
var severities = []candorv1alpha1.Severity{
	candorv1alpha1.SeverityLow, candorv1alpha1.SeverityMedium, candorv1alpha1.SeverityHigh, candorv1alpha1.SeverityCritical,
}

type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations,omitempty"`
	StartsAt    *time.Time        `json:"startsAt,omitempty"`
	EndsAt      time.Time         `json:"endsAt"`
}

// Render returns the requests for a message. A digest or a summary without open Findings needs none.
func Render(m notify.Message, o notify.Options) ([]notify.Request, error) {
	m = m.Clean()
	past(m.Events, m.At)
	past(m.Open, m.At)
	until := m.At.Add(keep)
	if o.Keep > 0 {
		until = m.At.Add(o.Keep)
	}
	switch {
	case m.Kind == notify.KindEvents:
		return events(m, until)
	case m.Kind == notify.KindDigest || m.Kind == notify.KindSummary:
		return again(m, until)
	case m.Kind == notify.KindBudget && m.Budget != nil:
		r, err := request(m.Key, []alert{budget(m)})
		return []notify.Request{r}, err
	default:
		return nil, notify.Unknown(m)
	}
}

// past moves what happened by a clock that was ahead to now: an alert that begins after its end is refused with all that are posted
// beside it, and one whose end is to come goes on firing.
func past(events []notify.Event, now time.Time) {
	for i := range events {
		if events[i].At.After(now) {
			events[i].At = now
		}
	}
}

func events(m notify.Message, until time.Time) ([]notify.Request, error) {
	var requests []notify.Request
	for batch := range slices.Chunk(m.Events, maxAlerts/len(severities)) {
		var alerts []alert
		for _, e := range batch {
			alerts = append(alerts, told(e, until)...)
		}
		r, err := request(notify.BatchKey(batch), alerts)
		if err != nil {
			return nil, err
		}
		r.Events = notify.Keys(batch)
		requests = append(requests, r)
	}
	return requests, nil
}

// told returns what an event changes. The severity is a label, so that a Finding has another alert with each; one that is
// firing with a milder severity ends when a Finding escalates, and all end with it: it may have become milder unheard.
func told(e notify.Event, until time.Time) []alert {
	switch at := slices.Index(severities, e.Severity); {
	case e.Kind == notify.KindResolved:
		return ends(e, severities)
	case e.PreviousSeverity != "" && at >= 0:
		return append(ends(e, severities[:at]), fire(e, until))
	default:
		return []alert{fire(e, until)}
	}
}

// again posts what is open once more, and ends what has a worse severity than it has now.
func again(m notify.Message, until time.Time) ([]notify.Request, error) {
	var all []alert
	for _, e := range m.Open {
		all = append(all, fire(e, until))
	}
	for _, e := range slices.Concat(m.Open, m.Quiet) {
		e.At = m.At.Add(-skew)
		all = append(all, ends(e, severities[slices.Index(severities, e.Severity)+1:])...)
	}
	var requests []notify.Request
	for alerts := range slices.Chunk(all, maxAlerts) {
		r, err := request(notify.PartKey(m.Key, len(requests)), alerts)
		if err != nil {
			return nil, err
		}
		requests = append(requests, r)
	}
	return requests, nil
}

func fire(e notify.Event, until time.Time) alert {
	since := e.At.UTC()
	return alert{
		Labels: labels(e, e.Severity), StartsAt: &since, EndsAt: until.UTC(),
		Annotations: filled(map[string]string{
			"summary": e.Summary, "brief": e.Brief, "outcome": string(e.Outcome), "fingerprint": e.Fingerprint,
		}),
	}
}

// ends says of alerts that they were over when the event happened. Without a start each is one that was over when it began, if
// nothing is firing. An end in the future, by Alertmanager's clock, would be ignored in favour of the later one that was posted
// before; the event is older than the message, so that clocks may differ a little.
func ends(e notify.Event, with []candorv1alpha1.Severity) []alert {
	alerts := make([]alert, len(with))
	for i, severity := range with {
		alerts[i] = alert{Labels: labels(e, severity), EndsAt: e.At.UTC()}
	}
	return alerts
}

// labels are the identity of an alert: what changes while a Finding is open is no label, except the severity, which routes are
// chosen by, and neither is the policy, so that one alert comes of two policies that tell one Alertmanager.
func labels(e notify.Event, severity candorv1alpha1.Severity) map[string]string {
	return filled(map[string]string{
		"alertname": alertFinding, "namespace": e.Namespace, "finding": e.Finding, "severity": strings.ToLower(string(severity)),
		"provider": e.Provider, "resource_kind": e.Resource.Kind, "resource_name": e.Resource.Name, "container": e.Resource.Container,
	})
}

func budget(m notify.Message) alert {
	frees := m.At.Add(budgetHolds)
	if at := m.Budget.NextFree; at != nil && at.After(m.At) {
		frees = at.Time
	}
	since := m.At.UTC()
	return alert{
		Labels:   map[string]string{"alertname": alertBudget, "namespace": m.Namespace, "policy": m.Policy, "severity": "warning"},
		StartsAt: &since, EndsAt: frees.UTC(),
		Annotations: map[string]string{"summary": fmt.Sprintf(
			"The budget of model calls of namespace %s is exhausted: %d calls and %d tokens used. Findings are reported without an explanation until it frees.",
			m.Namespace, m.Budget.Calls, m.Budget.Tokens)},
	}
}

// filled leaves out what is empty.
func filled(set map[string]string) map[string]string {
	for key, value := range set {
		if value == "" {
			delete(set, key)
		}
	}
	return set
}

func request(key string, alerts []alert) (notify.Request, error) {
	body, err := json.Marshal(alerts)
	if err != nil {
		return notify.Request{}, fmt.Errorf("writing alerts as JSON: %w", err)
	}
	return notify.Request{Path: path, ContentType: contentType, Body: body, Key: key}, nil
}
